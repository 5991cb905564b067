"""What a table job is asked for, and how its list and its features are opened."""

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pixel_gather.core.area import check_box
from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.ports import LevelledSource, LevelReader
from pixel_gather.core.request.href_policy import IN_PROCESS, check_href
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.sources import Sources
from pixel_gather.in_process.job import Job, listed, opened_job
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.opened_file import open_list_file
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.read_features import FeatureColumns, given_features, read_features
from pixel_gather.tables.values import Values

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s|days?|hours?|minutes?|seconds?)")
_US: Final = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
_LIMITS: Final = ("usd", "seconds")
_SEARCHES: Final = ("catalog", "stac")
_SAMPLES: Final = 5
"""Images that are tried until one tells how many bands there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """Features, images, and what is computed."""

    features: Any
    """A path, an href, or what `given_features` takes."""

    sources: Any
    columns: FeatureColumns
    values: Values
    tolerance_us: int | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(  # noqa: PLR0913 # as `points`
        cls,
        *,
        features: Any,
        sources: Any,
        id: str | None = None,  # noqa: A002 # the option's name
        x: str | None = None,
        y: str | None = None,
        crs: str | None = None,
        time: str | None = None,
        tolerance: str | None = None,
        by: str | Sequence[str] | None = None,
        mask: Mapping[str, Any] | None = None,
        bands: Mapping[str, str] | None = None,
        raw: bool = False,
        limits: Mapping[str, float | None] | None = None,
    ) -> "TableRequest":
        """Check what is asked for; the arguments are those of `pixel_gather.points`.

        Raises:
            RequestError: It names what is wrong.
        """
        if (time is None) != (tolerance is None):
            raise RequestError(
                "give time and tolerance together", field="time" if time is None else "tolerance"
            )
        limits = limits or {}
        if unknown := limits.keys() - set(_LIMITS):
            raise RequestError(f"there is no limit {min(unknown)}; give usd or seconds", field="limits")
        if crs is not None:
            RasterioProjector().check(crs, field="crs")
        return cls(
            features=features,
            sources=sources,
            columns=FeatureColumns(id=id, x=x, y=y, crs=crs, time=time),
            values=Values.of(by=by, mask=mask, bands=bands, raw=raw),
            tolerance_us=None if tolerance is None else duration_us(tolerance),
            limits={name: limits.get(name) for name in _LIMITS},
        )

    def checked_path(self, to: str | os.PathLike[str]) -> Path:
        """Return where the table is written.

        Raises:
            RequestError: It is no place for a Parquet file on this machine.
        """
        text = os.fspath(to)
        if "://" in text:
            raise RequestError("a table is written to this machine: give a path", field="to")
        path = Path(text).expanduser()
        if path.suffix != ".parquet":
            raise RequestError(f"{text} does not end with .parquet", field="to")
        if not path.parent.is_dir():
            raise RequestError(f"there is no folder {path.parent}", field="to")
        return path

    def to_json(self) -> dict[str, Any]:
        """Return what decides the table, besides the list and the features."""
        mask = self.values.mask
        return {
            "by": {each.name: each.expression.text for each in self.values.values},
            "mask": None if mask is None else {"band": mask.band, "drop": mask.drop, "bits": mask.bits},
            "bands": dict(self.values.bands),
            "raw": self.values.raw,
            "tolerance_us": self.tolerance_us,
        }


def duration_us(text: str) -> int:
    """Return a duration such as ``10d``, ``36h`` or ``16 days`` in microseconds.

    Raises:
        RequestError: It is none.
    """
    found = _DURATION.fullmatch(str(text).strip().lower())
    if found is None:
        raise RequestError(f"{str(text)[:40]!r} is no duration; write 10d or 36h", field="tolerance")
    return round(float(found[1]) * _US[found[2][0]])


@asynccontextmanager
async def opened_table(
    request: TableRequest, settings: Settings
) -> AsyncIterator[tuple[Job, Features, Values, LevelReader]]:
    """Read the features and the list, and open what reads its images.

    Yields the job, the features, the values, and the reader of images.

    Without ``by``, the values are all bands of the list, or of the first image that can be opened.

    Raises:
        RequestError: The features or the list are wrong.
    """
    features = _features(request, settings)
    sources = _sources(request, features)
    values = request.values
    async with opened_job(sources, settings) as job:
        reader = KeepsFirst(job.reader)
        if not values.values:
            values = values.of_bands(job.table.bands or await _bands_of_first(job, reader))
        yield job, features, values, reader


def _features(request: TableRequest, settings: Settings) -> Features:
    given = request.features
    if not isinstance(given, str | os.PathLike):
        return given_features(given, columns=request.columns)
    text = str(Path(given).expanduser()) if str(given).startswith("~/") else os.fspath(given)
    try:
        place = "-" if text == "-" else check_href(text, policy=IN_PROCESS.within(str(Path.cwd())))
    except ValueError as error:
        raise RequestError(str(error), field="features") from error
    name, file = open_list_file(place, objects=Objects(settings.stores), what="file of features")
    return read_features(file, name=name, columns=request.columns)


def _sources(request: TableRequest, features: Features) -> Sources:
    """Return the list. A search looks for scenes in the box around the features."""
    given = request.sources
    searched = given if isinstance(given, Mapping) else {}
    kind = next((name for name in _SEARCHES if name in searched), "")
    search = searched.get(kind)
    if not isinstance(search, Mapping) or "assets" in search:
        return parse_sources(given)
    box = features.box()
    lonlat = RasterioProjector().bounds(box, source_crs=features.crs, target_crs=LONLAT)
    area = list(check_box(lonlat, field="features"))
    return request.values.sources_of(kind, {"area": area, **search})


class KeepsFirst:
    """Opens images, and the one that was looked at first without a second request."""

    def __init__(self, reader: CogReader) -> None:
        self._reader = reader
        self._kept: dict[str, tuple[bytes | None, Cost]] = {}

    async def look_at(self, href: str) -> Header:
        """Return the header of an image. Its request is counted when the image is opened.

        Raises:
            SourceError: It cannot be opened.
        """
        cost = Cost()
        opened = await self._reader.open_(href, overview=None, cost=cost)
        self._kept[href] = opened.packed_header, cost
        return opened.header

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> LevelledSource:
        """Open an image; see `pixel_gather.core.ports.LevelReader`."""
        packed_header, spent = self._kept.pop(href, (None, None))
        if packed_header is not None and spent is not None:
            total = Cost.of_parts([cost, spent])
            for name in Cost.__slots__:
                setattr(cost, name, getattr(total, name))
        return await self._reader.open_(href, overview=overview, cost=cost, packed_header=packed_header)


async def _bands_of_first(job: Job, reader: KeepsFirst) -> list[str]:
    """Return b1, b2, ... for the bands of the first image that can be opened."""
    failed: SourceError | None = None
    sources = listed(job.table)
    try:
        for source, _ in zip(sources, range(_SAMPLES), strict=False):
            try:
                header = await reader.look_at(source.href)
            except SourceError as error:
                failed = failed or error
                continue
            return [f"b{number}" for number in range(1, header.n_bands + 1)]
    finally:
        sources.close()
    if failed is not None:
        raise failed
    raise RequestError("the list is empty", field="sources")
