"""A table is compared with its receipt: each of its three files."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pixel_gather import RequestError, StoreError, points, verify_table
from pixel_gather.features.verify.verify import find_table
from support.command_line import run

DEMO = Path(__file__).parents[1] / "data/demo"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of the demonstration."""
    to = tmp_path / "plots.parquet"
    points(str(DEMO / "plots.csv"), str(DEMO / "sources.csv"), to=to, id="plot_id")
    return to


def test_a_table_is_as_its_receipt_says(table: Path) -> None:
    """All three files."""
    found = verify_table(table)

    assert found.is_same, found
    assert (found.n_lines, found.n_images) == (21, 5)


@pytest.mark.parametrize("name", ["plots.parquet", "plots.features.parquet"])
def test_a_changed_byte_and_a_missing_file_are_told(table: Path, name: str) -> None:
    """With the name of the file."""
    path = table.with_name(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    changed = verify_table(table).differences
    path.write_bytes(content[:-1])
    shorter = verify_table(table).differences
    path.unlink()

    assert changed == (f"{name} holds other bytes than the receipt says",)
    assert shorter[0].startswith(f"{name} has ")
    assert verify_table(table).differences == (f"{name} is missing",)


def test_a_changed_table_of_images_is_told(table: Path) -> None:
    """Its receipt has a digest of its own lines."""
    path = table.with_name("plots.images.parquet")
    images = pq.read_table(path)
    changed = images.set_column(4, "status", [["denied"] * images.num_rows])
    pq.write_table(changed.replace_schema_metadata(images.schema.metadata), path)

    assert verify_table(table).differences == ("the table of images is not that of the receipt",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            None,
            (
                "plots.parquet: no receipt is there, as plots.images.parquet cannot be read: "
                "No such file or directory"
            ),
        ),
        (b"PAR1 no table", "plots.images.parquet: no receipt of a table is in it"),
    ],
)
def test_what_is_no_table_of_ours_has_no_receipt(table: Path, content: bytes | None, said: str) -> None:
    """A sentence says what was looked for, and which commands write one."""
    images = table.with_name("plots.images.parquet")
    images.unlink()
    if content is not None:
        images.write_bytes(content)

    with pytest.raises(StoreError) as caught:
        verify_table(table)
    says = f"{table.parent}/{said}; name a table that pixel-gather points or zones has written"
    assert str(caught.value) == says


def test_a_table_that_is_missing_is_no_cube(tmp_path: Path) -> None:
    """The message says that a table was looked for."""
    with pytest.raises(StoreError, match="/none: no table is there; name its Parquet file or its folder"):
        verify_table(tmp_path / "none")


def test_the_command_says_whether_it_is_the_same(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its exit code as well."""
    same = run("verify", table)
    text = capsys.readouterr().out
    table.with_name("plots.features.parquet").unlink()
    other = run("verify", table, "--json")

    assert (same, other) == (0, 1)
    assert text == "21 lines of 5 images compared with the receipt: the same\n"
    assert '"is_same": false' in capsys.readouterr().out


def test_the_folder_of_a_table_of_a_deployment_is_verified(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it was copied: the place in ``result.json`` is looked for in the same folder."""
    folder, version = tmp_path / "points-plots", "points-plots/v1-0123"
    (tmp_path / version).mkdir(parents=True)
    for each in table.parent.glob("plots*.parquet"):
        each.rename(tmp_path / version / each.name.replace("plots", "table"))
    told = {"kind": "points", "table": f"s3://cubes/{version}/table.parquet"}
    (folder / "result.json").write_text(json.dumps(told))

    same = run("verify", folder)
    (tmp_path / version / "table.parquet").unlink()
    other = run("verify", folder)

    assert (same, other) == (0, 1)
    text = capsys.readouterr().out
    assert text.startswith(
        "21 lines of 5 images compared with the receipt: the same\ntable.parquet is missing\n"
    )


def test_verify_table_takes_a_folder_as_well(table: Path) -> None:
    """That of a version has no ``result.json``, and may be copied alone."""
    for each in list(table.parent.glob("plots*.parquet")):
        each.rename(each.with_name(each.name.replace("plots", "table")))

    assert verify_table(table.parent).is_same
    assert find_table(table.parent) == f"{table.parent}/table.parquet"


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("", StoreError, "its result.json is damaged"),
        ("3", StoreError, "its result.json is damaged"),
        ('{"kind": ' + "[" * 100_000, StoreError, "its result.json is damaged"),
        ('{"other": ' + "[" * 100_000, StoreError, "its result.json is damaged"),
        ('{"kind": "zones", "table": null}', StoreError, "its result.json is damaged"),
        ('{"kind": "ranking", "table": "s3://b/r/ranking.json"}', RequestError, "is a ranking"),
    ],
)
def test_a_folder_without_a_table_is_refused_in_words(
    tmp_path: Path, content: str, error: type[Exception], says: str
) -> None:
    """A damaged result is none, and a ranking has no receipt."""
    (tmp_path / "result.json").write_text(content)

    with pytest.raises(error, match=says):
        find_table(tmp_path)
