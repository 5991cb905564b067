"""Where the shards of joined cubes are, and the folders that Icechunk may read."""

from dataclasses import dataclass

import pytest

from pixel_gather.features.join.references import innermost_folders, not_within, percent_encode


@dataclass(frozen=True)
class Case:
    """Cubes, and the folders that hold them."""

    id: str
    places: tuple[str, ...]
    folders: tuple[str, ...]


CASES = (
    Case("one", ("s3://b/x/a.zarr",), ("s3://b/x/",)),
    Case("neighbours", ("s3://b/x/a.zarr", "s3://b/x/b.zarr"), ("s3://b/x/",)),
    Case("similar-names", ("s3://b/x1/a", "s3://b/x10/a"), ("s3://b/",)),
    Case("depths", ("s3://b/x/a", "s3://b/x/y/z/a"), ("s3://b/x/",)),
    Case("at-the-top", ("s3://b/a", "s3://b/x/a"), ("s3://b/",)),
    Case(
        "buckets", ("s3://b/x/a", "s3://c/y/a", "file:///d/e/a"), ("s3://b/x/", "s3://c/y/", "file:///d/e/")
    ),
    Case("odd", ("s3://b/x/my tiles/y/a", "file:///d/my%20tiles/a"), ("s3://b/x/", "file:///d/")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_folders_are_the_innermost_that_hold_all_cubes(case: Case) -> None:
    """There is one for each bucket. Folders with odd names are left out."""
    assert innermost_folders(case.places) == case.folders
    assert not_within(case.places, case.folders) == ()


def test_cubes_elsewhere_are_told() -> None:
    """A folder whose name begins alike is another one."""
    assert not_within(("s3://b/x10/a", "s3://b/x/a"), ("s3://b/x/",)) == ("s3://b/x10/a",)


def test_keys_are_encoded_in_addresses() -> None:
    """Those of local files are encoded already."""
    assert percent_encode("s3://b/my tiles/a%20b") == "s3://b/my%20tiles/a%2520b"
    assert percent_encode("file:///my%20tiles/a") == "file:///my%20tiles/a"
