"""Says where pixels lie and how large they are. Pure."""

import math
import re
from typing import Final

from pixel_gather.core.model.footprints import Footprints
from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.report_content import Place
from pixel_gather.features.report.lonlat import epsg_code, utm_zone

KM_PER_DEGREE: Final = 111.32
_NAMES: Final = {
    4326: "WGS 84, degrees",
    4258: "ETRS89, degrees",
    4269: "NAD83, degrees",
    3857: "Web Mercator",
    3035: "Europe, equal area",
    5070: "USA, equal area",
}
_OF_FIRST: Final = "of the first image"
_UNIT: Final = re.compile(r'(ANGLE|LENGTH)?UNIT\["([^"]+)"')
_WKT_NAME: Final = re.compile(r'^\s*[A-Z]+\["([^"]*)"')


def crs_in_words(where: Place) -> tuple[str, str]:
    """Return the CRS and a note on it. Files without a place on the Earth are said to have none."""
    if where.transform is None and not where.crs:
        return "no georeference", "the files do not say where they lie"
    if not where.crs:
        return "unknown", "the files have map coordinates, but do not say of which system"
    name, note = _name_crs(where.crs)
    return name, ", ".join(filter(None, (note, "" if where.is_crs_shared else _OF_FIRST)))


def _name_crs(crs: str) -> tuple[str, str]:
    code = epsg_code(crs)
    if not code:
        name = _WKT_NAME.match(crs)
        return (name[1] if name and name[1] else "as WKT"), ""
    if code in _NAMES:
        return f"EPSG:{code}", _NAMES[code]
    zone, is_south = utm_zone(code)
    return f"EPSG:{code}", f"UTM zone {zone} {'S' if is_south else 'N'}" if zone else ""


def pixel_in_words(where: Place, transform: Transform, footprints: Footprints | None) -> tuple[str, str]:
    """Return the size of a pixel in units of the map, and in metres if the map has degrees."""
    a, b, _, d, e, _ = transform
    width, height = math.hypot(a, d), math.hypot(b, e)
    unit = _unit(where.crs)
    said = f"{_short(width)} x {_short(height)}" if abs(width - height) > 1e-6 * width else _short(width)
    note = "" if where.is_shared else _OF_FIRST
    if unit == "\u00b0" and footprints is not None:
        latitudes = [y for _, y in footprints.window]
        km_x = width * KM_PER_DEGREE * math.cos(math.radians((min(latitudes) + max(latitudes)) / 2))
        note = f"{_length(km_x)} x {_length(height * KM_PER_DEGREE)}" + (f", {note}" if note else "")
    return with_unit_of(said, where.crs), note


def with_unit_of(length: str, crs: str) -> str:
    """Return a length on the map with its unit: ``10 m``, ``0.01\u00b0``."""
    unit = _unit(crs)
    return f"{length}{unit}" if unit == "\u00b0" else f"{length} {unit}"


def _unit(crs: str) -> str:
    """Return the unit of a map's coordinates; ``map units`` if it is not known."""
    code = epsg_code(crs)
    if code:
        is_metric = code in (3857, 3035, 5070) or utm_zone(code)[0]
        return "m" if is_metric else "\u00b0" if 4000 <= code < 5000 else "map units"  # noqa: PLR2004 # EPSG's geographic systems
    units = _UNIT.findall(crs)
    if crs.lstrip().startswith("GEOG") or not units:
        return "\u00b0" if crs.lstrip().startswith("GEOG") else "map units"
    name = str(units[-1][1])
    return "m" if name.lower() in ("metre", "meter", "m") else name


def _short(length: float) -> str:
    return f"{length:,.0f}" if length >= 100 and length == round(length) else f"{length:.6g}"  # noqa: PLR2004 # no exponent


def _length(km: float) -> str:
    metres = 1000 * km
    return f"{km:,.3g} km" if km >= 1 else f"{metres:.3g} m"
