"""Cubes in a browser."""
