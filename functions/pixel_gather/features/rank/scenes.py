"""From rows of a list to scenes: which file and band each name of a ranking means. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from pixel_gather.core.model.scaling import SCALING_COLUMNS
from pixel_gather.core.model.source import Source
from pixel_gather.core.ports import SourceTable
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.tables.find_bands import BandFinder, BandOf, scene_name


class RankScene(Struct, frozen=True, kw_only=True):
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


def list_scenes(table: SourceTable, request: RankingRequest) -> list[RankScene]:
    """Return the scenes of a list.

    Raises:
        RequestError: The list has no such band.
    """
    wanted = request.names
    if not wanted and request.by == "valid":
        wanted = tuple(name for name, _ in request.bands) or ("*",)
    names, numbers, scenes = table.bands, table.band_numbers, []
    for row in table.rows(0, table.n_rows):
        finder = BandFinder.of(row, bands=names, numbers=numbers, given=request.bands)
        bands, mask, missing = finder.bands(wanted, request.mask)
        scenes.append(
            RankScene(id=scene_name(row), time_us=row.time_us, bands=bands, mask=mask, missing=missing)
        )
    return scenes


def _claims(source: Source) -> str:
    """Return the scale, offset and nodata that the list gives a source."""
    there = ((name, source.columns.get(name)) for name in SCALING_COLUMNS)
    given = [f"{name}={value}" for name, value in there if value is not None]
    return f"?{'&'.join(given)}" if given else ""
