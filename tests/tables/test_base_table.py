"""Appends to a table in any order, twice, late or killed: nothing is lost, nothing counts twice."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.features.verify.verify_table import verify_table
from pixel_gather.tables.base_table import MOST_TRIES, BaseTable
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.image_work import encoded_row, failed_record, key_of
from pixel_gather.tables.parts import NO_LINES, ImageRecord, Lines, LineStatus, PartFolder, line_dtype
from pixel_gather.tables.table_receipt import side_path
from pixel_gather.tables.write_table import LineForm, write_features, write_table

N_FEATURES = 4
COLUMNS = ("b1",)
ABOUT: dict[str, Any] = {"request": {"columns": list(COLUMNS)}, "features": "f", "appends": 0}
FEATURES = Features(
    ids=np.array([f"p{n}" for n in range(N_FEATURES)], object),
    xs=np.arange(N_FEATURES, dtype=np.float64),
    ys=np.zeros(N_FEATURES),
    crs=LONLAT,
)

type Quality = int
"""Of what an append has read of an image: -1 it failed, else how many of its lines have a value."""

type Read = dict[int, Quality]
"""What an append has read of each image."""


class Killed(BaseException):
    """The process was ended."""


def row_of(image: int) -> CubeRow:
    """Return the row of an image in a list."""
    return CubeRow(time_us=image // 2 * 86_400_000_000, sources=(Source(href=f"s3://b/{image}.tif"),))


def measured(number: int, image: int, quality: Quality, *, tries: int) -> tuple[ImageRecord, Lines]:
    """Return what was read of an image: of each feature, or of some of them."""
    row = row_of(image)
    if quality < 0:
        return replace(failed_record(number, row, Status.MISSING, "gone"), tries=tries), NO_LINES
    lines = np.zeros(N_FEATURES, line_dtype(COLUMNS))
    lines["feature"] = np.arange(N_FEATURES)
    is_read = np.arange(N_FEATURES) < quality
    lines["v0"] = np.where(is_read, 100 * image + np.arange(N_FEATURES), np.nan)
    lines["status"] = np.where(is_read, LineStatus.OK, LineStatus.CORRUPT)
    lines["reason"] = np.where(is_read, -1, 0)
    n_unread = N_FEATURES - quality
    record = ImageRecord(
        number=number,
        scene=f"scene {image}",
        time_us=row.time_us,
        hrefs=(f"s3://b/{image}.tif",),
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
        self.read: Read = {int(row.sources[0].href[7:-4]): rng.randint(-1, N_FEATURES) for row in wanted}  # type: ignore[union-attr] # all are there

    def commit(self, folder: Path) -> None:
        """Put its lines among those of the table as it is now."""
        now = BaseTable.open_(self.table) if side_path(self.table, "images").exists() else None
        shutil.rmtree(folder, ignore_errors=True)  # what a killed one has left is of another job
        parts = PartFolder.open_(folder, digest="d")
        for number, (image, quality) in enumerate(self.read.items()):
            tries = 1 + (0 if self.base is None else self.base.tries(key_of(row_of(image))))
            parts.write(*measured(number, image, quality, tries=tries))
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


def check(table: Path, committed: dict[int, list[Quality]]) -> None:
    """Compare a table with the best of all that was read of each image."""
    found = [each for each in pq.read_table(table).to_pylist() if each["id"] is not None]
    best = {image: max(qualities) for image, qualities in committed.items()}
    expected = {
        (f"p{n}", f"s3://b/{image}.tif"): 100 * image + n if n < quality else None
        for image, quality in best.items()
        if quality >= 0
        for n in range(N_FEATURES)
    }
    with_image = [each for each in found if each["href"] is not None]

    assert {(each["id"], each["href"]): each["b1"] for each in with_image} == expected
    assert len(with_image) == len(expected)
    order = [(each["id"], each["time"]) for each in with_image]
    assert order == sorted(order)
    assert {each["reason"] for each in with_image if each["b1"] is None} == {
        f"{image} is torn" for image, quality in best.items() if 0 <= quality < N_FEATURES
    }
    images = pq.read_table(side_path(table, "images")).to_pylist()
    assert sorted(json.loads(each["hrefs"])[0] for each in images) == sorted(f"s3://b/{n}.tif" for n in best)
    assert verify_table(table).is_same


@pytest.mark.parametrize("seed", range(24))
def test_appends_in_any_order_keep_the_best_of_each_image(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends are planned, committed, committed again and killed between any two files, by chance."""
    rng = random.Random(seed)  # noqa: S311 # no secret
    table = tmp_path / "t.parquet"
    left, replaced = None, Path.replace

    def replace_or_die(self: Path, target: Path) -> Path:
        nonlocal left
        if left is not None:
            if not left:
                left = None
                raise Killed
            left -= 1
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_die)
    first = Append(table, [0, 1], rng)
    first.commit(tmp_path / "parts")
    committed = {image: [quality] for image, quality in first.read.items()}
    planned: list[Append] = [first]
    for _ in range(rng.randint(3, 9)):
        if rng.random() < 0.5:
            planned.append(Append(table, rng.sample(range(7), 3), rng))
        append = rng.choice(planned)  # a new one, a twin, or one that comes late
        n_parts = 1 + sum(quality >= 0 for quality in append.read.values())
        left = rng.choice([None, n_parts, n_parts + 1])  # in the commit: before each of its two files
        is_cut_off = left == n_parts
        try:
            append.commit(tmp_path / "parts")
        except Killed:
            if is_cut_off:
                BaseTable.open_(table)
                check(table, committed)
                continue
            BaseTable.open_(table)  # the receipt was there, so the commit counts
        left = None
        for image, quality in append.read.items():
            committed.setdefault(image, []).append(quality)
        check(table, committed)


def test_an_image_is_read_again_so_many_times(tmp_path: Path) -> None:
    """Then an append leaves it. Its tries are counted once, also if the append is committed twice."""
    table, rng = tmp_path / "t.parquet", random.Random(1)  # noqa: S311 # no secret
    for n_tries in range(1, MOST_TRIES + 1):
        append = Append(table, [3] if n_tries == 1 else [], rng)
        assert list(append.read) == [3]
        append.read = {3: -1}
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
