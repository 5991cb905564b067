"""The result of an estimate: what a gather will take. It is made before a pixel is read."""

from msgspec import Struct

from pixel_gather.core.model.shown import shown


class EstimatedFigure(Struct, frozen=True):
    """One number of an estimate, as text."""

    what: str
    how_much: str
    rests_on: tuple[str, ...]
    """Its basis: counts, or assumptions with their sources."""


class Estimate(Struct, frozen=True, kw_only=True):
    """Requests, bytes, seconds and dollars of a gather on AWS."""

    n_gets: int
    """GET requests for sources."""

    n_puts: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_workers: int
    """Most workers at one time."""

    most_workers: int = 10_000
    """Most workers at one time if each takes longer than expected."""

    seconds: float
    seconds_by_part: dict[str, float] = {}
    """Parts of ``seconds``: plan; dispatch, start, read and store of the worker that ends last; finish."""

    bound_by: str = ""
    """The binding limit: without it, the gather would end soonest."""

    enough_workers: int = 10_000
    """With this number the gather takes at most 5 % longer than with all allowed workers."""

    worker_memory_mib: int = 1769
    """Memory of each worker."""

    tasks_per_child: int = 1
    """Most shards that one child of the map fills in sequence."""

    n_children: int = 0
    """Children of the map. The last of them fill fewer shards."""

    transfer_nbytes: int = 0
    """Bytes from other Regions that the reader pays for."""

    usd: float
    usd_by_service: dict[str, float]
    usd_if_late: float | None = None
    """Dollars if all workers are late at both tries, and are throttled for days.

    Further tries come on top: of workers that are killed, and of stores that fail.
    """

    figures: tuple[EstimatedFigure, ...] = ()
    """What each number above rests on."""

    def __repr__(self) -> str:
        return shown(
            f"Estimate: {self.n_gets:,} GET requests, {self.fetched_nbytes:,} bytes; on AWS ${self.usd:.4f}, "
            f"{self.seconds:.0f} s"
        )

    @property
    def transfer_usd_per_byte(self) -> float:
        """Price of transfer between Regions, divided by all bytes."""
        return self.usd_by_service.get("transfer", 0.0) / max(self.fetched_nbytes, 1)
