"""Which file and band of a row of the list a name means. Pure."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_names import common_name
from pixel_gather.core.model.plurals import none_of
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.tables.spectral_indexes import band_number, found_band

_SHORTEST_NAME: Final = 8


class BandOf(NamedTuple):
    """One band of one file."""

    source: Source
    number: int
    """From 1."""


class SceneBands(NamedTuple):
    """The bands of one row that a request wants."""

    bands: Mapping[str, BandOf]
    """By their names in the request."""

    mask: BandOf | None
    missing: str | None
    """Which of them the list lacks for this scene; None if it has all."""


class BandFinder(Struct, frozen=True):
    """Finds bands of one row of a list by the names of a request."""

    named: Mapping[str, BandOf | None]
    first: BandOf
    given: Mapping[str, str]

    @classmethod
    def of(
        cls,
        row: CubeRow,
        *,
        bands: Sequence[str],
        numbers: Mapping[str, int],
        given: Iterable[tuple[str, str]] = (),
    ) -> "BandFinder":
        """Return what finds the bands of a row.

        Args:
            row: Of the list, or of an earlier one, whose bands may have had another order.
            bands: The list's; empty if it has no column ``band``.
            numbers: Number of the band to read, from 1, by the name of a band whose asset has one.
            given: (name in a request, band that it stands for).
        """
        there = {each.band: BandOf(each, numbers.get(each.band or "", 1)) for each in _there(row)}
        named = {name: band for name, band in there.items() if name is not None}
        return cls(
            {**dict.fromkeys(bands), **named} if named else {}, next(iter(there.values())), dict(given)
        )

    def bands(self, names: Iterable[str], mask: PixelMask | None) -> "SceneBands":
        """Return the bands that some names mean, and the band of the mask.

        Raises:
            RequestError: No row of the list can have one of them.
        """
        found = {name: self._band(name, field="by") for name in names}
        of_mask = None if mask is None else self._band(mask.band, field="mask.band")
        lacking = [name for name, band in found.items() if band is None]
        if mask is not None and of_mask is None:
            lacking.append(mask.band)
        there = {name: band for name, band in found.items() if band is not None}
        missing = f"the list names {none_of(lacking)} for this scene" if lacking else None
        return SceneBands(there, of_mask, missing)

    def _band(self, name: str, *, field: str) -> BandOf | None:
        """Return the band that a name means; None if only this row lacks it."""
        base, _, number = self.given.get(name, name).partition(":")
        if name not in self.given and base in self.given:  # ``qa:2``, where ``qa`` stands for another name
            base = self.given[base].partition(":")[0]
        if base == "*":
            return self.first
        if not self.named:
            return BandOf(self.first.source, self._number_of(base, number, field))
        key = found_band(base, self.named)
        if key is not None:
            found = self.named[key]
            return BandOf(found.source, int(number)) if found is not None and number else found
        if len(self.named) == 1 and band_number(base) is not None and not self._tells_its_band(base):
            return BandOf(self.first.source, self._number_of(base, number, field))
        raise RequestError(
            f"the list has no band {base}; it has {', '.join(self.named)}; say which one is meant by "
            f"bands: {{{base}: NAME}} (--bands {base}=NAME)",
            field=field,
        )

    def _tells_its_band(self, base: str) -> bool:
        """Return whether the only file is called by a band, such as red, so that it has no blue."""
        return common_name(base) is not None and common_name(next(iter(self.named))) is not None

    def _number_of(self, base: str, number: str, field: str) -> int:
        found = int(number) if number else band_number(base)
        if found is None:
            raise RequestError(
                f"the list has no column band to find {base} in; write b1, b2, ... for bands of its files, "
                f"or bands: {{{base}: b4}} (--bands {base}=b4)",
                field=field,
            )
        return found


def scene_name(row: CubeRow) -> str:
    """Return a row's scene, or what the names of its files have in common."""
    there = _there(row)
    return there[0].scene or _common_name(there)


def _there(row: CubeRow) -> list[Source]:
    return [source for source in row.sources if source is not None]


def _common_name(sources: Sequence[Source]) -> str:
    """Return what the names of a scene's files begin with; the first name where that is short."""
    names = [shown_href(source.href).rstrip("/").rpartition("/")[2] for source in sources]
    common = os.path.commonprefix(names)  # noqa: RUF071 # letter by letter is meant
    stem = common.rstrip("_-.Bb")
    return stem if len(names) > 1 and len(stem) >= _SHORTEST_NAME else names[0]
