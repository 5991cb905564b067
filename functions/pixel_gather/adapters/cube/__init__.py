"""The cube as a Zarr v3 group in a store."""
