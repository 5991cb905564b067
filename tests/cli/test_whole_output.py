"""Results reach the reader of a pipe as a whole."""

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pixel_gather_cli.whole_output import WholeWrites


class Short(io.RawIOBase):
    """Takes three bytes at a time, as a call that a signal has interrupted."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: object, /) -> int:
        """Take three bytes."""
        piece = bytes(memoryview(data))[:3]  # type: ignore[arg-type] # a buffer
        self.taken += piece
        return len(piece)


def test_a_piece_that_is_taken_in_parts_is_written_as_a_whole() -> None:
    """A short write is not the end."""
    raw = Short()

    assert WholeWrites(raw).write(b"0123456789") == 10
    assert raw.taken == b"0123456789"


@pytest.mark.long
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_long_results_are_not_cut_in_a_pipe_that_does_not_block(tmp_path: Path, unbuffered: str) -> None:
    """Its reader is slow, and the results are longer than the 64 KiB that a pipe holds."""
    names = [f"{n:0200d}.tif" for n in range(1000)]
    for name in names:
        (tmp_path / name).touch()
    read, write = os.pipe()
    os.set_blocking(write, False)
    found: list[bytes] = []

    def read_slowly() -> None:
        time.sleep(0.2)
        with os.fdopen(read, "rb") as file:
            found.append(file.read())

    reader = threading.Thread(target=read_slowly)
    reader.start()
    command = [sys.executable, "-m", "pixel_gather_cli", "ls", str(tmp_path)]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    code = subprocess.run(command, stdout=write, env=environment, check=False).returncode  # noqa: S603 # ours
    os.close(write)
    reader.join()

    assert code == 0
    assert [Path(line).name for line in found[0].decode().split() if line.endswith(".tif")] == names


def test_results_that_cannot_be_written_fail() -> None:
    """A full disk is told, and the exit code is not 0."""
    command = [sys.executable, "-m", "pixel_gather_cli", "completion", "bash"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123 # a device
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)  # noqa: S603 # ours

    assert ended.returncode == 2
    assert b"results could not be written" in ended.stderr
