"""From rows of a list to scenes: which file and band each name of a ranking means. Pure."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.ports import SourceTable
from pixel_gather.features.rank.indexes import band_number, found_band
from pixel_gather.features.rank.ranking_request import RankingRequest

_SHORTEST_NAME: Final = 8


class BandOf(NamedTuple):
    """One band of one file."""

    source: Source
    number: int
    """From 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankScene:
    """One scene to be ranked."""

    id: str
    time_us: int | None
    bands: Mapping[str, BandOf]
    """By the names of the expression; by ``*`` where only the share of valid pixels is wanted."""

    mask: BandOf | None
    missing: str | None = None
    """Which band the list lacks for this scene; None if it has all."""

    @property
    def hrefs(self) -> tuple[str, ...]:
        """Its files, each once, in order of first use."""
        each = [*self.bands.values(), *([] if self.mask is None else [self.mask])]
        return tuple(dict.fromkeys(band.source.href for band in each))

    @property
    def parts_key(self) -> str:
        """Which files and bands its value is made of."""
        named = [
            f"{name}={band.source.href}#{band.number}{_claims(band.source)}"
            for name, band in self.bands.items()
        ]
        mask = "" if self.mask is None else f"{self.mask.source.href}#{self.mask.number}"
        return "\n".join([*named, mask])


def scenes_of(table: SourceTable, request: RankingRequest) -> list[RankScene]:
    """Return the scenes of a list.

    Raises:
        RequestError: The list has no such band.
    """
    return [scene_of(row, bands=table.bands, request=request) for row in table.rows(0, table.n_rows)]


def scene_of(row: CubeRow, *, bands: Sequence[str], request: RankingRequest) -> RankScene:
    """Return the scene of one row of the list.

    Args:
        row: Its sources, in the order of ``bands``.
        bands: Names in the list's ``band`` column; empty if it has none.
        request: Names the bands.

    Raises:
        RequestError: No row of the list can have a band that is wanted.
    """
    there = [source for source in row.sources if source is not None]
    first = there[0]
    named = dict(zip(bands, row.sources, strict=True)) if bands else {}
    finder = _Finder(named, first, dict(request.bands))
    wanted = request.names
    if not wanted and request.by == "valid":
        wanted = tuple(name for name, _ in request.bands) or ("*",)
    found = {name: finder.band(name, field="by") for name in wanted}
    mask = None if request.mask is None else finder.band(request.mask.band, field="mask.band")
    lacking = [name for name, band in found.items() if band is None]
    if request.mask is not None and mask is None:
        lacking.append(request.mask.band)
    return RankScene(
        id=first.scene or _common_name(there),
        time_us=row.time_us,
        bands={name: band for name, band in found.items() if band is not None},
        mask=mask,
        missing=f"the list names no {' and no '.join(lacking)} for it" if lacking else None,
    )


@dataclass(frozen=True, slots=True)
class _Finder:
    named: Mapping[str, Source | None]
    first: Source
    given: Mapping[str, str]

    def band(self, name: str, *, field: str) -> BandOf | None:
        """Return the band that a name means; None if only this row lacks it."""
        base, _, number = self.given.get(name, name).partition(":")
        if base == "*":
            return BandOf(self.first, 1)
        if not self.named:
            return BandOf(self.first, self._number_of(base, number, field))
        key = found_band(base, self.named)
        if key is not None:
            source = self.named[key]
            return None if source is None else BandOf(source, int(number or 1))
        if len(self.named) == 1 and band_number(base) is not None:
            return BandOf(self.first, self._number_of(base, number, field))
        raise RequestError(
            f"the list has no band {base}; it has {', '.join(self.named)}; say which one is meant by "
            f"--bands {base}=NAME",
            field=field,
        )

    def _number_of(self, base: str, number: str, field: str) -> int:
        found = int(number) if number else band_number(base)
        if found is None:
            raise RequestError(
                f"the list has no column band to find {base} in; write b1, b2, ... for bands of its files, "
                f"or --bands {base}=b4",
                field=field,
            )
        return found


def _common_name(sources: Sequence[Source]) -> str:
    """Return what the names of a scene's files begin with; the first name where that is short."""
    names = [source.href.rstrip("/").rpartition("/")[2] for source in sources]
    common = os.path.commonprefix(names)  # noqa: RUF071 # letter by letter is meant
    stem = common.rstrip("_-.Bb")
    return stem if len(names) > 1 and len(stem) >= _SHORTEST_NAME else names[0]


def _claims(source: Source) -> str:
    """Return the scale and offset that the list gives a source."""
    names = ("scale", "offset", "scale_claimed", "offset_claimed", "nodata_claimed")
    given = [f"{name}={source.columns[name]}" for name in names if source.columns.get(name) is not None]
    return f"?{'&'.join(given)}" if given else ""
