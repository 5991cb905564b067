"""Valid requests, and the errors of wrong ones."""

import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from pydantic import BaseModel, TypeAdapter

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.window import TileIndex, WindowRule
from pixel_gather.core.request.request import GatherRequest, Limits, parse_request, request_schema
from pixel_gather.core.request.wrong_values import LISTS, OBJECTS
from support.strategies import requests

PLAIN: dict[str, Any] = {"sources": ["/a.tif"], "window": "centre"}
EXACT: dict[str, Any] = {"crs": "EPSG:3035", "shape": [7, 9], "transform": [9, 0, 4e6, 0, -9, 3e6]}


@pytest.mark.long
@given(request_=requests())
def test_request_survives_json(request_: GatherRequest) -> None:
    """The stored request equals the request."""
    whole = json.dumps(request_.model_dump(mode="json"))
    short = json.dumps(request_.to_json())

    for text in (whole, short):
        again = parse_request(json.loads(text))
        assert again == request_
        assert again.digest() == request_.digest()


def test_request_may_name_any_pixel_that_a_raster_can_have() -> None:
    """Offsets reach 2**31 - 1 columns and rows, as in drill."""
    last = 2**31 - 2

    parsed = parse_request(PLAIN | {"window": {"pixels": [last, last, 1, 1]}})

    assert parsed.rule().pixels == (last, last, 1, 1)
    with pytest.raises(RequestError, match="pixels"):
        parse_request(PLAIN | {"window": {"pixels": [2**31, 0, 1, 1]}})


@pytest.mark.parametrize(
    "change",
    [
        {"sources": ["/b.tif"]},
        {"sources": {"hrefs": ["/a.tif"], "time": "auto"}},
        {"sources": ["/a.tif", "/a.tif"]},
        {"sources": "/a.tif"},
        {"sources": {"prefix": "/a.tif"}},
        {"window": {"tile": [0, 0]}},
        {"window": {"pixels": [0, 0, 1, 1]}},
        {"window": {"bbox": [0, 0, 1, 1]}},
        {"window": {"bbox": [0, 0, 1, 1], "crs": "source"}},
        {"window": {"bbox": [-181.25, -91.25, 178.75, 91.25]}},  # all of a global image, by the middles
        {"window": {"point": [680000, 5100000], "crs": "EPSG:32632"}},
        {"window": {"point": [0, 0]}},
        {"window": {"point": [0, 0], "size": [1, 2]}},
        {"bands": [1]},
        {"bands": [2, 1]},
        {"overview": 0},
        {"masked": True},
        {"nodata": 0},
        {"nodata": 2**63},
        {"grid": "same"},
        {"grid": {"resolution": 10}},
        {"grid": {"resolution": "finest", "resampling": {"scl": "nearest"}}},
        {"output": {"layout": "slice"}},
        {"output": {"layout": {"chunk": [1, 1, 1]}}},
        {"output": {"layout": {"chunk": [1, 1, 1], "shard_rows": 2}}},
        {"output": {"codec": "none"}},
        {"output": {"codec": "zfp", "zfp_tolerance": 0}},
        {"output": {"codec": "zfp", "zfp_tolerance": 0.5}},
    ],
    ids=json.dumps,
)
def test_digest_changes_with_any_field(change: dict[str, Any]) -> None:
    """Requests for different cubes have different digests."""
    assert parse_request(PLAIN | change).digest() != parse_request(PLAIN).digest()


def test_report_is_no_part_of_the_digest() -> None:
    """A gather without a report makes the same cube. The stored request says so where it has none."""
    without = parse_request(PLAIN | {"output": {"report": False}})

    assert without.digest() == parse_request(PLAIN).digest()
    assert without.to_json()["output"] == {"report": False}
    assert "output" not in parse_request(PLAIN | {"output": {"report": True}}).to_json()


def test_digest_of_a_plain_request_never_changes() -> None:
    """The digests never change, so unfinished cubes can be resumed and complete ones are found."""
    assert parse_request({"sources": ["s3://b/a.tif"], "window": "centre"}).digest() == "b73aa584b2ad771d"


@pytest.mark.parametrize(
    "same",
    [
        {"sources": {"hrefs": ["/a.tif"]}},
        {"window": {"tile": "centre"}},
        {"window": "center"},
        {"bands": None, "masked": False, "grid": "any"},
        {"output": {"codec": "blosc-lz4"}},
        {"output": {"name": "bolzano"}},
        {"limits": {"usd": 1, "workers": 7, "times_source": 100}},
    ],
    ids=json.dumps,
)
def test_digest_is_that_of_the_meaning(same: dict[str, Any]) -> None:
    """Two spellings of the same request have the same digest."""
    assert parse_request(PLAIN | same).digest() == parse_request(PLAIN).digest()


@pytest.mark.parametrize(
    ("short", "spelled"),
    [
        ({"window": {"point": [1, 2]}}, {"window": {"point": [1, 2], "size": [1, 1], "crs": "EPSG:4326"}}),
        ({"window": {"bbox": [1, 2, 3, 4]}}, {"window": {"bbox": [1, 2, 3, 4], "crs": "EPSG:4326"}}),
        ({"grid": {"resolution": 10}}, {"grid": {"resolution": 10, "resampling": "average"}}),
        (
            {"grid": {"resolution": 10, "crs": "utm"}},
            {"grid": {"resolution": 10, "crs": "utm", "anchor": "edge", "resampling": "nearest"}},
        ),
    ],
    ids=json.dumps,
)
def test_digest_is_the_same_if_a_default_is_spelled_out(
    short: dict[str, Any], spelled: dict[str, Any]
) -> None:
    """Before, a cube was refused as that of another request, by a field of the same meaning."""
    assert parse_request(PLAIN | short).digest() == parse_request(PLAIN | spelled).digest()


def test_digest_of_drawn_chips_is_the_same_if_their_seed_is_spelled_out() -> None:
    """It is 0 if not given."""
    chips: dict[str, Any] = {"table": "a.csv", "size": [4, 4], "sample": 8}
    requests = [{"sources": ["/a.tif"], "windows": chips | more} for more in ({}, {"seed": 0})]

    assert len({parse_request(each).digest() for each in requests}) == 1


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        (0, 0.0, True),
        (-9999, -9999.0, True),
        (0.0, -0.0, False),
        (0.5, 0, False),
        (0, None, False),
        (float("nan"), "nan", True),
        (1e300, 1e301, False),
    ],
)
def test_digest_of_a_nodata_is_that_of_the_number(one: Any, other: Any, *, are_same: bool) -> None:
    """The command line reads 0, and a program may have 0.0. The bits of -0.0 are others."""
    digests = {parse_request(PLAIN | {"nodata": each}).digest() for each in (one, other)}

    assert (len(digests) == 1) == are_same


@pytest.mark.parametrize(
    ("window", "rule"),
    [
        ("centre", WindowRule(is_centre=True)),
        ({"tile": [3, 4]}, WindowRule(tile=TileIndex(column=3, row=4))),
        ({"tile": "center"}, WindowRule(is_centre=True)),
        ({"pixels": [-1, 2, 3, 4]}, WindowRule(pixels=(-1, 2, 3, 4))),
        ({"bbox": [1, 2, 3, 4]}, WindowRule(bounds=(1, 2, 3, 4), crs="EPSG:4326")),
        ({"bbox": [1, 2, 3, 4], "crs": "source"}, WindowRule(bounds=(1, 2, 3, 4))),
        ({"point": [1, 2]}, WindowRule(point=(1, 2), crs="EPSG:4326")),
        (
            {"point": [1, 2], "size": [5, 6], "crs": "EPSG:32631"},
            WindowRule(point=(1, 2), size=(5, 6), crs="EPSG:32631"),
        ),
    ],
    ids=str,
)
def test_rule_is_the_window_that_was_asked_for(window: Any, rule: WindowRule) -> None:
    """Coordinates are longitude and latitude unless the request says otherwise."""
    assert parse_request(PLAIN | {"window": window}).rule() == rule


@dataclass(frozen=True)
class Mistake:
    """A wrong request and its expected error."""

    id: str
    given: Any
    field: str
    says: str


MISTAKES = [
    Mistake("no object", [], "request", "at least sources and window"),
    Mistake("nothing", {}, "sources", "is needed$"),
    Mistake(
        "no sources", PLAIN | {"sources": None}, "sources", "None; write a list file, hrefs, or an object"
    ),
    Mistake(
        "source",
        {"source": "list.csv", "window": "centre"},
        "sources",
        r"is needed. Also wrong: source \(there is no such field; did you mean sources\?\)$",
    ),
    Mistake("a field of others", PLAIN | {"colour": 1}, "colour", "no such field; a request takes sources"),
    Mistake("of an object", PLAIN | {"codec": "zstd"}, "codec", r"field; did you mean output.codec\?$"),
    Mistake("of several", PLAIN | {"band": 1}, "band", r"did you mean sources.band, mask.band or bands\?$"),
    Mistake("typing error", PLAIN | {"widnow": 1}, "widnow", r"field; did you mean window\?$"),
    Mistake(
        "typing error below",
        PLAIN | {"output": {"kodek": 1}},
        "output.kodek",
        "takes name, append_to, archive, expected_rows, layout, codec",
    ),
    Mistake(
        "typing error in a search",
        PLAIN | {"sources": {"stac": {"api": "x", "assets": "a", "colour": "a"}}},
        "sources.stac.colour",
        "sources.stac takes collections, ids, datetime, area, where, assets, .* api, items, cmr$",
    ),
    Mistake(
        "typing error in a collection",
        PLAIN | {"sources": {"stac": {"cmr": {"short_name": "x", "name": "x"}, "assets": "a"}}},
        "sources.stac.cmr.name",
        "sources.stac.cmr takes short_name, concept_id, provider$",
    ),
    Mistake(
        "typing error in a layout",
        PLAIN | {"output": {"layout": {"chunk": [1, 1, 1], "shard": 1}}},
        "output.layout.shard",
        "output.layout takes chunk, shard_rows$",
    ),
    Mistake("no mapping", "sources", "request", "an object with at least sources and window"),
    Mistake("no sources", PLAIN | {"sources": []}, "sources.hrefs", "it is empty; give at least one"),
    Mistake(
        "a word for a window", PLAIN | {"window": "center2"}, "window", "write centre, or an object with"
    ),
    Mistake(
        "a box as text", PLAIN | {"window": {"bbox": "1,2,3,4"}}, "window.bbox", r"write a list, such as \["
    ),
    Mistake(
        "a box of three",
        PLAIN | {"window": {"bbox": [1, 2, 3]}},
        "window.bbox",
        r"bbox is \[west, south, east, north\]: north is needed$",
    ),
    Mistake("half a point", PLAIN | {"window": {"point": [1]}}, "window.point", "give 2 values$"),
    Mistake(
        "half a chunk",
        PLAIN | {"output": {"layout": {"chunk": [1]}}},
        "output.layout.chunk",
        "give 3 values$",
    ),
    Mistake(
        "a resolution by word",
        PLAIN | {"grid": {"resolution": "x"}},
        "grid.resolution",
        "it is 'x'; write a number, or 'finest' or 'coarsest'$",
    ),
    Mistake(
        "a box by one number", PLAIN | {"window": {"bbox": 1}}, "window.bbox", r"such as \[11.3, 46.4, 11"
    ),
    Mistake(
        "a condition by number",
        {"sources": {"stac": {"api": "https://a", "assets": "r", "where": 5}}, "window": "centre"},
        "sources.stac.where",
        "it is 5; write text, or an object, such as {eo:cloud_cover: {lt: 40}}$",
    ),
    Mistake("an overview by word", PLAIN | {"overview": "x"}, "overview", "write a whole number, or 'auto'$"),
    Mistake(
        "a layout by number",
        PLAIN | {"output": {"layout": 5}},
        "output.layout",
        r"write 'balanced', 'slice' or 'series', or an object, such as \{chunk: \[12, 256, 256\]\}$",
    ),
    Mistake(
        "a host without a scheme",
        PLAIN | {"limits": {"requests_per_s": {"a": 5}}},
        "limits.requests_per_s.a",
        "it is 'a'; write a bucket or host, such as s3://bucket or https://host$",
    ),
    Mistake("a box of five", PLAIN | {"window": {"bbox": [1, 2, 3, 4, 5]}}, "window.bbox", "give 4 values"),
    Mistake(
        "half a pixel", PLAIN | {"window": {"pixels": [0, 0, 1.5, 1]}}, "window.pixels", "1.5; write a whole"
    ),
    Mistake("masked by word", PLAIN | {"masked": "maybe"}, "masked", "'maybe'; write true or false"),
    Mistake("grid by word", PLAIN | {"grid": "x"}, "grid", "write 'any' or 'same'"),
    Mistake("no width", PLAIN | {"grid": {"resolution": 0}}, "grid.resolution", "it is 0; write more than 0"),
    Mistake(
        "no pixels", PLAIN | {"grid": {"crs": "utm"}}, "grid", "give a resolution, or shape and transform"
    ),
    Mistake(
        "a shape alone",
        PLAIN | {"grid": {"crs": "EPSG:3035", "shape": [9, 9]}},
        "grid",
        "shape and transform go together; give both, or a resolution",
    ),
    Mistake(
        "an anchor without a CRS",
        PLAIN | {"grid": {"resolution": 9, "anchor": "edge"}},
        "grid",
        "anchor needs a crs, onto which sources are warped; give crs, too",
    ),
    Mistake(
        "a box and an anchor",
        PLAIN | {"grid": EXACT | {"anchor": "edge"}},
        "grid",
        "transform says where the pixels lie; leave anchor out",
    ),
    Mistake(
        "a box in a zone",
        PLAIN | {"grid": EXACT | {"crs": "utm"}},
        "grid",
        "a transform is in one CRS; name that instead of utm",
    ),
    Mistake(
        "a box that is turned",
        PLAIN | {"grid": EXACT | {"transform": [9, 1, 0, 1, -9, 0]}},
        "grid",
        r"transform is \[width, 0, x, 0, -height, y\]: pixels lie along the axes of crs",
    ),
    Mistake(
        "two windows",
        PLAIN | {"grid": EXACT},
        "window",
        r"grid.shape and grid.transform \(--like\) say the window; leave window out",
    ),
    Mistake(
        "a mean of classes",
        PLAIN | {"grid": {"resolution": 10, "resampling": {"scl": "average"}}},
        "grid.resampling",
        "scl holds classes, which have no mean: write mode or nearest",
    ),
    Mistake(
        "tiles on a grid",
        PLAIN | {"grid": {"resolution": 10}, "output": {"codec": "source"}},
        "grid",
        "codec source keeps tiles as they are, so they get no other grid: leave grid out",
    ),
    Mistake(
        "a list for output",
        PLAIN | {"output": [1] * 99},
        "output",
        r"write an object, such as \{layout: slice\}$",
    ),
    Mistake(
        "a name with blanks", PLAIN | {"output": {"name": "a b"}}, "output.name", "write letters, digits"
    ),
    Mistake(
        "a long place",
        PLAIN | {"output": {"append_to": "a" * 1025}},
        "output.append_to",
        "append_to: it is longer than 1,024 characters$",
    ),
    Mistake("many workers", PLAIN | {"limits": {"workers": 10**9}}, "limits.workers", "the most is 10,000"),
    Mistake("two ways", PLAIN | {"sources": {"list": "a", "prefix": "b"}}, "sources", "list and prefix are"),
    Mistake("glob of a list", PLAIN | {"sources": {"list": "a", "glob": "*"}}, "sources", "for prefix only"),
    Mistake("no window", PLAIN | {"window": {}}, "window", "none is given"),
    Mistake("two windows", PLAIN | {"window": {"tile": [0, 0], "point": [0, 0]}}, "window", "exactly one"),
    Mistake("tile below 0", PLAIN | {"window": {"tile": [-1, 0]}}, "window.tile", "it is -1; the least is 0"),
    Mistake(
        "means of four without a CRS",
        PLAIN | {"grid": {"resolution": 9, "resampling": "bilinear"}},
        "grid",
        "without crs, resampling is one of average, mode, nearest, not bilinear",
    ),
    Mistake(
        "means of four classes",
        PLAIN | {"grid": {"crs": "utm", "resolution": 9, "resampling": {"scl": "bilinear"}}},
        "grid.resampling",
        "scl holds classes, which have no mean: write nearest",
    ),
    Mistake("no pixels", PLAIN | {"window": {"pixels": [0, 0, 0, 1]}}, "window.pixels", "0; the least is 1"),
    Mistake(
        "a part of pixels",
        PLAIN | {"window": {"pixels": [0, 0, -5, 1]}},
        "window.pixels",
        r"window\.pixels: pixels is \[column, row, width, height\]: width is -5; the least is 1$",
    ),
    Mistake(
        "a part of size",
        PLAIN | {"window": {"point": [0, 0], "size": [1, "a"]}},
        "window.size",
        r"window\.size: size is \[width, height\]: height is 'a'; write a whole number$",
    ),
    Mistake(
        "window left out",
        {"sources": "a.txt"},
        "window",
        r"is needed: give one of tile \(--tile\), pixels \(--pixels\), bbox \(--bbox\), point "
        r"\(--point\); or windows \(--windows\)$",
    ),
    Mistake(
        "over 180 degrees",
        PLAIN | {"window": {"bbox": [179, -5, -179, 5]}},
        "window",
        r"crosses 180 degrees, .* \[179, -5, 180, 5\] and \[-180, -5, -179, 5\]",
    ),
    Mistake(
        "no degrees",
        PLAIN | {"window": {"bbox": [179, -5, -179, 5], "crs": "EPSG:3857"}},
        "window",
        "west < east",
    ),
    Mistake(
        "a point beyond the Earth",
        PLAIN | {"window": {"point": [500, 46]}},
        "window",
        "the longitude is 500; write degrees from -360 to 360, the longitude first",
    ),
    Mistake(
        "latitude first",
        PLAIN | {"window": {"point": [39, -105], "size": [8, 8]}},
        "window",
        "the latitude is -105; .* Of other coordinates give crs, too",
    ),
    Mistake(
        "metres without a CRS",
        PLAIN | {"window": {"bbox": [680000, 5100000, 690000, 5110000]}},
        "window",
        "the longitude is 680000; ",
    ),
    Mistake("east of west", PLAIN | {"window": {"bbox": [1, 0, 0, 1]}}, "window", "west < east"),
    Mistake("no height", PLAIN | {"window": {"bbox": [0, 1, 1, 1]}}, "window", "south < north"),
    Mistake("no width", PLAIN | {"window": {"bbox": [1, 0, 1, 1]}}, "window", "west < east"),
    Mistake(
        "two patterns",
        PLAIN | {"sources": {"prefix": "a", "glob": "*", "regex": "."}},
        "sources",
        "give glob or regex, not both",
    ),
    Mistake(
        "an archive of an append",
        PLAIN | {"output": {"archive": "year", "append_to": "a"}},
        "output",
        "archive is for new cubes",
    ),
    Mistake(
        "an archive of tiles",
        PLAIN | {"output": {"archive": "year", "codec": "source"}},
        "output",
        "archive and codec source exclude each other",
    ),
    Mistake("half a character", PLAIN | {"index": "a\ud800"}, "index", "half of a character"),
    Mistake("one among hrefs", PLAIN | {"sources": ["a", "\udfff"]}, "sources.hrefs", "half of a character"),
    Mistake(
        "one among assets",
        PLAIN | {"sources": {"stac": {"api": "x", "assets": {"a": "\udc00"}}}},
        "sources.stac.assets",
        "half of a character",
    ),
    Mistake(
        "a condition that JSON lacks",
        PLAIN | {"sources": {"stac": {"api": "x", "assets": "a", "where": {"n": {"lt": float("nan")}}}}},
        "sources.stac.where",
        "write plain JSON",
    ),
    Mistake(
        "half a character within a condition",
        PLAIN | {"sources": {"stac": {"api": "x", "assets": "a", "where": {"n": "\ud800"}}}},
        "sources.stac.where",
        "write plain JSON|half of a character",
    ),
    Mistake(
        "very many mistakes",
        PLAIN | {f"x{n}": 1 for n in range(1_001)},
        "request",
        "it has 1,001 mistakes, too many to name; a request takes sources, window",
    ),
    Mistake("a name of 100", PLAIN | {"x" * 100: 1}, "x" * 100, f"^{'x' * 100}: there is no such field"),
    Mistake("a longer name", PLAIN | {"x" * 101: 1}, "x" * 100 + "…", "there is no such field"),
    Mistake("a long value", PLAIN | {"masked": "x" * 99}, "masked", r"it is 'x{26,28}\.\.\.x{26,29}'; write"),
    Mistake("NaN", PLAIN | {"window": {"point": [float("nan"), 0]}}, "window.point", "finite"),
    Mistake("size alone", PLAIN | {"window": {"tile": [0, 0], "size": [1, 1]}}, "window", "for point only"),
    Mistake(
        "crs alone", PLAIN | {"window": {"tile": [0, 0], "crs": "x"}}, "window", "for bbox and point only"
    ),
    Mistake("band 0", PLAIN | {"bands": [0]}, "bands", "it is 0; the least is 1"),
    Mistake("a band twice", PLAIN | {"bands": [1, 1]}, "bands", "twice"),
    Mistake("unknown codec", PLAIN | {"output": {"codec": "gzip"}}, "output.codec", "blosc-lz4"),
    Mistake("zfp alone", PLAIN | {"output": {"codec": "zfp"}}, "output", "with codec zfp"),
    Mistake("tolerance alone", PLAIN | {"output": {"zfp_tolerance": 0}}, "output", "with codec zfp"),
    Mistake(
        "chunk of 0", PLAIN | {"output": {"layout": {"chunk": [0, 1, 1]}}}, "output.layout", "least is 1"
    ),
    Mistake("nodata", PLAIN | {"nodata": "white"}, "nodata", "it is 'white'; write a number"),
    Mistake("infinite nodata", PLAIN | {"limits": {"usd": -1}}, "limits.usd", "it is -1; the least is 0$"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_parse_request_names_the_field_that_is_wrong(mistake: Mistake) -> None:
    """The error is one sentence. It names the field as the user wrote it, and none of our classes."""
    with pytest.raises(RequestError, match=mistake.says) as caught:
        parse_request(mistake.given)

    assert caught.value.field.startswith(mistake.field)
    assert "literal" not in caught.value.field
    assert "ExplicitLayout" not in caught.value.field
    for words_of_the_library in ("Input should", "Value error", "valid tuple", "after validation"):
        assert words_of_the_library not in str(caught.value)


def within(path: str, value: object) -> dict[str, Any]:
    """Return a request with one more value."""
    given: Any = value
    for name in reversed(path.split(".")):
        given = {name: given}
    if path.startswith("sources.stac"):
        given = {"sources": {"stac": {"api": "x", "assets": "a"} | given["sources"]["stac"]}}
    return {**PLAIN, **given}


@pytest.mark.parametrize(
    ("path", "least", "below"),
    [
        ("limits.usd", 0, -0.01),
        ("limits.files", 1, 0),
        ("limits.pixels", 1, 0),
        ("limits.fetched_bytes", 1, 0),
        ("limits.times_source", 1, 0.99),
        ("limits.workers", 1, 0),
        ("limits.failed_shards", 0, -0.01),
        ("overview", 0, -1),
        ("bands", [1], [0]),
        ("bands", [1], []),
        ("limits.usd", 0.5, float("nan")),
        ("output.expected_rows", 1, 0),
        ("limits.times_source", 16, float("inf")),
        ("index", "a", ""),
        ("sources.list", "a", ""),
        ("sources.prefix", "a", ""),
        ("sources.hrefs", ["a"], []),
        ("sources.stac.most", 1, 0),
        ("sources.stac.datetime", "2", ""),
        ("sources.stac.assets", ["a"], []),
        ("sources.stac.api", "a", ""),
        ("sources.catalog", {"file": "a", "assets": "a"}, {"file": "", "assets": "a"}),
        ("sources", {"prefix": "a", "glob": "*"}, {"prefix": "a", "glob": ""}),
        ("sources", {"prefix": "a", "regex": "a"}, {"prefix": "a", "regex": ""}),
        ("sources", {"list": "a", "time": "a"}, {"list": "a", "time": ""}),
    ],
)
def test_the_least_value_is_taken_and_no_less(path: str, least: object, below: object) -> None:
    """The error names the field."""
    parse_request(within(path, least))
    with pytest.raises(RequestError) as caught:
        parse_request(within(path, below))

    assert caught.value.field.startswith(path.partition(".")[0])


@pytest.mark.parametrize("name", ["short_name", "concept_id", "provider"])
def test_names_of_nasas_collections_are_not_empty(name: str) -> None:
    """One of the first two names the collection."""
    named = {"short_name": "HLSL30"} if name == "provider" else {}
    for text, is_taken in (("a", True), ("", False)):
        given = PLAIN | {"sources": {"stac": {"cmr": named | {name: text}, "assets": "a"}}}
        with nullcontext() if is_taken else pytest.raises(RequestError, match=rf"cmr\.{name}: it is empty"):
            parse_request(given)


@pytest.mark.parametrize(
    ("path", "most", "above"),
    [
        ("limits.workers", 10_000, 10_001),
        ("limits.failed_shards", 1, 1.01),
        ("overview", 63, 64),
        ("output.expected_rows", 10_000_000, 10_000_001),
        ("bands", [65_535], [65_536]),
        ("sources.stac.most", 1_000_000, 1_000_001),
    ],
)
def test_the_largest_value_is_taken_and_no_more(path: str, most: object, above: object) -> None:
    """The error says which it is."""
    parse_request(within(path, most))
    with pytest.raises(RequestError, match="the most is"):
        parse_request(within(path, above))


@pytest.mark.parametrize(
    ("sources", "is_search", "field"),
    [
        ({"stac": {"api": "x", "assets": "a"}}, True, "sources.stac.where"),
        ({"catalog": {"file": "x", "assets": "a"}}, True, "sources.catalog.where"),
        ("list.csv", False, "sources.catalog.where"),
    ],
)
def test_a_search_is_told_from_a_list(sources: Any, field: str, *, is_search: bool) -> None:
    """Errors of a search name its field in the request."""
    found = parse_request(PLAIN | {"sources": sources}).sources

    assert found.are_searched is is_search
    assert found.searched_field("where") == field


@pytest.mark.parametrize("tile", ["left", 5, [1], [1, 2, 3], {}], ids=str)
def test_parse_request_names_both_ways_to_write_a_tile(tile: Any) -> None:
    """Whatever is wrong with its shape."""
    with pytest.raises(RequestError, match=r"^window\.tile: it is .*; write centre or \[column, row\]$"):
        parse_request(PLAIN | {"window": {"tile": tile}})


def test_parse_request_explains_three_more_mistakes_and_counts_the_rest() -> None:
    """The error is a sentence, however much is wrong."""
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | {f"x{i}": 1 for i in range(9)})

    no_field = "there is no such field"
    three = f". Also wrong: x1 ({no_field}), x2 ({no_field}), x3 ({no_field})"
    assert str(caught.value).endswith(f"{three} and 5 more")
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | {f"x{i}": 1 for i in range(4)})
    assert str(caught.value).endswith(three)
    with pytest.raises(RequestError, match="and 996 more"):
        parse_request(PLAIN | {f"x{i}": 1 for i in range(1_000)})


def test_parse_request_says_what_is_wrong_with_each_field_once() -> None:
    """A wrong item of a list is no mistake of the list. Both lengths of a size are one."""
    given = {"window": {"point": [1, 2], "size": 16}, "output": {"layout": {"chunk": [1, 2, "x"]}}}
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | given)

    assert caught.value.also_wrong == {"output.layout.chunk.2": "it is 'x'; write a whole number"}
    assert str(caught.value) == (
        "window.size: it is 16; write a list, such as [256, 256]. "
        "Also wrong: output.layout.chunk.2 (it is 'x'; write a whole number)"
    )
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | {"window": {"point": [1, 2], "size": [0, 0]}})
    assert caught.value.also_wrong == {}


def test_parse_request_lists_the_kinds_of_windows_only_if_none_is_given() -> None:
    """A wrong window is told what is wrong with it."""
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | {"window": {"tile": [0, 0], "point": [0, 0]}})

    assert "--tile" not in str(caught.value)


MANY_MISTAKES: dict[str, tuple[Any, str, str]] = {
    "hrefs": ([1] * 500_000, "sources.hrefs.0", "it is 1; write text"),
    "hrefs in full": ({"hrefs": [1] * 500_000}, "sources.hrefs.0", "it is 1; write text"),
    "fields": ({f"x{i}": 1 for i in range(100_000)}, "request", "it has 100,000 mistakes, too many to name"),
    "long name": ({"list": "a", "x" * 1_000_000: 1}, "sources.xxx", "there is no such field"),
}


@pytest.mark.long
@pytest.mark.parametrize(("sources", "field", "says"), MANY_MISTAKES.values(), ids=MANY_MISTAKES)
def test_parse_request_says_little_about_much(sources: Any, field: str, says: str) -> None:
    """Very many mistakes need neither a long message nor much memory."""
    tracemalloc.start()
    with pytest.raises(RequestError, match=says) as caught:
        parse_request(PLAIN | {"sources": sources})
    _, peak_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert caught.value.field.startswith(field)
    assert len(str(caught.value)) < 500
    assert peak_nbytes < 16 << 20


def test_parse_request_names_a_wrong_item_alone() -> None:
    """The error names the href, not the array around it."""
    with pytest.raises(RequestError) as caught:
        parse_request(PLAIN | {"sources": ["/a.tif", 1, 2]})

    assert caught.value.field == "sources.hrefs.1"
    assert "also wrong" not in str(caught.value)


@pytest.mark.parametrize("nodata", [10**20, -(10**37), 2**64, -(2**63) - 1])
def test_a_large_whole_number_of_nodata_is_a_float(nodata: int) -> None:
    """As 1e20, which ``--nodata`` reads as a whole number. A plan holds integers of 64 bits."""
    request = parse_request(PLAIN | {"nodata": nodata})

    assert (request.nodata, type(request.nodata)) == (float(nodata), float)
    assert type(parse_request(PLAIN | {"nodata": 2**64 - 1}).nodata) is int


@pytest.mark.parametrize("nodata", ["nan", "inf", "-inf", 10**400], ids=["nan", "inf", "-inf", "huge"])
def test_request_with_a_nodata_that_json_lacks_survives_it(nodata: Any) -> None:
    """NaN is a common nodata value, but JSON has no NaN."""
    request = parse_request(PLAIN | {"nodata": nodata})

    again = parse_request(json.loads(json.dumps(request.to_json(), allow_nan=False)))

    assert again.digest() == request.digest()


def test_parse_request_takes_a_request_as_it_is() -> None:
    """A checked request is returned unchanged."""
    request = parse_request(PLAIN)

    assert parse_request(request) is request


def test_cube_name_is_given_or_the_digest() -> None:
    """The same request finds a cube without a name again."""
    assert parse_request(PLAIN | {"output": {"name": "bolzano"}}).cube_name == "bolzano"
    assert parse_request(PLAIN).cube_name == parse_request(PLAIN).digest()


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "..", "a b", "x" * 61, "a\n", "é"])
def test_cube_name_is_one_plain_word(name: str) -> None:
    """A name cannot point outside its folder, and it is valid for an execution."""
    with pytest.raises(RequestError, match=r"output\.name"):
        parse_request(PLAIN | {"output": {"name": name}})


def test_limits_within_a_deployment_are_the_lower_ones() -> None:
    """The deployment's limits apply where the request has none."""
    asked = Limits(usd=5, files=10, failed_shards=0.5)

    held = asked.within(Limits(usd=2, files=100, workers=50, failed_shards=0.1))

    assert held == Limits(usd=2, files=10, workers=50, failed_shards=0.1)


def test_tiles_are_kept_as_they_are_with_codec_source_alone() -> None:
    """An archive may not have that codec, but any other."""
    assert parse_request(PLAIN | {"output": {"codec": "source"}}).passes_through
    assert not parse_request(PLAIN | {"output": {"archive": "year"}}).passes_through
    assert not parse_request(PLAIN).passes_through


def test_request_schema_is_json_that_names_every_field() -> None:
    """The schema that the API uses can be written to a file."""
    schema = json.loads(json.dumps(request_schema()))

    assert set(schema["properties"]) == set(GatherRequest.model_fields)
    assert schema["required"] == ["sources"]
    in_grid = {"properties": {"grid": {"type": "object", "required": ["shape"]}}, "required": ["grid"]}
    assert schema["oneOf"] == [{"required": ["window"]}, {"required": ["windows"]}, in_grid]
    assert schema["properties"]["window"]["anyOf"][-1] == {"enum": ["centre", "center"]}
    kinds = {
        name: [each["required"] for each in schema["$defs"][name]["oneOf"]]
        for name in ("Sources", "StacSources")
    }
    assert kinds == {
        "Sources": [["hrefs"], ["list"], ["prefix"], ["stac"], ["catalog"]],
        "StacSources": [["api"], ["items"], ["cmr"]],
    }


def test_paths_count_as_text() -> None:
    """Python may give a path of pathlib where a request names a file or a folder."""
    sources = {"catalog": {"file": Path("scenes.parquet"), "assets": ["red"], "area": "all"}}
    asked = parse_request(
        PLAIN | {"sources": sources, "index": Path("h.parquet"), "output": {"append_to": Path("cube")}}
    )

    assert asked.sources.catalog is not None
    assert (asked.sources.catalog.file, asked.index) == ("scenes.parquet", "h.parquet")
    assert asked.output.append_to == "cube"
    for paths in ([Path("a.tif"), "b.tif"], {"hrefs": [Path("a.tif"), "b.tif"]}):
        assert parse_request(PLAIN | {"sources": paths}).sources.hrefs == ("a.tif", "b.tif")
    assert parse_request(PLAIN | {"sources": Path("list.csv")}).sources.list == "list.csv"


@pytest.mark.parametrize(
    ("address", "stored"),
    [("https://x/v1?key=1", "https://x/v1"), ("https://x/v1", "https://x/v1")],
)
def test_a_key_in_an_apis_address_is_not_stored(address: str, stored: str) -> None:
    """It is a part of the query. A request without one is stored as it is."""
    asked = parse_request(PLAIN | {"sources": {"stac": {"api": address, "assets": "a"}}})

    kept = asked.without_key()

    assert kept.sources.stac is not None
    assert kept.sources.stac.api == stored
    assert (kept is asked) is (address == stored)
    assert parse_request(PLAIN).without_key() == parse_request(PLAIN)


def test_a_stored_request_names_a_file_of_items_by_its_address() -> None:
    """Only items that a program gave are too many to be stored."""
    for named in ({"items": "a.json"}, {"api": "https://x/v1"}):
        asked = parse_request(PLAIN | {"sources": {"stac": {"assets": "a", **named}}})
        assert asked.to_json()["sources"]["stac"].items() >= named.items()


@pytest.mark.parametrize("area", ["window", "all", None])
def test_a_stored_request_says_where_items_are_looked_for(area: str | None) -> None:
    """Everywhere, if it does not say. An API is asked about the window then."""
    where = {} if area is None else {"area": area}
    asked = parse_request(PLAIN | {"sources": {"stac": {"assets": "a", "items": "a.json", **where}}})

    again = parse_request(asked.to_json())

    assert asked.sources.stac is not None
    assert asked.sources.stac.area == (area or "all")
    assert again == asked


def test_lower_one_of_two_requests_per_s_holds_for_each_host() -> None:
    """Those of the deployment hold for hosts that the request does not name."""
    ours = Limits(requests_per_s={"s3://b": 5.0, "https://h": 50.0})
    caps = Limits(requests_per_s={"https://h": 20.0, "https://i:8443": 1.0})

    assert ours.within(caps).requests_per_s == {"s3://b": 5.0, "https://h": 20.0, "https://i:8443": 1.0}
    assert Limits().within(Limits()).requests_per_s is None
    assert Limits().within(caps) == Limits(requests_per_s=caps.requests_per_s)


@pytest.mark.parametrize(
    "wrong", [{}, {"b": 1}, {"s3://b/key": 1}, {"s3://": 1}, {"ftp://h": 1}, {"s3://b": 0}, {"s3://b": "inf"}]
)
def test_requests_per_s_are_of_buckets_and_hosts(wrong: dict[str, Any]) -> None:
    """A mistyped name would limit nothing."""
    with pytest.raises(RequestError, match=r"limits\.requests_per_s"):
        parse_request(PLAIN | {"limits": {"requests_per_s": wrong}})


def _fields_of_request(model: type[BaseModel] = GatherRequest) -> Iterator[tuple[str, Any]]:
    """Yield the name and the type of every field of a request, and of the objects in it."""
    for name, field in model.model_fields.items():
        yield name, field.annotation
        for each in (field.annotation, *get_args(field.annotation)):
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from _fields_of_request(each)


def test_examples_of_lists_and_objects_fit_their_fields() -> None:
    """Every list has one, such as a box of four numbers, and it can be written as it stands."""
    fields = list(_fields_of_request())
    lists = [(name, kind) for name, kind in fields if "tuple[" in str(kind) and name != "items"]
    objects = [
        (name, kind) for name, kind in fields if re.search("dict\\[|Request|Sources|Layout", str(kind))
    ]

    assert {name for name, _ in lists} == set(LISTS)
    assert set(OBJECTS) <= {name for name, _ in fields}
    for examples, of_kind in ((LISTS, lists), (OBJECTS, objects)):
        for name, kind in of_kind:
            if name in examples:
                TypeAdapter(kind).validate_python(yaml.safe_load(examples[name]))
