"""The files that a deployment checks itself with."""

from pathlib import Path

import numpy as np
import rasterio

from pixel_gather import Settings, gather
from pixel_gather.core.samples import N_SAMPLES, PIXELS, key_of, request_of, sample


def test_samples_are_geotiffs_whose_gather_has_the_known_pixels(tmp_path: Path) -> None:
    """GDAL reads the pixels of the formula, and a gather of all of them has the known digest."""
    (tmp_path / "samples").mkdir()
    for index in range(N_SAMPLES):
        (tmp_path / key_of(index)).write_bytes(sample(index))
    request = {**request_of("bucket", name="canary-1", report=False)}
    request["sources"] = {"hrefs": [str(tmp_path / key_of(index)) for index in range(N_SAMPLES)]}

    report = gather(request, to=tmp_path / "out.zarr", settings=Settings(draws_report=False)).report
    with rasterio.open(tmp_path / key_of(7)) as file:
        pixels, width, crs = file.read(1), file.res, file.crs.to_epsg()

    y, x = np.mgrid[:64, :64]
    np.testing.assert_array_equal(pixels, 7 * 251 + y * 67 + x * 3)
    assert (width, crs) == ((10, 10), 32632)
    assert (report.digest, report.n_shards, report.n_failed) == (PIXELS, N_SAMPLES, 0)
