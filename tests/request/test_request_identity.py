"""Which fields of a request decide whether it is another gather: its digest, and the names made from it."""

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from pixel_gather.core.claim import CHANGE_NOTHING, check_can_continue
from pixel_gather.core.errors import ArrayExistsError, RequestError
from pixel_gather.core.request.naming import execution_name
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.engine.find_failed_rows import CHOOSE_PIXELS, INHERITED
from support.identities import Change, check_identity, leaf_fields

_API: Final = {"api": "https://a.org", "assets": ["red"]}
_CATALOG: Final = {"file": "c.parquet", "assets": ["red"]}
_CMR: Final = {"cmr": {"short_name": "HLSL30"}, "assets": ["red"]}
_CHIPS: Final = {"table": "a.csv", "size": [4, 4]}
_BOX: Final = {"crs": "EPSG:3035", "shape": [7, 9], "transform": [9, 0, 4e6, 0, -9, 3e6]}
_OLD_CUBE: Final = {"append_to": "a"}


def _of_scenes(kind: str, search: Mapping[str, Any]) -> dict[str, tuple[bool, Any, Any]]:
    """Return what a search decides: which scenes are found. ``most`` only refuses too many."""
    others = {
        "collections": ["c"],
        "ids": ["i"],
        "datetime": "2024",
        "area": "all",
        "where": "eo:cloud_cover<40",
        "assets": ["nir"],
        "address": "s3",
        "scene": "solar-day",
        "duplicates": "all",
        "duplicates_by": ["grid:code"],
        "most": 7,
    }
    return {
        f"sources.{kind}.{name}": (
            name != "most",
            {"sources": {kind: search}},
            {"sources": {kind: {**search, name: other}}},
        )
        for name, other in others.items()
    }


_CHANGES: Final[dict[str, tuple[bool, Any, Any]]] = {
    "sources.hrefs": (True, {"sources": ["/a.tif"]}, {"sources": ["/b.tif"]}),
    "sources.list": (True, {"sources": "a.csv"}, {"sources": "b.csv"}),
    "sources.prefix": (True, {"sources": {"prefix": "/a"}}, {"sources": {"prefix": "/b"}}),
    "sources.glob": (True, {"sources": {"prefix": "/a"}}, {"sources": {"prefix": "/a", "glob": "*.tif"}}),
    "sources.regex": (True, {"sources": {"prefix": "/a"}}, {"sources": {"prefix": "/a", "regex": "b"}}),
    "sources.time": (True, {}, {"sources": {"hrefs": ["/a.tif"], "time": "auto"}}),
    "sources.band": (True, {}, {"sources": {"hrefs": ["/a.tif"], "band": "auto"}}),
    # Rows of one number are told apart by the digest of the list.
    "sources.rows": (True, {"sources": [{"href": "a"}]}, {"sources": [{"href": "a"}, {"href": "b"}]}),
    # A signature gives access to a file. The file's pixels are the same for everybody who may read it.
    "sources.sign": (False, {}, {"sources": {"hrefs": ["/a.tif"], "sign": "earthdata"}}),
    "sources.stac.api": (
        True,
        {"sources": {"stac": _API}},
        {"sources": {"stac": {**_API, "api": "https://b.org"}}},
    ),
    "sources.stac.items": (
        True,
        {"sources": {"stac": {"items": "a.json", "assets": ["red"]}}},
        {"sources": {"stac": {"items": "b.json", "assets": ["red"]}}},
    ),
    "sources.stac.cmr.short_name": (
        True,
        {"sources": {"stac": _CMR}},
        {"sources": {"stac": {**_CMR, "cmr": {"short_name": "HLSS30"}}}},
    ),
    "sources.stac.cmr.concept_id": (
        True,
        {"sources": {"stac": {**_CMR, "cmr": {"concept_id": "C1-X"}}}},
        {"sources": {"stac": {**_CMR, "cmr": {"concept_id": "C2-X"}}}},
    ),
    "sources.stac.cmr.provider": (
        True,
        {"sources": {"stac": _CMR}},
        {"sources": {"stac": {**_CMR, "cmr": {"short_name": "HLSL30", "provider": "LPCLOUD"}}}},
    ),
    **_of_scenes("stac", _API),
    "sources.catalog.file": (
        True,
        {"sources": {"catalog": _CATALOG}},
        {"sources": {"catalog": {**_CATALOG, "file": "d.parquet"}}},
    ),
    **_of_scenes("catalog", _CATALOG),
    "window.tile": (True, {}, {"window": {"tile": [0, 0]}}),
    "window.pixels": (True, {"window": {"pixels": [0, 0, 1, 1]}}, {"window": {"pixels": [0, 0, 1, 2]}}),
    "window.bbox": (True, {"window": {"bbox": [0, 0, 1, 1]}}, {"window": {"bbox": [0, 0, 1, 2]}}),
    "window.point": (True, {"window": {"point": [0, 0]}}, {"window": {"point": [0, 1]}}),
    "window.size": (True, {"window": {"point": [0, 0]}}, {"window": {"point": [0, 0], "size": [1, 2]}}),
    "window.crs": (True, {"window": {"point": [0, 0]}}, {"window": {"point": [0, 0], "crs": "source"}}),
    **{
        f"windows.{name}": (
            True,
            {"window": None, "windows": _CHIPS | beside},
            {"window": None, "windows": _CHIPS | beside | {name: other}},
        )
        for name, other, beside in (
            ("table", "b.csv", {}),
            ("size", [4, 5], {}),
            ("id", "plot", {}),
            ("x", "east", {}),
            ("y", "north", {}),
            ("crs", "EPSG:3035", {}),
            ("sample", 9, {"sample": 8}),
            ("seed", 1, {"sample": 8}),
            ("strata", "kind", {"sample": 8}),
            ("spacing", 9.0, {}),
        )
    },
    "bands": (True, {"bands": [1, 2]}, {"bands": [2, 1]}),
    "overview": (True, {}, {"overview": 0}),
    "masked": (True, {}, {"masked": True}),
    "nodata": (True, {}, {"nodata": 0}),
    "grid": (True, {}, {"grid": "same"}),
    "grid.resolution": (True, {"grid": {"resolution": 10}}, {"grid": {"resolution": 20}}),
    "grid.crs": (True, {"grid": {"resolution": 10}}, {"grid": {"resolution": 10, "crs": "utm"}}),
    "grid.anchor": (
        True,
        {"grid": {"resolution": 10, "crs": "utm"}},
        {"grid": {"resolution": 10, "crs": "utm", "anchor": "center"}},
    ),
    "grid.transform": (
        True,
        {"window": None, "grid": _BOX},
        {"window": None, "grid": {**_BOX, "transform": [9, 0, 4e6, 0, -9, 2e6]}},
    ),
    "grid.shape": (
        True,
        {"window": None, "grid": _BOX},
        {"window": None, "grid": {**_BOX, "shape": [7, 8]}},
    ),
    "grid.resampling": (
        True,
        {"grid": {"resolution": 10}},
        {"grid": {"resolution": 10, "resampling": "nearest"}},
    ),
    "mask.band": (
        True,
        {"mask": {"band": "scl", "drop": [3]}},
        {"mask": {"band": "qa", "drop": [3]}},
    ),
    "mask.drop": (
        True,
        {"mask": {"band": "scl", "drop": [3]}},
        {"mask": {"band": "scl", "drop": [8]}},
    ),
    "mask.bits": (
        True,
        {"mask": {"band": "scl", "bits": [3]}},
        {"mask": {"band": "scl", "bits": [8]}},
    ),
    "mask.dilate": (
        True,
        {"mask": {"band": "scl", "drop": [3]}},
        {"mask": {"band": "scl", "drop": [3], "dilate": 1}},
    ),
    "values": (True, {}, {"values": "scaled"}),
    "reduce.by": (
        True,
        {"reduce": {"by": "day", "statistic": "first"}},
        {"reduce": {"by": "month", "statistic": "first"}},
    ),
    "reduce.statistic": (
        True,
        {"reduce": {"by": "day", "statistic": "first"}},
        {"reduce": {"by": "day", "statistic": "last"}},
    ),
    "reduce.order": (
        True,
        {"reduce": {"by": "day", "statistic": "first"}},
        {"reduce": {"by": "day", "statistic": "first", "order": "-cloud_free"}},
    ),
    # Where the cube lies is no part of what it holds. An append is another name of the same rows.
    "output.name": (False, {"output": {"name": "a"}}, {"output": {"name": "b"}}),
    "output.append_to": (False, {"output": {"append_to": "a"}}, {"output": {"append_to": "b"}}),
    "output.archive": (True, {}, {"output": {"archive": "a"}}),
    "output.expected_rows": (True, {}, {"output": {"expected_rows": 9}}),
    "output.layout": (True, {}, {"output": {"layout": "slice"}}),
    "output.layout.chunk": (
        True,
        {"output": {"layout": {"chunk": [1, 1, 1]}}},
        {"output": {"layout": {"chunk": [1, 1, 2]}}},
    ),
    "output.layout.shard_rows": (
        True,
        {"output": {"layout": {"chunk": [1, 1, 1]}}},
        {"output": {"layout": {"chunk": [1, 1, 1], "shard_rows": 2}}},
    ),
    "output.codec": (True, {}, {"output": {"codec": "none"}}),
    "output.zfp_tolerance": (
        True,
        {"output": {"codec": "zfp", "zfp_tolerance": 0}},
        {"output": {"codec": "zfp", "zfp_tolerance": 0.5}},
    ),
    "output.bands": (True, {}, {"output": {"bands": "axis"}}),
    "output.sharding": (True, {}, {"output": {"sharding": False}}),
    # A report is drawn from the cube, also later.
    "output.report": (False, {}, {"output": {"report": False}}),
    # Limits refuse a gather, or say how it is distributed.
    **{
        f"limits.{name}": (False, {}, {"limits": {name: other}})
        for name, other in (
            ("usd", 1),
            ("transfer_usd", 1),
            ("files", 1),
            ("pixels", 1),
            ("fetched_bytes", 1),
            ("times_source", 2),
            ("workers", 1),
            ("requests_per_s", {"s3://a": 1}),
            ("failed_shards", 0.5),
        )
    },
    "duplicates": (True, {"output": _OLD_CUBE}, {"output": _OLD_CUBE, "duplicates": "again"}),
    # Which rows of a cube are tried again: another try of the same rows, as the same request is.
    "failed_rows": (False, {"output": _OLD_CUBE}, {"output": _OLD_CUBE, "failed_rows": "retry_all"}),
    # An index saves requests. A file that has changed is read again.
    "index": (False, {}, {"index": "headers.parquet"}),
}
"""Whether a field decides the cube, and two requests that differ in it alone."""

_REPLACED: Final = {"grid.like"}
"""No request that is valid has it: others take its place."""


def _asked(given: Mapping[str, Any]) -> GatherRequest:
    whole = {"sources": ["/a.tif"], "window": "centre", **given}
    return parse_request({name: value for name, value in whole.items() if value is not None})


def test_every_field_is_in_the_digest_if_it_decides_the_cube() -> None:
    """Otherwise a user would get the cube of another request, or would gather the same cube twice."""
    changes = {
        name: Change(decides, _asked(one), _asked(other)) for name, (decides, one, other) in _CHANGES.items()
    }
    fields = set(leaf_fields(GatherRequest)) - _REPLACED

    check_identity(GatherRequest.digest, changes, fields=fields)


def test_a_refusal_names_no_field_that_is_left_out_of_the_digest() -> None:
    """What a cube of another request differs in is told by all fields of the digest, and by no others."""
    left_out = {name for name, (decides, *_) in _CHANGES.items() if not decides}

    assert {name for name in _CHANGES if name.startswith(CHANGE_NOTHING)} == left_out


@pytest.mark.parametrize("name", [name for name, (decides, *_) in _CHANGES.items() if decides])
def test_a_cube_of_another_request_is_refused_by_the_name_of_the_field(name: str) -> None:
    """Whoever repeats a request with another value reads which one."""
    _, one, other = _CHANGES[name]
    there, here = _asked(one), _asked(other)
    found: Any = SimpleNamespace(
        digest=there.digest() * 2, origin={"request": there.to_json()}, place="/cube", report=None
    )

    says = rf"another request is there \(([^;]+; )?{re.escape(name)}[:.]"
    with pytest.raises(ArrayExistsError, match=says):
        check_can_continue(found, here.digest() * 2, here.to_json())
    check_can_continue(found, there.digest() * 2, there.to_json())


def test_the_name_of_an_execution_also_has_the_name_of_the_cube_and_what_is_tried_again() -> None:
    """A second append at the same day that tries other rows again is no repetition of the first."""
    beside = {"output.name", "output.append_to", "failed_rows"}
    changes = {
        name: Change(decides or name in beside, _asked(one), _asked(other))
        for name, (decides, one, other) in _CHANGES.items()
    }

    check_identity(execution_name, changes, fields=_CHANGES)


def test_every_field_that_chooses_pixels_is_compared_before_a_row_is_tried_again() -> None:
    """A row that is tried again gets pixels of the same kind as those that it has.

    The other fields say which rows there are, and how they are stored. Chips have their windows in the rows.
    An append by another reduction is refused.
    """
    others = {"sources", "windows", "reduce", "output", "limits", "duplicates", "failed_rows", "index"}

    assert {*CHOOSE_PIXELS, *INHERITED, *others} == set(GatherRequest.model_fields)
    assert not others.intersection({*CHOOSE_PIXELS, *INHERITED})


def test_a_field_that_others_replace_is_in_no_valid_request() -> None:
    """So it needs no place in the digest."""
    with pytest.raises(RequestError, match="like is read by the command line"):
        _asked({"grid": {"like": "a.tif"}})
