"""Virtual cubes: references to the tiles of files, from their headers alone."""

import asyncio
import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import icechunk
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from click.testing import CliRunner
from rasterio.windows import Window
from zarr.core.buffer import default_buffer_prototype

from pixel_gather import (
    ArrayExistsError,
    RequestError,
    Settings,
    Status,
    StoreError,
    StoreSettings,
    Virtual,
    export,
    index,
    join,
    joined_versions,
    make_virtual,
    open_joined,
    open_virtual,
    replay,
    rows_where,
    verify,
    view,
)
from pixel_gather.core.results import row_coordinates
from pixel_gather.io.cube.zarr_metadata import is_group_as_written
from pixel_gather_cli.main import command
from support.counted_s3 import CountedS3, s3_with
from support.images import write_image
from support.joined_cubes import gather_member
from support.undrawn import gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

TILE: Final = 32
N_TILES: Final = 5
WINDOW: Final = (3 * TILE, 4 * TILE, 2 * TILE, TILE)
"""Column, row, width and height: the last two tiles of a file, far behind its header."""

FILES: Final = 20
TIMINGS: Final = ("start", "end", "open", "read", "decode", "bytes", "header_bytes", "requests", "retries")


def write(path: Path, seed: int, *, dtype: str = "uint16", count: int = 1, **options: Any) -> Path:
    """Write a tiled image of noise."""
    rng = np.random.default_rng(seed)
    side = N_TILES * TILE
    shape = (count, side, side)
    pixels = rng.normal(9, 3, shape) if dtype == "float32" else rng.integers(0, 60_000, shape)
    profile: dict[str, Any] = {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "interleave": "band"}
    profile |= {"compress": "deflate", "predictor": 2, "nodata": None} | options
    write_image(path, pixels.astype(dtype), west=5e5, north=6e6, **profile)
    return path


def virtual_and_gathered(
    folder: Path, sources: Any, *, window: tuple[int, ...] = WINDOW
) -> tuple[Virtual, xr.Dataset, xr.Dataset]:
    """Make a virtual cube, and gather the same tiles."""
    request = {"sources": sources, "window": {"pixels": window}}
    done: list[int] = []
    made = make_virtual(
        request, to=folder / "cube.icechunk", on_progress=lambda each: done.append(each.n_done)
    )
    assert done[-1] == made.report.n_sources
    gathered = gather_undrawn(request | {"output": {"codec": "source"}}, to=folder / "cube.zarr")
    return made, made.open(), gathered.open()


def assert_same(virtual: xr.Dataset, gathered: xr.Dataset) -> None:
    """Compare pixels and coordinates, all but what a gather's requests took."""
    assert set(virtual.variables) - {"failure"} == set(gathered.variables)
    xr.testing.assert_identical(
        virtual.drop_vars([*TIMINGS, "failure"]).drop_attrs(), gathered.drop_vars(TIMINGS).drop_attrs()
    )


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedS3]:
    """A bucket with files."""
    folder = tmp_path_factory.mktemp("files")
    with s3_with("archive") as server:
        for n in range(FILES):
            server.client.put_object(
                Bucket="archive",
                Key=f"scenes/s{n:02}/B4.tif",
                Body=write(folder / f"{n}.tif", n).read_bytes(),
            )
        yield server


@pytest.fixture(scope="module")
def settings(s3: CountedS3) -> Settings:
    """How the server is reached."""
    return Settings(stores=StoreSettings(endpoint=s3.endpoint), draws_report=False)


@pytest.fixture(scope="module")
def headers(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A header index of the files."""
    file = tmp_path_factory.mktemp("index") / "headers.parquet"
    index(on_s3()["sources"], to=file, settings=settings)
    return str(file)


def on_s3(n: int = FILES, **more: Any) -> dict[str, Any]:
    """Ask for the files on the server."""
    hrefs = [f"s3://archive/scenes/s{n:02}/B4.tif" for n in range(n)]
    return {"sources": hrefs, "window": {"pixels": WINDOW}} | more


@pytest.mark.long
def test_no_byte_of_a_tile_is_read(s3: CountedS3, settings: Settings, headers: str) -> None:
    """With an index no file is asked but those that the plan looks at. Without, one GET a file."""
    counts = {}
    for name, request in (("indexed", on_s3(index=headers)), ("alone", on_s3())):
        s3.forget()
        made = make_virtual(request, to=f"s3://archive/{name}.icechunk", settings=settings)
        of_files = [each for each in s3.ranges if each[0].startswith("/archive/scenes/")]
        assert sum("/scenes/" in path for _, path in s3.asked) == len(of_files)
        counts[name] = (made.report.requests, len(of_files))
        first_of_window = min(start for start, _ in tiles_of(s3, 0, (23, 24)))
        assert max(stop for _, _, stop in of_files) <= 16_384 < first_of_window
        assert made.n_references == 2 * FILES
        assert made.referred_nbytes == sum(
            nbytes for n in range(FILES) for _, nbytes in tiles_of(s3, n, (23, 24))
        )

    assert counts == {"indexed": (0, 16), "alone": (FILES, FILES + 16)}


def tiles_of(server: CountedS3, n: int, at: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return where tifffile finds tiles of a file: first byte and number of bytes."""
    content = server.client.get_object(Bucket="archive", Key=f"scenes/s{n:02}/B4.tif")["Body"]
    page = tifffile.TiffFile(io.BytesIO(content.read())).pages.first
    return [(page.dataoffsets[each], page.databytecounts[each]) for each in at]


@pytest.mark.long
def test_reading_takes_one_get_a_tile_and_gives_the_gathers_pixels(
    s3: CountedS3, settings: Settings, headers: str
) -> None:
    """Bit for bit, and with the same coordinates."""
    request = on_s3(index=headers)
    gathered = gather_undrawn(
        request | {"output": {"codec": "source"}}, to="s3://archive/cube.zarr", settings=settings
    )
    made = make_virtual(request, to="s3://archive/same.icechunk", settings=settings)

    virtual = open_virtual("s3://archive/same.icechunk", stores=settings.stores)
    virtual.load()
    s3.forget()
    again = made.open().band_1[3, 0, 0].values

    assert sum("/scenes/" in path for _, path in s3.asked) == 1
    assert again == virtual.band_1.values[3, 0, 0]
    assert_same(virtual, gathered.open())
    assert virtual.requests.values.tolist() == [0] * FILES


@pytest.mark.long
def test_a_file_that_was_put_again_is_named(s3: CountedS3, settings: Settings) -> None:
    """S3 compares its ETag. Other rows can be read. A new version refers to the new file."""
    place, key = "s3://archive/later.icechunk", "scenes/s01/B4.tif"
    old = s3.client.get_object(Bucket="archive", Key=key)["Body"].read()
    new = s3.client.get_object(Bucket="archive", Key="scenes/s02/B4.tif")["Body"].read()
    make_virtual(on_s3(3), to=place, settings=settings)
    s3.client.put_object(Bucket="archive", Key=key, Body=new)
    try:
        opened = open_virtual(place, stores=settings.stores)
        with pytest.raises(StoreError, match=rf"s3://archive/{key}: this file has changed .* --replace"):
            opened.band_1[1].load()
        assert opened.band_1[2].values.any()
        with pytest.raises(ArrayExistsError, match=r"replace \(--replace\) writes a new version"):
            make_virtual(on_s3(3), to=place, settings=settings)

        made = make_virtual(on_s3(3), to=place, replace=True, settings=settings)

        assert made.version == 2
        pixels = made.open().band_1.values
        assert np.array_equal(pixels[1], pixels[2])
        assert [each.added["rows"] for each in joined_versions(place, stores=settings.stores)] == [3, 3]
    finally:
        s3.client.put_object(Bucket="archive", Key=key, Body=old)


@pytest.mark.long
def test_a_source_that_does_not_fit_keeps_its_row_and_its_reason(tmp_path: Path) -> None:
    """Its row holds the fill value, as in a gather. The command exits with 1 and says why."""
    paths = [write(tmp_path / f"{n:02}.tif", n) for n in range(18)]
    write(paths[5], 1, compress="lzw")  # the plan looks at 16 files, and not at this one
    missing = tmp_path / "missing.tif"
    sources = tmp_path / "list.txt"
    sources.write_text("\n".join(map(str, [*paths, missing])))

    made, virtual, gathered = virtual_and_gathered(tmp_path, [str(path) for path in (*paths, missing)])
    pixels = ",".join(map(str, WINDOW))
    options = ["--sources", str(sources), "--pixels", pixels, "--to", str(tmp_path / "other"), "--quiet"]
    ended = CliRunner().invoke(command, ["virtual", *options], standalone_mode=False, catch_exceptions=False)

    assert_same(virtual, gathered)
    assert virtual.status.values[[0, 5, 18]].tolist() == [Status.OK, Status.UNLIKE, Status.MISSING]
    assert virtual.failure.values[[0, 5, 18]].tolist() == [
        "",
        "its compression is lzw, not deflate",
        "no such object",
    ]
    assert made.n_references == 2 * 17
    assert ended.return_value == 1
    assert "its compression is lzw, not deflate" in ended.output
    assert "17 of 19" in ended.output


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float32", {"compress": "zstd", "predictor": 3}),
        ("uint16", {"compress": "none", "predictor": 1, "endianness": "BIG"}),
        ("int16", {"compress": "lzw", "count": 2}),
    ],
)
def test_codecs_and_bands_are_those_of_a_gather(tmp_path: Path, dtype: str, options: dict[str, Any]) -> None:
    """The window may end anywhere. Each band is an array."""
    paths = [write(tmp_path / f"{n}.tif", n, dtype=dtype, **options) for n in range(2)]

    _, virtual, gathered = virtual_and_gathered(
        tmp_path, list(map(str, paths)), window=(TILE, 0, TILE + 7, 2 * TILE - 3)
    )

    assert_same(virtual, gathered)


@pytest.mark.long
def test_scenes_of_several_bands_have_an_array_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are scenes in order of time. Values that differ between rows become coordinates.

    A new version of another list has nothing of them.
    """
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 2)  # rows that are looked at together
    lines = ["href,scene,band,time"]
    for scene in range(3):
        for band in ("red", "nir")[: 2 - scene // 2]:
            path = write(tmp_path / f"{scene}-{band}.tif", scene, nodata=scene, scaling=(0.5, scene))
            lines.append(f"{path},s{scene},{band},2024-01-0{3 - scene}")
    (tmp_path / "list.csv").write_text("\n".join(lines))

    _, virtual, gathered = virtual_and_gathered(tmp_path, str(tmp_path / "list.csv"))

    assert set(virtual.data_vars) == {"red", "nir"}
    assert {"nodata", "add_offset"} <= virtual.coords.keys()
    assert_same(virtual, gathered)

    one = {"sources": [str(tmp_path / "0-red.tif")], "window": {"pixels": WINDOW}}
    made = make_virtual(one, to=tmp_path / "cube.icechunk", replace=True)
    assert set(made.open().data_vars) == {"band_1"}
    assert [each.message for each in joined_versions(tmp_path / "cube.icechunk")] == [
        "refer to 2 tiles of 1 source",
        "refer to 10 tiles of 5 sources",
    ]
    assert set(open_virtual(tmp_path / "cube.icechunk", 1).data_vars) == {"red", "nir"}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["younger", "older", "longer"])
def test_a_local_file_that_was_replaced_is_named(tmp_path: Path, kind: str) -> None:
    """Also by an older one, or by one of the same time, which Icechunk would read. Other rows can be read."""
    other = write(tmp_path / "other.tif", 9)
    lines = ["href,scene,band"]
    for scene, band in itertools.product("ab", ("red", "nir")):
        lines.append(f"{write(tmp_path / f'{scene}-{band}.tif', len(lines))},{scene},{band}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    request = {"sources": str(tmp_path / "list.csv"), "window": {"pixels": WINDOW}}
    before = make_virtual(request, to=tmp_path / "cube.icechunk").open().load()
    replaced = tmp_path / "b-nir.tif"
    time_ns = {"younger": 2 * 10**18, "older": 10**18, "longer": replaced.stat().st_mtime_ns}[kind]
    if kind == "longer":
        other.write_bytes(other.read_bytes() + b"more")
    os.utime(other, ns=(time_ns, time_ns))
    other.replace(replaced)
    after = open_virtual(tmp_path / "cube.icechunk", None if kind == "longer" else 1)

    with pytest.raises(StoreError, match=r"b-nir\.tif: this file has changed .* --replace"):
        after["nir"][1].load()

    np.testing.assert_array_equal(after["nir"][0], before["nir"][0])
    np.testing.assert_array_equal(after["red"], before["red"])


@pytest.mark.long
def test_each_band_of_a_replaced_file_is_refused(tmp_path: Path) -> None:
    """The file is that of all its bands. A file that is gone is named as such."""
    for name in "ab":
        write(tmp_path / f"{name}.tif", 0, count=2)
    request = {"sources": [str(tmp_path / f"{name}.tif") for name in "ab"], "window": {"pixels": WINDOW}}
    make_virtual(request, to=tmp_path / "cube.icechunk")
    os.utime(tmp_path / "a.tif", ns=(10**18, 10**18))
    (tmp_path / "b.tif").unlink()

    opened = open_virtual(tmp_path / "cube.icechunk")

    for band in ("band_1", "band_2"):
        with pytest.raises(StoreError, match=r"a\.tif: this file has changed"):
            opened[band][0].load()
        with pytest.raises(StoreError, match=r"b\.tif") as gone:
            opened[band][1].load()
        assert "changed" not in str(gone.value)


def test_the_group_does_not_repeat_the_metadata_of_its_arrays(tmp_path: Path) -> None:
    """Icechunk has a list of its own. So each opening reads a group of some KB, whatever the arrays."""
    place = tmp_path / "cube.icechunk"
    make_virtual({"sources": [str(write(tmp_path / "a.tif", 1))], "window": {"pixels": WINDOW}}, to=place)

    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(place)))
    store = repository.readonly_session("main").store
    content = asyncio.run(store.get("zarr.json", default_buffer_prototype()))

    assert content is not None
    group = json.loads(content.to_bytes())
    assert group.keys() == {"zarr_format", "node_type", "attributes"}
    assert is_group_as_written(group)


def test_absent_tiles_are_absent_chunks(tmp_path: Path) -> None:
    """They read as the fill value."""
    path = tmp_path / "sparse.tif"
    side = N_TILES * TILE
    with rasterio.open(
        path, "w", driver="GTiff", width=side, height=side, count=1, dtype="uint16", tiled=True,
        blockxsize=TILE, blockysize=TILE, sparse_ok=True, nodata=7,
    ) as file:  # fmt: skip
        file.write(np.full((TILE, TILE), 3, "uint16"), 1, window=Window(3 * TILE, 4 * TILE, TILE, TILE))

    made, virtual, gathered = virtual_and_gathered(tmp_path, [str(path)])

    assert made.n_references == 1
    assert_same(virtual, gathered)


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        (
            {"window": {"pixels": (TILE + 5, TILE, TILE, TILE)}},
            "sources",
            r"begins at pixel \(37, 32\), not at .* Gather the pixels by run.* are --pixels 32,32,64,32",
        ),
        (
            {"output": {"codec": "zstd"}},
            "output.codec",
            "has the sources' own tiles, so it has no other codec: leave it out",
        ),
        ({"output": {"archive": "rain"}}, "output.archive", "is made as a whole"),
        ({"output": {"layout": "slice"}}, "output.layout", "its chunks are the sources' tiles"),
        ({"masked": True, "nodata": 0}, "masked", "pixels as they are stored: leave it out"),
        ({"mask": {"band": "band_1", "drop": [3]}, "nodata": 0}, "mask", "as they are stored: .* or gather"),
        ({"values": "scaled"}, "values", "pixels as they are stored: leave it out"),
        ({"reduce": {"by": "month", "statistic": "mean"}}, "reduce", "as they are stored: leave it out"),
        ({"output": {"bands": "axis"}}, "output.bands", "an array for each band: leave it out"),
        ({"output": {"sharding": False}}, "output.sharding", "has no shards of its own: leave it out"),
        ({"output": {"append_to": "a"}}, "output.append_to", "is made as a whole: leave it out"),
        ({"grid": {"resolution": 10}}, "grid", "on the files' own grid: leave it out, or gather"),
    ],
)
def test_what_cannot_be_referred_to_is_refused(
    tmp_path: Path, more: dict[str, Any], field: str, said: str
) -> None:
    """Nothing is written."""
    request = {"sources": [str(write(tmp_path / "a.tif", 0))], "window": {"pixels": WINDOW}} | more

    with pytest.raises(RequestError, match=said) as refused:
        make_virtual(request, to=tmp_path / "cube.icechunk")

    assert refused.value.field == field
    assert not (tmp_path / "cube.icechunk").exists()


def test_a_source_on_another_grid_is_unlike_where_all_are_to_be_the_same(tmp_path: Path) -> None:
    """Grid ``same`` changes no pixel, so references can honour it. Limits of what is read do not matter."""
    sources = [str(write(tmp_path / f"{n}.tif", n)) for n in range(3)]
    with rasterio.open(sources[1], "r+") as file:
        file.transform = file.transform @ file.transform.translation(0.5, 0)
    limits = {"usd": 1e-9, "fetched_bytes": 1}
    request = {"sources": sources, "window": {"pixels": WINDOW}, "grid": "same", "limits": limits}
    told: list[tuple[int, int, int]] = []

    made = make_virtual(
        request,
        to=tmp_path / "cube.icechunk",
        on_progress=lambda each: told.append((each.n_done, each.n_failed, each.n_sources)),
    )

    assert made.report.status_counts == {"ok": 2, "unlike": 1}
    assert [n_done for n_done, _, _ in told] == [1, 2, 3]
    assert told[-1] == (3, 1, 3)


def test_files_on_the_web_and_signed_addresses_are_refused(tmp_path: Path) -> None:
    """Icechunk would not notice a change of the one, and the others expire."""
    from benchmarks.loopback_server import Behaviour, run_server  # noqa: PLC0415 # its process starts

    write(tmp_path / "a.tif", 0)
    to = tmp_path / "cube.icechunk"
    with run_server(tmp_path) as server:
        server.behave(Behaviour())
        request: dict[str, Any] = {"sources": [f"{server.url}/a.tif"], "window": {"pixels": WINDOW}}
        with pytest.raises(RequestError, match="cannot notice that a file on the web has changed"):
            make_virtual(request, to=to)
    with pytest.raises(RequestError, match="expire"):
        make_virtual(request | {"sources": {"hrefs": ["s3://a/b.tif"], "sign": "earthdata"}}, to=to)

    assert not to.exists()


@pytest.mark.long
def test_joined_and_virtual_cubes_are_told_apart(tmp_path: Path) -> None:
    """Each message names what opens the other, and the argument as its function does."""
    path = write(tmp_path / "a.tif", 0)
    make_virtual({"sources": [str(path)], "window": {"pixels": WINDOW}}, to=tmp_path / "virtual")
    gather_member(tmp_path / "a.zarr", n_rows=2, folder=tmp_path)
    join([tmp_path / "a.zarr"], to=tmp_path / "joined")

    with pytest.raises(RequestError, match=r"^cube: a virtual cube .* open it by open_virtual"):
        open_joined(tmp_path / "virtual")
    with pytest.raises(RequestError, match=r"^cube: a virtual cube .* open it by open_virtual"):
        rows_where(tmp_path / "virtual", "status == 0")
    with pytest.raises(RequestError, match=r"^cube: joined cubes .* open them by open_joined"):
        open_virtual(tmp_path / "joined")
    with pytest.raises(RequestError, match=r"^group: it is for joined cubes, and this is one cube"):
        view(tmp_path / "virtual", group="a", open_browser=False)


@pytest.mark.long
def test_what_needs_one_plain_cube_says_so(tmp_path: Path) -> None:
    """Export, verify and replay name what is there, and what to do instead."""
    path = write(tmp_path / "a.tif", 0)
    make_virtual({"sources": [str(path)], "window": {"pixels": WINDOW}}, to=tmp_path / "virtual")
    gather_member(tmp_path / "a.zarr", n_rows=2, folder=tmp_path)
    join([tmp_path / "a.zarr"], to=tmp_path / "joined")

    for place in (tmp_path / "virtual", tmp_path / "joined"):
        said = f"{place} is a joined or a virtual cube, which cannot be "
        with pytest.raises(RequestError, match=f"^cube: {said}exported: open it by open_virtual"):
            export(place, to=tmp_path / "rows.csv")
        with pytest.raises(
            RequestError, match=f"^cube: {said}verified: .* A virtual cube has only references"
        ):
            verify(place)
        with pytest.raises(RequestError, match=f"{said}replayed: make a virtual cube again from its list"):
            replay(place)
