"""Coordinate reference systems, by PROJ through rasterio.

rasterio is imported where it is used. The import takes up to 0.8 s, and workers do not need it.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import DescribedCrs

type Coordinates = np.ndarray[Any, np.dtype[np.float64]]

_EDGE_POINTS: Final = 21
"""Points on each edge of a box, so that curved edges are followed. GDAL's own default."""

_N_TOGETHER: Final = 100_000
"""Points that are handed to PROJ at once. Each is a Python float on the way."""

_NAME: Final = re.compile(r'(\w+\[")((?:[^"]|"")*)')
"""The keyword and name at the start of a WKT."""

_DEPRECATED: Final = " (deprecated)"

_EPSG: Final = re.compile(r"epsg:(\d+)", re.IGNORECASE)


class RasterioProjector(Struct, frozen=True):
    """The ``Projector`` of production. All are equal, and share results: sources have few CRSs."""

    def check(self, crs: str, *, field: str) -> None:
        """Check that PROJ knows a CRS.

        Raises:
            RequestError: PROJ does not know it. The error names ``field``.
        """
        _parse(crs, field)

    def describe(self, crs: str) -> DescribedCrs | None:
        """Describe a CRS, given as ``EPSG:n`` or WKT, for readers. None where PROJ does not know it."""
        try:
            parsed = _parse(crs, "crs")
        except RequestError:
            return None
        return DescribedCrs(
            wkt2=_wkt2(parsed),
            code=_authority_code(crs, parsed),
            is_geographic=parsed.is_geographic,
        )

    def counts_degrees(self, crs: str) -> bool:
        """Return whether coordinates are longitudes and latitudes in degrees. Errors as in `check`."""
        if crs == "EPSG:4326":  # rasterio need not be imported
            return True
        parsed = _parse(crs, "crs")
        return bool(parsed.is_geographic and parsed.units_factor[0] == "degree")

    def points(
        self, xs: Sequence[float], ys: Sequence[float], *, source_crs: str, target_crs: str
    ) -> tuple[list[float], list[float]]:
        """Transform points.

        Raises:
            RequestError: PROJ does not know a CRS, or a point cannot be transformed.
        """
        new_xs, new_ys = _points(tuple(xs), tuple(ys), source_crs, target_crs)
        return list(new_xs), list(new_ys)

    def point_arrays(
        self, xs: Coordinates, ys: Coordinates, *, source_crs: str, target_crs: str
    ) -> tuple[Coordinates, Coordinates]:
        """Transform many points. Nothing is cached. A point that cannot be transformed becomes infinite.

        Raises:
            RequestError: PROJ does not know a CRS.
        """
        if source_crs == target_crs:
            return xs, ys
        source, target = _parse(source_crs, "crs"), _parse(target_crs, "crs")
        parts = [
            _part(xs[start : start + _N_TOGETHER], ys[start : start + _N_TOGETHER], source, target)
            for start in range(0, len(xs), _N_TOGETHER)
        ]
        new_xs, new_ys = zip(*parts, strict=True) if parts else ((xs,), (ys,))
        return np.concatenate(new_xs), np.concatenate(new_ys)

    def longitude(self, crs: str, x: float, y: float) -> float:
        """Return the longitude of a point in degrees. Errors as in `points`."""
        (longitude,), _ = self.points([x], [y], source_crs=crs, target_crs="EPSG:4326")
        return longitude

    def bounds(
        self, bounds: tuple[float, float, float, float], *, source_crs: str, target_crs: str
    ) -> tuple[float, float, float, float]:
        """Transform (west, south, east, north), following curved edges.

        Raises:
            RequestError: PROJ does not know a CRS, or the box cannot be transformed.
        """
        return _bounds(bounds, source_crs, target_crs)


def _part(xs: Coordinates, ys: Coordinates, source: Any, target: Any) -> tuple[Coordinates, Coordinates]:
    """Transform some points. PROJ refuses all of them because of a bad one, which is then looked for."""
    from rasterio.warp import transform  # noqa: PLC0415 # see above

    try:
        new_xs, new_ys = transform(source, target, xs, ys)
    except Exception:  # noqa: BLE001 # as in _points
        if len(xs) == 1:
            return np.array([np.inf]), np.array([np.inf])
        middle = len(xs) // 2
        halves = (slice(None, middle), slice(middle, None))
        parts = [_part(xs[half], ys[half], source, target) for half in halves]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    return np.asarray(new_xs, np.float64), np.asarray(new_ys, np.float64)


def _wkt2(parsed: Any) -> str:
    """Return a CRS as WKT 2, with its full name.

    GDAL marks deprecated CRSs by their names in WKT 1, but not in WKT 2. Without the mark it reads another
    CRS from the WKT: EPSG:3857 instead of ESRI:102113.
    """
    from rasterio.enums import WktVersion  # noqa: PLC0415 # see above

    wkt2: str = parsed.to_wkt(version=WktVersion.WKT2_2019)
    named = _NAME.match(wkt2)
    if named is None or f'["{named[2]}{_DEPRECATED}",' not in parsed.to_wkt():
        return wkt2
    return f"{named[1]}{named[2]}{_DEPRECATED}{wkt2[named.end() :]}"


def _authority_code(crs: str, parsed: Any) -> str | None:
    """Return ``AUTHORITY:CODE`` where the CRS is exactly the one of that code, else None."""
    from rasterio.crs import CRS  # noqa: PLC0415 # see above

    code = _EPSG.fullmatch(crs.strip())
    if code is not None:
        return f"EPSG:{int(code[1])}"
    authority = parsed.to_authority(confidence_threshold=100)
    if authority is None:
        return None
    return ":".join(authority) if CRS.from_authority(*authority) == parsed else None


@functools.lru_cache(maxsize=256)
def _parse(crs: str, field: str) -> Any:
    """Return rasterio's CRS."""
    from rasterio import Env  # noqa: PLC0415 # see above
    from rasterio.crs import CRS  # noqa: PLC0415 # see above
    from rasterio.errors import CRSError  # noqa: PLC0415 # see above

    try:
        with Env():  # otherwise GDAL writes errors to standard error
            parsed = CRS.from_user_input(crs)
            parsed.to_wkt()
    except (CRSError, ValueError) as error:
        shown = crs if len(crs) <= 80 else f"{crs[:77]}..."  # noqa: PLR2004 # a line's length
        raise RequestError(f"{shown!r} is no CRS that PROJ knows; give EPSG:n or WKT", field=field) from error
    return parsed


@functools.lru_cache(maxsize=4096)
def _points(
    xs: tuple[float, ...], ys: tuple[float, ...], source_crs: str, target_crs: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    from rasterio.warp import transform  # noqa: PLC0415 # see above

    if source_crs == target_crs:
        return xs, ys
    source, target = _parse(source_crs, "crs"), _parse(target_crs, "crs")
    try:
        new_xs, new_ys = transform(source, target, list(xs), list(ys))
    except Exception as error:  # rasterio's PROJ errors have no public class
        raise _no_way(source_crs, target_crs, error) from error
    return tuple(new_xs), tuple(new_ys)


@functools.lru_cache(maxsize=4096)
def _bounds(
    bounds: tuple[float, float, float, float], source_crs: str, target_crs: str
) -> tuple[float, float, float, float]:
    from rasterio.warp import transform_bounds  # noqa: PLC0415 # see above

    if source_crs == target_crs:
        return bounds
    source, target = _parse(source_crs, "crs"), _parse(target_crs, "crs")
    try:
        west, south, east, north = transform_bounds(source, target, *bounds, densify_pts=_EDGE_POINTS)
    except Exception as error:  # as in _points
        raise _no_way(source_crs, target_crs, error) from error
    return west, south, east, north


def _no_way(source_crs: str, target_crs: str, error: Exception) -> RequestError:
    said = str(error).partition("\n")[0]
    return RequestError(
        f"cannot be transformed from {source_crs[:80]} to {target_crs[:80]}: {said}", field="crs"
    )
