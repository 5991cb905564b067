"""A damaged file of a table, or a foreign one in its place, is told in words by all that reads the table."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pixel_gather import StoreError, open_table, open_zones, points, verify_table, write_table_page

DEMO = Path(__file__).parents[1] / "data/demo"


def made(table: Path, *, append: bool = False) -> object:
    """Make the table of the demonstration, or append to it."""
    to: dict[str, Any] = {"append_to": table} if append else {"to": table}
    return points(str(DEMO / "plots.csv"), str(DEMO / "sources.csv"), id="plot_id", **to)


READERS: dict[str, Callable[[Path], object]] = {
    "verify": verify_table,
    "append": lambda table: made(table, append=True),
    "make again": made,
    "page": lambda table: write_table_page(table, table.with_suffix(".html")),
    "frame": lambda table: open_table(table, features=True),
    "arrays": open_zones,
}
IMAGES, FEATURES, TABLE = "plots.images.parquet", "plots.features.parquet", "plots.parquet"
READ_BY = {
    IMAGES: ("verify", "append", "make again", "page"),
    FEATURES: ("page", "frame", "arrays"),
    TABLE: ("append", "page", "frame", "arrays"),
}
"""``verify`` tells features and lines that differ in its answer, and so does not fail."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table."""
    table = tmp_path_factory.mktemp("whole") / TABLE
    made(table)
    return table.parent


@pytest.fixture
def table(whole: Path, tmp_path: Path) -> Path:
    """A copy of the table."""
    return Path(shutil.copytree(whole, tmp_path / "table")) / TABLE


def foreign() -> bytes:
    """Return a Parquet file without a column, or metadata, of a table."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    content: bytes = out.getvalue().to_pybytes()
    return content


@pytest.mark.parametrize(
    ("name", "reader"), [(name, each) for name, readers in READ_BY.items() for each in readers]
)
@pytest.mark.parametrize("content", [b"", b"no Parquet", foreign()], ids=["empty", "bytes", "foreign"])
def test_a_file_of_a_table_that_is_none_is_named(table: Path, name: str, reader: str, content: bytes) -> None:
    """By each command that reads it."""
    table.with_name(name).write_bytes(content)

    with pytest.raises(StoreError, match=rf"{table.stem}[.\w]*\.parquet"):
        READERS[reader](table)


def receipts(receipt: dict[str, Any]) -> dict[str, str]:
    """Return damaged receipts, by what is wrong with them."""
    files = receipt["files"]
    wrong = {
        "a list": [receipt],
        "a number": 3,
        "files without table": receipt | {"files": {"features": files["features"]}},
        "files without features": receipt | {"files": {"table": files["table"]}},
        "a file that is text": receipt | {"files": files | {"table": "a"}},
        "a file without a size": receipt | {"files": files | {"table": {"xxh3": "a"}}},
        "a request without columns": receipt | {"request": {}},
    }
    for name in ("request", "features", "n_features", "appends", "lines", "statuses", "digest", "files"):
        wrong[f"no {name}"] = {key: each for key, each in receipt.items() if key != name}
        wrong[f"{name} of another type"] = receipt | {name: [[3]]}
    deep = json.dumps(receipt)[:-1] + ', "other": ' + "[" * 100_000 + "]" * 100_000 + "}"
    texts = {name: json.dumps(each) for name, each in wrong.items()}
    return {"empty": "", "no JSON": "no JSON", "nested": deep} | texts


def test_a_damaged_receipt_is_told(table: Path) -> None:
    """By each command that reads it, with the name of its file."""
    images = table.with_name(IMAGES)
    rows = pq.read_table(images)
    receipt = json.loads(rows.schema.metadata[b"pixel_gather"])
    for what, text in receipts(receipt).items():
        pq.write_table(rows.replace_schema_metadata({"pixel_gather": text}), images)
        for reader in READ_BY[IMAGES]:
            with pytest.raises(StoreError, match=IMAGES):
                pytest.fail(f"{reader} of a receipt with {what}: {READERS[reader](table)}")


@pytest.mark.parametrize("content", [None, "3", "[" * 100_000])
def test_a_damaged_image_of_a_table_is_told(table: Path, content: str | None) -> None:
    """Its addresses are JSON."""
    images = table.with_name(IMAGES)
    rows = pq.read_table(images)
    hrefs = pa.array([content] * rows.num_rows, pa.string())
    pq.write_table(rows.set_column(rows.schema.get_field_index("hrefs"), "hrefs", hrefs), images)

    with pytest.raises(StoreError, match=IMAGES):
        made(table, append=True)
    assert not verify_table(table).is_same


def test_the_home_of_an_unknown_user_is_a_folder_like_any_other() -> None:
    """Only ``~/`` is the user's home."""
    with pytest.raises(StoreError, match=r"^~who-is-it/t\.parquet: no table is there"):
        open_table("~who-is-it/t.parquet")
