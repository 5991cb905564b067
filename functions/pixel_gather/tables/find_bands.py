"""Which file and band of a row of the list a name means. Pure."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_names import common_name
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.tables.spectral_indexes import band_number, found_band

_SHORTEST_NAME: Final = 8


class BandOf(NamedTuple):
    """One band of one file."""

    source: Source
    number: int
    """From 1."""


class BandFinder(Struct, frozen=True):
    """Finds bands of one row of a list by the names of a request."""

    named: Mapping[str, Source | None]
    first: Source
    given: Mapping[str, str]

    @classmethod
    def of(cls, row: CubeRow, *, bands: Sequence[str], given: Iterable[tuple[str, str]] = ()) -> "BandFinder":
        """Return what finds the bands of a row.

        Its sources are in the order of ``bands``, which is empty if the list has no column ``band``.
        """
        named = dict(zip(bands, row.sources, strict=True)) if bands else {}
        return cls(named, _there(row)[0], dict(given))

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
        if len(self.named) == 1 and band_number(base) is not None and not self._tells_its_band(base):
            return BandOf(self.first, self._number_of(base, number, field))
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
