"""Scenes: which images lie in an area, and when."""
