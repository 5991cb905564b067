"""Medians of what each way took. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pixel_gather.core.errors import StoreError
from pixel_gather_bench.ingest.job import MeasuredWay, WayTrial
from pixel_gather_bench.ingest.ways import BY_NAME, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Medians of one way. Times are in seconds."""

    way: Way
    n_times: int
    first_sample_s: float
    sample_s: float
    """Average of one sample when all are read in order, with everything before the first."""

    total_s: float
    download_s: float
    random_s: float | None
    """None if the way has no random reads."""

    first_random_s: float | None
    cpu_s: float
    peak_rss_mib: float
    mb_per_s: float

    def random_total_s(self, n: int) -> float | None:
        """Return the seconds of so many random reads, with the download if there is one."""
        return None if self.random_s is None else self.download_s + n * self.random_s


def summarize(trials: Sequence[WayTrial], *, nbytes: int) -> tuple[Summary, ...]:
    """Return the medians of each way that was measured, in the order of the trials.

    Args:
        trials: Trials of all ways.
        nbytes: Read in ``total_s``.
    """
    runs: dict[str, list[MeasuredWay]] = {}
    for trial in trials:
        if trial.measured is not None:
            runs.setdefault(trial.way, []).append(trial.measured)
    return tuple(_summary(BY_NAME[way], measured, nbytes) for way, measured in runs.items())


def _summary(way: Way, runs: Sequence[MeasuredWay], nbytes: int) -> Summary:
    total_s = median(run.total_s for run in runs)
    return Summary(
        way=way,
        n_times=len(runs),
        first_sample_s=median(run.first_sample_s for run in runs),
        sample_s=median(run.total_s / run.n_samples for run in runs),
        total_s=total_s,
        download_s=median(run.download_s for run in runs),
        random_s=_median_or_none([run.random_s for run in runs]),
        first_random_s=_median_or_none([run.first_random_s for run in runs]),
        cpu_s=median(run.cpu_s for run in runs),
        peak_rss_mib=median(run.peak_rss_mib for run in runs),
        mb_per_s=nbytes / 1e6 / max(total_s, 1e-9),
    )


def _median_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def refused_of(trials: Sequence[WayTrial]) -> dict[str, str]:
    """Return each way that was never measured, with its last message."""
    measured = {trial.way for trial in trials if trial.measured is not None}
    return {trial.way: trial.refused or "" for trial in trials if trial.way not in measured}


def check_contents(trials: Sequence[WayTrial]) -> None:
    """Refuse to compare ways that read different bytes.

    Raises:
        StoreError: Naming those that differ from the rest.
    """
    for kind in ("digest", "random_digest"):
        found: dict[str, set[str]] = {}
        for trial in trials:
            digest = None if trial.measured is None else getattr(trial.measured, kind)
            if digest is not None:
                found.setdefault(digest, set()).add(trial.way)
        if len(found) > 1:
            said = " but ".join(
                f"{digest[:8]} by {', '.join(sorted(ways))}" for digest, ways in found.items()
            )
            raise StoreError(
                f"ways read different bytes, so nothing can be said of their speed ({kind} {said}). The "
                "object changed meanwhile, or the server does not answer ranges right. Run it again"
            )
