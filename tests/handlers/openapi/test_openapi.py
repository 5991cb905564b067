"""The OpenAPI document, and the schema that API Gateway checks requests by."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from handlers.api.answers import Problem
from handlers.openapi.document import body_schemas, openapi_document
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request

MODEL = Draft4Validator(body_schemas()["GatherRequest"])
HREFS = ["s3://bucket/a.tif", "s3://bucket/b.tif"]

_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4))
_WITHOUT_SOURCES = st.one_of(
    _SCALARS,
    st.lists(_SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["window", "bands", "grid", "output", "limits", "chips"]), _SCALARS),
)


@given(_WITHOUT_SOURCES)
def test_model_schema_lets_through_whatever_the_request_accepts(body: Any) -> None:
    """API Gateway refuses only what is no object, or has no sources. No function would accept such a body."""
    assert list(MODEL.iter_errors(body))
    with pytest.raises(RequestError):
        parse_request(body)


@dataclass(frozen=True)
class Case:
    """A body that is no request."""

    id: str
    body: Any


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
    for schema in schemas.values():
        assert schema.keys() == {"$schema", "title", "type", "required"}
        assert schema["type"] == "object"


@pytest.mark.long
def test_openapi_schemas_are_valid_and_refer_to_what_is_there() -> None:
    """The schemas are valid JSON Schema 2020-12, and their references resolve."""
    document = openapi_document()

    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in _references(document):
        part: Any = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def test_page_describes_each_field_of_a_problem() -> None:
    """The table of docs/deploy.md has one row for each, in their order."""
    page = (Path(__file__).parents[3] / "docs/deploy.md").read_text()
    table = page.partition("### Problems of the API\n")[2].partition("\n#")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Problem.__annotations__)


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in _references(each)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if "$ref" in value else []
    return own + _references([each for name, each in value.items() if name != "$ref"])
