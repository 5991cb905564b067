"""A cube is compared with its receipt: untouched, and with each kind of damage."""

import hashlib
import json
import shutil
from collections.abc import Callable
from copy import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

from pixel_gather import StoreError, StoreSettings, gather, verify
from pixel_gather.core.results.own_checksum import with_checksum
from pixel_gather.core.results.receipt import Receipt, ReceiptFile
from pixel_gather.io.cube.row_table import read_row_table, write_row_table
from pixel_gather.io.cube.written_report import PAGE_KEYS
from pixel_gather_cli.main import command
from support.counted_s3 import s3_with
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
N_SHARDS = -(-len(FILES) // 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube in shards of two rows."""
    folder = tmp_path_factory.mktemp("made") / "cube.zarr"
    output = {"layout": {"chunk": [1, 64, 64], "shard_rows": 2}}
    gather_undrawn(
        {"sources": [str(file) for file in FILES], "window": {"pixels": [0, 0, 40, 30]}, "output": output},
        to=folder,
    )
    return folder


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the cube that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "cube.zarr"))


def test_untouched_cube_is_the_same(made: Path) -> None:
    """Every shard and every file is compared. A copy elsewhere is as good."""
    found = verify(made)

    assert found.is_same
    assert found.differences == ()
    assert (found.n_shards, found.n_compared, found.n_files) == (N_SHARDS, N_SHARDS, 3)
    assert found.n_coordinates == len(xr.open_zarr(made).coords)


def one_pixel(cube: Path) -> None:
    """Change one pixel as a program would."""
    array: Any = zarr.open_group(cube, mode="r+")["band_1"]
    array[2, 3, 4] += 1


def no_shard(cube: Path) -> None:
    """Remove a shard. Zarr reads it as nodata."""
    (cube / "band_1/c/1/0/0").unlink()


def cut_shard(cube: Path) -> None:
    """Cut the end of a shard, where its index is."""
    shard = cube / "band_1/c/1/0/0"
    shard.write_bytes(shard.read_bytes()[:-40])


def noise_in_shard(cube: Path) -> None:
    """Change a byte in the index of a shard."""
    shard = cube / "band_1/c/1/0/0"
    content = bytearray(shard.read_bytes())
    content[-10] ^= 255
    shard.write_bytes(content)


def longer_array(cube: Path) -> None:
    """Add rows that nobody has gathered."""
    root = json.loads((cube / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"]["band_1"]["shape"][0] += 2
    (cube / "zarr.json").write_text(json.dumps(root))


def other_axes(cube: Path) -> None:
    """Change the names of an array's axes."""
    change_array(cube, dimension_names=["source", "x", "y"])


def other_shards(cube: Path) -> None:
    """Let a shard have more rows."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 30, 40]}}
    change_array(cube, chunk_grid=grid)


def change_array(cube: Path, **changes: Any) -> None:
    """Change the metadata of the pixels in the group's."""
    root = json.loads((cube / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"]["band_1"] |= changes
    (cube / "zarr.json").write_text(json.dumps(root))


def longer_coordinate(cube: Path, n_rows: int = 1) -> None:
    """Add a row to one coordinate alone."""
    array = json.loads((cube / "requests/zarr.json").read_text())
    array["shape"][0] += n_rows
    (cube / "requests/zarr.json").write_text(json.dumps(array))


def longer_claimed_coordinate(cube: Path, n_rows: int = 1) -> None:
    """Do so as an append does, which has a claim."""
    longer_coordinate(cube, n_rows)
    (cube / "versions").mkdir(exist_ok=True)
    (cube / "versions/00002.claim").write_text("{}")


def shorter_claimed_coordinate(cube: Path) -> None:
    """Take a row away, which no append does."""
    longer_claimed_coordinate(cube, -1)


def earlier_version(cube: Path) -> None:
    """Let the cube be of the version before its receipt's, as when it is stopped before its commit."""
    change_record(cube, {"versions": [{"number": 0}]})


def no_array(cube: Path) -> None:
    """Take a measurement out of the metadata."""
    root = json.loads((cube / "zarr.json").read_text())
    del root["consolidated_metadata"]["metadata"]["band_1"]
    (cube / "zarr.json").write_text(json.dumps(root))


def no_root(cube: Path) -> None:
    """Remove the group's metadata."""
    (cube / "zarr.json").unlink()


def other_report(cube: Path) -> None:
    """Change the digest in the cube's own report."""
    change_record(cube, {"report": {"digest": "0" * 32}})


def not_complete(cube: Path) -> None:
    """Let the cube say that it is not finished. Then it has no report."""
    change_record(cube, {"report": None}, complete=0)


def other_gather(cube: Path) -> None:
    """Let the cube be that of another request."""
    change_record(cube, {"digest": "0" * 32, "report": None})


def later_version(cube: Path) -> None:
    """Let the cube have been grown twice since its receipt was written."""
    change_record(cube, {"versions": [{"number": 3}]})


def no_record(cube: Path) -> None:
    """Take the gather's own record out of the metadata."""
    change_record(cube, {"versions": [{}]})


def other_former_version(cube: Path) -> None:
    """Put the metadata of another version in place of a former one's."""
    (cube / "versions").mkdir(exist_ok=True)
    shutil.copy(cube / "zarr.json", cube / "versions/00002.json")


def change_record(cube: Path, changes: dict[str, Any], **attributes: Any) -> None:
    """Change the gather's own record in the group's metadata; None removes a value."""
    root = json.loads((cube / "zarr.json").read_text())
    gather = json.loads(root["attributes"]["pixel_gather"]) | changes
    record = {key: value for key, value in gather.items() if value is not None}
    root["attributes"] |= {"pixel_gather": json.dumps(record), **attributes}
    (cube / "zarr.json").write_text(json.dumps(root))


def nested(key: str) -> Callable[[Path], None]:
    """Return what puts JSON that is nested too deep to be read in place of a file."""

    def damage(cube: Path) -> None:
        cube.joinpath(key).parent.mkdir(exist_ok=True)
        cube.joinpath(key).write_bytes(b"[" * 200_000)

    return damage


def no_index(cube: Path) -> None:
    """Remove a file beside the arrays."""
    (cube / "headers.parquet").unlink()


def other_index(cube: Path) -> None:
    """Change a byte of a file beside the arrays."""
    content = bytearray((cube / "headers.parquet").read_bytes())
    content[100] ^= 255
    (cube / "headers.parquet").write_bytes(content)


def other_coordinate(cube: Path) -> None:
    """Change one coordinate as a program would."""
    array: Any = zarr.open_group(cube, mode="r+")["valid_fraction"]
    array[1] = 0.5


def no_coordinate(cube: Path) -> None:
    """Remove a chunk of a coordinate. Zarr reads it as the fill value."""
    (cube / "x/c/0").unlink()


def other_attribute(cube: Path) -> None:
    """Change an attribute in an array's own metadata."""
    array = json.loads((cube / "x/zarr.json").read_text())
    array["attributes"]["axis"] = "Y"
    (cube / "x/zarr.json").write_text(json.dumps(array))


def other_root(cube: Path) -> None:
    """Change where the cube lies."""
    root = json.loads((cube / "zarr.json").read_text())
    root["attributes"]["spatial:transform"][2] += 1
    (cube / "zarr.json").write_text(json.dumps(root))


def endless_coordinate(cube: Path) -> None:
    """Let the metadata tell of a trillion chunks."""
    root = json.loads((cube / "zarr.json").read_text())
    array = root["consolidated_metadata"]["metadata"]["x"]
    array |= {"shape": [10**12], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}}
    (cube / "zarr.json").write_text(json.dumps(root))
    (cube / "x/zarr.json").write_text(json.dumps(array))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (endless_coordinate, "x/c/1 is missing"),
        (other_coordinate, "valid_fraction has other values than rows.parquet"),
        (no_coordinate, "x/c/0 is missing"),
        (other_attribute, "x/zarr.json differs from the metadata in zarr.json"),
        (other_root, "zarr.json has another content than was written"),
        (one_pixel, "band_1/c/1/0/0 has other pixels than the receipt says"),
        (no_shard, "band_1/c/1/0/0 is missing"),
        (cut_shard, "band_1/c/1/0/0 is damaged: it cannot be decoded"),
        (noise_in_shard, "band_1/c/1/0/0 is damaged: it cannot be decoded"),
        (longer_array, f"band_1 is {len(FILES) + 2} x 30 x 40 float32; the receipt says"),
        (other_axes, "band_1 has the axes source, x, y; the receipt says source, y, x"),
        (other_shards, "band_1 has shards of 4 x 30 x 40; the receipt says 2 x 30 x 40"),
        (longer_coordinate, "requests/zarr.json differs from the metadata in zarr.json"),
        (longer_claimed_coordinate, "version 2 was begun and is not committed"),
        (shorter_claimed_coordinate, "requests/zarr.json differs from the metadata in zarr.json"),
        (earlier_version, "version 1 was begun and is not committed"),
        (no_array, "band_1 is missing, or its metadata are damaged"),
        (no_root, "zarr.json is missing"),
        (not_complete, "the cube is not marked as complete"),
        (other_gather, "the receipt is that of another gather: their digests differ"),
        (later_version, "the receipt is of version 1 and the cube is at version 3"),
        (no_record, "zarr.json is not that of a gather"),
        (other_former_version, "versions/00002.json has another content than was written"),
        (nested("zarr.json"), "zarr.json is damaged (maximum recursion depth exceeded"),
        (nested("x/zarr.json"), "x/zarr.json is damaged: it is not JSON"),
        (nested("report.json"), "report.json has another content than was written"),
        (nested("versions/00001.json"), "versions/00001.json has another content than was written"),
        (other_report, "the report in zarr.json has another digest of all pixels"),
        (no_index, "headers.parquet is missing"),
        (other_index, "headers.parquet has another content than the receipt says"),
    ],
)
def test_damage_is_said_in_words(cube: Path, damage: Callable[[Path], None], said: str) -> None:
    """One change makes one difference, which names what was changed."""
    damage(cube)

    first, *others = verify(cube).differences

    assert first.startswith(said)
    assert all("band_1 is missing" in each for each in others)  # without its root a group has no arrays


def test_coordinates_that_differ_are_told_in_the_order_of_their_names(cube: Path) -> None:
    """Two verifications of one cube say the same."""
    names = ["bytes", "header_bytes", "requests", "retries", "valid_fraction"]
    group: Any = zarr.open_group(cube, mode="r+")
    for name in reversed(names):
        group[name][1] = 0.5 if name == "valid_fraction" else 99

    assert verify(cube).differences == tuple(f"{name} has other values than rows.parquet" for name in names)


@pytest.mark.parametrize("key", ["rows.parquet", "headers.parquet"])
def test_a_begun_append_is_no_excuse_for_damage(cube: Path, key: str) -> None:
    """It may have put the next version of a file, but that is whole."""
    cube.joinpath("versions").mkdir(exist_ok=True)
    cube.joinpath("versions/00002.claim").write_text("{}")
    content = cube.joinpath(key).read_bytes()
    cube.joinpath(key).write_bytes(content[: len(content) // 2])

    assert any(each.startswith(f"{key} has ") for each in verify(cube).differences)


def test_cube_without_a_receipt_is_refused(cube: Path) -> None:
    """Without one, there is nothing to compare the cube with."""
    (cube / "receipt.json").unlink()

    with pytest.raises(StoreError, match=r"there is no receipt\.json"):
        verify(cube)


def test_unfinished_cube_is_refused_as_one(cube: Path) -> None:
    """Whoever has stopped a gather learns how it goes on."""
    (cube / "receipt.json").unlink()
    root = json.loads((cube / "zarr.json").read_text())
    root["attributes"]["complete"] = 0
    (cube / "zarr.json").write_text(json.dumps(root))

    with pytest.raises(StoreError, match=r"the cube is not complete\. If its gather is still at work, wait"):
        verify(cube)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 1}', b"[" * 5000])
def test_damaged_receipt_is_refused(cube: Path, content: bytes) -> None:
    """Nothing is compared with half a receipt."""
    (cube / "receipt.json").write_bytes(content)

    with pytest.raises(StoreError, match="receipt"):
        verify(cube)


@pytest.mark.parametrize("change", [{"shape": [10**9, 30, 40]}, {"shard": [0, 1, 1]}, {"shards": {}}])
def test_receipt_whose_shards_do_not_fit_is_refused(cube: Path, change: dict[str, Any]) -> None:
    """A receipt cannot make the program look for a billion shards."""
    receipt = json.loads((cube / "receipt.json").read_text())
    (cube / "receipt.json").write_text(json.dumps(with_checksum(receipt | change)))

    with pytest.raises(StoreError, match="do not fit"):
        verify(cube)


@pytest.mark.long
@pytest.mark.usefixtures("without_hedges")
@pytest.mark.parametrize("key", ["band_1/c/0/0/0", "band_1/zarr.json"])
def test_what_the_store_refuses_is_no_damage(cube: Path, key: str) -> None:
    """Neither a shard nor, before the commit of an append, the metadata of an array."""
    before = (cube / "zarr.json").read_bytes()
    request = {"sources": [str(FILES[0])], "window": {"pixels": [0, 0, 40, 30]}, "duplicates": "again"}
    gather_undrawn(request | {"output": {"append_to": str(cube)}})
    (cube / "zarr.json").write_bytes(before)
    with s3_with("cubes") as server:
        server.upload(cube, "cubes", "a.zarr")
        stores = StoreSettings(endpoint=server.endpoint)
        found = verify("s3://cubes/a.zarr", stores=stores)
        assert all("was begun and is not committed" in each for each in found.differences)
        server.denied = f"a.zarr/{key}"

        with pytest.raises(StoreError, match=r"s3://cubes/a\.zarr: the cube cannot be read: .*\(403\)"):
            verify("s3://cubes/a.zarr", stores=stores)


def test_place_without_a_cube_is_refused_and_not_made(tmp_path: Path) -> None:
    """Looking at a folder does not create it."""
    with pytest.raises(StoreError, match="no cube is there"):
        verify(tmp_path / "none.zarr")

    assert not (tmp_path / "none.zarr").exists()


def test_lossy_pixels_are_decoded_but_not_compared(tmp_path: Path) -> None:
    """The receipt's digests are those of the pixels before compression."""
    output = {"codec": "zfp", "zfp_tolerance": 0.5}
    request = {"sources": [str(FILES[0])], "window": {"pixels": [0, 0, 40, 30]}, "output": output}
    gather_undrawn(request, to=tmp_path / "cube.zarr")

    found = verify(tmp_path / "cube.zarr")

    assert found.is_same
    assert (found.n_shards, found.n_compared, found.is_lossless) == (1, 0, False)
    assert CliRunner().invoke(command, ["verify", str(tmp_path / "cube.zarr")]).output == (
        "1 shard decoded, but not compared, because the pixels were stored with loss; "
        "21 coordinates and 3 files compared with the receipt: the same\n"
    )


def test_command_says_what_differs_by_text_json_and_exit_code(cube: Path) -> None:
    """0 is the same, 1 differs."""
    same = CliRunner().invoke(command, ["verify", str(cube)], standalone_mode=False)
    one_pixel(cube)
    text = CliRunner().invoke(command, ["verify", str(cube)], standalone_mode=False)
    told = CliRunner().invoke(command, ["verify", str(cube), "--json"], standalone_mode=False)

    assert same.return_value == 0
    assert same.output == (
        f"{N_SHARDS} of {N_SHARDS} shards, 21 coordinates and 3 files compared with the receipt: the same\n"
    )
    assert text.return_value == told.return_value == 1
    assert text.output.splitlines()[0] == "band_1/c/1/0/0 has other pixels than the receipt says"
    assert text.output.endswith("1 difference\n")
    assert json.loads(told.output)["is_same"] is False


def test_pixels_of_nan_are_the_same(tmp_path: Path) -> None:
    """NaN differs from itself, but its bytes do not."""
    window = {"pixels": [-5, -5, 40, 30]}
    gather_undrawn({"sources": [str(FILES[0])], "window": window}, to=tmp_path / "cube.zarr")
    array: Any = zarr.open_group(tmp_path / "cube.zarr", mode="r")["band_1"]

    assert np.isnan(array[...]).any()
    assert verify(tmp_path / "cube.zarr").is_same


@pytest.mark.parametrize(("version", "said"), [(2, "version 2 was begun"), (3, "rows.parquet has")])
def test_a_table_is_that_of_a_begun_append_by_its_version(cube: Path, version: int, said: str) -> None:
    """Any other one is a difference."""
    cube.joinpath("versions").mkdir(exist_ok=True)
    cube.joinpath("versions/00002.claim").write_text("{}")
    metadata, batches = read_row_table((cube / "rows.parquet").read_bytes())
    with (cube / "rows.parquet").open("wb") as file:
        write_row_table(batches, file, metadata=metadata | {"version": version, "more": ""})

    (found,) = verify(cube).differences

    assert found.startswith(said)


def test_other_pixels_are_told_if_the_table_has_no_digests_of_rows(cube: Path) -> None:
    """Then nothing excuses them."""
    metadata, batches = read_row_table((cube / "rows.parquet").read_bytes())
    with (cube / "rows.parquet").open("wb") as file:
        without = ({name: each[name] for name in each if name != "pixel_digest"} for each in batches)
        write_row_table(without, file, metadata=metadata)
    content = (cube / "rows.parquet").read_bytes()
    receipt = Receipt.from_bytes((cube / "receipt.json").read_bytes())
    told = ReceiptFile(nbytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    receipt = replace(receipt, files=receipt.files | {"rows.parquet": told})
    (cube / "receipt.json").write_bytes(receipt.to_bytes())
    assert verify(cube).is_same

    one_pixel(cube)

    assert verify(cube).differences == ("band_1/c/1/0/0 has other pixels than the receipt says",)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube with a list's columns, an append, a report and a page."""
    folder = tmp_path_factory.mktemp("grown") / "cube.zarr"
    lines = ["href,time,cloud,n,good"]
    lines += [f"{file},2024-01-0{day},1.5,{day},true" for day, file in enumerate(FILES[:5], start=1)]
    (folder.parent / "list.csv").write_text("\n".join(lines[:4]))
    (folder.parent / "more.csv").write_text("\n".join([lines[0], *lines[4:]]))
    window = {"pixels": [0, 0, 40, 30]}
    output: dict[str, Any] = {"layout": {"chunk": [1, 64, 64], "shard_rows": 2}}
    gather(
        {"sources": str(folder.parent / "list.csv"), "window": window, "output": output},
        to=folder,
    )
    gather(
        {
            "sources": str(folder.parent / "more.csv"),
            "window": window,
            "output": {"append_to": str(folder)},
        }
    )
    return folder


UNREAD = {"band_1/c/1/0/0", "versions/00002.claim"}
"""Objects with bytes that no reader uses: a continued shard's former index, and who made a version."""


@pytest.mark.long
def test_a_flipped_bit_is_found_in_every_object(grown: Path, tmp_path: Path) -> None:
    """Pixels, coordinates, all metadata, the former version, the pages and the files beside the arrays."""
    cube = Path(shutil.copytree(grown, tmp_path / "cube.zarr"))
    found = verify(cube)
    assert found.differences == ()
    told = json.loads((cube / "receipt.json").read_text())["files"]
    assert found.n_files == len(told) + len([*PAGE_KEYS, "versions/00001.json"])
    keys = sorted(str(each.relative_to(cube)) for each in cube.rglob("*") if each.is_file())
    assert {"view.html", "report.html", "report.json", "versions/00001.json", "x/c/0", "good/c/0"} <= set(
        keys
    )
    generator = np.random.default_rng(5)

    unnoticed = [
        (key, bit)
        for key in keys
        if key not in UNREAD
        for bit in generator.integers(8 * (cube / key).stat().st_size, size=2).tolist()
        if not finds_flip(cube, key, bit)
    ]

    assert unnoticed == []


def finds_flip(cube: Path, key: str, bit: int) -> bool:
    """Return whether a flipped bit is found, or changes nothing that readers see. Flip it back."""
    file = cube / key
    content = file.read_bytes()
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    file.write_bytes(changed)
    try:
        if not verify(cube).is_same:
            return True
        found = xr.open_zarr(cube, chunks=None).load()
    except StoreError:
        return True
    finally:
        file.write_bytes(content)
    if "/c" in key:  # some bits of a frame's header say nothing
        return bool(found.identical(xr.open_zarr(cube, chunks=None).load()))
    return key.endswith(".json") and json.loads(changed) == json.loads(content)
