"""The benchmark of the header index: it works, and the index does what it is for."""

from benchmarks.bench_index import INDEXED, settings_of, table
from benchmarks.measure import OURS, Measurement, open_bench


def _measured(n_files: int, *, ttfb_ms: float, repeats: int) -> list[Measurement]:
    settings = list(settings_of(ttfb_ms=[ttfb_ms], cases=["shard"], n_files=n_files))
    with open_bench(n_files=8) as bench:
        return bench.rounds(settings, repeats=repeats, on_run=lambda _: None)


def test_an_index_saves_a_request_a_tile() -> None:
    """Two GETs without it, one with it, and now and then one more that makes up for a late one."""
    measured = _measured(16, ttfb_ms=0, repeats=1)

    gets = {each.setting.engine: each.n_gets / each.run.n_tiles for each in measured}
    assert 2 <= gets[OURS] < 2.5
    assert 1 <= gets[INDEXED] < 1.5
    assert any("GETs a tile" in line for line in table(measured))
