"""Opens the files of one row of the list, and reads the values of all its bands at pixels."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.scaling import Scaling
from pixel_gather.core.model.source import Cost, CubeRow, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.ports import LevelledSource, LevelReader, SourceLimiter, opening_in_time
from pixel_gather.core.task_group import all_of
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Floats, Integers
from pixel_gather.tables.find_bands import BandFinder, BandOf, scene_name
from pixel_gather.tables.read_bands import Mask, Stored, check_band
from pixel_gather.tables.sample_at_pixels import Sampler, TileRun
from pixel_gather.tables.table_values import Value, Values

_MASK: Final = "\0mask"
"""Name of the mask among bands. No band has it."""


class ImageAccess(Struct, frozen=True, kw_only=True):
    """What opens the images of one list."""

    bands: tuple[str, ...]
    """The list's."""

    band_numbers: Mapping[str, int]
    """Number of the band to read, from 1, by the name of a band whose asset has one, such as ``rgb:3``."""

    reader: LevelReader
    limiter: SourceLimiter
    projector: RasterioProjector
    timeout_s: float


class PixelsAt(NamedTuple):
    """The pixels of one image that are wanted."""

    which: Integers | None
    """Which of the wanted positions lie on the image; None for all of them."""

    runs: Sequence[TileRun]


class Positions(Protocol):
    """Says where the wanted positions are on an image."""

    def on(self, header: Header) -> PixelsAt:
        """Return the pixels of one image.

        Raises:
            SourceError: They cannot be found on it.
        """


class SceneBand(Struct, frozen=True):
    """A band whose file is open."""

    of: BandOf
    opened: LevelledSource
    scaling: Scaling


class OpenedScene(Struct, frozen=True, kw_only=True):
    """The files of one row, open."""

    id: str
    bands: Mapping[str, SceneBand]
    """By their names in expressions."""

    mask: SceneBand | None
    etags: tuple[str | None, ...]

    def unit_of(self, value: Value) -> str:
        """Return the unit of a value that is a band alone, as its file says; empty for all others.

        Stored values have none if they are not physical ones.
        """
        if not value.expression.is_linear:
            return ""
        band = self.bands[value.expression.names[0]]
        header, number = band.opened.header, band.of.number
        whole = Scaling.of(header, number, band.of.source, raw=False)
        is_physical = (band.scaling.scale, band.scaling.offset) == (whole.scale, whole.offset)
        return header.meaning(number).unit if is_physical else ""

    @property
    def finest(self) -> Header:
        """The header of the band with the smallest pixels; of several, the first."""
        headers = [each.opened.header for each in self.bands.values()]
        return min(headers, key=lambda header: 0.0 if header.transform is None else _pixel_area(header))


class _StoredBand(Struct, frozen=True):
    """A band at the wanted positions, as it is stored."""

    stored: Stored
    is_valid: Mask
    scaling: Scaling


class SceneValues(Struct, frozen=True, kw_only=True):
    """The values of all bands of a scene at the wanted positions."""

    stored: Mapping[str, _StoredBand]
    is_kept: Mask | None
    """Where the mask keeps a pixel; None without a mask."""

    status: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    """Of each position: a `Status`."""

    reasons: Mapping[int, str] = {}
    """Why, by status."""

    def bands(self, part: slice = slice(None)) -> Mapping[str, Floats]:
        """Return the physical values of each band at some positions; NaN where there is no data."""
        return {
            name: np.asarray(each.scaling.apply(each.stored[part], each.is_valid[part]), np.float64)
            for name, each in self.stored.items()
        }


class ImagePlan(Struct, frozen=True, kw_only=True):
    """What one image would take."""

    n_lines: int
    n_tiles: int
    n_requests: int
    nbytes: int
    decoded_nbytes: int
    """Of the tiles."""


async def open_scene(row: CubeRow, *, values: Values, access: ImageAccess, cost: Cost) -> OpenedScene:
    """Open the files of a row: one request for each, and no pixel.

    Raises:
        SourceError: A file cannot be opened, or lacks the band.
        RequestError: The list has no such band.
    """
    finder = BandFinder.of(row, bands=access.bands, numbers=access.band_numbers, given=values.bands)
    wanted, mask, missing = finder.bands(values.names, values.mask)
    if missing is not None:
        raise SourceError(missing, href="", status=Status.ABSENT)
    hrefs = tuple(dict.fromkeys(each.source.href for each in [*wanted.values(), *([mask] if mask else [])]))

    async def open_(href: str) -> LevelledSource:
        n_before = cost.needed_requests
        async with access.limiter.permit(href, weight=1) as permit:
            async with opening_in_time(href, access.timeout_s):
                opened = await access.reader.open_(href, overview=None, cost=cost)
            permit.record_read(n_requests=max(cost.needed_requests - n_before, 1))
        return opened

    opened = dict(zip(hrefs, await all_of(open_(href) for href in hrefs), strict=True))

    def band_of(each: BandOf, *, raw: bool) -> SceneBand:
        header = opened[each.source.href].header
        check_band(header, each.number)
        scaling = Scaling.of(header, each.number, each.source, raw=raw)
        return SceneBand(each, opened[each.source.href], scaling)

    return OpenedScene(
        id=scene_name(row),
        bands={name: band_of(each, raw=values.raw) for name, each in wanted.items()},
        mask=None if mask is None else band_of(mask, raw=True),
        etags=tuple(each.header.etag for each in opened.values()),
    )


async def read_scene(
    scene: OpenedScene,
    positions: Positions,
    n: int,
    *,
    values: Values,
    sampler: Sampler,
    cost: Cost,
    of_mask: Positions | None = None,
) -> SceneValues:
    """Read all bands of a scene at positions.

    An offset that a catalog claims is left out if the pixels show that they have it already, as in rankings.
    If the mask is looked at elsewhere, ``of_mask`` has as many positions. The cost is added to.

    Raises:
        SourceError: A file was replaced, or cannot be laid over the others.
    """
    status, reasons = np.zeros(n, np.uint8), {}
    found: dict[str, _StoredBand] = {}
    is_kept: Mask | None = None
    # The bands of one file are read together, but for a mask that is looked at elsewhere.
    of_file: dict[tuple[str, bool], list[tuple[str, SceneBand]]] = {}
    for name, band in scene.bands.items():
        of_file.setdefault((band.of.source.href, False), []).append((name, band))
    if scene.mask is not None:
        key = (scene.mask.of.source.href, of_mask is not None)
        of_file.setdefault(key, []).append((_MASK, scene.mask))

    async def read_file(is_apart: bool, named: list[tuple[str, SceneBand]]) -> None:  # noqa: FBT001 # of the key
        nonlocal is_kept
        opened = named[0][1].opened
        at = (of_mask if is_apart and of_mask is not None else positions).on(opened.header)
        sampled = await sampler.sample(
            opened,
            [band.of.number for _, band in named],
            n if at.which is None else len(at.which),
            runs=at.runs,
            cost=cost,
            nodata=[band.scaling.nodata for _, band in named],
            wants_darkest=any(band.scaling.claims for _, band in named),
        )
        # What could not be read, or lies outside, is so for all bands of the pixel.
        if sampled.reasons or at.which is not None:
            worse = _place_values(sampled.status, at.which, np.full(n, Status.OUTSIDE, np.uint8))
            status[status == 0] = worse[status == 0]
            reasons.update(sampled.reasons)
        for index, (name, band) in enumerate(named):
            stored, is_valid = sampled.stored[index], sampled.is_valid[index]
            if name == _MASK:
                assert values.mask is not None  # noqa: S101 # the scene has one
                is_kept = _place_values(
                    is_valid & ~values.mask.drops(stored), at.which, np.zeros(n, np.bool_)
                )
                continue
            scaling = band.scaling
            if scaling.is_denied_by(sampled.darkest[index]):
                scaling = scaling.without_claim()
            placed = _place_values(stored, at.which, np.zeros(n, stored.dtype))
            found[name] = _StoredBand(
                placed, _place_values(is_valid, at.which, np.zeros(n, np.bool_)), scaling
            )

    await all_of(read_file(is_apart, named) for (_, is_apart), named in of_file.items())
    return SceneValues(stored=found, is_kept=is_kept, status=status, reasons=reasons)


def _place_values[A: np.ndarray[Any, Any]](values: A, which: Integers | None, beyond: A) -> A:
    """Return the values of all positions.

    Args:
        values: Of those on the image.
        which: They are; None for all.
        beyond: What the others have. It is changed.
    """
    if which is None:
        return values
    beyond[which] = values
    return beyond


async def plan_scene(scene: OpenedScene, positions: Positions, *, n_lines: int, cost: Cost) -> ImagePlan:
    """Return what reading a scene at positions would take. Reads offsets of tiles, and no pixel.

    The cost is that of opening it.

    Raises:
        SourceError: A file cannot be laid over the others.
    """
    n_tiles = n_requests = nbytes = decoded = 0
    files: dict[str, tuple[LevelledSource, set[int]]] = {}
    for band in [*scene.bands.values(), *([scene.mask] if scene.mask else [])]:
        files.setdefault(band.of.source.href, (band.opened, set()))[1].add(band.of.number)
    for opened, numbers in files.values():
        for run in positions.on(opened.header).runs:
            span = await opened.stored_span(run.window, sorted(numbers))
            of_run = run.window.n_pixels * np.dtype(opened.header.dtype).itemsize * len(numbers)
            stored, first, stop = span or (of_run, 0, of_run)
            nbytes, n_tiles, decoded = nbytes + stored, n_tiles + run.n_tiles, decoded + of_run
            n_requests += 1 if stop - first == stored else run.n_tiles
    return ImagePlan(
        n_lines=n_lines,
        n_tiles=n_tiles,
        n_requests=n_requests + len(files),
        nbytes=nbytes + cost.header_nbytes,
        decoded_nbytes=decoded,
    )


def lookup_pixels(cols: Integers, rows: Integers, *, of: Header, on: Header) -> tuple[Integers, Integers]:
    """Return the pixels of another image that hold the middles of pixels; -1 beyond the first image.

    Args:
        cols: Columns on ``of``.
        rows: Rows.
        of: The scene's finest band.
        on: Another band, in the same CRS.

    Raises:
        SourceError: It has another CRS, or none.
    """
    if Grid.of(on).is_same_grid_as(Grid.of(of)):
        return cols, rows
    if on.crs != of.crs or on.transform is None or of.transform is None:
        reason = "its CRS is not that of the scene's finest band"
        raise SourceError(reason, href=on.href, status=Status.UNLIKE)
    beyond = (cols < 0) | (cols >= of.width) | (rows < 0) | (rows >= of.height)
    xs, ys = of.transform.xy(cols + 0.5, rows + 0.5)  # type: ignore[arg-type] # takes arrays, too
    cols, rows = map(floored, on.transform.colrow(xs, ys))  # type: ignore[arg-type] # as above
    cols[beyond] = -1
    return cols, rows


def floored(positions: Floats) -> Integers:
    """Return the pixel that holds each position; -1 where there is no position."""
    is_known = np.isfinite(positions) & (np.abs(positions) < 2**31)
    return np.floor(np.where(is_known, positions, -1)).astype(np.int64)


def _pixel_area(header: Header) -> float:
    assert header.transform is not None  # noqa: S101 # of the caller
    a, b, _, d, e, _ = header.transform
    return abs(a * e - b * d)
