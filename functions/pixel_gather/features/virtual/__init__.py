"""Cubes that refer to the tiles of their sources."""
