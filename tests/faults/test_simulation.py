"""Many simulated gathers with faults at random: no finished cube is wrong, and every gather ends."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from faults.simulation import BrokenPromiseError, simulate
from pixel_gather.use_cases import gather_shard, step_files

_SEEDS = range(80)


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure and compress on the event loop, so that a seed is always the same run."""

    async def at_once[T](work: Callable[[], T]) -> T:
        return work()

    monkeypatch.setattr(gather_shard, "in_thread", at_once)


def _simulate_all() -> None:
    for seed in _SEEDS:
        simulate(seed)


@pytest.mark.slow
def test_finished_cubes_hold_the_pixels_that_they_say_they_hold() -> None:
    """Two users gather beside each other, while stores and workers fail and sources are replaced."""
    _simulate_all()


def test_a_seed_is_a_run() -> None:
    """The same seed gives the same files."""
    one, other = simulate(7), simulate(7)

    assert one.control.keys_put == other.control.keys_put
    assert one.cube.calls == other.cube.calls


def _put_back_sidecars_of_any_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a task's sidecar for that of whatever pixels are stored."""

    def key(index: int, etags: Sequence[str]) -> str:
        del etags
        return f"shards/{index:05d}.msgpack"

    for module in (step_files, gather_shard):
        monkeypatch.setattr(module, "sidecar_key", key)


def _put_back_late_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers write without a look whether the task is committed, and take any sidecar."""

    async def never(*_: Any, **__: Any) -> None:
        return None

    _put_back_sidecars_of_any_pixels(monkeypatch)
    monkeypatch.setattr(gather_shard, "_committed_meanwhile", never)


@pytest.mark.slow
@pytest.mark.parametrize(
    "defect", [_put_back_sidecars_of_any_pixels, _put_back_late_workers], ids=lambda each: each.__name__[10:]
)
def test_a_defect_that_is_put_back_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the simulation would prove nothing."""
    defect(monkeypatch)

    with pytest.raises(BrokenPromiseError):
        _simulate_all()
