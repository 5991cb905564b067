"""Fuzzes one target by atheris: libFuzzer with the coverage of Python code. scripts/fuzz starts it."""

import importlib
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import atheris

_MOST_NBYTES: Final = 1 << 16


def main() -> None:
    """Take the target's name, the folder of its corpus, and libFuzzer's options.

    Inputs that fail are written to ``failures`` beside that folder. By itself, libFuzzer writes them to the
    working folder.
    """
    name, corpus, *options = sys.argv[1:]
    failures = Path(corpus).parent / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["pixel_gather", "msgspec", "shapely"]):
        target: ModuleType = importlib.import_module(f"fuzz.targets.{name}")
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)

    def mutated(content: bytes, most_nbytes: int, seed: int) -> bytes:
        """Change the structure half of the time, and the bytes as libFuzzer does otherwise."""
        if seed % 2 or not content:
            by_libfuzzer: bytes = atheris.Mutate(content, most_nbytes)
            return by_libfuzzer
        changed: bytes = target.mutated(content, random.Random(seed))  # noqa: S311 # reproducible
        return changed[:most_nbytes]

    atheris.Setup(
        [sys.argv[0], corpus, f"-max_len={_MOST_NBYTES}", f"-artifact_prefix={failures / name}-", *options],
        target.fuzz_one,
        custom_mutator=mutated,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
