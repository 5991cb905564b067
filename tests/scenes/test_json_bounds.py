"""Items in JSON of others: what would take too much memory is refused before it is decoded."""

import gzip
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.io.scenes import item_files
from pixel_gather.io.scenes.item_files import MOST_JSON_VALUES, items_of_file


def _items(path: Path) -> list[dict[str, Any]]:
    objects: Any = None

    def unread(_: str) -> NoReturn:
        raise AssertionError

    skipped = SkippedItems()
    return list(items_of_file(f"file://{path}", objects=objects, check_linked=unread, skipped=skipped))


@pytest.mark.parametrize("value", [b"0", b"[]", b"{}"])
def test_json_of_millions_of_values_is_refused(tmp_path: Path, value: bytes) -> None:
    """A file of 12 MB would become 48 bytes for each of its lists."""
    path = tmp_path / "items.json"
    path.write_bytes(b'{"type": "FeatureCollection", "features": [' + (value + b",") * MOST_JSON_VALUES)

    with pytest.raises(RequestError, match=r"items\.json: it is too large .* write one item a line"):
        _items(path)


@pytest.mark.parametrize("first", [b"", b'{"type": "Feature"}\n'])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_long_line_is_refused(
    tmp_path: Path, first: bytes, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a gzipped file unpacks to: the whole document, or one of its lines."""
    monkeypatch.setattr(item_files, "LARGEST_JSON_NBYTES", 1 << 20)
    path = tmp_path / "items.json"
    path.write_bytes(gzip.compress(first + b'{"a": "' + b" " * (1 << 20) + b'"}' + end))

    with pytest.raises(RequestError, match="it is too large to be decoded at one time"):
        _items(path)


def test_items_of_many_lines_are_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are those of one line."""
    monkeypatch.setattr(item_files, "LARGEST_JSON_NBYTES", 100)
    monkeypatch.setattr(item_files, "MOST_JSON_VALUES", 5)
    path = tmp_path / "items.json"
    path.write_bytes(b'{"type": "Feature", "id": "a"}\n\n' * 50)

    assert len(_items(path)) == 50
