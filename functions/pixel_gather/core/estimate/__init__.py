"""Estimates of a gather: requests, bytes, seconds and dollars."""
