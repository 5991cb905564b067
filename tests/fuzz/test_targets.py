"""What fuzzing found stays mended, and a few new inputs are tried. scripts/fuzz tries millions."""

import importlib
import random
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

_CORPUS: Final = Path(__file__).parent / "corpus"
_SEED: Final = 20261122
_N_INPUTS: Final = {
    "header": 25,
    "tile": 200,
    "packed_header": 100,
    "list_file": 150,
    "index": 40,
    "request": 150,
    "item": 40,
}
"""Changed inputs of each target. ``cube`` takes long."""

_TARGETS: Final = sorted(path.stem for path in (Path(__file__).parent / "targets").glob("*.py"))


def _target(name: str) -> ModuleType:
    return importlib.import_module(f"fuzz.targets.{name}")


def _kept() -> list[object]:
    return [
        pytest.param(path.parent.name, path, id=f"{path.parent.name}/{path.name}")
        for path in sorted(_CORPUS.glob("*/*"))
    ]


@pytest.mark.parametrize(("target", "path"), _kept())
def test_an_input_that_once_failed_is_refused_or_read(target: str, path: Path) -> None:
    """Each of them ended with another error than the promised one."""
    _target(target).fuzz_one(path.read_bytes())


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("name", _TARGETS)
def test_sound_and_changed_inputs_end_with_the_promised_errors(name: str) -> None:
    """A target lets the promised errors pass, and no other."""
    target = _target(name)
    chance = random.Random(_SEED)  # noqa: S311 # the same inputs at every run
    seeds = target.seeds()
    for seed in seeds if name != "cube" else ():
        target.fuzz_one(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of shapely, for infinite coordinates
        for _ in range(_N_INPUTS.get(name, 0)):
            content = target.mutated(chance.choice(seeds), chance)
            try:
                target.fuzz_one(content)
            except Exception as error:
                raise AssertionError(content[:500]) from error


def test_inputs_that_fail_are_kept_beside_the_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By itself, libFuzzer writes them to the working folder, a checkout. The caller's options come last."""
    options: list[str] = []

    def set_up(arguments: list[str], *_: Any, **__: Any) -> None:
        options.extend(arguments)

    atheris = SimpleNamespace(
        instrument_imports=lambda **_: nullcontext(), Setup=set_up, Fuzz=lambda: None, Mutate=None
    )
    monkeypatch.setitem(sys.modules, "atheris", atheris)
    monkeypatch.setattr(sys, "argv", ["run", "request", str(tmp_path / "request"), "-runs=1"])

    importlib.import_module("fuzz.run").main()
    monkeypatch.delitem(sys.modules, "fuzz.run")

    failures = tmp_path / "failures"
    assert options[-2:] == [f"-artifact_prefix={failures / 'request'}-", "-runs=1"]
    assert failures.is_dir()


def test_index_leaves_no_file_behind() -> None:
    """Its inputs are files in memory, which the system never removes by itself."""
    target = _target("index")

    for content in (target.seeds()[0], b"no index"):
        target.fuzz_one(content)

    assert not target._file().exists()
