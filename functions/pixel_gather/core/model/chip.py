"""A chip: one window of a gather of many."""

from collections.abc import Mapping

from msgspec import Struct

from pixel_gather.core.model.window import WindowRule


class Chip(Struct, frozen=True, kw_only=True):
    """One window of a gather of many, with the columns of its table."""

    id: str | int
    lon: float
    """Longitude of its centre in degrees."""

    lat: float
    rule: WindowRule
    is_exact: bool = True
    """Whether the rule has the point as the table of chips had it. Cubes of earlier versions only tell it in
    degrees, and a window around that may lie a pixel beside. So nobody reads by it."""

    columns: Mapping[str, str | int | float | bool | None] = {}
