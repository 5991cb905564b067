"""The values of images at one place as rows, in the order of time. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.tables.features import NO_TIME
from pixel_gather.tables.part_folder import ImageRecord, Lines, LineStatus, units_of

NOWHERE: Final = "no image shows this place; longitude comes first"
"""What there is to say of a series without a row."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FEATURES: Final = ("features", "points", "zones")
"""What errors about the place name: in process, and of a deployment's tables."""


@contextmanager
def naming_place(*, is_point: bool) -> Iterator[None]:
    """Let errors about the features name what was given instead: the point, or the polygon."""
    try:
        yield
    except RequestError as error:
        if error.field not in _FEATURES:
            raise
        raise RequestError(error.message, field="point" if is_point else "geojson") from error


class PlaceSeries(Struct, frozen=True):
    """The values of images at one place."""

    rows: list[dict[str, Any]]
    """One for each image that shows the place, and for each that cannot be read, in the order of time."""

    units: Mapping[str, str]
    """Of the values whose files say one, by name."""

    @classmethod
    def of(cls, images: Iterable[tuple[ImageRecord, Lines]], columns: Sequence[str]) -> "PlaceSeries":
        """Put images together.

        The lines are those of a single feature.
        """
        found = sorted(
            images, key=lambda each: (NO_TIME if each[0].time_us is None else each[0].time_us, each[0].number)
        )
        rows = [row for record, lines in found if (row := _row(record, lines, columns)) is not None]
        return cls(rows, units_of(columns, [record for record, lines in found if len(lines)]))


def check_one_feature(geojson: Any, *, field: str) -> None:
    """Refuse a collection of several features: a series is of one place.

    Raises:
        RequestError: There are several, or none.
    """
    features = geojson.get("features") if isinstance(geojson, Mapping) else None
    if isinstance(features, list) and len(features) != 1:
        raise RequestError(
            f"it has {counted(len(features), 'feature')}, and a series is of one: give one polygon, or make "
            "a table of all of them (zones)",
            field=field,
        )


def json_time(moment: datetime) -> str:
    """Return a time as a text."""
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def time_us(moment: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _row(record: ImageRecord, lines: Lines, columns: Sequence[str]) -> dict[str, Any] | None:
    """Return the row of an image; None if it does not show the place."""
    is_there = len(lines) > 0
    if record.status == "ok" and not is_there:
        return None
    reason = int(lines["reason"][0]) if is_there else -1
    return {
        "time": None if record.time_us is None else _EPOCH + timedelta(microseconds=record.time_us),
        "scene": record.scene,
        "href": record.hrefs[0] if record.hrefs else None,
        **{
            name: None if not is_there or math.isnan(value := float(lines[f"v{number}"][0])) else value
            for number, name in enumerate(columns)
        },
        "valid": float(lines["valid"][0]) if is_there else 0.0,
        "status": LineStatus(int(lines["status"][0])).name.lower() if is_there else record.status,
        "reason": record.reasons[reason] if reason >= 0 else record.reason,
    }
