"""The options of commands that compute values of pixels: which scenes, which bands, which mask."""

from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_fields import split_bands
from pixel_gather_cli.request_options import collection_option, in_home, mask_option

MASK_OPTION: Final = click.option(
    "--mask", metavar="BAND:VALUES", help="Pixels to drop, such as scl:3,8,9 or qa_pixel:bits=3,4."
)
NAME_OPTIONS: Final = (
    click.option(
        "--bands", metavar="NAMES", help="Bands that the names in --by stand for, such as red=B4,nir=B5."
    ),
    click.option("--raw", is_flag=True, help="Use stored values, without scale and offset."),
)

SCENE_OPTIONS: Final = (
    click.option("--catalog", metavar="FILE", help="Scenes of what pixel-gather catalog wrote."),
    click.option("--stac", metavar="URL", help="Scenes of a STAC API."),
    click.option("--datetime", metavar="TIME", help="Only scenes of this time: 2024, or 2024-06/2024-08."),
    click.option("--where", metavar="TEXT", help="Only scenes that meet this, such as 'eo:cloud_cover<40'."),
    collection_option,
)


def scenes_of_options(
    list_file: str | None, options: dict[str, Any], *, what: str, field: str
) -> tuple[str | None, dict[str, Any]]:
    """Remove the options that look for scenes, and return them as ``catalog`` or ``stac`` of the sources.

    Errors call the list ``what``, and name the field.

    Returns:
        ``catalog`` or ``stac``, and its fields but for the assets; None with a list.
    """
    places = {name: options.pop(name) for name in ("catalog", "stac")}
    given = {name: options.pop(name) for name in ("datetime", "where", "collections")}
    given = {name: value for name, value in given.items() if value}
    named = {name: place for name, place in places.items() if place is not None}
    if (list_file is not None) + len(named) != 1:
        raise RequestError(f"give one of {what}, --catalog and --stac", field=field)
    if list_file is not None:
        if given:
            raise RequestError("use it only with --catalog or --stac", field=next(iter(given)))
        return None, {}
    ((kind, place),) = named.items()
    return kind, ({"file": in_home(place)} if kind == "catalog" else {"api": place}) | given


def bands_option(text: str) -> dict[str, str]:
    """Return the names that ``--bands`` says."""
    return split_bands(text, field="--bands")


def values_of_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of mask and names, and return ``mask``, ``bands`` and ``raw`` of the request."""
    mask, bands = options.pop("mask"), options.pop("bands")
    return {
        "mask": None if mask is None else mask_option(mask),
        "bands": None if bands is None else bands_option(bands),
        "raw": options.pop("raw"),
    }
