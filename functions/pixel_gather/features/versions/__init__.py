"""Versions of cubes."""
