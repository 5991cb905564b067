"""Open a cube as any user of xarray would, and print it: ``show_cube.py PLACE``, a folder or ``s3://...``."""

import json
import sys

import xarray as xr
from obstore.store import from_url
from zarr.storage import ObjectStore

place = sys.argv[1]
cube = xr.open_zarr(ObjectStore(from_url(place), read_only=True) if "://" in place else place)
print(cube)
print()
print("mean precipitation of each row in mm, by xarray:")
for time, mean in zip(cube.time.values, cube.band_1.mean(("y", "x")).values, strict=True):
    print(f"  {str(time)[:10]}  {mean:8.2f}")
print()
print(f"digest of all pixels: {json.loads(cube.attrs['pixel_gather'])['report']['digest']}")
