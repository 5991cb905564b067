"""Writes the cube as a Zarr v3 group."""
