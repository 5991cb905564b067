"""Real files with flipped bytes give rasterio's pixels or an error, and never a hang."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from hostile.test_hostile import MAX_CPU_S
from parity.readers import Readings
from parity.truth import SMALL, Truth, sha256, truths
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.window import Window

_N_MUTANTS: Final = int(os.environ.get("PIXEL_GATHER_MUTANTS", "150"))
_LARGEST_NBYTES: Final = 60_000
_ZEROED_MEMORY: Final = {"MALLOC_PERTURB_": "255"}
"""If a tile inflates short, GDAL shows its memory. It is zeroed in our child and in the oracle."""

_SEED: Final = 20261121


@pytest.mark.long
def test_joined_reader_answers_mutants_as_rasterio_or_with_an_error(tmp_path: Path) -> None:
    """Where both give pixels, they are the same; a broken tile is never read as if it were sound.

    More mutants: ``PIXEL_GATHER_MUTANTS=20000``.
    """
    mutants = _mutants(tmp_path)
    answers = {}
    with asyncio.Runner() as runner:
        readings = Readings(runner, "joined")
        for path in mutants:
            began_s = time.process_time()
            answers[path] = _answer(readings, path)
            assert time.process_time() - began_s < MAX_CPU_S, path.name
        runner.run(readings.aclose())
    read = {path: answer for path, answer in answers.items() if answer is not None}
    by_rasterio = _ask_rasterio(read)

    wrong = {
        path.name: by_rasterio[path] for path, (digest, _, _) in read.items() if digest != by_rasterio[path]
    }
    assert not wrong
    assert 0 < len(read) < len(mutants)


def _mutants(folder: Path) -> list[Path]:
    """Write files, each with a few bytes changed: half of them in the header, where it hurts most."""
    chance = random.Random(_SEED)  # noqa: S311 # a fixed sequence is wanted
    bases: list[Truth] = [truth for truth in truths(SMALL) if truth.path.stat().st_size <= _LARGEST_NBYTES]
    paths = []
    for number in range(_N_MUTANTS):
        base = chance.choice(bases)
        content = bytearray(base.path.read_bytes())
        last = min(len(content), chance.choice((512, len(content))))
        for _ in range(chance.choice((1, 1, 2, 8))):
            content[chance.randrange(4, last)] = chance.randrange(256)
        is_jp2 = base.answers["driver"] == "JP2OpenJPEG"
        paths.append(folder / f"{number}-{base.path.stem}.{'jp2' if is_jp2 else 'tif'}")
        paths[-1].write_bytes(content)
    return paths


def _answer(readings: Readings, path: Path) -> tuple[str, int, int] | None:
    """Return the hash of the first band's upper left pixels and the raster's size, None for an error."""
    try:
        source = readings.open_(f"file://{path}")
        header = source.header
        width, height = min(header.width, 256), min(header.height, 256)
        out = np.zeros((1, height, width), header.dtype)
        window = Window(col_off=0, row_off=0, width=width, height=height)
        return sha256(readings.read_into(source, out, window, [1])), header.width, header.height
    except SourceError:
        return None


def _ask_rasterio(read: dict[Path, tuple[str, int, int]]) -> dict[Path, str]:
    """Return rasterio's answers, from a process that a file may take down: it starts anew after that one."""
    answers: dict[Path, str] = {}
    waiting = list(read)
    while waiting:
        asked = "".join(f"{path} {read[path][1]} {read[path][2]}\n" for path in waiting)
        oracle = subprocess.run(  # noqa: S603 # our own script
            [sys.executable, str(Path(__file__).with_name("oracle.py"))],
            input=asked,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **_ZEROED_MEMORY},
        )
        lines = oracle.stdout.splitlines()
        answers.update(zip(waiting, lines, strict=False))
        if len(lines) < len(waiting):
            answers[waiting[len(lines)]] = f"crash {oracle.returncode}: {oracle.stderr[-300:]}"
        waiting = waiting[len(lines) + 1 :]
    return answers
