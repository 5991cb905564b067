"""The OpenAPI document, and the schema that API Gateway checks requests by."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from handlers.openapi.document import body_schemas, openapi_document
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request

MODEL = Draft4Validator(body_schemas()["GatherRequest"])
HREFS = ["s3://bucket/a.tif", "s3://bucket/b.tif"]

_NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([1e6, 2.0, 0.5, 1e9, 10_000, "7", "2.0", "0.25", "-1", True, False, None, "many"]),
)
_PAIRS = st.lists(_NUMBERS, min_size=1, max_size=3)
_FOURS = st.one_of(
    st.sampled_from([[11.2, 46.4, 11.5, 46.6], ["1", "2", "3", "4"], [0, 0, 512, 512]]),
    st.lists(_NUMBERS, min_size=3, max_size=5),
)
_TEXTS = st.sampled_from(["a.txt", "", "centre", "center", "EPSG:4326", "source", "**/*.tif", None, 3])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw objects that have any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_SOURCES = st.one_of(
    st.just(HREFS),
    _TEXTS,
    _some(hrefs=st.sampled_from([HREFS, [], None]), list=_TEXTS, prefix=_TEXTS, glob=_TEXTS, regex=_TEXTS),
)
_WINDOWS = st.one_of(
    st.sampled_from(["centre", "center", "middle"]),
    _some(tile=st.one_of(_PAIRS, _TEXTS)),
    _some(pixels=_FOURS),
    _some(bbox=_FOURS, crs=_TEXTS),
    _some(point=_PAIRS, size=_PAIRS, crs=_TEXTS),
    _some(tile=_PAIRS, pixels=st.one_of(_FOURS, st.none()), bbox=st.none()),
)
_LAYOUTS = st.one_of(
    st.sampled_from(["balanced", "slice", "series", "best", None]),
    _some(chunk=st.lists(_NUMBERS, min_size=2, max_size=4), shard_rows=_NUMBERS),
)
_OUTPUTS = _some(
    name=st.sampled_from(["mine", "a/b", "-x", "x" * 60, "x" * 61, None]),
    layout=_LAYOUTS,
    codec=st.sampled_from(["zstd", "none", "gzip", "zfp", None]),
    zfp_tolerance=_NUMBERS,
)
_LIMITS = _some(
    usd=_NUMBERS,
    files=_NUMBERS,
    pixels=_NUMBERS,
    fetched_bytes=_NUMBERS,
    workers=_NUMBERS,
    failed_shards=_NUMBERS,
)
_REQUESTS = st.fixed_dictionaries(
    {"sources": _SOURCES, "window": _WINDOWS},
    optional={
        "bands": st.one_of(st.lists(_NUMBERS, max_size=3), st.none()),
        "overview": _NUMBERS,
        "masked": st.one_of(_NUMBERS, st.sampled_from(["yes", "off", "true"])),
        "nodata": st.one_of(_NUMBERS, st.sampled_from(["NaN", "-Infinity", 1e300])),
        "grid": st.one_of(
            st.sampled_from(["any", "same", "other"]),
            st.fixed_dictionaries({"resolution": st.sampled_from([0, 10, "finest", "fine", True])}),
        ),
        "output": _OUTPUTS,
        "limits": _LIMITS,
    },
)


def _lax(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """Draw spellings that pydantic accepts as whole numbers."""
    return numbers.flatmap(lambda n: st.sampled_from([n, float(n), str(n), f"{n}.0"]))


def _box(corner: tuple[int, int]) -> list[Any]:
    west, south = corner
    return [west, south, str(west + 1), south + 0.5]


_SIZES = _lax(st.integers(1, 5000))
_DEGREES = st.integers(-80, 80)
_MOSTLY_RIGHT = st.fixed_dictionaries(
    {
        "sources": st.sampled_from(
            [
                HREFS,
                "list.csv",
                {"list": "a.txt"},
                {"hrefs": HREFS, "list": None},
                {"prefix": "s3://b/c", "glob": "*.tif"},
                {"prefix": "s3://b/c", "regex": "B[24]", "glob": None},
            ]
        ),
        "window": st.one_of(
            st.sampled_from(["centre", "center", {"tile": "centre", "crs": None}]),
            st.tuples(_lax(st.integers(0, 99)), _lax(st.integers(0, 99))).map(
                lambda tile: {"tile": list(tile)}
            ),
            st.tuples(_lax(_DEGREES), _lax(_DEGREES), _SIZES, _SIZES).map(
                lambda part: {"pixels": list(part)}
            ),
            st.tuples(_DEGREES, _DEGREES).map(lambda corner: {"bbox": _box(corner), "crs": "EPSG:4326"}),
            st.tuples(_SIZES, _SIZES).map(lambda size: {"point": [1, "2"], "size": list(size)}),
        ),
    },
    optional={
        "bands": st.lists(st.integers(1, 99), min_size=1, max_size=3, unique=True),
        "overview": _lax(st.integers(0, 63)),
        "masked": st.sampled_from([True, 1, 0.0, "yes", "off", "1"]),
        "nodata": st.one_of(_lax(_DEGREES), st.sampled_from([None, 0.5, "NaN", "-Infinity", "1e3"])),
        "grid": st.one_of(
            st.sampled_from(["any", "same"]),
            st.fixed_dictionaries(
                {"resolution": st.one_of(_SIZES, st.sampled_from(["finest", "coarsest", 0.5]))},
                optional={"resampling": st.sampled_from([None, "mode", {"scl": "nearest"}])},
            ),
        ),
        "output": _some(
            name=st.sampled_from(["mine", "x" * 60, None]),
            layout=st.one_of(
                st.sampled_from(["balanced", "slice"]),
                st.tuples(_SIZES, _SIZES, _SIZES).map(
                    lambda chunk: {"chunk": list(chunk), "shard_rows": None}
                ),
            ),
            codec=st.sampled_from(["zstd", "none"]),
        ),
        "limits": _some(
            usd=st.sampled_from([None, 0, 2.5, "3"]),
            files=_SIZES,
            workers=_SIZES,
            failed_shards=st.sampled_from([0, 1, 0.1, "0.1", True]),
        ),
    },
)
_ANY = st.one_of(_MOSTLY_RIGHT, _REQUESTS)


@pytest.mark.slow
@settings(max_examples=1000)
@given(_ANY)
@example({"sources": {"list": "a.csv", "hrefs": None}, "window": {"tile": "centre", "bbox": None}})
@example({"sources": HREFS, "window": "center", "nodata": "NaN"})
@example({"sources": HREFS, "window": {"point": [1, 2], "size": [512.0, "256"]}, "masked": "yes"})
def test_model_schema_lets_through_whatever_the_request_accepts(request_: dict[str, Any]) -> None:
    """API Gateway refuses no request that a function would accept."""
    try:
        parse_request(request_)
    except RequestError:
        return

    assert not list(MODEL.iter_errors(request_))


@pytest.mark.slow
def test_the_requests_above_are_often_accepted() -> None:
    """Many of the drawn requests are valid. Otherwise the property above would show nothing."""
    accepted: list[Any] = []

    @settings(max_examples=200, database=None)
    @given(_ANY)
    def count(request_: dict[str, Any]) -> None:
        with suppress(RequestError):
            accepted.append(parse_request(request_))

    count()

    assert len(accepted) > 40


@dataclass(frozen=True)
class Case:
    """A body with clearly another shape than a request."""

    id: str
    body: Any


REFUSED = (
    Case("text", "gather"),
    Case("array", [1]),
    Case("nothing", {}),
    Case("no-sources", {"window": "centre"}),
)

LEFT_TO_FUNCTIONS = (
    Case("no-window", {"sources": HREFS}),
    Case("unknown-field", {"sources": HREFS, "window": "centre", "colour": "red"}),
    Case("unknown-window-field", {"sources": HREFS, "window": {"tile": [0, 0], "zoom": 3}}),
    Case("empty-hrefs", {"sources": [], "window": "centre"}),
    Case("hrefs-of-numbers", {"sources": [1, 2], "window": "centre"}),
    Case("no-way-to-name-sources", {"sources": {"glob": "*.tif"}, "window": "centre"}),
    Case("short-box", {"sources": HREFS, "window": {"bbox": [1, 2, 3]}}),
    Case("long-point", {"sources": HREFS, "window": {"point": [1, 2, 3]}}),
    Case("no-pixels", {"sources": HREFS, "window": {"pixels": [0, 0, 0, 10]}}),
    Case("window-of-another-word", {"sources": HREFS, "window": "everything"}),
    Case("codec", {"sources": HREFS, "window": "centre", "output": {"codec": "gzip"}}),
    Case("name", {"sources": HREFS, "window": "centre", "output": {"name": "../x"}}),
    Case("too-many-workers", {"sources": HREFS, "window": "centre", "limits": {"workers": 10_001}}),
    Case("limits-as-array", {"sources": HREFS, "window": "centre", "limits": [1]}),
    Case("band-0", {"sources": HREFS, "window": "centre", "bands": [0]}),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_model_schema_refuses_what_is_plainly_wrong(case: Case) -> None:
    """Wrong shapes are refused before a function is called."""
    with pytest.raises(RequestError):
        parse_request(case.body)

    assert list(MODEL.iter_errors(case.body))


@pytest.mark.parametrize("case", LEFT_TO_FUNCTIONS, ids=lambda case: case.id)
def test_what_the_model_schema_lets_through_is_refused_with_the_field(case: Case) -> None:
    """The function names the wrong field, which API Gateway could not."""
    assert not list(MODEL.iter_errors(case.body))
    with pytest.raises(RequestError) as refused:
        parse_request(case.body)

    assert refused.value.field != "request" or "colour" in str(refused.value)


def test_model_schema_says_no_more_than_api_gateway_is_known_to_take() -> None:
    """The schema has only keywords that are the same in all drafts."""
    schemas = body_schemas()
    for schema in schemas.values():
        Draft4Validator.check_schema(schema)

    assert {name: sorted(schema["required"]) for name, schema in schemas.items()} == {
        "GatherRequest": ["sources"],
        "List": ["nbytes", "sha256", "suffix"],
    }
    assert all(schema.keys() == {"$schema", "title", "type", "required"} for schema in schemas.values())


def test_openapi_schemas_are_valid_and_refer_to_what_is_there() -> None:
    """The schemas are valid JSON Schema 2020-12, and their references resolve."""
    document = openapi_document()

    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in _references(document):
        part: Any = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in _references(each)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if "$ref" in value else []
    return own + _references([each for name, each in value.items() if name != "$ref"])
