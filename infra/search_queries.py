"""The paths of the search function, with the parameters that API Gateway passes on. It needs no CDK."""

from typing import Final

_FILTERS: Final = ("datetime", "assets", "cloud_below", "where", "duplicates", "expand", "token")
_SEARCH: Final = ("bbox", "intersects", "datetime", "ids", "collections", "query", "limit", "token")


def search_queries() -> dict[str, tuple[str, ...]]:
    """Return the paths of the search function, from the landing page on, with their parameters."""
    return {
        "": (),
        "area": ("lat1", "lng1", "lat2", "lng2", "lat", "lng", *_FILTERS),
        "scenes": ("bbox", "point", "intersects", "ids", "collections", "limit", *_FILTERS),
        "search": _SEARCH,
        "conformance": (),
        "collections": (),
        "collections/{name}": (),
        "collections/{name}/items": tuple(each for each in _SEARCH if each != "collections"),
        "collections/{name}/items/{item}": (),
    }
