"""Appends to a table in any order, twice, late or killed: nothing is lost, nothing counts twice."""

import json
import random
import shutil
from copy import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.features.verify.verify import verify_table
from pixel_gather.tables.base_table import MOST_TRIES, BaseTable
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.image_work import encoded_row, failed_record, key_of
from pixel_gather.tables.part_folder import NO_LINES, ImageRecord, Lines, LineStatus, PartFolder, line_dtype
from pixel_gather.tables.table_receipt import side_path, staged_path
from pixel_gather.tables.write_table import LineForm, write_features, write_table

N_FEATURES = 4
COLUMNS = ("b1",)
ABOUT: dict[str, Any] = {
    "request": {"columns": list(COLUMNS), "values": list(COLUMNS)},
    "features": "f",
    "n_features": 1,
    "n_images": 1,
    "appends": 0,
}
FEATURES = Features(
    ids=np.array([f"p{n}" for n in range(N_FEATURES)], object),
    xs=np.arange(N_FEATURES, dtype=np.float64),
    ys=np.zeros(N_FEATURES),
    crs=LONLAT,
)


class Reading(NamedTuple):
    """What an append has read of an image."""

    version: int
    """Of its file."""

    features: frozenset[int] | None
    """Those whose line has a value; None if the image failed."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Reading":
        """Return one by chance."""
        if rng.random() < 0.2:
            return cls(0, None)
        n_read = rng.randint(0, N_FEATURES)
        return cls(int(rng.random() < 0.15), frozenset(rng.sample(range(N_FEATURES), n_read)))

    @property
    def is_whole(self) -> bool:
        """Whether all lines have a value."""
        return self.features == frozenset(range(N_FEATURES))

    def value(self, image: int, feature: int) -> int:
        """Return the value of a line. Another version of the file has others."""
        return 1000 * self.version + 100 * image + feature

    def after(self, old: "Reading") -> "Reading":
        """Return what a table has of an image after this and an older one."""
        if not old.features or not self.features:
            return self if (self.features is not None, len(self.features or ())) > (
                old.features is not None, len(old.features or ())
            ) else old  # fmt: skip
        if self.version == old.version:
            return Reading(old.version, old.features | self.features)
        return self if self.is_whole and not old.is_whole else old


type Read = dict[int, Reading]
"""What an append has read of each image."""


class Killed(BaseException):
    """The process was ended."""


def row_of(image: int) -> CubeRow:
    """Return the row of an image in a list."""
    return CubeRow(time_us=image // 2 * 86_400_000_000, sources=(Source(href=f"s3://b/{image}.tif"),))


def measured(number: int, image: int, reading: Reading, *, tries: int) -> tuple[ImageRecord, Lines]:
    """Return what was read of an image: of each feature, or of some of them."""
    row = row_of(image)
    if reading.features is None:
        return replace(failed_record(number, row, Status.MISSING, "gone"), tries=tries), NO_LINES
    lines = np.zeros(N_FEATURES, line_dtype(COLUMNS))
    lines["feature"] = np.arange(N_FEATURES)
    is_read = np.isin(np.arange(N_FEATURES), list(reading.features))
    values = [reading.value(image, feature) for feature in range(N_FEATURES)]
    lines["v0"] = np.where(is_read, values, np.nan)
    lines["status"] = np.where(is_read, LineStatus.OK, LineStatus.CORRUPT)
    lines["reason"] = np.where(is_read, -1, 0)
    n_unread = N_FEATURES - len(reading.features)
    record = ImageRecord(
        number=number,
        scene=f"scene {image}",
        time_us=row.time_us,
        hrefs=(f"s3://b/{image}.tif",),
        etags=(f'"{reading.version}"',),
        reasons=(f"{image} is torn",),
        key=key_of(row),
        n_unread=n_unread,
        tries=tries,
        row=encoded_row(row) if n_unread else None,
        n_lines=N_FEATURES,
    )
    return record, lines


class Append:
    """One append: it is planned by the table as it was, and may be committed much later, and again."""

    def __init__(self, table: Path, images: list[int], rng: random.Random) -> None:
        self.table = table
        self.base = BaseTable.open_(table) if side_path(table, "images").exists() else None
        rows = [row_of(image) for image in images]
        wanted = rows if self.base is None else list(self.base.to_read(iter(rows)))
        images = [int(row.sources[0].href[7:-4]) for row in wanted]  # type: ignore[union-attr] # all are there
        self.read: Read = {image: Reading.draw(rng) for image in images}

    def commit(self, folder: Path) -> None:
        """Put its lines among those of the table as it is now."""
        now = BaseTable.open_(self.table) if side_path(self.table, "images").exists() else None
        shutil.rmtree(folder, ignore_errors=True)  # what a killed one has left is of another job
        parts = PartFolder.open_(folder, digest="d")
        for number, (image, reading) in enumerate(self.read.items()):
            tries = 1 + (0 if self.base is None else self.base.tries(key_of(row_of(image))))
            parts.write(*measured(number, image, reading, tries=tries))
        if now is None:
            of_features = write_features(side_path(self.table, "features"), FEATURES)
        else:
            of_features = now.receipt["files"]["features"]
        write_table(
            self.table,
            parts,
            FEATURES,
            LineForm(columns=COLUMNS),
            about=ABOUT,
            features_digest=of_features,
            base=now,
        )
        parts.remove()


def check(table: Path, committed: Read) -> None:
    """Compare a table with what was read of each image in all appends together."""
    found = [each for each in pq.read_table(table).to_pylist() if each["id"] is not None]
    expected = {
        (f"p{n}", f"s3://b/{image}.tif"): reading.value(image, n) if n in reading.features else None
        for image, reading in committed.items()
        if reading.features is not None
        for n in range(N_FEATURES)
    }
    with_image = [each for each in found if each["href"] is not None]

    assert {(each["id"], each["href"]): each["b1"] for each in with_image} == expected
    assert len(with_image) == len(expected)
    order = [(each["id"], each["time"]) for each in with_image]
    assert order == sorted(order)
    assert {each["reason"] for each in with_image if each["b1"] is None} == {
        f"{image} is torn"
        for image, reading in committed.items()
        if reading.features is not None and not reading.is_whole
    }
    images = pq.read_table(side_path(table, "images")).to_pylist()
    assert sorted(json.loads(each["hrefs"])[0] for each in images) == sorted(
        f"s3://b/{n}.tif" for n in committed
    )
    assert verify_table(table).is_same


@pytest.mark.long
@pytest.mark.parametrize("seed", range(24))
def test_appends_in_any_order_keep_every_value_of_each_image(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends are planned, committed, committed again and killed between any two files, by chance."""
    rng = random.Random(seed)  # noqa: S311 # no secret
    table = tmp_path / "t.parquet"
    left, replaced = None, Path.replace

    def replace_or_die(self: Path, target: Path) -> Path:
        nonlocal left
        if left is not None and target.parent == tmp_path:  # not a part
            if not left:
                left = None
                raise Killed
            left -= 1
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_die)
    first = Append(table, [0, 1], rng)
    first.commit(tmp_path / "parts")
    committed = dict(first.read)
    planned: list[Append] = [first]
    for _ in range(rng.randint(3, 9)):
        if rng.random() < 0.5:
            planned.append(Append(table, rng.sample(range(7), 3), rng))
        append = rng.choice(planned)  # a new one, a twin, or one that comes late
        left = rng.choice([None, 0, 1])  # in the commit: before each of its two files
        is_cut_off = left == 0
        try:
            append.commit(tmp_path / "parts")
        except Killed:
            if is_cut_off:
                BaseTable.open_(table)
                check(table, committed)
                continue
            BaseTable.open_(table)  # the receipt was there, so the commit counts
        left = None
        for image, reading in append.read.items():
            old = committed.get(image)
            committed[image] = reading if old is None else reading.after(old)
        check(table, committed)


@pytest.mark.parametrize("features", [None, frozenset({0, 2})])
def test_an_image_is_read_again_so_many_times(tmp_path: Path, features: frozenset[int] | None) -> None:
    """Also if features lie on a part of it that was read.

    Then an append leaves it. Its tries are counted once, also if the append is committed twice.
    """
    table, rng = tmp_path / "t.parquet", random.Random(1)  # noqa: S311 # no secret
    for n_tries in range(1, MOST_TRIES + 1):
        append = Append(table, [3] if n_tries == 1 else [], rng)
        assert list(append.read) == [3]
        append.read = {3: Reading(0, features)}
        append.commit(tmp_path / "parts")
        append.commit(tmp_path / "parts")
        assert pq.read_table(side_path(table, "images"))["tries"].to_pylist() == [n_tries]

    assert Append(table, [3], rng).read == {}


def test_a_table_that_was_changed_is_not_appended_to(tmp_path: Path) -> None:
    """Nor one that is not there: its lines would be lost."""
    table = tmp_path / "t.parquet"
    Append(table, [0], random.Random(2)).commit(tmp_path / "parts")  # noqa: S311 # no secret
    table.write_bytes(table.read_bytes()[:-1])

    with pytest.raises(StoreError, match="not as its receipt says"):
        BaseTable.open_(table)
    table.unlink()
    with pytest.raises(StoreError, match="there is no such table"):
        BaseTable.open_(table)


def record_of(image: int, reading: Reading, **changes: Any) -> ImageRecord:
    """Return the record of an image in a table."""
    return replace(measured(image - 10, image, reading, tries=1)[0], **changes)


def base_of(*records: ImageRecord, **request: Any) -> BaseTable:
    """Return a table of some images that was made by a request."""
    return BaseTable(
        path=Path("t.parquet"),
        receipt={"request": {"kind": "points"} | request, "features": "f"},
        records=records,
    )


WHOLE, TORN, FAILED = Reading(0, frozenset(range(N_FEATURES))), Reading(0, frozenset({1})), Reading(0, None)


def test_only_what_a_table_lacks_is_read() -> None:
    """Each image once, whether the list names it twice, or not at all any more."""
    base = base_of(*(record_of(n, reading) for n, reading in enumerate((WHOLE, TORN, FAILED))))

    assert list(base.to_read(map(row_of, (0, 4, 2, 4, 2)))) == [row_of(n) for n in (4, 2, 1)]


@pytest.mark.parametrize(
    ("there", "new", "is_replaced"),
    [
        (TORN, TORN, False),
        (TORN, WHOLE, True),
        (WHOLE, TORN, False),
        (FAILED, FAILED, False),
        (FAILED, TORN, True),
        (TORN, FAILED, False),
        (WHOLE, Reading(1, WHOLE.features), False),
        (TORN, Reading(1, WHOLE.features), True),
        (TORN, Reading(1, frozenset({1, 2})), False),
        (Reading(0, frozenset()), Reading(1, TORN.features), True),
    ],
)
def test_an_image_is_replaced_by_one_of_which_more_was_read(
    there: Reading, new: Reading, *, is_replaced: bool
) -> None:
    """Values of two versions of a file are not mixed, and none is taken away."""
    old, now = record_of(1, there), record_of(1, new, number=0)
    base = base_of(old)

    assert base.merge_records([now]) == [now if is_replaced else old]
    assert base.gains([now]) == is_replaced


@pytest.mark.parametrize(
    ("request_of_table", "request_", "says"),
    [
        ({}, {"merge": False}, None),
        ({}, {"merge": True}, "the table was made with another value of merge: give the same"),
        (
            {"kind": "zones", "by": "b1"},
            {"by": "b2"},
            "the table is one of zones, and not of points: give the same, or make another",
        ),
        (
            {"columns": ["b1"], "values": ["b1"], "by": "b1"},
            {"columns": ["b2"], "values": ["b2"], "by": "b2"},
            "the table was made with another value of by: give the same",
        ),
        ({"columns": ["b1"]}, {"columns": ["b2"]}, "the table was made with another value of columns: give"),
        ({"by": "b1", "tolerance_us": 1}, {"by": "b2"}, "made with other values of by and tolerance: give"),
    ],
)
def test_an_append_of_another_request_is_refused(
    request_of_table: dict[str, Any], request_: dict[str, Any], says: str | None
) -> None:
    """The message names what was asked for, not what follows from it. Older tables do not say `merge`."""
    base, about = base_of(**request_of_table), {"request": {"kind": "points"} | request_, "features": "f"}
    if says is None:
        base.check(about)
        return
    with pytest.raises(RequestError, match=f"^append_to: .*{says}"):
        base.check(about)


@pytest.mark.parametrize("changes", [{"key": "another"}, {"scene": "another"}])
def test_a_table_with_an_image_twice_is_not_appended_to(changes: dict[str, str]) -> None:
    """Lines tell the scene, the list tells the file."""
    base = base_of(record_of(1, WHOLE), record_of(1, WHOLE, **changes))

    with pytest.raises(RequestError, match="the table has an image twice"):
        base.check(base.receipt)


def test_an_image_that_two_tries_have_read_is_whole(tmp_path: Path) -> None:
    """The table of images has no row of it to read again. Half a file of a killed append does not matter."""
    table, rng = tmp_path / "t.parquet", random.Random(3)  # noqa: S311 # no secret
    for features in (frozenset({0, 1}), frozenset({2, 3})):
        append = Append(table, [3], rng)
        append.read = {3: Reading(0, features)}
        append.commit(tmp_path / "parts")
        images = pq.read_table(side_path(table, "images"))
        staged_path(table).write_bytes(b"half")
    check(table, {3: WHOLE})

    assert (images["unread"].to_pylist(), images["row"].to_pylist()) == ([0], [None])
    pq.write_table(images.drop(["acquisition", "place", "pieces"]), side_path(table, "images"))
    (record,) = BaseTable.of_images(table).records  # of an older version
    assert (record.number, record.acquisition, record.place, record.n_pieces) == (-1, "", (), 0)
