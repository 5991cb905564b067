"""Images of a simulation of tables: what each of their versions holds at points, and in zones.

Three points lie on every image. Zones lie along one line of cells. The images are tiles along this line, of
three acquisitions. A zone is on one tile, on two, or on three. Each image lacks some pixels. The last two
images are two processings of one scene.

All versions of an image lack the same pixels, which real images need not do. Otherwise a table could lack
pixels in a way that decision 51 accepts.
"""

from collections.abc import Mapping, Sequence
from copy import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from faults.storm import BrokenPromiseError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather.features.zones.zone_statistics import parse_statistics, zone_statistics
from pixel_gather.tables.features import Features
from pixel_gather.tables.image_work import key_of
from pixel_gather.tables.part_folder import (
    NO_LINES,
    ImageRecord,
    Lines,
    LineStatus,
    Measured,
    PartFolder,
    line_dtype,
    piece_dtype,
)
from pixel_gather.tables.write_table import LineForm, write_table

N_IMAGES: Final = 8
_TILE_OF: Final = (0, 1, 2, 0, 1, 2, 0, 0)
_TIMES_S: Final = (0, 3, 6, 1_000, 1_003, 1_006, 2_000, 2_000.5)

_TILE_STEP, _TILE_WIDTH = 10, 14
_ZONES: Final = ((2, 7), (8, 17), (12, 30), (11, 13))
"""First cell of each zone, and the one after its last."""

_POINTS: Final = (1, 2, 3)
"""Their ids."""

_REASON: Final = "its tile did not answer"
_MEAN: Final = parse_statistics("mean")

type Row = Mapping[str, Any]
"""A line of a table, by column."""

type Pairs = dict[tuple[str, int], float]
"""What a table has read, by the key of the image and the id of the feature. It changes with the image."""


def href_of(number: int) -> str:
    """Return the address of an image."""
    return f"s3://sources/{number}.tif"


def number_of(href: str) -> int:
    """Return the number of an image."""
    return int(href.rpartition("/")[2].partition(".")[0])


def rows_of(images: range) -> list[CubeRow]:
    """Return the rows of a list."""
    return [CubeRow(time_us=round(_TIMES_S[n] * 1e6), sources=(Source(href=href_of(n)),)) for n in images]


def _collection(geometries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    features = [
        {"type": "Feature", "id": id_, "properties": {}, "geometry": each}
        for id_, each in enumerate(geometries, 1)
    ]
    return {"type": "FeatureCollection", "features": features}


def _record(number: int, version: int, lines: Lines, **more: Any) -> ImageRecord:
    (row,) = rows_of(range(number, number + 1))
    n_unread = int((lines["reason"] >= 0).sum())
    return ImageRecord(
        number=number,
        scene=href_of(number),
        time_us=row.time_us,
        hrefs=(href_of(number),),
        etags=(str(version),),
        reasons=(_REASON,) if n_unread else (),
        key=key_of(row),
        n_unread=n_unread,
        n_lines=len(lines),
        **more,
    )


class SimulatedPoints:
    """Tables of points: their values."""

    kind = PointTable
    columns = ("red",)
    n_features = len(_POINTS)
    appended = "points-all"
    request: Mapping[str, Any] = {  # read only
        "points": _collection([{"type": "Point", "coordinates": [3.0 + n, 50.0]} for n in _POINTS]),
        "by": "red",
    }

    def measured(self, number: int, version: int, is_read: Sequence[bool]) -> Measured:
        """Return the line of each point. ``is_read`` tells of each point whether it can be read."""
        lines = np.zeros(self.n_features, line_dtype(self.columns))
        lines["feature"] = np.arange(self.n_features)
        lines["status"] = np.where(is_read, LineStatus.OK, LineStatus.TIMED_OUT)
        lines["reason"] = np.where(is_read, -1, 0)
        values = [_value(number, version, id_) for id_ in _POINTS]
        lines["v0"] = np.where(is_read, values, np.nan)
        lines["valid"] = is_read
        return Measured(_record(number, version, lines), lines)

    def pairs(self, rows: Sequence[Row], records: Sequence[ImageRecord], features: Features) -> Pairs:
        """Return what a table has read, after each line was compared with its image.

        Raises:
            BrokenPromiseError: A line differs from its image.
        """
        del features
        by_href = {each.hrefs[0]: each for each in records}
        found: Pairs = {}
        seen = set[tuple[str, int]]()
        for row in rows:
            if row["href"] is None or row["id"] is None:
                continue
            record = by_href[row["href"]]
            pair = record.key, row["id"]
            if pair in seen:
                raise BrokenPromiseError(f"point {row['id']} has two lines of {record.scene}")
            seen.add(pair)
            if row["status"] == "ok":
                found[pair] = row["red"]
                if row["red"] != _value(number_of(record.scene), _version_of(record), row["id"]):
                    raise BrokenPromiseError(
                        f"point {row['id']} has the value of another version of {record.scene}"
                    )
            elif row["red"] is not None:
                raise BrokenPromiseError(f"point {row['id']} was not read on {record.scene}, and has a value")
        return found


class SimulatedZones:
    """Tables of zones: their means, merged."""

    kind = ZoneTable
    columns = ("mean",)
    n_features = len(_ZONES)
    appended = "zones-all"
    request: Mapping[str, Any] = {  # read only
        "zones": _collection(
            [
                {"type": "Polygon", "coordinates": [[[n, 50], [n, 51], [n + 0.5, 51], [n, 50]]]}
                for n in range(len(_ZONES))
            ]
        ),
        "by": "red",
        "statistics": "mean",
    }

    def measured(self, number: int, version: int, is_read: Sequence[bool]) -> Measured:
        """Return the lines of zones on an image, and their pieces. ``is_read`` is of zones."""
        parts = [_of_zone(number, version, zone, is_read=is_read[zone]) for zone in range(self.n_features)]
        found, kept = (np.concatenate(each) for each in zip(*parts, strict=True))
        place = (_TILE_STEP * _TILE_OF[number], 0, _TILE_WIDTH, 1)
        record = _record(number, version, found, acquisition="pass", place=place, n_pieces=len(kept))
        return Measured(record, found, kept)

    def pairs(self, rows: Sequence[Row], records: Sequence[ImageRecord], features: Features) -> Pairs:
        """Return what a table has read, after it was compared with one that is made at once.

        Raises:
            BrokenPromiseError: Its lines are not those that the same readings give at once.
        """
        unread = {(row["href"], row["id"]) for row in rows if row["reason"] is not None}
        found: Pairs = {}
        readings = []
        for record in records:
            if record.status != "ok":
                readings.append(Measured(replace(record, number=number_of(record.scene)), NO_LINES))
                continue
            is_read = [(record.hrefs[0], id_) not in unread for id_ in range(1, self.n_features + 1)]
            number, version = number_of(record.scene), _version_of(record)
            readings.append(self.measured(number, version, is_read))
            of_features = {int(each) + 1 for each in readings[-1].lines["feature"]}
            found |= {(record.key, id_): version for id_ in of_features if is_read[id_ - 1]}
        expected = _made_at_once(readings, features, self.columns)
        if rows != expected:
            lacking = [row for row in expected if row not in rows]
            raise BrokenPromiseError(f"lines are not those of the images: {lacking} are missing of {rows}")
        return found


def _value(number: int, version: int, at: int) -> float:
    """Return what a version of an image holds at a point or a cell."""
    return number * 1000.0 + version * 100 + at


def _version_of(record: ImageRecord) -> int:
    return int(record.etags[0] or -1)


def _of_zone(number: int, version: int, zone: int, *, is_read: bool) -> tuple[Lines, Lines]:
    """Return the line of a zone on an image, and its pieces; none if the zone is not there."""
    (start, stop), left = _ZONES[zone], _TILE_STEP * _TILE_OF[number]
    cols = np.arange(max(start, left), min(stop, left + _TILE_WIDTH))
    line = np.zeros(min(len(cols), 1), line_dtype(SimulatedZones.columns))
    pieces = np.zeros(len(cols), piece_dtype(1))
    if not len(cols):
        return line, pieces
    line["feature"], line["reason"] = zone, -1
    if not is_read:
        line["status"], line["reason"], line["v0"] = LineStatus.TIMED_OUT, 0, np.nan
        return line, pieces[:0]
    values = np.array([_value(number, version, each) for each in cols.tolist()])
    values[(cols + number) % 7 == 0] = np.nan
    if (number + zone) % 5 == 0:
        values[:] = np.nan
    is_known, whole = np.isfinite(values), stop - start
    total, (mean,) = zone_statistics(values, is_known, np.ones(len(cols)), np.zeros(1, int), _MEAN)
    line["status"] = LineStatus.OK if is_known.any() else LineStatus.NODATA
    line["valid"], line["v0"] = total / whole, mean
    if not is_known.any() or (is_known.all() and len(cols) == whole):
        return line, pieces[:0]
    pieces["feature"], pieces["whole"], pieces["coverage"], pieces["is_kept"] = zone, whole, 1, True
    pieces["col"], pieces["v0"] = cols, values
    return line, pieces


def _made_at_once(readings: Sequence[Measured], features: Features, columns: Sequence[str]) -> list[Row]:
    with TemporaryDirectory() as folder:
        parts, path = PartFolder.open_(Path(folder, "parts"), digest=""), Path(folder, "table.parquet")
        for each in readings:
            parts.write(*each)
        form = LineForm(columns=columns, combine=ZoneTable.of("mean").combine)
        write_table(path, parts, features, form, about={}, features_digest={})
        return lines_of(path)


type SimulatedKind = SimulatedPoints | SimulatedZones

POINTS: Final = SimulatedPoints()
ZONES: Final = SimulatedZones()


def lines_of(path: Path) -> list[Row]:
    """Return the lines of a table."""
    found: list[Row] = pq.read_table(path).to_pylist()
    return found
