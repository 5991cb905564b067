"""The options that describe a request and this machine's settings.

What is wrong raises a `RequestError`, which names the option or the field. `main` prints it.
"""

import json
import os
import re
import sys
from pathlib import Path, PurePath
from typing import Any, Final, override

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.check_file_name import FileKind, check_file_name
from pixel_gather.core.request.href_policy import path_here, with_home
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.request.shape_bounds import Bounds, shape_bounds
from pixel_gather.core.request.wrong_values import LISTS
from pixel_gather.in_process.places import IS_FOLDER
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.store.regular_file import open_given_file
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.with_options import with_options


class Numbers(click.ParamType[Any]):
    """Numbers separated by commas: a fixed count of them, or any count."""

    name = "numbers"

    def __init__(self, names: str, *, kind: type[int] | type[float]) -> None:
        self.shown = names
        self.kind = kind
        self.wanted = None if names.endswith("...") else len(names.split(","))

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.shown

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list of numbers."""
        try:
            numbers = [self.kind(part) for part in str(value).split(",")]
        except ValueError:
            numbers = []
        if not numbers or (self.wanted is not None and len(numbers) != self.wanted):
            example = "" if param is None else LISTS.get(str(param.name), "").strip("[]").replace(" ", "")
            such_as = f"; write numbers with commas between, such as {example}" if example else ""
            self.fail(f"{value!r} is not {self.shown}{such_as}", param, ctx)
        return numbers


class Box(Numbers):
    """West, south, east and north. Of a file with a GeoJSON shape, the error says the box around it."""

    def __init__(self) -> None:
        super().__init__("W,S,E,N", kind=float)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list of numbers."""
        bounds = _bounds_in_file(str(value))
        if bounds is not None:
            box = ",".join(f"{each:.12g}" for each in bounds)
            self.fail(
                f"{value!r} holds a shape, and a window is a rectangle: give the box around the shape, {box}"
            )
        return super().convert(value, param, ctx)


def _bounds_in_file(path: str) -> Bounds | None:
    """Return the box around the shape in a GeoJSON file; None where there is none."""
    try:
        content = Path(path).read_text(encoding="utf-8") if Path(path).is_file() else "null"
        return shape_bounds(json.loads(content))
    except (OSError, ValueError, RecursionError):
        return None


collection_option = click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="ID",
    help="Only scenes of this collection. Can be repeated.",
)
"""The option ``--collection`` of commands that look for scenes."""


class Tile(Numbers):
    """COL,ROW or the word centre."""

    def __init__(self) -> None:
        super().__init__("COL,ROW", kind=int)
        self.shown = "COL,ROW|centre"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return [column, row] or the word."""
        return "centre" if value in ("centre", "center") else super().convert(value, param, ctx)


class LayoutOption(Numbers):
    """A layout by name, or ROWS,Y,X of the chunks."""

    def __init__(self) -> None:
        super().__init__("ROWS,Y,X", kind=int)
        self.shown = "balanced|slice|series|ROWS,Y,X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or the shape of a chunk."""
        if value in ("balanced", "slice", "series"):
            return value
        return {"chunk": super().convert(value, param, ctx)}


_GRIDS = "any|same|finest|coarsest|WIDTH"


def _parse_grid(text: str) -> str | dict[str, str | float]:
    """Return a grid by word, or an object with the resolution."""
    if text in ("any", "same"):
        return text
    try:
        return {"resolution": text if text in ("finest", "coarsest") else float(text)}
    except ValueError:
        raise click.BadParameter(f"{text!r} is not {_GRIDS}") from None


def _parse_resampling(text: str) -> str | dict[str, str]:
    """Return one way for all bands, or a way for each band that BAND=WAY names."""
    if "=" not in text:
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    return {band.strip(): way.strip() for band, _, way in pairs}


_NAMES = (
    click.option(
        "--time",
        metavar="PATTERN",
        help="Time in the hrefs, such as _%Y%m%d_, or auto. See ls.  [default: auto with --prefix]",
    ),
    click.option(
        "--band",
        metavar="PATTERN",
        help=r"Band in the hrefs, such as '_(B\d+)\.tif', or auto: files of one scene share a row. See ls.",
    ),
)
sign_option = click.option(
    "--sign",
    type=click.Choice(["planetary-computer", "earthdata"]),
    help="Service that gives tokens for the files; earthdata takes yours from EARTHDATA_TOKEN.",
)
_SOURCES = (
    click.option(
        "--sources", metavar="FILE", help="List file: text, CSV, JSONL or Parquet; - for standard input."
    ),
    click.option(
        "--prefix", metavar="PREFIX", help="All files below a folder or s3://bucket/prefix instead."
    ),
    click.option("--glob", metavar="PATTERN", help="Match the path below the prefix, such as '**/*_B4.TIF'."),
    click.option("--regex", metavar="PATTERN", help="Search this regular expression in the whole href."),
    *_NAMES,
    sign_option,
    click.option(
        "--index", metavar="FILE", help="Header index; saves a request per file. See pixel-gather index."
    ),
)
_SCENES = (
    click.option("--stac", metavar="URL", help="Scenes that this STAC API finds where the window lies."),
    click.option("--items", metavar="FILE", help="Scenes of a file of STAC items instead."),
    click.option("--catalog", metavar="FILE", help="Scenes of what pixel-gather catalog wrote instead."),
    click.option(
        "--assets", metavar="NAMES", help="Assets to read of each scene, such as red,nir or nir=B08,scl."
    ),
    collection_option,
    click.option("--datetime", metavar="TIME", help="Only scenes of this time: 2024, or 2024-06/2024-08."),
    click.option("--where", metavar="TEXT", help="Only scenes that meet this, such as 'eo:cloud_cover<40'."),
)
_SCENE_FIELDS = {"stac": ("stac", "api"), "items": ("stac", "items"), "catalog": ("catalog", "file")}
"""Option to kind and field of ``sources``."""

_WINDOW = (
    click.option("--tile", type=Tile(), help="One tile of each source's own tiling: its column and row."),
    click.option("--pixels", type=Numbers("COL,ROW,WIDTH,HEIGHT", kind=int), help="A window of pixels."),
    click.option("--bbox", type=Box(), help="All pixels that a box touches."),
    click.option("--point", type=Numbers("LON,LAT", kind=float), help="The pixels around a point."),
    click.option(
        "--windows",
        metavar="FILE",
        help="Many windows, each around a point of this table: chips. Needs --size.",
    ),
    click.option(
        "--sample", type=int, metavar="N", help="Draw N chips at random from the polygons of --windows."
    ),
    click.option(
        "--seed",
        type=int,
        metavar="N",
        help="Seed of --sample's random numbers. The same seed draws the same chips.  [default: 0]",
    ),
    click.option(
        "--strata", metavar="COLUMN", help="As many chips of --sample for each value of this column."
    ),
    click.option(
        "--spacing",
        type=float,
        metavar="UNITS",
        help="Chips on a lattice in the polygons of --windows: at whole multiples in --crs.",
    ),
    click.option("--size", type=Numbers("W,H", kind=int), help="Pixels around the point.  [default: 1,1]"),
    click.option(
        "--crs",
        metavar="CRS",
        help="CRS of --bbox, --point and --windows; 'source' of the first two.  [default: EPSG:4326]",
    ),
)


def _parse_overview(text: str) -> int | str:
    """Return a number, or the word auto."""
    try:
        return "auto" if text == "auto" else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a whole number nor auto") from None


_PIXELS = (
    click.option("--bands", type=Numbers("1,2,...", kind=int), help="Bands of each source.  [default: all]"),
    click.option(
        "--overview",
        type=_parse_overview,
        metavar="N",
        help="Read this overview; 0 is the largest. With a grid, auto reads the one that fits.",
    ),
    click.option("--masked", is_flag=True, help="Set pixels hidden by a source's own mask to nodata."),
    click.option("--nodata", type=float, metavar="VALUE", help="Nodata if the sources declare none."),
    click.option(
        "--mask", metavar="BAND:VALUES", help="Hide pixels, such as scl:3,8,9 or qa_pixel:bits=3,4."
    ),
    click.option("--dilate", type=int, metavar="N", help="Hide N pixels around those of --mask, too."),
    click.option(
        "--values",
        type=click.Choice(["raw", "harmonised", "scaled"]),
        help="Whether pixels get one scale and offset, or become what they stand for.  [default: raw]",
    ),
    click.option(
        "--reduce",
        metavar="BY:STATISTIC",
        help="One row for each day, solar-day, month, year or value of a column, such as month:median, "
        "year:p90 or day:first.",
    ),
    click.option(
        "--reduce-order",
        metavar="COLUMN",
        help="Order of the scenes for first and last of --reduce, the least first; -COLUMN: the most first.",
    ),
    click.option(
        "--grid",
        type=_parse_grid,
        metavar=_GRIDS,
        help="Accept any grid, or only one; or give all sources pixels of this width, in units of their CRS.",
    ),
    click.option(
        "--grid-crs",
        metavar="CRS",
        help="Warp all sources onto --grid WIDTH in this CRS: EPSG:n, or utm for the window's zone.",
    ),
    click.option(
        "--like",
        metavar="PLACE",
        help="Warp all sources onto the pixels of this cube or GeoTIFF. They are the window, too.",
    ),
    click.option(
        "--resampling",
        type=_parse_resampling,
        metavar="WAY|BAND=WAY,...",
        help="How finer pixels become one of --grid: average, mode or nearest, for all bands or by name. "
        "With --grid-crs or --like: nearest, bilinear or cubic.",
    ),
)
_OUTPUT = (
    click.option(
        "--append-to",
        metavar="CUBE",
        help="Add rows to this cube: a folder, s3://bucket/prefix, or on AWS its name.",
    ),
    click.option(
        "--duplicates",
        type=click.Choice(["skip", "again", "fail"]),
        help="Sources that the cube has already.  [default: skip]",
    ),
    click.option(
        "--failed-rows",
        type=click.Choice(["retry", "retry_all", "keep"]),
        help="Rows of --append-to whose sources could not be read.  [default: retry]",
    ),
    click.option(
        "--expected-rows",
        type=int,
        metavar="N",
        help="Rows that the cube will have after later appends, for the layout.",
    ),
    click.option("--layout", type=LayoutOption(), help="Chunks of the cube.  [default: balanced]"),
    click.option(
        "--codec",
        type=click.Choice(["blosc-lz4", "blosc-zstd", "zstd", "none", "zfp", "source"]),
        help="Compression of the cube.  [default: blosc-lz4]",
    ),
    click.option(
        "--band-axis", is_flag=True, help="One array with an axis of bands, instead of one for each band."
    ),
    click.option("--no-sharding", is_flag=True, help="Objects of one chunk each, for GDAL 3.12."),
    click.option("--archive", metavar="NAME", help="Make a cube like the others of this archive."),
    click.option("--zfp-tolerance", type=float, metavar="ERROR", help="Largest error with --codec zfp."),
    click.option(
        "--no-report",
        is_flag=True,
        help="Draw no report. 'pixel-gather report CUBE --to DIR' draws it later.",
    ),
    click.option(
        "--times-source",
        type=float,
        metavar="N",
        help="Refuse a window more than N times as large as the largest source.  [default: 16]",
    ),
    click.option("--max-usd", type=float, metavar="USD", help="Refuse a plan that costs more on AWS."),
)
_SUFFIXES_OF_IMAGES = {".jp2", ".tif", ".tiff", ".vrt"}
_SUFFIXES_OF_LISTS = {".csv", ".gz", ".jsonl", ".parquet", ".txt"}
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
_ENDPOINT = re.compile(r"https?://[\w.-]+(:\d{1,5})?(/[\w./~-]*)?|https?://\[[0-9a-fA-F:.]+\](:\d{1,5})?/?")
_STORES = (
    click.option("--region", metavar="REGION", help="AWS Region of the buckets."),
    click.option("--profile", metavar="NAME", help="AWS profile."),
    click.option("--endpoint", metavar="URL", help="S3 endpoint, instead of AWS's."),
    click.option("--unsigned", is_flag=True, help="Send no credentials: for public buckets."),
    click.option("--requester-pays", is_flag=True, help="Pay for the requests (requester-pays buckets)."),
)
_READING = (
    click.option(
        "--concurrency",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Sources read at one time, for experiments.  [default: adapts while reading]",
    ),
    click.option(
        "--header-bytes",
        type=click.IntRange(16, 16 * 2**20),
        metavar="N",
        help="Bytes of the first read of each source.  [default: adapts, from 16384]",
    ),
)

request_options = with_options(
    click.argument("request_file", metavar="[REQUEST]", required=False),
    *_SOURCES,
    *_SCENES,
    *_WINDOW,
    *_PIXELS,
    *_OUTPUT,
)
"""Adds REQUEST and the options that replace its fields."""

name_options = with_options(*_NAMES)
"""Adds the options that say what is read from the names of files."""

store_options = with_options(*_STORES)
"""Adds the options for access to object stores."""

settings_options = with_options(*_STORES, *_READING)
"""Adds the options for access to object stores and for reading."""


def request_of(options: dict[str, Any], given: dict[str, Any] | None = None) -> GatherRequest:
    """Remove the request's options from a command's options and return the request.

    An option replaces the same field of the REQUEST file. The file is not read again if ``given`` is what it
    holds.
    """
    file = options.pop("request_file")
    given = read_request_file(file, fields="sources and window") if given is None else given
    for name in ("sources", "prefix", "index", "catalog", "items", "append_to", "windows"):
        options[name] = in_home(options[name])
    sources = _taken(options, "prefix", "glob", "regex", "time", "band", list="sources")
    scenes = _taken_scenes(options)
    sign = _taken(options, "sign")
    windows = _taken_windows(options)
    output = _taken_output(options)
    limits = _taken(options, "times_source", usd="max_usd")
    others = _taken(
        options,
        *("bands", "overview", "masked", "nodata", "values", "index", "duplicates", "failed_rows"),
    )
    others |= _taken_mask(options, given.get("mask"))
    others |= _taken_reduce(options, given.get("reduce"))
    others |= _taken_grid(options, given.get("grid"))
    nodata = others.get("nodata")
    if isinstance(nodata, float) and nodata.is_integer():
        others["nodata"] = int(nodata)
    if sources and sources.keys() <= {"time", "band"}:
        given["sources"] = _as_object(given.get("sources")) | sources
    elif sources or scenes:
        given["sources"] = sources | scenes
    if sign:
        given["sources"] = _as_object(given.get("sources")) | sign
    given |= windows
    for name, part in (("output", output), ("limits", limits)):
        if part:
            given[name] = {**object_in(given, name), **part}
    if not (given or others):
        raise RequestError("give a REQUEST file, or --sources and a window; see --help", field="request")
    return parse_request(_fill_like(given | others, options))


def _fill_like(given: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return a request with the grid of the place that it names, if it does.

    The place is read as the other options say. A command that reads nothing else here has none of them.
    """
    grid = given.get("grid")
    if not (isinstance(grid, dict) and "like" in grid):
        return given
    from pixel_gather.features.gather.like_grid import fill_like  # noqa: PLC0415 # it takes 0.3 s
    from pixel_gather.io.event_loop import run  # noqa: PLC0415 # as above

    settings = Settings(stores=stores_of(dict(options))) if "endpoint" in options else Settings()
    return run(fill_like(given, settings))


def _taken_grid(options: dict[str, Any], given: Any) -> dict[str, Any]:
    """Remove the options of the grid, and return the field. Both others may join the grid of the file."""
    grid, like = options.pop("grid"), in_home(options.pop("like"))
    if like is not None:
        if grid is not None or options["grid_crs"] is not None:
            raise RequestError("it says all of the grid; leave --grid and --grid-crs out", field="--like")
        grid = {"like": like}
    for name, where in (("crs", "WIDTH"), ("resampling", "WIDTH, finest or coarsest")):
        option = "grid_crs" if name == "crs" else name
        if (asked := options.pop(option)) is None:
            continue
        grid = given if grid is None else grid
        if not isinstance(grid, dict):
            raise RequestError(f"use it only with --grid {where}", field=f"--{option.replace('_', '-')}")
        grid = grid | {name: asked}
    return {} if grid is None else {"grid": grid}


def _taken_windows(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of the window, or of many, and return the fields that they fill."""
    window = _taken(options, "tile", "pixels", "bbox", "point", "size", "crs")
    windows = _taken(options, "sample", "seed", "strata", "spacing", table="windows")
    if "table" in windows:
        windows |= {name: window.pop(name) for name in ("size", "crs") if name in window}
    return {name: part for name, part in (("window", window), ("windows", windows)) if part}


def _taken_mask(options: dict[str, Any], given: Any) -> dict[str, Any]:
    """Remove the options of the mask, and return the field. --dilate may change the mask of the file."""
    text, dilate = options.pop("mask"), options.pop("dilate")
    mask = given if text is None else mask_option(text)
    if dilate is not None:
        if not isinstance(mask, dict):
            raise RequestError("use it only with --mask", field="--dilate")
        mask = mask | {"dilate": dilate}
    return {} if mask is None else {"mask": mask}


def _taken_reduce(options: dict[str, Any], given: Any) -> dict[str, Any]:
    """Remove the options that reduce scenes to rows, and return the field."""
    text, order = options.pop("reduce"), options.pop("reduce_order")
    if text is not None:
        by, _, statistic = text.rpartition(":")
        if not by:
            raise RequestError(f"{text!r} is not BY:STATISTIC, such as month:median", field="--reduce")
        given = {"by": by, "statistic": statistic}
    if order is not None:
        if not isinstance(given, dict):
            raise RequestError("use it only with --reduce", field="--reduce-order")
        given = given | {"order": order}
    return {} if given is None else {"reduce": given}


def _taken_output(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of the cube, and return them as ``output``."""
    flags: dict[str, dict[str, Any]] = {
        "no_report": {"report": False},
        "band_axis": {"bands": "axis"},
        "no_sharding": {"sharding": False},
    }
    flagged = [given for name, given in flags.items() if options.pop(name)]
    output = _taken(options, "append_to", "archive", "expected_rows", "layout", "codec", "zfp_tolerance")
    return {name: value for given in (output, *flagged) for name, value in given.items()}


def _taken_scenes(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options that look for scenes, and return them as a part of ``sources``."""
    given = _taken(options, "stac", "items", "catalog", "assets", "datetime", "where", "collections")
    places = {name: given.pop(name) for name in _SCENE_FIELDS if name in given}
    if not given.get("collections"):
        given.pop("collections", None)
    if not places:
        if given:
            raise RequestError("use it only with --stac, --items or --catalog", field=next(iter(given)))
        return {}
    given["assets"] = _assets(given.get("assets", ""))
    found: dict[str, dict[str, Any]] = {}
    for name, place in places.items():
        kind, field = _SCENE_FIELDS[name]
        found.setdefault(kind, dict(given))[field] = place
    return found


def _assets(text: str) -> dict[str, str]:
    """Return bands and assets of ``red,nir=B08``."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if not pairs:
        raise RequestError("say what is read of each scene, such as red,nir", field="--assets")
    return {band.strip(): (asset or band).strip() for band, _, asset in pairs}


def in_home[Text: str | None](place: Text) -> Text:
    """Replace ``~/`` by the home folder. A shell does not do it in ``--to=~/x``."""
    return None if place is None else with_home(place)  # type: ignore[return-value] # a str where a str came


_WRITTEN: Final[dict[str, tuple[str, FileKind]]] = {
    "html": ("the page", "HTML"),
    "parquet": ("the table", "Parquet"),
    "wide": ("the wide table", "CSV"),
}
"""What each option writes, and the kind of the file."""


def folder_here(_context: click.Context, option: click.Parameter, folder: str) -> Path:
    """Refuse an address on S3: the callback of an option that names a folder of this machine."""
    return path_here(folder, option.opts[0], said="the folder is")


def file_here(_context: click.Context, option: click.Parameter, file: str | None) -> Path | None:
    """Refuse an address on S3: the callback of an option that names a file of this machine."""
    return None if file is None else path_here(file, option.opts[0], said="the file is")


def check_folders(**files: str | None) -> None:
    """Refuse a file that is to be written where no folder is, or where a folder of its name is.

    A file with the suffix of another kind of file is refused, too: it may be a list or a table. The files
    come by the names of their options.
    """
    for option, file in files.items():
        if file is None:
            continue
        what, kind = _WRITTEN[option]
        path = path_here(file, f"--{option}", said=f"{what} is")
        if not path.parent.is_dir():
            raise RequestError(f"there is no folder {path.parent}", field=f"--{option}")
        if path.is_dir():
            raise RequestError(IS_FOLDER, field=f"--{option}")
        check_file_name(file, what=what, kind=kind, field=f"--{option}")


def read_geojson(file: str) -> Any:
    """Return what the file of ``--geojson`` holds."""
    try:
        return json.loads(_read_text(in_home(file)))
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", field="--geojson") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{file} is no GeoJSON file: {error}", field="--geojson") from error


def _read_text(file: str) -> str:
    with open_given_file(file) as opened:
        return opened.read().decode()


def stores_of(options: dict[str, Any]) -> StoreSettings:
    """Remove the object store options from a command's options and return the settings."""
    for name in _ENDPOINTS:
        _check_endpoint(os.environ.get(name), name)
    _check_endpoint(options["endpoint"], "--endpoint")
    names = ("region", "profile", "endpoint", "unsigned", "requester_pays")
    return StoreSettings(**{name: options.pop(name) for name in names})


def _check_endpoint(url: str | None, field: str) -> None:
    """Refuse a bad address, with which obstore would panic at the first request."""
    if url and not _ENDPOINT.fullmatch(url):
        raise RequestError(f"{url!r} is not an address such as https://host or http://host:9000", field=field)


def settings_of(options: dict[str, Any]) -> Settings:
    """Remove the settings from a command's options and return them."""
    return Settings(
        stores=stores_of(options),
        concurrency=options.pop("concurrency"),
        header_nbytes=options.pop("header_bytes"),
    )


def _taken(options: dict[str, Any], *same: str, **names: str) -> dict[str, Any]:
    """Remove options and return the given ones by the request's names.

    ``same`` have the name of their field; ``names`` are others, by their fields.
    """
    option_of = {name: name for name in same} | names
    values = {field: options.pop(option) for field, option in option_of.items()}
    return {field: value for field, value in values.items() if value is not None and value is not False}


def _as_object(sources: Any) -> dict[str, Any]:
    """Return a request's sources in their long form."""
    if isinstance(sources, dict):
        return sources
    return {} if sources is None else {"list" if isinstance(sources, str) else "hrefs": sources}


def object_in(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object of a request; an empty one if there is none."""
    part = given.get(name)
    return part if isinstance(part, dict) else {}


def read_request_file(file: str | None, *, fields: str) -> dict[str, Any]:
    """Read a request from YAML or JSON.

    The file is a path, - for standard input, or None for an empty request. The error says which fields it has
    at least.
    """
    if file is None:
        return {}
    import yaml  # noqa: PLC0415 # 12 ms that options alone do not need

    try:
        text = sys.stdin.read() if file == "-" else _read_text(file)
        given = yaml.load(text, Loader=_loader(yaml))  # noqa: S506 # a safe loader, stricter
    except UnicodeDecodeError as error:
        raise _no_request("this is no text: a REQUEST is written in YAML or JSON", file) from error
    except OSError as error:
        is_a_name = isinstance(error, FileNotFoundError) and not Path(file).suffix and "/" not in file
        aws = f"; REQUEST is a file, and pixel-gather status {file} shows a gather on AWS"
        said = f"the request cannot be read: {error.strerror or error}{aws if is_a_name else ''}"
        raise _no_request(said, file) from error
    except yaml.constructor.ConstructorError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise RequestError(f"{error.problem}{where}", field=file) from error
    except RecursionError as error:
        raise _no_request("is nested too deep to be a request", file) from error
    except yaml.YAMLError as error:
        said = " ".join(str(error).split()).replace('in "<unicode string>", ', "in ")
        raise _no_request(f"is neither JSON nor YAML: {said}", file) from error
    if not isinstance(given, dict):
        raise _no_request(f"it must be an object with at least {fields}", file)
    return given


def _no_request(said: str, file: str) -> RequestError:
    suffix = PurePath(file).suffix.lower()
    if suffix in _SUFFIXES_OF_LISTS:
        said = f"this is a list, not a REQUEST: write --sources {file}"
    elif suffix in _SUFFIXES_OF_IMAGES:
        said = "this is an image, not a REQUEST: write its name into a file, and --sources with that file"
    elif "://" in file:
        said = "a REQUEST is a file on this machine: copy it here first"
    elif Path(in_home(file)).is_dir():
        said = f"this is a folder, not a REQUEST: write --prefix {file} to read the files in it"
    return RequestError(said, field=file)


def _loader(yaml: Any) -> Any:
    """Return YAML's safe loader, changed: it reads numbers as JSON does, and dates as texts.

    It refuses a key that is no text, or that is given twice.
    """

    class NoKeyTwice(yaml.SafeLoader):  # type: ignore[misc] # the module comes as an argument
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 # YAML's own
            names: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str) or key.value in names:
                    is_text = isinstance(key.value, str)
                    said = f"{key.value} is there twice; leave one out" if is_text else "write text as a name"
                    raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                names.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return found

    # a date stays a text, as in JSON
    NoKeyTwice.yaml_implicit_resolvers = {
        first: [each for each in kinds if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, kinds in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    # YAML 1.1 takes 1e-9 and 1.5e3 for texts, JSON for a number
    NoKeyTwice.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d+)?[eE][-+]?\d+$"), list("-+0123456789")
    )
    return NoKeyTwice


def mask_option(text: str) -> dict[str, Any]:
    """Return the mask that ``--mask`` says."""
    band, _, values = text.rpartition(":")
    kind, equals, bits = values.partition("=")
    try:
        numbers = [int(part) for part in (bits if equals else values).split(",")]
    except ValueError:
        numbers = []
    if not band or not numbers or (equals and kind != "bits"):
        raise RequestError(f"{text!r} is not BAND:3,8,9 or BAND:bits=3,4", field="--mask")
    return {"band": band, "bits" if equals else "drop": numbers}
