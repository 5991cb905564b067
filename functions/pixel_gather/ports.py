"""What the steps need from the world. Adapters implement these; tests have fakes of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import numpy as np

from pixel_gather.model.source import Column, Cost, CubeRow, Header, Source
from pixel_gather.model.window import DescribedCrs, Window


class OpenedSource(Protocol):
    """One source whose header is known."""

    @property
    def header(self) -> Header:
        """What opening it told."""

    @property
    def known(self) -> bytes | None:
        """What opens this version again without reading its header; None where nothing does.

        Only its reader knows what is in it. Asking may take 0.1 ms.
        """

    @property
    def was_known(self) -> bool:
        """Whether it was opened by such bytes, so that its header is not to be believed before a read."""

    async def read_into(
        self,
        out: np.ndarray[Any, Any],
        window: Window,
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill ``out`` with the window's pixels.

        Args:
            out: Shape (band, y, x) of the window, C order in its last two axes, dtype of the
                header. Wholly overwritten where the source has pixels; what overhangs is left as it is.
            window: In pixels of the header's grid; part of it lies on the raster.
            bands: Which bands, from 1, in the order of ``out``.
            masked: Also leave as they are the pixels that GDAL's masks of these bands hide: the source's own
                mask, alpha, or nodata. What holds the nodata value exactly may be written as well.
            part_nbytes: Longer ranges are better fetched in parts of this size side by side, as
                `pixel_gather.estimate.range_parts` says; None for single ranges. Changes no pixel.

        Raises:
            StaleHeaderError: It was known, and is another now; ``out`` may hold anything.
            SourceError: The pixels cannot be had.
        """


class SourceReader(Protocol):
    """Opens sources."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, known: bytes | None = None
    ) -> OpenedSource:
        """Read a source's header.

        Args:
            href: A checked href.
            overview: Read from this overview, 0 being the largest; None for full resolution.
            cost: Adds up what this source costs, here and in later reads.
            known: What it has told of itself before, as `OpenedSource.known`, from wherever: what does not
                fit or is broken is as good as None.

        Raises:
            SourceError: It cannot be opened.
        """


class Place(Protocol):
    """What one source holds while it is being read."""

    def was_read(self, *, n_requests: int) -> None:
        """Say that the source was read.

        How long it took then counts for how many are read at a time. What is missing or denied is answered
        too soon to be a measure of the others.

        Args:
            n_requests: How many it needed, without retries and hedges.
        """


class Slots(Protocol):
    """Bounds how many sources are being read at one time, of each back end by itself."""

    def slot(self, href: str, *, weight: int) -> AbstractAsyncContextManager[Place]:
        """Wait for a free place at a source's back end and hold it.

        Args:
            href: A checked href.
            weight: How many requests at a time the source wants to send, about.
        """


class Projector(Protocol):
    """Transforms coordinates between CRSs; x is always easting or longitude."""

    def check(self, crs: str, *, field: str) -> None:
        """Refuse a CRS that is not known, naming the request's field."""

    def describe(self, crs: str) -> DescribedCrs | None:
        """Return what a cube's readers are told of a source's CRS; None where it is not known."""

    def points(
        self, xs: Sequence[float], ys: Sequence[float], *, source_crs: str, target_crs: str
    ) -> tuple[list[float], list[float]]:
        """Transform points."""

    def bounds(
        self, bounds: tuple[float, float, float, float], *, source_crs: str, target_crs: str
    ) -> tuple[float, float, float, float]:
        """Transform (west, south, east, north), following the curves of the edges."""


class SourceTable(Protocol):
    """The list of sources, read once and kept on disk in the order of the cube's rows."""

    @property
    def digest(self) -> str:
        """Changes when any line of the list changes."""

    @property
    def n_sources(self) -> int:
        """Lines of the list."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads the list should know, such as scenes that were left out."""

    @property
    def n_repeated(self) -> int:
        """Sources whose href stands further up in the list."""

    @property
    def n_rows(self) -> int:
        """Rows of the cube: sources, or scenes where several bands share one."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names in the ``band`` column in order of first appearance; empty where there is no such column."""

    @property
    def has_time(self) -> bool:
        """Whether every row has a time, so that the cube's first axis is ``time``."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The list's other columns, ``scene`` and, where only some rows have one, ``time`` among them."""

    def rows(self, start: int, stop: int) -> Iterator[CubeRow]:
        """Yield rows [start, stop) in the cube's order."""

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Sources in each bucket of S3, by its name."""

    @property
    def n_known(self) -> int:
        """Sources of which a header index tells."""

    def known(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield for rows [start, stop) what a header index tells of each of their sources."""

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the rows, first and last among them."""
