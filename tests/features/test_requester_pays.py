"""Buckets whose readers pay, on moto's server: every request says so, or a message says why it cannot."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pixel_gather import (
    RequestError,
    Settings,
    StoreError,
    StoreSettings,
    gather,
    join,
    joined_versions,
    ls,
    make_virtual,
    open_joined,
    open_virtual,
    points,
    verify,
)
from support.command_line import run
from support.counted_s3 import CountedS3, s3_with
from support.joined_cubes import FILES, gather_member

pytestmark = pytest.mark.usefixtures("without_hedges")

CUBES = ["s3://paid/a.zarr", "s3://paid/b.zarr"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedS3]:
    """A bucket whose readers pay, with files, a list, points and two cubes."""
    with s3_with("paid") as server:
        for file in FILES:
            server.client.upload_file(str(file), "paid", f"heat/{file.name}")
        hrefs = "\n".join(f"s3://paid/heat/{file.name}" for file in FILES)
        for key, content in (("list.txt", hrefs), ("points.csv", "id,lon,lat\na,12,2")):
            server.client.put_object(Bucket="paid", Key=key, Body=content.encode())
        server.paid = "paid"
        folder = tmp_path_factory.mktemp("lists")
        for n, place in enumerate(CUBES):
            gather_member(place, n_rows=4, year=2020 + n, folder=folder, settings=paying(server))
        yield server


def paying(s3: CountedS3) -> Settings:
    """Return the settings of who pays."""
    return Settings(stores=StoreSettings(endpoint=s3.endpoint, requester_pays=True), draws_report=False)


@pytest.mark.long
def test_a_list_and_features_in_such_a_bucket_are_read(s3: CountedS3, tmp_path: Path) -> None:
    """So are the files, and the cube that is written there."""
    settings = paying(s3)
    gathered = gather(
        {"sources": "s3://paid/list.txt", "window": {"tile": [0, 0]}}, to="s3://paid/c", settings=settings
    )
    table = points(
        "s3://paid/points.csv",
        "s3://paid/list.txt",
        to=tmp_path / "t.parquet",
        settings=settings,
    )

    assert gathered.report.n_failed == table.n_failed == 0
    assert verify("s3://paid/c", stores=settings.stores).differences == ()


def test_who_does_not_pay_is_told_what_to_set(s3: CountedS3) -> None:
    """S3 itself does not say why it refuses."""
    with pytest.raises(RequestError, match="where readers pay if requester_pays is not set"):
        list(ls("s3://paid/heat/", stores=StoreSettings(endpoint=s3.endpoint)))


@pytest.mark.long
def test_a_repository_in_such_a_bucket_is_written_and_read(s3: CountedS3) -> None:
    """Icechunk 2.3 pays for its GETs alone. Pixels that it refers to cannot be read, which the error says."""
    stores = paying(s3).stores

    first = join(CUBES[:1], to="s3://paid/all.icechunk", stores=stores)
    join(CUBES[1:], to="s3://paid/all.icechunk", mode="add", stores=stores)

    (warning,) = first.warnings
    assert warning.endswith("requester-pays bucket: mode copy (--copy) makes a plain cube, which can be read")
    assert [each.number for each in joined_versions("s3://paid/all.icechunk", stores=stores)] == [2, 1]
    with pytest.raises(StoreError, match=r"the credentials .* the same answer for requester-pays"):
        open_joined("s3://paid/all.icechunk", stores=stores).band_1.load()


@pytest.mark.long
def test_a_virtual_cube_of_such_files_warns_that_its_pixels_cannot_be_read(s3: CountedS3) -> None:
    """Its coordinates can."""
    settings = paying(s3)
    file = f"s3://paid/heat/{FILES[0].name}"

    made = make_virtual(
        {"sources": [file], "window": {"tile": [0, 0]}}, to="s3://paid/v.icechunk", settings=settings
    )

    assert made.report.warnings[0] == (
        "Icechunk cannot read pixels in a requester-pays bucket: gather the pixels (pixel-gather run)"
    )
    found = open_virtual("s3://paid/v.icechunk", stores=settings.stores)
    assert found.href.item() == file
    with pytest.raises(StoreError, match="the store refused access to its pixels"):
        found.band_1.load()


@pytest.mark.long
def test_the_command_warns_of_joined_cubes_that_cannot_be_read(
    s3: CountedS3, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy can be read, so that it has no warning."""
    access = ("--requester-pays", "--endpoint", s3.endpoint)

    assert run("join", CUBES[0], "--to", "s3://paid/told.icechunk", *access) == 0
    assert "warning: Icechunk cannot read pixels in" in capsys.readouterr().err
    assert run("join", CUBES[0], "--copy", "--to", "s3://paid/copy.zarr", *access) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.long
def test_files_and_cubes_on_this_machine_need_no_payer(s3: CountedS3, tmp_path: Path) -> None:
    """References to them are read, though the setting is given for other places."""
    settings = paying(s3)
    gather_member(tmp_path / "a.zarr", n_rows=4, folder=tmp_path)

    made = make_virtual(
        {"sources": [str(FILES[0])], "window": {"tile": [0, 0]}}, to=tmp_path / "v", settings=settings
    )
    joined = join([tmp_path / "a.zarr"], to=tmp_path / "j", stores=settings.stores)

    assert not [each for each in (*made.report.warnings, *joined.warnings) if "readers pay" in each]
