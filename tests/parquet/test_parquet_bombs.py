"""Parquet files of others that unpack to far more than they are: refused before they are unpacked."""

from pathlib import Path
from typing import Any, NoReturn

import pytest

from hostile.memory import peak_rss_mib, reset_peak
from parquet.test_parquet_pages import MIB, parquet
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.io.cube.row_table import read_table
from pixel_gather.io.scenes.item_files import items_of_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A file of some KB whose one column unpacks to 264 MiB."""
    content = parquet(["x" * (8 * MIB)] * 33, name="geometry")
    assert len(content) < MIB
    reset_peak()
    return content


@pytest.mark.long
def test_rows_of_a_cube_stay_inside_the_memory(bomb: bytes) -> None:
    """Joining reads such a file of each member."""
    before_mib = peak_rss_mib("self")

    with pytest.raises(StoreError, match=r"rows\.parquet is damaged"):
        read_table(bomb, None, place="cube")
    assert peak_rss_mib("self") - before_mib < 100


@pytest.mark.long
def test_items_of_a_catalog_stay_inside_the_memory(bomb: bytes, tmp_path: Path) -> None:
    """The message says what to do with a file that is only written oddly."""
    (tmp_path / "items.parquet").write_bytes(bomb)
    before_mib = peak_rss_mib("self")
    objects: Any = None

    def unread(_: str) -> NoReturn:
        raise AssertionError

    with pytest.raises(RequestError, match="write it anew in smaller row groups"):
        list(
            items_of_file(
                f"file://{tmp_path}/items.parquet",
                objects=objects,
                check_linked=unread,
                skipped=SkippedItems(),
            )
        )
    assert peak_rss_mib("self") - before_mib < 100
