"""What a gather will take, as its plan tells it before a pixel is read."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedFigure:
    """One number of an estimate, as people read it."""

    what: str
    how_much: str
    rests_on: tuple[str, ...]
    """What was counted, or what is assumed and where that is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A gather's requests, bytes, seconds and dollars on AWS, by `pixel_gather.estimate.forecast`.

    What has a default is not in plans of earlier versions, whose gathers go on all the same.
    """

    n_gets: int
    """Of sources."""

    n_puts: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_workers: int
    """Most that work at one time."""

    most_workers: int = 10_000
    """Most that may, should each take longer than foreseen."""

    seconds: float
    seconds_by_part: dict[str, float] = field(default_factory=dict)
    """Of ``seconds``: plan; dispatch, start, read and store of the worker that ends last; finish."""

    bound_by: str = ""
    """The limit without which ``seconds`` would be shortest."""

    enough_workers: int = 10_000
    """With so many it takes at most 5 % longer than with all that there may be."""

    worker_memory_mib: int = 1769
    """Of each worker."""

    tasks_per_child: int = 1
    """Most shards that one child of the map fills, one after another."""

    n_children: int = 0
    """Of the map; the last of them fill fewer shards. 0 in plans of earlier versions."""

    transfer_nbytes: int = 0
    """That come from other Regions, and that the reader pays for."""

    usd: float
    usd_by_service: dict[str, float]
    usd_at_most: float | None = None
    """Where every worker is late at both of its tries and Lambda turns them away all the time."""

    figures: tuple[EstimatedFigure, ...] = ()
    """Every number above with what it rests on."""

    @property
    def transfer_usd_per_byte(self) -> float:
        """What transfer between Regions costs, spread over all bytes."""
        return self.usd_by_service.get("transfer", 0.0) / max(self.fetched_nbytes, 1)
