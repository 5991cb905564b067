"""A file of this machine is replaced by a whole one, or stays."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.io.atomic_write import replacing
from pixel_gather.io.parquet.parquet_file import write_columns
from pixel_gather.io.pictures.page_style import write_html

type Write = Callable[[Path], None]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_columns({"a": ("int64", [1])}, path, about={}),
        lambda path: write_html("<p>new</p>", path),
    ],
    ids=["columns", "page"],
)
def test_a_full_disk_spoils_no_file(tmp_path: Path, write: Write) -> None:
    """The former file stays, and half a new one does not. /dev/full is a disk without space."""
    path = tmp_path / "x.out"
    path.write_text("former")
    path.with_name(f".x.{os.getpid()}.partial.out").symlink_to("/dev/full")

    with pytest.raises(StoreError, match=r"x\.out cannot be written: No space left"):
        write(path)

    assert path.read_text() == "former"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    """Also where there is no file yet."""
    link, file = tmp_path / "link", tmp_path / "elsewhere" / "file"
    file.parent.mkdir()
    link.symlink_to(file)
    for text in ("one", "two"):
        with replacing(link) as partial:
            partial.write_text(text)

        assert link.is_symlink()
        assert file.read_text() == text
        assert list(file.parent.iterdir()) == [file]


def test_what_is_no_file_is_written_to() -> None:
    """As a terminal, or the standard output. A file never takes its place."""
    with pytest.raises(StoreError, match="/dev/full cannot be written"), replacing(Path("/dev/full")) as path:
        path.write_text("x" * 9_999)

    assert Path("/dev/full").is_char_device()
