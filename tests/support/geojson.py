"""Features as GeoJSON."""

from collections.abc import Iterable
from typing import Any


def feature(geometry: Any, **properties: Any) -> dict[str, Any]:
    """Return a geometry with properties."""
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def polygon(*ring: Iterable[float]) -> dict[str, Any]:
    """Return a polygon without holes."""
    return {"type": "Polygon", "coordinates": [[list(each) for each in ring]]}


def collection(features: Iterable[Any]) -> dict[str, Any]:
    """Return features, or STAC items, as one document."""
    return {"type": "FeatureCollection", "features": list(features)}
