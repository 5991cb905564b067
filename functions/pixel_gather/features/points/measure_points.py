"""The lines of one image: its values under the points that lie on it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import replace
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import Cost, CubeRow, Header
from pixel_gather.core.model.status import Status
from pixel_gather.features.points.point_pixels import Method, PointPixels, combine
from pixel_gather.tables.expression import Pixels
from pixel_gather.tables.features import Features, Floats, Integers
from pixel_gather.tables.open_scene import (
    ImageAccess,
    ImagePlan,
    OpenedScene,
    PixelsAt,
    SceneValues,
    open_scene,
    plan_scene,
    read_scene,
)
from pixel_gather.tables.part_folder import ImageRecord, Lines, LineStatus, Measured, line_dtype
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.place_points import Placed, PointPlaces
from pixel_gather.tables.sample_at_pixels import Sampler, cut_runs
from pixel_gather.tables.table_values import Values

COUNT: Final = "count"
"""Column of a square: how many of its pixels count."""

_MOST_POSITIONS: Final = 1_000_000
"""Pixels of points that are in memory at one time. Each takes some 30 bytes for every band."""


class PointTable(Struct, frozen=True):
    """The values of images under points: a `pixel_gather.tables.image_work.TableKind`."""

    method: Method

    @property
    def about(self) -> Mapping[str, Any]:
        """What decides the table; see `TableKind`."""
        return {"kind": "points", "method": self.method.kind, "square": self.method.square}

    @property
    def combine(self) -> None:
        """Nothing: a point has one pixel, which is the same in all images of an acquisition."""

    def check(self, features: Features) -> Features:
        """Return the points; see `TableKind`."""
        if features.geometries is not None:
            raise RequestError(
                "these are no single points: polygons are zones (pixel-gather zones), and each point of a "
                "MultiPoint is a feature",
                field="features",
            )
        return features

    @contextmanager
    def open_work(self, features: Features, values: Values, access: ImageAccess) -> Iterator["PointWork"]:
        """Return what computes the lines of an image; see `TableKind`."""
        yield PointWork(
            values=values,
            method=self.method,
            access=access,
            places=PointPlaces(features, access.projector),
            sampler=Sampler(limiter=access.limiter, timeout_s=access.timeout_s),
            gate=PixelGate(_MOST_POSITIONS),
        )


@dataclass(slots=True, kw_only=True)
class PointWork:
    """What is computed of each image: a `pixel_gather.tables.image_work.ImageWork`."""

    values: Values
    method: Method
    access: ImageAccess
    places: PointPlaces
    sampler: Sampler
    gate: PixelGate

    @property
    def columns(self) -> tuple[str, ...]:
        """The values, and how many pixels make one of them if that may differ."""
        return (*self.values.columns, *([COUNT] if self.method.square > 1 else []))

    async def measure(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> Measured:
        """Return the lines of an image; see `ImageWork`."""
        scene = await self._open(row, cost)
        placed = _only(self.places.on(scene.finest), members)
        n = len(placed.members)
        async with self.gate.hold(n * self.method.n_pixels):
            lines, reasons = await self._lines(scene, placed, cost)
        record = ImageRecord(
            number=0,
            scene=scene.id,
            time_us=row.time_us,
            hrefs=tuple(dict.fromkeys(each.of.source.href for each in scene.bands.values())),
            etags=scene.etags,
            reasons=reasons,
            n_lines=len(lines),
            units=(*map(scene.unit_of, self.values.values), *([""] if self.method.square > 1 else [])),
        )
        return Measured(record, lines)

    async def plan(self, row: CubeRow, members: Integers | None, *, cost: Cost) -> ImagePlan:
        """Return what an image would take; see `ImageWork`."""
        scene = await self._open(row, cost)
        parts = partial(self._parts, scene, members)
        n_lines = sum(len(each.placed.members) for each in parts())
        return await plan_scene(scene, _TilesOfParts(parts), n_lines=n_lines, cost=cost)

    def _parts(self, scene: OpenedScene, members: Integers | None) -> Iterator[PointPixels]:
        """Yield the pixels of the wanted points on a scene, those of some points at a time."""
        for placed in self.places.parts_on(scene.finest):
            yield self._pixels(scene, _only(placed, members))

    async def _open(self, row: CubeRow, cost: Cost) -> OpenedScene:
        return await open_scene(row, values=self.values, access=self.access, cost=cost)

    def _pixels(self, scene: OpenedScene, placed: Placed) -> PointPixels:
        return PointPixels(method=self.method, places=self.places, finest=scene.finest, placed=placed)

    async def _lines(self, scene: OpenedScene, placed: Placed, cost: Cost) -> tuple[Lines, tuple[str, ...]]:
        pixels, n, each = self._pixels(scene, placed), len(placed.members), self.method.n_pixels
        is_bilinear = self.method.kind == "bilinear"
        read = await read_scene(
            scene,
            pixels,
            n * each,
            values=self.values,
            sampler=self.sampler,
            cost=cost,
            of_mask=replace(pixels, is_of_mask=True) if is_bilinear else None,
        )
        lines = np.zeros(n, line_dtype(self.columns))
        lines["feature"] = placed.members
        bands = read.bands()
        values, share = self._combine_pixels(scene, pixels, read, bands, n)
        for number, column in enumerate(values):
            lines[f"v{number}"] = column
        lines["valid"] = share
        lines["status"], lines["reason"], reasons = _statuses(
            read, bands, values[: len(self.values.values)], (n, each)
        )
        for number in range(len(values)):  # a part of a value is none
            lines[f"v{number}"][lines["reason"] >= 0] = np.nan
        return lines, reasons

    def _combine_pixels(
        self,
        scene: OpenedScene,
        pixels: PointPixels,
        read: SceneValues,
        physical: Mapping[str, Floats],
        n: int,
    ) -> tuple[list[Floats], Floats]:
        """Return each value of each point, and the share of its pixels that count."""
        each = self.method.n_pixels
        kept = None if read.is_kept is None else read.is_kept.reshape(n, each)
        bands = {name: band.reshape(n, each) for name, band in physical.items()}
        if kept is not None:
            bands = {name: np.where(kept, band, np.nan) for name, band in bands.items()}
        if self.method.kind == "bilinear":  # bands are interpolated, each on its own grid
            both = {
                name: combine(band, pixels.weights(scene.bands[name].opened.header))
                for name, band in bands.items()
            }
            means = {name: mean for name, (mean, _) in both.items()}
            found: list[Pixels] = [value.expression.evaluate(means) for value in self.values.values]
            shares = [share for _, share in both.values()]
        else:
            pairs = [combine(value.expression.evaluate(bands), None) for value in self.values.values]
            found, shares = [mean for mean, _ in pairs], [share for _, share in pairs]
        columns = [np.where(np.isfinite(column), column, np.nan).astype(np.float64) for column in found]
        share = np.minimum.reduce(shares) if shares else np.zeros(n)
        if self.method.square > 1:
            columns.append(np.round(share * each))
        return columns, share


def _only(placed: Placed, members: Integers | None) -> Placed:
    if members is None:
        return placed
    wanted = np.isin(placed.members, members, assume_unique=True)
    return Placed(placed.members[wanted], placed.cols[wanted], placed.rows[wanted])


class _TilesOfParts(Struct, frozen=True):
    """The tiles that hold the pixels of all parts, which a plan wants to know: one pixel stands for each."""

    parts: Callable[[], Iterator[PointPixels]]

    def on(self, header: Header) -> PixelsAt:
        """Return the pixels of one image; see `pixel_gather.tables.open_scene.Positions`."""
        width, height = header.tile_width, header.tile_height
        is_wanted = np.zeros((-(-header.height // height), -(-header.width // width)), np.bool_)
        for part in self.parts():
            cols, rows = part.pixels_on(header)
            is_wanted[rows // height, cols // width] = True
        rows, cols = np.nonzero(is_wanted)
        return PixelsAt(None, cut_runs(cols * width, rows * height, header))


def _statuses(
    read: SceneValues, bands: Mapping[str, Floats], values: list[Floats], shape: tuple[int, int]
) -> tuple[Integers, Integers, tuple[str, ...]]:
    """Return the status of each point, which reason it has (-1 for none), and the reasons.

    The shape is that of points and their pixels. There may be no point.
    """
    status = read.status.reshape(shape).astype(np.int64)
    failed = np.where((status == Status.OK) | (status == Status.OUTSIDE), 0, status).max(axis=1)
    has_value = np.any([np.isfinite(column) for column in values], axis=0)
    has_data = np.any([np.isfinite(band) for band in bands.values()], axis=0).reshape(shape)
    is_dropped = False if read.is_kept is None else (has_data & ~read.is_kept.reshape(shape)).any(axis=1)
    found = np.where(is_dropped, LineStatus.MASKED, LineStatus.NODATA)
    found = np.where((status == Status.OUTSIDE).all(axis=1), LineStatus.OUTSIDE, found)
    found = np.where(has_value, LineStatus.OK, found)
    found = np.where(failed > 0, failed, found)
    codes = sorted(code for code in read.reasons if (failed == code).any())
    reason = np.full(shape[0], -1)
    for index, code in enumerate(codes):
        reason[failed == code] = index
    return found, reason, tuple(read.reasons[code] for code in codes)
