"""Rows of cubes, found by their coordinates."""
