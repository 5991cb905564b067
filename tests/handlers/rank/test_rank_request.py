"""Bodies of rankings as anybody may send them: each is taken, or refused with words."""

import json
from copy import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handlers.deployment.settings import Settings
from handlers.rank.rank_request import admit_ranking, ranking_name
from handlers.tables.table_body import admit_table
from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.features.rank.ranking_request import Precision
from support.lambda_functions import ENVIRONMENT

_SETTINGS = Settings.from_environment(ENVIRONMENT)
_JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["b1", "scl", "mean", "desc", "scene", "s3://sources/a.tif", "2024", "\ud800"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_BOX = st.lists(st.one_of(st.floats(-200, 200), _JUNK), min_size=3, max_size=5)
_FIELDS = {
    "sources": st.one_of(st.just(["s3://sources/a.tif"]), _JUNK),
    "scenes": st.one_of(
        _JUNK,
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(("catalog", "bbox", "datetime", "cloud_below", "where", "ids"), _JUNK),
        ),
    ),
    "by": st.one_of(st.sampled_from(["b1", "ndvi", "clear", "valid", "b1 *", "clear + 1"]), _JUNK),
    "area": st.one_of(
        _JUNK,
        st.fixed_dictionaries({}, optional={"bbox": _BOX, "geojson": _JUNK}),
        st.fixed_dictionaries(
            {
                "geojson": st.fixed_dictionaries(
                    {"type": st.sampled_from(["Polygon", "Point"]), "coordinates": _JUNK}
                )
            }
        ),
    ),
    "mask": st.one_of(
        _JUNK, st.fixed_dictionaries({"band": st.just("scl")}, optional={"drop": _JUNK, "bits": _JUNK})
    ),
    "statistic": st.one_of(st.sampled_from(["mean", "p90", "p101", {"share_above": 0.3}]), _JUNK),
    "precision": st.one_of(st.sampled_from(["coarse", "every:5", 0.1, {"every": 5}]), _JUNK),
    "order": _JUNK,
    "top": _JUNK,
    "bands": st.one_of(_JUNK, st.dictionaries(st.text(max_size=4), _JUNK, max_size=2)),
    "raw": _JUNK,
    "limits": st.one_of(_JUNK, st.fixed_dictionaries({}, optional={"usd": _JUNK, "seconds": _JUNK})),
    "check_kept": _JUNK,
}


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.one_of(_JUNK, st.fixed_dictionaries({}, optional=_FIELDS)))
@example({"sources": ["s3://sources/a.tif"], "by": "b1", "bands": {"\ud800": "b1"}})
@example({"sources": ["s3://sources/a.tif"], "by": "b1", "raw": "no"})
@example({"sources": ["s3://sources/a.tif"], "by": "b1", "top": 2**70})
def test_any_body_is_taken_or_refused_with_words(body: Any) -> None:
    """What is taken can be stored, and has a name."""
    try:
        admit_ranking(body, _SETTINGS)
    except (RequestError, BudgetError):
        return

    content = json.dumps(body, ensure_ascii=False)
    content.encode()
    assert ranking_name(body, "") == ranking_name(json.loads(content), "")


def test_ranking_has_a_name_of_its_own_by_request_list_and_salt() -> None:
    """The order of fields does not matter."""
    body = {"sources": ["s3://sources/a.tif"], "by": "b1"}

    names = {
        ranking_name(body, "list"),
        ranking_name(body, "other"),
        ranking_name(body | {"top": 1}, "list"),
        ranking_name(body, "list", salt="x"),
    }
    assert len(names) == 4
    assert ranking_name(dict(reversed(body.items())), "list") in names


@pytest.mark.parametrize(("usd", "most"), [(1.0, 1.0), (1e6, 10.0)])
def test_no_request_may_cost_more_than_the_deployment_allows(usd: float, most: float) -> None:
    """Neither a ranking nor a table."""
    body = {"sources": ["s3://sources/a.tif"], "limits": {"usd": usd}}

    assert admit_ranking(body | {"by": "b1"}, _SETTINGS).limits.usd == most
    assert admit_table(body | {"points": "s3://sources/plots.csv"}, _SETTINGS).limits.usd == most


def test_scenes_without_a_catalog_are_those_of_the_deployments_own() -> None:
    """If it has one."""
    own = "s3://sources/own.parquet"
    body = {"scenes": {"bbox": [11, 46, 12, 47]}, "by": "red"}

    catalog = admit_ranking(body, replace(_SETTINGS, catalog=own)).gather.sources.catalog

    assert catalog is not None
    assert catalog.file == own


@pytest.mark.parametrize(
    ("asked", "of_search", "searched"),
    [
        ({"area": {"bbox": [11, 46, 12, 47]}}, {}, (11, 46, 12, 47)),
        ({"area": {"bbox": [179, -18, -179, -17]}}, {}, (179, -18, -179, -17)),
        ({"area": {"bbox": [11, 46, 12, 47]}}, {"area": [1, 2, 3, 4]}, (1, 2, 3, 4)),
        ({}, {}, "all"),
    ],
    ids=["box", "antimeridian", "own", "none"],
)
def test_search_of_the_sources_is_in_the_area_of_the_ranking(
    asked: dict[str, Any], of_search: dict[str, Any], searched: Any
) -> None:
    """A ranking has no window that could say where to search."""
    sources = {"catalog": {"file": "s3://sources/own.parquet", "assets": ["red"], **of_search}}

    catalog = admit_ranking({"sources": sources, "by": "red", **asked}, _SETTINGS).gather.sources.catalog

    assert catalog is not None
    assert catalog.area == searched


def test_body_without_options_has_the_defaults() -> None:
    """The dollars are the deployment's, and nothing is said about kept statistics."""
    asked = admit_ranking({"sources": ["s3://sources/a.tif"], "by": "b1"}, _SETTINGS)

    assert asked.checks_kept is None
    assert asked.limits.usd == _SETTINGS.limits.get("usd")
    assert (asked.request.order, asked.request.top) == ("desc", None)
    assert asked.request.precision == Precision(kind="bound", bound=0.02, is_relative=True)
