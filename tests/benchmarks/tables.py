"""Tables of `bench_peers`: every reader beside this project's, and beside what no reader can beat."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.measure import (
    Measurement,
    Setting,
    Spread,
    Value,
    by_round,
    by_setting,
    cpu_s_per_1000,
    n_requests,
    ratio,
    tiles_per_s,
)
from benchmarks.readers import INDEXED, LIMITS, OURS, READERS, Run
from pixel_gather_bench.experiment import markdown

_HEAD = (
    "reader", "at a time", "tiles", "tiles/s", "CPU s", "GETs", "refused", "MiB", "ours: x tiles/s", "x CPU",
    "with start: x tiles/s", "x CPU",
)  # fmt: skip


def tables(pieces: Sequence[Sequence[Measurement]], *, cores: int) -> Iterator[str]:
    """Yield lines of Markdown, tables for each comparison.

    Args:
        pieces: What was measured by one call each. Ratios are formed within one, round by round.
        cores: Cores of the machine that measured.
    """
    compared = dict.fromkeys(each.setting.comparison for piece in pieces for each in piece)
    for comparison in compared:
        case, ttfb_ms, tls, bytes_per_s = comparison
        link = f", {bytes_per_s / 1e6:g} MB/s" if bytes_per_s else ""
        yield f"\n### {case}, {ttfb_ms:g} ms to the first byte{', TLS' if tls else ''}{link}\n"
        here = [
            by_setting(each for each in piece if each.setting.comparison == comparison) for piece in pieces
        ]
        yield from markdown([_HEAD, *(row for groups in here for row in _rows(groups))])
        for groups in filter(None, here):
            yield from _late(groups)
            yield from _limits(groups, cores=cores)
    yield from _preparations([each for piece in pieces for each in piece])


type Groups = dict[Setting, list[Measurement]]


def _rows(groups: Groups) -> Iterator[tuple[str, ...]]:
    ours = next((runs for setting, runs in groups.items() if setting.reader == OURS), None)
    for setting in sorted(groups, key=lambda each: (list(READERS).index(each.reader), each.concurrency)):
        runs = groups[setting]
        is_compared = ours is not None and setting.reader not in (OURS, *LIMITS) and not setting.slow_share
        values: tuple[Value, ...] = (tiles_per_s, cpu_s_per_1000, _pace_with_start, _cpu_with_start)
        yield (
            setting.reader + (", late" if setting.slow_share else ""),
            str(setting.concurrency),
            str(setting.n_tiles),
            Spread.of(map(tiles_per_s, runs)).text(),
            Spread.of(map(cpu_s_per_1000, runs)).text(2),
            _requests(runs),
            f"{statistics.median(100 * each.n_refused / max(each.n_gets, 1) for each in runs):.2f} %",
            f"{statistics.median(each.run.peak_rss_mib for each in runs):.0f}",
            *(ratio(value, ours, runs).text(2) if ours and is_compared else "" for value in values),
        )


def _pace_with_start(each: Measurement) -> float:
    return each.run.tiles_per_s(with_start=True)


def _cpu_with_start(each: Measurement) -> float:
    return each.run.cpu_s_per_1000(with_start=True)


def _requests(runs: Sequence[Measurement]) -> str:
    gets = statistics.median(each.n_gets / each.run.n_tiles for each in runs)
    heads = statistics.median(each.n_heads / each.run.n_tiles for each in runs)
    return f"{gets:.2f}" + (f" + {heads:.2f} HEAD" if heads else "")


def _late(groups: Groups) -> Iterator[str]:
    """Yield what late answers cost each reader."""
    rows: list[tuple[str, ...]] = [("reader", "s", "s, late", "ratio", "more requests")]
    for setting, late in groups.items():
        if setting.slow_share:
            on_time = groups[setting.on_time]
            more = by_round(lambda a, b: 100 * (n_requests(a) / n_requests(b) - 1), late, on_time)
            seconds = (Spread.of(map(reading_s, runs)).text(2) for runs in (on_time, late))
            rows.append(
                (setting.reader, *seconds, ratio(reading_s, late, on_time).text(2), f"{more.text(1)} %")
            )
    if len(rows) > 1:
        yield ""
        yield from markdown(rows)


def reading_s(each: Measurement) -> float:
    """Return the wall time of reading."""
    return each.run.reading_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What the cores could do, from the CPU time of fetching alone and of decoding alone; seconds a tile."""

    fetch_s: float
    decode_s: float
    server_s: float
    """Taken by the server on the same cores."""

    cores: int
    n_tiles: int
    waiting_s: float
    """Time to the first byte of the first tile. Before it there is nothing to decode."""

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


def _limits(groups: Groups, *, cores: int) -> Iterator[str]:
    by_reader = {setting.reader: runs for setting, runs in groups.items() if not setting.slow_share}
    decoded = by_reader.get("limit-decode")
    head = ("reader", "limit, tiles/s", "share", "reachable, tiles/s", "share", "x CPU of the limit")
    rows: list[tuple[str, ...]] = [head]
    for reader, fetching in ((OURS, "limit-fetch"), (INDEXED, "limit-fetch-indexed")):
        fetched, runs = by_reader.get(fetching), by_reader.get(reader)
        if fetched and decoded and runs:
            rows.append((reader, *_share(fetched, decoded, runs, cores=cores)))
    if len(rows) > 1:
        yield ""
        yield from markdown(rows)


def _share(
    fetched: Sequence[Measurement],
    decoded: Sequence[Measurement],
    runs: Sequence[Measurement],
    *,
    cores: int,
) -> tuple[str, ...]:
    def told(value: Callable[[Limit, Run], float], digits: int) -> str:
        def of(a: Measurement, b: Measurement, c: Measurement) -> float:
            return value(limit_of(a, b, cores=cores, n_tiles=c.run.n_tiles), c.run)

        return by_round(of, fetched, decoded, runs).text(digits)

    return (
        told(lambda limit, _: limit.tiles_per_s, 0),
        told(lambda limit, run: run.tiles_per_s() / limit.tiles_per_s, 2),
        told(lambda limit, _: limit.reachable_tiles_per_s, 0),
        told(lambda limit, run: run.tiles_per_s() / limit.reachable_tiles_per_s, 2),
        told(lambda limit, run: run.reading_cpu_s / run.n_tiles / (limit.fetch_s + limit.decode_s), 2),
    )


def _preparations(measured: Sequence[Measurement]) -> Iterator[str]:
    made = {
        (each.setting.reader, each.setting.n_tiles): each.preparation
        for each in measured
        if each.preparation is not None and each.setting.reader not in LIMITS
    }
    if made:
        yield "\nMade beforehand, in none of the figures above:\n"
        rows = [
            (reader, str(n_tiles), f"{each.took_s:.1f}", f"{each.took_cpu_s:.1f}")
            for (reader, n_tiles), each in made.items()
        ]
        yield from markdown([("reader", "tiles", "s", "CPU s"), *rows])
