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

    usd: float
    usd_by_service: dict[str, float]
    figures: tuple[EstimatedFigure, ...] = ()
    """Every number above with what it rests on."""
