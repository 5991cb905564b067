"""Parts of a job on the disk, after the process was killed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.tables.part_folder import NO_LINES, ImageRecord, PartFolder, line_dtype


def record(number: int) -> ImageRecord:
    """Return an image without lines."""
    return ImageRecord(number=number, scene=f"scene {number}", time_us=None, hrefs=())


def test_a_record_after_one_that_was_cut_off_is_whole(tmp_path: Path) -> None:
    """The process was killed while it wrote. The next one does that image anew, and is killed later.

    Another job has nothing of it.
    """
    folder = PartFolder.open_(tmp_path / "job", digest="of this job")
    for number in (0, 1):
        folder.write(record(number), NO_LINES)
    (log,) = (each for each in folder.path.iterdir() if b"scene 1" in each.read_bytes())
    log.write_bytes(log.read_bytes()[:-9])

    again = PartFolder.open_(folder.path, digest="of this job")
    assert list(again.records) == [0]
    for number in (2, 1):
        again.write(record(number), NO_LINES)

    assert PartFolder.open_(folder.path, digest="of this job").records == {n: record(n) for n in range(3)}
    assert PartFolder.open_(folder.path, digest="of another job").records == {}


def test_what_is_left_of_a_removed_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was killed while it removed the folder: lines are gone, and the log is still there."""
    folder = PartFolder.open_(tmp_path / "job", digest="of this job")
    folder.write(record(0), np.zeros(2, line_dtype(())))

    def killed(path: Path, **_: object) -> None:
        (path / "0.npy").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        folder.remove()

    assert PartFolder.open_(folder.path, digest="of this job").records == {}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
@pytest.mark.parametrize("name", ["0.npy", "0.pieces.npy"])
def test_a_damaged_part_is_named(tmp_path: Path, name: str, damage: Callable[[Path], object]) -> None:
    """The error says what to remove."""
    folder = PartFolder.open_(tmp_path / "job", digest="")
    folder.write(record(0), *[np.zeros(2, line_dtype(()))] * 2)
    damage(folder.path / name)

    with pytest.raises(StoreError, match=f"{name} is missing or damaged .*remove the folder {folder.path}"):
        (folder.pieces if "pieces" in name else folder.lines)(0)


@pytest.mark.parametrize("line", [b"\0\0\n", b"[]\n", b'{"number": 0, "hrefs": 3}\n'])
def test_a_damaged_log_is_named(tmp_path: Path, line: bytes) -> None:
    """The error says what to remove."""
    folder = PartFolder.open_(tmp_path / "job", digest="")
    (folder.path / "images.jsonl").write_bytes(line)

    with pytest.raises(StoreError, match=r"images\.jsonl is missing or damaged"):
        PartFolder.open_(folder.path, digest="")
