"""Cubes opened with xarray: one that was gathered, and by its engine those of every kind."""
