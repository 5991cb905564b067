"""Requests: their fields, their hrefs and their names."""
