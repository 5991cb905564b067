"""Gathers that are repeated, and what has changed in their sources."""
