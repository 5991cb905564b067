"""Versions of a cube on disk: they are listed, opened, compacted and forgotten."""

import os
import re
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import zarr

from pixel_gather import compact, forget, gather, open_cube, retry_failed, verify, versions
from pixel_gather.core.errors import AppendRunningError, RequestError, StoreError
from pixel_gather.engine import row_claim
from pixel_gather.features.versions.compact_table import CompactedTable, compact_table
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.row_table import read_row_table
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.tables.table_receipt import RESULT_KEY
from support.command_line import run
from support.counted_s3 import s3_with
from support.images import write_image
from support.local_server import Answer, serving

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("*.tif"))
QUIET = Settings(draws_report=False)


def request(*files: Path, **more: object) -> dict[str, object]:
    """Return a request for small windows."""
    return {"sources": files, "window": {"pixels": [0, 0, 40, 30]}} | more


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube of four rows in three versions, all of them in one shard."""
    cube = tmp_path_factory.mktemp("versions") / "cube.zarr"
    output = {"expected_rows": 64, "layout": {"chunk": [4, 32, 32], "shard_rows": 8}}
    gather(request(FILES[0], output=output), to=cube, settings=QUIET)
    for files in ((FILES[0], FILES[1]), FILES[2:4]):
        gather(request(*files, output={"append_to": cube}), settings=QUIET)
    return cube


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    shutil.copytree(made, tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


@pytest.mark.long
def test_versions_tell_what_each_append_has_added(made: Path) -> None:
    """Rows count all, sources only the new ones."""
    found = versions(made)

    assert [(each.number, each.n_rows, each.n_sources, each.n_skipped, each.kind) for each in found] == [
        (1, 1, 1, 0, "gather"),
        (2, 2, 1, 1, "append"),
        (3, 4, 2, 0, "append"),
    ]
    assert verify(made).is_same


@pytest.mark.long
@pytest.mark.usefixtures("without_hedges")
@pytest.mark.parametrize(
    ("command", "n_readings"),
    [(["versions"], 1), (["versions", "--json"], 1), (["forget", "--before", "2"], 2)],
)
def test_versions_are_told_by_one_reading_of_the_cube(
    made: Path, command: list[str], n_readings: int
) -> None:
    """Its metadata are read once, and its former versions listed once. Removing some reads both again."""
    with s3_with("cubes") as server:
        server.upload(made, "cubes", "a.zarr")
        server.asked.clear()
        code = run(*command, "s3://cubes/a.zarr", "--endpoint", server.endpoint)

    assert code == 0
    assert server.asked.count(("GET", "/cubes/a.zarr/zarr.json")) == n_readings
    assert sum("prefix=a.zarr%2Fversions" in path for _, path in server.asked) == n_readings


def test_a_folder_without_a_cube_is_named_and_no_other_place_is_asked_for(tmp_path: Path) -> None:
    """Nothing is to be created there. The user has named the wrong folder."""
    tmp_path.joinpath("list.csv").write_text("href\n")

    with pytest.raises(RequestError, match="holds no cube: name an existing one, or gather a new one"):
        versions(tmp_path)
    for change in (compact, retry_failed):
        with pytest.raises(RequestError, match=r"^cube: .* holds no cube"):  # no request has named it
            change(tmp_path)


def test_a_former_version_is_opened_by_number_and_by_time(made: Path) -> None:
    """It has the rows of its time, in the same objects."""
    whole = open_cube(made)
    second = versions(made)[1]

    for date in (versions(made)[-1].committed_at[:10], "9999-12-31"):  # each stands for its whole day
        assert open_cube(made, date).identical(whole)

    for version in (2, "2", second.committed_at):
        earlier = open_cube(made, version)
        assert earlier.sizes["source"] == 2
        assert earlier["band_1"].shape == (2, 30, 40)
        np.testing.assert_array_equal(earlier["band_1"], whole["band_1"][:2])
        assert earlier["href"].values.tolist() == whole["href"].values[:2].tolist()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (4, "the versions 1 to 3, not 4"),
        ("2020", "versions 1 to 3, not 2020; write a time as 2026-11-01 or 2026-11-01T12:00"),
        ("2001-01-01", "there was none by 2001-01-01"),
        ("soon", "no number and no time"),
    ],
)
def test_a_version_that_is_not_there_is_named(made: Path, version: int | str, words: str) -> None:
    """The error says which there are."""
    with pytest.raises(RequestError, match=words):
        open_cube(made, version)


def test_compaction_frees_the_space_and_keeps_every_version(cube: Path) -> None:
    """A second one has nothing to do."""
    shard = cube / "band_1/c/0/0/0"
    before, whole = shard.stat().st_size, open_cube(cube)["band_1"].values

    done = compact(cube)

    assert (done.n_shards, done.version) == (1, 4)
    assert shard.stat().st_size == before - done.freed_nbytes
    assert done.freed_nbytes > 0
    np.testing.assert_array_equal(open_cube(cube)["band_1"], whole)
    np.testing.assert_array_equal(open_cube(cube, 2)["band_1"], whole[:2])
    metadata, _ = read_row_table((cube / "rows.parquet").read_bytes())
    assert metadata["shards"][0][1] == shard.stat().st_size
    assert metadata["version"] == 4
    assert verify(cube).is_same
    assert compact(cube).n_shards == 0


def test_old_versions_of_a_table_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """The last two stay, and what is written for the next one. A folder without a table is left alone."""
    old = ["v1-0a/cells.parquet", "v1-0a/map.png", "v2-ff/cells.parquet", "v2-0b/never-committed.parquet"]
    kept = ["v3-0c/cells.parquet", "v4-0d/cells.parquet", "v5-0e/cells.parquet", "v10-0f/cells.parquet"]
    kept += ["v1-0a/deeper/cells.parquet", "v1/cells.parquet", "a/v1-0a/cells.parquet", "v1-0a.json"]
    for key in (*old, *kept):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()
    assert compact_table(tmp_path) is None
    (tmp_path / RESULT_KEY).write_text("{}")
    assert compact_table(tmp_path) is None
    (tmp_path / RESULT_KEY).write_text('{"version": 4}')

    assert compact_table(tmp_path) == CompactedTable(version=4, n_removed=3)

    left = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert left == {*kept, RESULT_KEY}


@pytest.mark.parametrize(
    "content", ["", "3", "[]", "no JSON", '{"version": "a"}', '{"version": [4]}', '{"a": ' + "[" * 100_000]
)
def test_a_table_whose_result_is_damaged_is_not_compacted(tmp_path: Path, content: str) -> None:
    """A sentence names the file, and nothing is removed."""
    kept = tmp_path / "v1-0123/table.parquet"
    kept.parent.mkdir()
    kept.touch()
    (tmp_path / RESULT_KEY).write_text(content)

    with pytest.raises(StoreError, match=re.escape(f"{tmp_path}: its result.json is damaged")):
        compact_table(tmp_path)
    assert kept.exists()


def test_a_table_in_a_bucket_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence begins with the place, as that of a damaged table."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    no_bucket = Answer(status=404, body=b"<Error><Code>NoSuchBucket</Code></Error>")

    with (
        serving(lambda _: no_bucket) as server,
        pytest.raises(
            StoreError, match=r"^s3://nobucket/table: result\.json could not be read: there is no s"
        ),
    ):
        compact_table("s3://nobucket/table", stores=StoreSettings(endpoint=server.root))


def test_a_compaction_makes_no_shard_in_place_of_one_that_is_lost(cube: Path) -> None:
    """Its pixels are gone, and verify has to say so afterwards."""
    shard = cube / "band_1/c/0/0/0"
    shard.unlink()

    assert compact(cube).freed_nbytes == 0
    assert not shard.exists()
    assert any("band_1/c/0/0/0 is missing" in each for each in verify(cube).differences)


def test_a_compaction_leaves_nothing_of_an_abandoned_append(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its control files. Those of an append at work stay, and the compaction is refused."""
    cube = Path(shutil.copytree(made, tmp_path / "cube.zarr"))

    async def killed(**_: object) -> None:
        raise StoreError("killed")

    finish = "pixel_gather.features.gather.gather.finish_gather"
    begun = request(FILES[0], output={"append_to": cube}, duplicates="again")
    with mock.patch(finish, killed), pytest.raises(StoreError, match="killed"):
        gather(begun, settings=QUIET)
    with pytest.raises(AppendRunningError):
        compact(cube)
    assert list(cube.glob(".gather/00004-*/**/*.msgpack"))
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)
    old, new = cube / "band_1/c/0/0/0#1", cube / "band_1/c/0/0/0#2"
    for half_written in (old, new):
        half_written.write_bytes(b"half a shard")
    os.utime(old, (0, 0))

    assert compact(cube).version == 4

    assert (old.exists(), new.exists()) == (False, True)
    assert not [each for each in cube.glob(".gather/**/*") if each.is_file()]
    assert verify(cube).is_same


@pytest.mark.long
def test_a_compacted_cube_grows_on(cube: Path) -> None:
    """The next append follows the compaction's version."""
    compact(cube)

    gather(request(FILES[0], output={"append_to": cube}, duplicates="again", nodata=None), settings=QUIET)

    assert [each.kind for each in versions(cube)] == ["gather", "append", "append", "compact", "append"]
    assert zarr.open_array(cube / "band_1", mode="r").shape == (5, 30, 40)
    assert verify(cube).is_same


@pytest.mark.long
def test_an_append_changes_no_pixel_of_a_cube_that_is_stored_with_loss(tmp_path: Path) -> None:
    """A chunk with rows of both versions is encoded again without loss."""
    images = np.random.default_rng(1).uniform(0, 9, (8, 32, 32)).astype("float32")
    files = [Path(write_image(tmp_path / f"{n}.tif", each, nodata=None)) for n, each in enumerate(images)]
    cube, window = tmp_path / "cube.zarr", {"window": {"pixels": [0, 0, 32, 32]}}
    output = {"codec": "zfp", "zfp_tolerance": 0.5, "layout": {"chunk": [4, 32, 32], "shard_rows": 8}}
    output |= {"expected_rows": 64}
    gather(request(*files[:6], output=output) | window, to=cube, settings=QUIET)
    before = open_cube(cube)["band_1"].values
    assert 0 < np.abs(before - images[:6]).max() <= 0.5

    gather(request(*files[6:], output={"append_to": cube}) | window, settings=QUIET)

    after = open_cube(cube)["band_1"].values
    np.testing.assert_array_equal(after[:6], before)
    np.testing.assert_allclose(after[6:], images[6:], atol=0.5)


def test_forgotten_versions_cannot_be_opened(cube: Path) -> None:
    """The present one stays, and all rows do."""
    assert forget(cube, 1) == forget(cube, versions(cube)[0].committed_at) == ()
    assert [each.number for each in forget(cube, versions(cube)[1].committed_at)] == [1]
    assert [each.number for each in forget(cube, 3)] == [2]
    assert forget(cube, "2999-01-01") == ()

    with pytest.raises(RequestError, match="version 2 was forgotten"):
        open_cube(cube, 2)
    assert open_cube(cube, 3).sizes["source"] == 4
    assert verify(cube).is_same
