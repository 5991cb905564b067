"""How work in this process uses the machine."""

from copy import replace

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.estimate import worker_limits
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.store.store_settings import StoreSettings, refuse_low


class Settings(Struct, frozen=True, kw_only=True):
    """How a gather in process uses this machine. No setting changes its result."""

    stores: StoreSettings = msgspec.field(default_factory=StoreSettings)
    concurrency: int | None = None
    """Sources read at one time from each back end, for experiments. None to adapt while reading."""

    header_nbytes: int | None = None
    """Size of the first read of each source, in bytes. A second read follows if the header is longer.

    None to start with 16 KiB and adapt to the files.
    """

    source_timeout_s: float = 180.0
    """Longest time for one source, retries included."""

    max_task_nbytes: int = worker_limits.max_task_nbytes(worker_limits.ONE_VCPU_MIB)
    """Largest decoded size of one shard. Two shards are in memory at a time.

    Up to four are in memory while the threads that decode wait for tiles, or if no tile is decoded. Three or
    four take at most 128 MiB together, as decoded pixels.
    """

    shared_tiles_nbytes: int = 512 * 2**20
    """Decoded tiles that are kept for other chips, if a gather has a table of chips. 0: none are kept."""

    draws_report: bool = True
    """Whether to write any page beside the arrays. False writes neither the report nor ``view.html``.

    To leave out only the report, which takes seconds, use the request's ``output.report``.
    """

    def __post_init__(self) -> None:
        """Refuse numbers that are too low."""
        refuse_low(
            self,
            above_0=("source_timeout_s", "max_task_nbytes"),
            from_0=("shared_tiles_nbytes",),
            within="settings",
        )
        for name in ("concurrency", "header_nbytes"):
            number = getattr(self, name)
            if number is not None and not (isinstance(number, int) and number > 0):
                raise RequestError(f"it is {number!r}, not a whole number above 0", field=f"settings.{name}")

    def fast_path(self, *, shares_tiles: bool) -> GeoTiffSettings:
        """Return the settings of the reader of GeoTIFFs."""
        first = GeoTiffSettings.reading_first(self.header_nbytes)
        return replace(first, shared_nbytes=self.shared_tiles_nbytes) if shares_tiles else first
