"""The search function's answers are as the OpenAPI document describes them."""

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from obstore.store import LocalStore

from handlers.openapi.document import openapi_document
from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item
from support.api_bridge import RESOURCES, body_of, event
from support.lambda_functions import Context, cold_start


@pytest.mark.slow
def test_answers_are_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each path's answer is valid by its schema."""
    with SpooledItems() as spooled:
        spooled.add([item("a"), item("b")], name="items")
        write_search_files(spooled, LocalStore(tmp_path), "catalog.parquet")
    document = openapi_document()

    href = f"file://{tmp_path}/catalog.parquet"
    with cold_start(monkeypatch, "answer_searches", PIXEL_GATHER_CATALOG=href) as module:
        for path in RESOURCES:
            target = path.replace("{name}", "sentinel-2-l2a").replace("{item}", "a")
            target += "?lat=46.5&lng=11.5" if path == "/area" else ""
            answer = module.handler(event("GET", target), Context(left_s=29))

            responses = document["paths"][path]["get"]["responses"]
            assert {"400", "404", "429", "503"} <= responses.keys(), path
            assert "ETag" in responses["200"]["headers"], path
            described = responses["200"]["content"]
            ((media_type, content),) = described.items()
            assert answer["multiValueHeaders"]["Content-Type"] == [media_type], path
            Draft202012Validator(_whole(document, content["schema"])).validate(body_of(answer))
        module.catalog.close()


def _whole(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema together with all schemas of the document, so that its references resolve."""
    assert re.fullmatch(r"#/components/schemas/\w+", schema["$ref"])
    return schema | {"components": document["components"]}
