"""Tables of `bench_peers`: every reader beside this project's, and beside what no reader can beat."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.engines import ENGINES, LIMITS
from benchmarks.measure import OURS, Measurement, Setting, Spread, by_setting, comparison_of
from benchmarks.run_one import Run

type Value = Callable[[Measurement], float]

_HEAD: Final = (
    "engine", "at a time", "tiles", "tiles/s", "with start", "CPU s", "with start", "GETs", "MiB",
    "ours: x tiles/s", "with start", "x CPU", "with start",
)  # fmt: skip


def tables(pieces: Sequence[Sequence[Measurement]], *, cores: int) -> Iterator[str]:
    """Yield lines of Markdown, a table for each comparison.

    Args:
        pieces: What was measured by one call each; ratios are formed within one, round by round.
        cores: Of the machine that measured.
    """
    compared = dict.fromkeys(comparison_of(each.setting) for piece in pieces for each in piece)
    for comparison in compared:
        case, ttfb_ms, tls, bytes_per_s = comparison
        link = f", {bytes_per_s / 1e6:g} MB/s" if bytes_per_s else ""
        yield f"\n### {case}, {ttfb_ms:g} ms to the first byte{', TLS' if tls else ''}{link}\n"
        yield f"| {' | '.join(_HEAD)} |"
        yield f"|{' --- |' * len(_HEAD)}"
        here = [[each for each in piece if comparison_of(each.setting) == comparison] for piece in pieces]
        for piece in filter(None, here):
            yield from _rows(piece)
        for piece in filter(None, here):
            yield from _limits(piece, cores=cores)
    yield from _preparations([each for piece in pieces for each in piece])


def _rows(measured: Sequence[Measurement]) -> Iterator[str]:
    groups = by_setting(measured)
    ours = next((runs for setting, runs in groups.items() if setting.engine == OURS), None)
    for setting in sorted(groups, key=_place):
        runs = groups[setting]
        cells = [
            setting.engine,
            str(setting.concurrency),
            str(setting.n_tiles),
            *(_spread(runs, _pace(with_start=start), 0) for start in (False, True)),
            *(_spread(runs, _cpu(with_start=start), 2) for start in (False, True)),
            _requests(runs),
            f"{statistics.median(each.run.peak_rss_mib for each in runs):.0f}",
        ]
        cells += [
            _ratio(ours, runs, value(with_start=start)) for value in (_pace, _cpu) for start in (False, True)
        ]
        yield f"| {' | '.join(cells)} |"


def _pace(*, with_start: bool) -> Value:
    return lambda each: each.run.tiles_per_s(with_start=with_start)


def _cpu(*, with_start: bool) -> Value:
    return lambda each: each.run.cpu_s_per_1000(with_start=with_start)


def _ratio(ours: Sequence[Measurement] | None, runs: Sequence[Measurement], value: Value) -> str:
    if ours is None or ours == runs or runs[0].setting.engine in LIMITS:
        return ""
    return text(by_round(lambda a, b: value(a) / value(b), ours, runs), 2)


def by_round(of: Callable[..., float], *groups: Sequence[Measurement]) -> Spread:
    """Form one figure from the runs of each round, and summarise those."""
    return Spread.of(of(*runs) for runs in zip(*groups, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What two cores could do, from the CPU time of fetching alone and of decoding alone; seconds a tile."""

    fetch_s: float
    decode_s: float
    server_s: float
    """Taken by the server on the same cores."""

    cores: int
    n_tiles: int
    waiting_s: float
    """Time to the first byte of the first tile, before which there is nothing to decode."""

    @property
    def tiles_per_s(self) -> float:
        """Of cores that do nothing else and never wait."""
        return self.cores / (self.fetch_s + self.decode_s)

    @property
    def reachable_tiles_per_s(self) -> float:
        """Of these cores, which also serve, and wait for the first tile."""
        busy_s = (self.fetch_s + self.decode_s + self.server_s) * self.n_tiles / self.cores
        return self.n_tiles / (self.waiting_s + busy_s)


def limit_of(fetched: Measurement, decoded: Measurement, *, cores: int, n_tiles: int) -> Limit:
    """Join one round's run of `limit-fetch` or `limit-fetch-indexed` with that of `limit-decode`."""
    n_gets = round(fetched.n_gets / fetched.run.n_tiles)
    return Limit(
        fetch_s=fetched.run.reading_cpu_s / fetched.run.n_tiles,
        decode_s=decoded.run.reading_cpu_s / decoded.run.n_tiles,
        server_s=fetched.server_cpu_s / fetched.run.n_tiles,
        cores=cores,
        n_tiles=n_tiles,
        waiting_s=n_gets * fetched.setting.ttfb_ms / 1000,
    )


def _limits(measured: Sequence[Measurement], *, cores: int) -> Iterator[str]:
    by_engine = {setting.engine: runs for setting, runs in by_setting(measured).items()}
    for fetching, readers in (
        ("limit-fetch", (OURS, "rasterio-modern")),
        ("limit-fetch-indexed", (f"{OURS}-indexed",)),
    ):
        fetched, decoded = by_engine.get(fetching), by_engine.get("limit-decode")
        for reader in readers:
            runs = by_engine.get(reader)
            if fetched is None or decoded is None or runs is None:
                continue
            yield from _share(reader, fetched, decoded, runs, cores=cores)


def _share(
    reader: str,
    fetched: Sequence[Measurement],
    decoded: Sequence[Measurement],
    runs: Sequence[Measurement],
    *,
    cores: int,
) -> Iterator[str]:
    def told(value: Callable[[Limit, Run], float], digits: int) -> str:
        def of(a: Measurement, b: Measurement, c: Measurement) -> float:
            return value(limit_of(a, b, cores=cores, n_tiles=c.run.n_tiles), c.run)

        return text(by_round(of, fetched, decoded, runs), digits)

    def pace(run: Run) -> float:
        return run.tiles_per_s(with_start=False)

    yield (
        f"\nLimit for {reader}: {told(lambda limit, _: limit.tiles_per_s, 0)} tiles/s; "
        f"its share {told(lambda limit, run: pace(run) / limit.tiles_per_s, 2)}."
    )
    yield (
        f"Server and first wait counted: {told(lambda limit, _: limit.reachable_tiles_per_s, 0)}; "
        f"its share {told(lambda limit, run: pace(run) / limit.reachable_tiles_per_s, 2)}."
    )
    share = told(lambda limit, run: run.reading_cpu_s / run.n_tiles / (limit.fetch_s + limit.decode_s), 2)
    yield f"Its CPU time against fetching and decoding alone: {share}."


def _preparations(measured: Sequence[Measurement]) -> Iterator[str]:
    made = {
        (each.setting.engine, each.setting.n_tiles): each.preparation
        for each in measured
        if each.preparation is not None and each.setting.engine not in LIMITS
    }
    if made:
        yield "\nMade beforehand, in none of the figures above:\n"
        yield "| engine | tiles | s | CPU s |"
        yield "| --- | --- | --- | --- |"
    for (engine, n_tiles), preparation in made.items():
        yield f"| {engine} | {n_tiles} | {preparation.took_s:.1f} | {preparation.took_cpu_s:.1f} |"


def _requests(runs: Sequence[Measurement]) -> str:
    gets = statistics.median(each.n_gets / each.run.n_tiles for each in runs)
    heads = statistics.median(each.n_heads / each.run.n_tiles for each in runs)
    return f"{gets:.2f}" + (f" + {heads:.2f} HEAD" if heads else "")


def _spread(runs: Sequence[Measurement], value: Value, digits: int) -> str:
    return text(Spread.of(map(value, runs)), digits)


def text(spread: Spread, digits: int) -> str:
    """Write a median and its range."""
    if spread.lowest == spread.highest:
        return f"{spread.median:.{digits}f}"
    return spread.text(digits)


def _place(setting: Setting) -> tuple[int, int]:
    return list(ENGINES).index(setting.engine), setting.concurrency
