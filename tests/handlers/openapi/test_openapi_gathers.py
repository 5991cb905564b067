"""The status of a gather is as the OpenAPI document describes it, with and without what may be null."""

import json
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from handlers.gather.answers import Result, Status
from handlers.openapi.document import openapi_document
from pixel_gather.io.aws.gather_document import SeenExecution, status_document
from support.lambda_functions import EXECUTION, StateMachine

REQUEST: dict[str, Any] = {
    "sources": {"prefix": "s3://sources/landsat"},
    "window": {"pixels": [10, 20, 20, 10]},
    "output": {"report": False},
}
BEGAN, NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC), datetime(2026, 11, 20, 10, 1, tzinfo=UTC)


@pytest.mark.long
def test_status_is_as_described(machine: StateMachine) -> None:
    """Before the plan, while it runs, after it has failed, and complete without a report."""
    result = machine.run(REQUEST)
    content = machine.s3.get_object(Bucket="control", Key=f"summaries/{EXECUTION}.json")["Body"].read()
    summary = json.loads(content)
    found = {"name": EXECUTION, "startDate": BEGAN, "input": json.dumps(REQUEST)}
    ended = {"stopDate": NOW, "output": json.dumps(result)}
    states: list[tuple[dict[str, Any], Any]] = [
        ({"status": "RUNNING"}, None),
        ({"status": "RUNNING"}, summary),
        ({"status": "FAILED", "stopDate": NOW, "error": "ShardsMissingError", "cause": "few"}, summary),
        ({"status": "SUCCEEDED"} | ended, summary),
    ]
    documents = [
        status_document(SeenExecution(found=found | state, summary=told), now=NOW, links_from="")
        for state, told in states
    ]

    components = openapi_document()["components"]
    described = Draft202012Validator({"$ref": "#/components/schemas/Status", "components": components})
    for each in documents:
        described.validate(each)
        assert each.keys() == get_type_hints(Status).keys()
    assert documents[-1]["result"].keys() == get_type_hints(Result).keys()
    assert documents[-1]["result"]["report"] is None
