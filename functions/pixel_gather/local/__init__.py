"""Gathers in one process, on this machine."""
