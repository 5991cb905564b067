"""Gather one small window out of each of thousands of Cloud Optimized GeoTIFFs into one Zarr array."""
