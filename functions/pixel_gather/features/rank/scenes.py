"""From rows of a list to scenes: which file and band each name of a ranking means. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from pixel_gather.core.model.plurals import none_of
from pixel_gather.core.model.source import CubeRow, Source
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
    bands, numbers = table.bands, table.band_numbers
    return [
        _make_scene(BandFinder.of(row, bands=bands, numbers=numbers, given=request.bands), row, request)
        for row in table.rows(0, table.n_rows)
    ]


def _make_scene(finder: BandFinder, row: CubeRow, request: RankingRequest) -> RankScene:
    """Return the scene of one row of the list.

    Raises:
        RequestError: No row of the list can have a band that is wanted.
    """
    wanted = request.names
    if not wanted and request.by == "valid":
        wanted = tuple(name for name, _ in request.bands) or ("*",)
    found = {name: finder.band(name, field="by") for name in wanted}
    mask = None if request.mask is None else finder.band(request.mask.band, field="mask.band")
    lacking = [name for name, band in found.items() if band is None]
    if request.mask is not None and mask is None:
        lacking.append(request.mask.band)
    return RankScene(
        id=scene_name(row),
        time_us=row.time_us,
        bands={name: band for name, band in found.items() if band is not None},
        mask=mask,
        missing=f"the list names {none_of(lacking)} for this scene" if lacking else None,
    )


def _claims(source: Source) -> str:
    """Return the scale and offset that the list gives a source."""
    names = ("scale", "offset", "scale_claimed", "offset_claimed", "nodata_claimed")
    given = [f"{name}={source.columns[name]}" for name in names if source.columns.get(name) is not None]
    return f"?{'&'.join(given)}" if given else ""
