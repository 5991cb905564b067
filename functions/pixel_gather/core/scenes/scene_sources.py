"""From scenes to the sources of a gather: one source for each asset that is wanted. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import unquote

from msgspec import Struct

from pixel_gather.core.area import finite, unwrap_box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandClass, BandMeaning, kept_unit
from pixel_gather.core.scene_conditions import CLOUD_COVER
from pixel_gather.core.scenes.acquisition import pass_of
from pixel_gather.core.scenes.duplicates import OF_DUPLICATES
from pixel_gather.core.scenes.item import find_asset, scene_key
from pixel_gather.core.time_range import before_utc_us, format_moment

type Item = Mapping[str, Any]
type Address = Literal["asset", "s3", "https"]
type RowRule = Literal["item", "solar-day", "datatake"]

_ALTERNATES: Final = ("alternate", "alternates")
_COLUMNS: Final[dict[str, str]] = {
    "eo:cloud_cover": "cloud_cover",
    "platform": "platform",
    "grid:code": "grid_code",
    "s2:mgrs_tile": "mgrs_tile",
    "view:sun_elevation": "sun_elevation",
    "s2:processing_baseline": "processing_baseline",
}
"""Properties that become columns of the list, and so coordinates of the cube."""


_OFFSET_APPLIED: Final = "earthsearch:boa_offset_applied"
"""Earth Search: the pixels have the offset already, though the item still claims it."""

_NEEDED: Final = frozenset(
    {
        *(*_COLUMNS, *OF_DUPLICATES, _OFFSET_APPLIED, CLOUD_COVER),
        *("datetime", "start_datetime", "end_datetime"),
    }
)
_MOST_DIGITS: Final = 9
"""Longest number of a band."""

_LONGEST_NAME: Final = 128
"""Longest name of a class that is kept."""

_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
_ON_AWS: Final = re.compile(
    r"https://(?:(?P<bucket>[^/?]{1,255})\.)?s3(?:[.-][a-z0-9]+)*\.amazonaws\.com(?:\.cn)?/(?P<path>[^?#]+)"
)
"""The bucket is in the host, or at the beginning of the path."""


class AssetChoice(Struct, frozen=True, kw_only=True):
    """One band of the cube: which asset it is read from."""

    band: str
    """The measurement's name in the cube."""

    asset: str
    """An asset's key, or the common name of a band of it."""

    number: int | None = None
    """Which band of an asset with several, from 1."""


class SceneSource(Struct, frozen=True, kw_only=True):
    """One row of the list that a search leaves."""

    href: str | None
    """None where the scene has no such asset: the row is absent in the cube."""

    time_us: int
    band: str
    scene: str
    columns: Mapping[str, str | float | int | bool | None]
    """Among them the scale, offset and nodata that the item claims, where it does."""


def asset_choices(
    given: Mapping[str, str] | tuple[str, ...], *, field: str = "assets"
) -> tuple[AssetChoice, ...]:
    """Return the wanted assets: a mapping of band to asset, or names that are both.

    ``visual:2`` means the second band of the asset ``visual``. Where it has no name of its own, the cube's
    band is ``visual_2``.

    Raises:
        RequestError: There is none, or two bands of the cube have one name.
    """
    pairs = (
        given.items()
        if isinstance(given, Mapping)
        else ((name.replace(":", "_") if _number(name) else name, name) for name in given)
    )
    choices = tuple(
        AssetChoice(band=band, asset=_asset(asset), number=_number(asset)) for band, asset in pairs
    )
    if not choices:
        raise RequestError("name at least one asset, such as red or B04", field=field)
    names = [choice.band for choice in choices]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RequestError(f"two of them would be the band {twice}; name each band once", field=field)
    return choices


def band_numbers(choices: tuple[AssetChoice, ...]) -> dict[str, int]:
    """Return which band of its asset each band of the cube is, where the request says so, from 1."""
    return {choice.band: choice.number for choice in choices if choice.number is not None}


def sources_of(
    item: Item, choices: tuple[AssetChoice, ...], *, address: Address = "asset"
) -> Iterator[SceneSource]:
    """Yield one source for each wanted asset of a scene; those that it lacks come without an href."""
    key = scene_key(item, name="item")
    properties = item["properties"]
    columns = {
        column: properties[name]
        for name, column in _COLUMNS.items()
        if isinstance(properties.get(name), str | int | float)
    }
    for choice in choices:
        asset = find_asset(item["assets"], choice.asset)
        claims = {} if asset is None else _claims(asset, choice)
        if properties.get(_OFFSET_APPLIED) is True:
            claims.pop("offset_claimed", None)
        yield SceneSource(
            href=None if asset is None else address_of(asset, address),
            time_us=key.start_us,
            band=choice.band,
            scene=key.id,
            columns={"collection": key.collection or None} | columns | claims,
        )


def row_of(item: Item, rule: RowRule) -> str:
    """Return the name of the cube's row that a scene belongs to; scenes of one name share it.

    Args:
        item: The scene.
        rule: ``item``: each scene by itself. ``solar-day``: all scenes of a collection and a day by the sun
            at their place. ``datatake``: all scenes of one pass of the satellite, whatever the version of
            their processing; a scene that names none is by itself.
    """
    key = scene_key(item, name="item")
    if rule == "item":
        return key.id
    if rule == "datatake":
        return str(pass_of(item["properties"]) or key.id)
    west, _, east, _ = unwrap_box(key.box)
    day = format_moment(key.start_us + before_utc_us((west + east) / 2))[:10]
    return f"{key.collection} {day}".lstrip()


def slim_item(item: Item, choices: tuple[AssetChoice, ...], *, properties: Sequence[str] = ()) -> Item:
    """Return what is needed of a scene to find its sources and duplicates. So many scenes take little memory.

    ``all_assets`` names all assets that the scene has.

    Args:
        item: The scene.
        choices: The assets that are read of it.
        properties: Names of further properties that are needed.

    Raises:
        RequestError: It is no scene.
    """
    key = scene_key(item, name="item")
    assets = {
        choice.asset: asset
        for choice in choices
        if (asset := find_asset(item["assets"], choice.asset)) is not None
    }
    needed = {
        name: value for name, value in item["properties"].items() if name in _NEEDED or name in properties
    }
    return {
        "id": key.id,
        "collection": item.get("collection"),
        "bbox": list(key.box),
        "properties": needed,
        "assets": assets,
        "all_assets": tuple(map(str, item["assets"])),
    }


def address_of(asset: Mapping[str, Any], wanted: Address) -> str:
    """Return an asset's address of the wanted kind, or else its main one.

    Alternate addresses are those of the alternate-assets extension.
    """
    first = str(asset["href"])
    if wanted == "asset" or first.startswith(f"{wanted}://"):
        return first
    for name in _ALTERNATES:
        alternates = asset.get(name)
        for each in alternates.values() if isinstance(alternates, Mapping) else ():
            href = each.get("href") if isinstance(each, Mapping) else None
            if isinstance(href, str) and href.startswith(f"{wanted}://"):
                return href
    return _as_s3(first) if wanted == "s3" else first


def _as_s3(href: str) -> str:
    """Return the S3 address of an object that is named by its web address on AWS."""
    if (match := _ON_AWS.fullmatch(href)) is None:
        return href
    bucket, _, key = f"{match['bucket'] or ''}/{match['path']}".lstrip("/").partition("/")
    return f"s3://{bucket}/{unquote(key)}" if key else href


def meaning_in(item: Item, choice: AssetChoice) -> BandMeaning:
    """Return what an item says of a band: classes by STAC's classification extension, and its unit."""
    asset = find_asset(item["assets"], choice.asset)
    places = [] if asset is None else _places(asset, choice)
    told = next((each["classification:classes"] for each in places if "classification:classes" in each), ())
    found = [_class(each) for each in told] if isinstance(told, list) else []
    units = [place.get(key) for place in places for key in ("raster:unit", "unit")]
    unit = next((kept_unit(each) for each in units if isinstance(each, str)), "")
    return BandMeaning(unit=unit).with_classes(each for each in found if each is not None)


def _class(told: object) -> BandClass | None:
    value = told.get("value") if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(value, int) or isinstance(value, bool):
        return None
    names = (told.get(key) for key in ("title", "name", "description"))
    name = next((each for each in names if isinstance(each, str) and each), None)
    colour = f"#{told.get('color_hint')}".lower()
    return BandClass(
        value=value,
        name=None if name is None else name[:_LONGEST_NAME],
        colour=colour if _COLOUR.fullmatch(colour) else None,
    )


def _claims(asset: Mapping[str, Any], choice: AssetChoice) -> dict[str, float]:
    """Return the scale, offset and nodata that an item claims of a band, in STAC 1.1 or by its extensions."""
    places = _places(asset, choice)
    found: dict[str, float] = {}
    for name, column in (
        ("scale", "scale_claimed"),
        ("offset", "offset_claimed"),
        ("nodata", "nodata_claimed"),
    ):
        values = [place.get(key) for place in places for key in (f"raster:{name}", name)]
        number = next((each for value in values if (each := finite(value)) is not None), None)
        if number is not None:
            found[column] = number
    return found


def _places(asset: Mapping[str, Any], choice: AssetChoice) -> list[Mapping[str, Any]]:
    """Return what describes a band: the band's own descriptions, then the asset's."""
    position = (choice.number or 1) - 1
    places = [asset]
    for field in ("bands", "raster:bands"):
        bands = asset.get(field)
        if isinstance(bands, list) and position < len(bands) and isinstance(bands[position], Mapping):
            places.insert(0, bands[position])
    return places


def _asset(text: str) -> str:
    return text.rpartition(":")[0] if _number(text) is not None else text


def _number(text: str) -> int | None:
    name, _, number = text.rpartition(":")
    is_number = number.isdecimal() and len(number) <= _MOST_DIGITS
    return int(number) if name and is_number and int(number) > 0 else None
