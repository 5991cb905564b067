"""The list that a search found, written as Parquet and read again."""

import io
from typing import Any

import arro3.io
import pytest
from arro3.core import DataType

from pixel_gather.core.model.band_meaning import BandClass, BandMeaning
from pixel_gather.core.model.source import LeftOut, Source
from pixel_gather.core.request.sources import Sources
from pixel_gather.io.lists.found_list import found_sources
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.lists.source_table import SqliteSourceTable

ANY = Sources(hrefs=("s3://bucket/a.tif",))


def source(name: str, *, band: str, time_us: int | None, **columns: Any) -> Source:
    """Return one asset of a scene."""
    return Source(
        href=f"s3://bucket/{name}/{band}.tif", band=band, scene=name, time_us=time_us, columns=columns
    )


LISTS: dict[str, list[Source]] = {
    "bands in an order of their own": [
        source("late", band="nir", time_us=2_000_000, cloud=1, ok=True),
        source("late", band="red", time_us=2_000_000, cloud=2.5, ok=False),
        source("early", band="red", time_us=1_000_000, cloud=None, ok=True),
    ],
    "integers, of which one is missing": [
        source("a", band="red", time_us=1, n=7, text="x"),
        source("b", band="red", time_us=2, n=None, text=None),
    ],
    "text beside numbers": [
        source("a", band="red", time_us=1, v=7),
        source("b", band="red", time_us=2, v="7"),
    ],
    "a column without any value": [source("a", band="red", time_us=1, v=None)],
    "large integers": [source("a", band="red", time_us=1, v=2**62), source("b", band="red", time_us=2, v=-1)],
    "no time": [source("a", band="red", time_us=None), source("b", band="red", time_us=None)],
}


@pytest.mark.parametrize("sources", LISTS.values(), ids=LISTS)
def test_a_frozen_list_is_the_same_list(sources: list[Source]) -> None:
    """Its digest is the same, so a gather that is continued with it is the same gather."""
    left_out = [
        LeftOut(
            href=None,
            band="red",
            scene="c",
            time_us=3,
            columns={"v": 0.5, "n": "many", "other": 1},
            status="absent",
            reason="c has no such asset",
        )
    ]
    classes = (BandClass(value=4, name="clear, dry", colour="#00ff00"), BandClass(value=9))
    meanings = {"red": BandMeaning(unit="K", classes=classes)}
    named = SourceList(
        name="sources.stac", is_typed=True, sources=iter(sources), left_out=left_out, band_meanings=meanings
    )
    with SqliteSourceTable(named) as first:
        content = first.found_list()
        assert content is not None
        frozen = found_sources(content, ANY)
        with SqliteSourceTable(frozen) as again:
            assert again.digest == first.digest
            assert again.bands == first.bands
            assert again.columns == first.columns
            assert again.band_meanings == meanings
            assert frozen.left_out is not None
            assert [(each.href, each.status, each.reason) for each in frozen.left_out] == [
                (None, "absent", "c has no such asset")
            ]
            assert again.found_list() == content


def test_the_file_says_what_became_of_each_source() -> None:
    """Times are times, and columns have their types."""
    left_out = [
        LeftOut(
            href="s3://bucket/old/red.tif",
            band="red",
            scene="old",
            time_us=1_000_000,
            columns={"cloud": 3.5},
            status="duplicate",
            reason="old was processed again later: new is kept",
        )
    ]
    kept = [source("new", band="red", time_us=1_000_000, cloud=2.5)]
    with SqliteSourceTable(
        SourceList(name="x", is_typed=True, sources=iter(kept), left_out=left_out)
    ) as table:
        content = table.found_list()
    assert content is not None
    found = arro3.io.read_parquet(io.BytesIO(content)).read_all()

    assert DataType.is_timestamp(found.schema.field("time").type)
    assert found["status"].to_pylist() == ["kept", "duplicate"]
    assert found["reason"].to_pylist() == [None, "old was processed again later: new is kept"]
    assert found["cloud"].to_pylist() == [2.5, 3.5]


def test_a_list_that_was_not_searched_for_is_not_frozen() -> None:
    """It lies somewhere already."""
    named = SourceList(name="list", is_typed=True, sources=iter([source("a", band="red", time_us=1)]))
    with SqliteSourceTable(named) as table:
        assert table.found_list() is None
