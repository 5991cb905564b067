"""The table as it is written from parts: which line comes where, in which row group, and what is left."""

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from arro3.core import Array, DataType, Table

from pixel_gather.core.errors import StoreError
from pixel_gather.tables import write_table as writer
from pixel_gather.tables.base_table import BaseTable
from pixel_gather.tables.features import LONLAT, NO_TIME, Features
from pixel_gather.tables.part_folder import (
    NO_LINES,
    ImageRecord,
    Measured,
    PartFolder,
    line_dtype,
    piece_dtype,
)
from pixel_gather.tables.table_receipt import Written, side_path
from pixel_gather.tables.write_table import LineForm, write_features, write_table

DAY_US = 86_400_000_000
GONE: dict[str, Any] = {"status": "missing", "reason": "gone"}


def features_of(n: int, **more: Any) -> Features:
    """Return points with the ids 0 to n - 1."""
    return Features(ids=np.arange(n), xs=np.arange(n, dtype=float), ys=np.zeros(n), crs=LONLAT, **more)


def measured(number: int, values: Mapping[int, float] | None = None, **more: Any) -> Measured:
    """Return an image with one value of each of some features."""
    values = values or {}
    lines = np.zeros(len(values), line_dtype(["b1"]))
    lines["feature"], lines["v0"], lines["reason"] = list(values), list(values.values()), -1
    own = {"scene": f"scene {number}", "time_us": 0, "hrefs": (f"s3://b/{number}.tif",), "key": str(number)}
    record = ImageRecord(**{"number": number, "n_lines": len(lines), **own, **more})
    return Measured(record, lines if len(lines) else NO_LINES)


def made(
    path: Path,
    images: Iterable[Measured],
    features: Features,
    *,
    tolerance_us: int | None = None,
    base: BaseTable | None = None,
) -> Written:
    """Write a table of some images."""
    parts = PartFolder.open_(path.with_name("parts"), digest="of this job")
    for image in images:
        parts.write(*image)
    form = LineForm(columns=["b1"], tolerance_us=tolerance_us)
    request = {"columns": ["b1"], "values": ["b1"]}
    about = {"request": request, "features": "f", "n_features": 1, "n_images": 1, "appends": 0}
    written = write_table(
        path, parts, features, form, about=about, features_digest={"nbytes": 0, "xxh3": ""}, base=base
    )
    parts.remove()
    return written


def receipt_of(table: Path) -> dict[str, Any]:
    """Return the whole receipt of a table."""
    found: dict[str, Any] = json.loads(pq.read_schema(side_path(table, "images")).metadata[b"pixel_gather"])
    return found


def test_images_of_one_time_are_in_the_order_of_the_list(tmp_path: Path) -> None:
    """Whichever was read first. Those without a time come before all others."""
    table = tmp_path / "t.parquet"
    times = [DAY_US, 0, DAY_US, None, 0]

    written = made(
        table,
        [measured(n, {0: n}, time_us=times[n]) for n in (4, 0, 3, 2, 1)],
        features_of(1),
    )

    assert pq.read_table(table)["b1"].to_pylist() == [3, 1, 4, 0, 2]
    assert pq.read_table(side_path(table, "images"))["scene"].to_pylist() == [
        f"scene {n}" for n in (3, 1, 4, 0, 2)
    ]
    assert written.last_us == DAY_US


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    """As the writer of Parquet asks for it, the error passes through arro3."""
    lost = measured(0, {0: 1.0})._replace(lines=NO_LINES)

    with pytest.raises(StoreError, match=r"0\.npy is missing or damaged .*remove the folder"):
        made(tmp_path / "t.parquet", [lost], features_of(1))


@pytest.mark.parametrize(
    ("there", "new", "expected"),
    [
        ([], [("m",), ("m",)], {"b1": "m"}),
        ([], [("m",), ("ft",)], {}),
        ([], [("m",), None], {"b1": "m"}),
        ([("m",)], [("m",)], {"b1": "m"}),
        ([("m",)], [("ft",)], {}),
        ([("m",)], [()], {}),
        ([()], [("m",)], {}),
        ([("m",)], [None], {"b1": "m"}),
        ([None], [("m",)], {"b1": "m"}),
    ],
)
def test_a_table_has_the_unit_that_all_its_images_agree_on(
    tmp_path: Path,
    there: list[tuple[str, ...] | None],
    new: list[tuple[str, ...] | None],
    expected: dict[str, str],
) -> None:
    """Those of the table that is appended to as well. An image that was not read says nothing."""
    table, base = tmp_path / "t.parquet", None
    images = [
        measured(n, **GONE) if units is None else measured(n, {0: 1.0}, units=units)
        for n, units in enumerate([*there, *new])
    ]
    if there:
        made(table, images[: len(there)], features_of(1))
        base = BaseTable.open_(table)

    made(table, images[len(there) :], features_of(1), base=base)

    assert receipt_of(table)["units"] == expected


def test_lines_are_put_together_some_features_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many features as have so many lines, those of the table that grows as well; at least one."""
    table, ranges = tmp_path / "t.parquet", list[tuple[int, int]]()
    images = [{0: 1, 1: 1, 2: 1, 3: 1}, {0: 1, 2: 1, 3: 1}, {0: 1, 3: 1}, {3: 1}, {3: 1}, {3: 1}]
    lines_of_range = writer._Writer._lines_of_range

    def note(self: Any, start: int, stop: int) -> Any:
        ranges.append((start, stop))
        return lines_of_range(self, start, stop)

    monkeypatch.setattr(writer, "_LINES_TOGETHER", 4)
    monkeypatch.setattr(writer, "_FEATURES_TOGETHER", 2)
    monkeypatch.setattr(writer._Writer, "_lines_of_range", note)
    all_of_it = [measured(n, values) for n, values in enumerate(images)]
    made(table, all_of_it[:3], features_of(7))
    ranges.clear()

    made(table, all_of_it[3:], features_of(7), base=BaseTable.open_(table))

    assert ranges == [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]
    assert pq.read_table(table)["id"].to_pylist() == [0, 0, 0, 1, 2, 2, *[3] * 6, 4, 5, 6]


def test_row_groups_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader fetches one of them for a feature. No line is lost where the next one begins."""
    table, pieces = tmp_path / "t.parquet", np.zeros(5, piece_dtype(1))
    pieces["feature"], pieces["whole"], pieces["v0"] = range(5), -1, range(5)
    image = measured(0, {n: n for n in range(5)}, n_pieces=5)
    columns = {"id": "abcde", "name": "fghij", "geometry": "klmno"}
    own = Table.from_pydict({name: Array(list(texts), DataType.utf8()) for name, texts in columns.items()})
    features = features_of(5, columns=own)
    features.xs[3] = np.nan
    monkeypatch.setattr(writer, "_LINES_IN_GROUP", 2)

    made(table, [Measured(image.record, image.lines, pieces)], features)
    write_features(side_path(table, "features"), features)

    for path, column in ((table, "b1"), (side_path(table, "pieces"), "v0")):
        file = pq.ParquetFile(path)
        assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [2, 2, 1]
        assert file.read()[column].to_pylist() == list(range(5))
    found = pq.read_table(side_path(table, "features"))
    assert found.column_names == ["id", "name", "geometry"]
    assert [(row["id"], row["name"], row["geometry"] is None) for row in found.to_pylist()] == [
        (n, name, n == 3) for n, name in enumerate("fghij")
    ]
    geometry = json.loads(found.schema.metadata[b"geo"])["columns"]["geometry"]
    assert geometry == {"encoding": "WKB", "geometry_types": []}  # degrees, as no CRS is said


def test_a_line_without_an_image_or_a_feature_has_no_time_of_it(tmp_path: Path) -> None:
    """Nor days between the two. An image that failed with no reason has none."""
    table, features = tmp_path / "t.parquet", features_of(3, times_us=np.array([0, NO_TIME, 3 * DAY_US]))
    images = [measured(0, {0: 7.0}, time_us=DAY_US // 2), measured(1, time_us=DAY_US, status="missing")]

    made(table, [*images, measured(2, time_us=None, **GONE)], features, tolerance_us=DAY_US)

    columns = ["id", "days_apart", "status", "reason"]
    rows = pq.read_table(table).to_pylist()
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (0, 0.5, "ok", None),
        (1, None, "unmatched", None),
        (2, None, "unmatched", None),
        (None, None, "missing", "gone"),
        (None, None, "missing", None),
    ]
    assert [row["time"] is None for row in rows] == [False, True, True, True, False]
    assert [row["feature_time"] is None for row in rows] == [False, True, False, True, True]


def test_the_digest_tells_values_and_images(tmp_path: Path) -> None:
    """Two tables with the same values of other images are not the same."""
    tables = [({0: 1.0}, {1: 1.0}), ({1: 1.0}, {0: 1.0}), ({0: 1.0}, {1: 2.0})]
    found = [
        made(tmp_path / "t.parquet", [measured(n, values) for n, values in enumerate(images)], features_of(2))
        for images in tables
    ]

    assert len({written.digest for written in found}) == len(tables)


def test_a_table_that_cannot_be_written_leaves_nothing_half(tmp_path: Path) -> None:
    """Here the table of images cannot be, when the table and its pieces are written, but not yet in place."""
    table, image = tmp_path / "t.parquet", measured(0, {0: 1.0}, n_pieces=1)
    pieces = np.zeros(1, piece_dtype(1))
    (tmp_path / ".t.images.parquet.new").mkdir()

    with pytest.raises(StoreError, match=r"t\.parquet cannot be written: Is a directory"):
        made(table, [Measured(image.record, image.lines, pieces)], features_of(1))

    assert sorted(path.name for path in tmp_path.iterdir()) == [".t.images.parquet.new", "parts"]


def test_a_write_that_fails_is_told_although_those_after_it_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full for a moment: the table has a hole."""
    n_writes = 0

    class Full(io.FileIO):
        def write(self, content: Any) -> int:
            nonlocal n_writes
            n_writes += 1
            if n_writes == 2:
                raise OSError(28, "No space left on device")
            return super().write(content)

    monkeypatch.setattr(io, "FileIO", Full)
    values = dict(enumerate(np.random.default_rng(0).random(30_000)))  # more than is buffered
    with pytest.raises(StoreError, match=r"t\.parquet cannot be written: No space left on device"):
        made(tmp_path / "t.parquet", [measured(0, values)], features_of(len(values)))

    assert n_writes == 2  # nothing is written behind the hole


def test_a_zone_that_is_too_large_to_be_merged_keeps_its_line(tmp_path: Path) -> None:
    """Its pieces make no other line in a table that grows."""
    table, pieces = tmp_path / "t.parquet", np.zeros(2, piece_dtype(1))
    pieces["feature"], pieces["whole"] = [0, 1], -1
    image = measured(0, {0: 1.0, 1: 2.0}, n_pieces=2)
    made(table, [Measured(image.record, image.lines, pieces)], features_of(2))

    made(table, [measured(1, {0: 3.0})], features_of(2), base=BaseTable.open_(table))

    assert pq.read_table(table)["b1"].to_pylist() == [1, 3, 2]
    assert pq.read_table(side_path(table, "pieces"))["whole"].to_pylist() == [-1, -1]


def test_two_tries_of_an_image_fill_each_others_gaps(tmp_path: Path) -> None:
    """What both have read is that of the second, once: its line, and its pieces."""
    table, base = tmp_path / "t.parquet", None
    for unread, value in ((2, 10.0), (1, 20.0)):
        image = measured(
            0, {n: value + n for n in range(3)}, n_unread=1, n_pieces=2, row="{}", reasons=("torn",)
        )
        image.lines["reason"][unread], image.lines["v0"][unread] = 0, np.nan
        pieces = np.zeros(2, piece_dtype(1))
        pieces["feature"], pieces["whole"], pieces["v0"] = [n for n in range(3) if n != unread], -1, value
        made(table, [Measured(image.record, image.lines, pieces)], features_of(3), base=base)
        base = BaseTable.open_(table)

    found, pieces_there = pq.read_table(table), pq.read_table(side_path(table, "pieces"))
    assert found["b1"].to_pylist() == [20, 11, 22]
    assert found["reason"].to_pylist() == [None] * 3
    assert pieces_there["feature"].to_pylist() == [0, 1, 2]
    assert pieces_there["v0"].to_pylist() == [20, 10, 20]
    assert base is not None
    assert [(each.n_unread, each.n_pieces, each.row) for each in base.records] == [(0, 3, None)]
