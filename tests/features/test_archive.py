"""Archives: cubes that are made for each other."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from pixel_gather import RequestError, StoreError, join, open_joined
from pixel_gather.core.request.request import parse_request
from support.joined_cubes import gather_member


@pytest.mark.long
def test_cubes_of_an_archive_are_joined_into_one_array(tmp_path: Path) -> None:
    """Alone, the second cube would have smaller shards. The codec is said once, and the layout again."""
    sizes = (5, 2, 3)
    cubes = [tmp_path / f"tiles/{n}.zarr" for n in range(3)]
    for n, (cube, n_rows) in enumerate(zip(cubes, sizes, strict=True)):
        own = {"archive": "rain", "layout": "series"} | ({"codec": "zstd"} if not n else {})
        gather_member(cube, n_rows=n_rows, year=2020 + n, folder=tmp_path, output=own)

    joined = join(cubes, to=tmp_path / "all")

    assert joined.groups == ("group_1",)
    whole = open_joined(tmp_path / "all").band_1.values
    np.testing.assert_array_equal(whole, np.concatenate([xr.open_zarr(cube).band_1.values for cube in cubes]))
    arrays = [zarr.open_array(cube / "band_1", mode="r") for cube in cubes]
    assert len({(array.shards, array.chunks, str(array.compressors)) for array in arrays}) == 1
    assert json.loads((tmp_path / "tiles/rain.archive.json").read_text())["template"]["codec"] == "zstd"


def test_what_differs_from_the_archive_is_refused(tmp_path: Path) -> None:
    """The field is named with both values. No cube is begun."""
    gather_member(tmp_path / "a.zarr", n_rows=4, folder=tmp_path, output={"archive": "x"})

    with pytest.raises(
        RequestError, match=r"output.codec: the cube has blosc-lz4; the new rows would have zstd"
    ):
        gather_member(
            tmp_path / "b.zarr", n_rows=4, folder=tmp_path, output={"archive": "x", "codec": "zstd"}
        )
    with pytest.raises(
        RequestError, match=r"window: the cube has 16 x 12 pixels; the new rows would have 16 x 9 pixels"
    ):
        gather_member(tmp_path / "b.zarr", n_rows=4, height=9, folder=tmp_path, output={"archive": "x"})
    gather_member(tmp_path / "c.zarr", n_rows=4, col=16, folder=tmp_path, output={"archive": "x"})
    for layout, said in (
        ("slice", r"output.layout: the cube has chunks of 2 x 8 x 8; the new rows would have the layout sl"),
        ({"chunk": [2, 4, 8]}, r"output.layout.chunk: the cube has 2 x 8 x 8; .* have 2 x 4 x 8"),
    ):
        with pytest.raises(RequestError, match=said):
            gather_member(
                tmp_path / "b.zarr", n_rows=4, folder=tmp_path, output={"archive": "x", "layout": layout}
            )

    assert sorted(path.name for path in tmp_path.glob("*.zarr")) == ["a.zarr", "c.zarr"]
    (tmp_path / "x.archive.json").write_text("{}")
    with pytest.raises(StoreError, match=r"x.archive.json: the archive's file is damaged"):
        gather_member(tmp_path / "b.zarr", n_rows=4, folder=tmp_path, output={"archive": "x"})


def test_requests_without_an_archive_keep_their_digest() -> None:
    """Cubes that are there stay those of their requests."""
    request = {"sources": "list.csv", "window": "centre"}

    plain = parse_request(request).digest()

    assert parse_request(request | {"output": {"archive": None}}).digest() == plain
    assert parse_request(request | {"output": {"archive": "a"}}).digest() != plain
    for output, said in (({"append_to": "b"}, "append_to"), ({"codec": "source"}, "codec source")):
        with pytest.raises(RequestError, match=said):
            parse_request(request | {"output": {"archive": "a"} | output})
