"""Requests made up from the API's own description: no answer is a failure, or other than described.

Schemathesis is of the dependency group ``contract``, which ``scripts/test`` installs:
``uv run --group contract pytest tests/handlers/test_described_answers.py``. With
``PIXEL_GATHER_EXAMPLES=1000`` it makes up that many requests for each route instead of a few.

The functions of /gathers, /lists and the search answer, over fakes of Step Functions and S3 and a catalog in
a folder. Those of /plans, /rankings and /tables read S3 at once.
`tests/handlers/rank/test_rank_request.py` makes up bodies for rankings.
"""

import importlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from aws_lambda_powertools import Logger
from hypothesis import HealthCheck, settings
from obstore.store import LocalStore

from handlers.api.control_plane import ControlPlane
from handlers.deployment.settings import Settings
from pixel_gather.core.errors import GatherNotFoundError
from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item
from support.api_bridge import DOCUMENT, resource_of
from support.api_bridge import event as search_event
from support.dependency_groups import module_of_group
from support.lambda_functions import ENVIRONMENT, Context, cold_start, line_of

schemathesis = module_of_group("schemathesis", "contract")

pytestmark = pytest.mark.slow

_EXAMPLES: Final = int(os.environ.get("PIXEL_GATHER_EXAMPLES", "5"))
_LEFT_OUT: Final = r"/(plans|rankings|tables|series|drill|openapi\.json)(/|$)"
"""Pattern of the paths that the functions of this test do not answer."""
_PREFIXES_OF_GATHERS: Final = ("/gathers", "/lists")


@dataclass
class FakeExecutions:
    """Knows one gather, and starts each name once."""

    links_from: str = ""

    def submit(self, _: Any, *, name: str, again: bool = False) -> dict[str, Any]:
        """Start a gather."""
        return line_of(self.links_from, name) | {"is_new": not again}

    def list_(self, **_: Any) -> dict[str, Any]:
        """List one gather."""
        return {"gathers": [line_of(self.links_from, "a")], "next": None}

    def status(self, id_: str, *_: Any) -> NoReturn:
        """Know no gather."""
        raise GatherNotFoundError(f"there is no gather {id_}")

    stop = redrive = limit = status


class FakeS3:
    """Has every list already."""

    def head_object(self, **_: Any) -> dict[str, Any]:
        """Answer as for an object that was put just now."""
        from datetime import UTC, datetime  # noqa: PLC0415 # of this fake alone

        return {"LastModified": datetime.now(UTC), "ContentLength": 1}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """All these functions as one WSGI application."""
    folder: Path = tmp_path_factory.mktemp("catalog")
    with SpooledItems() as spooled:
        spooled.add((item(f"scene-{n}", box=(n, n, n + 1.0, n + 1.0)) for n in range(20)), name="items")
        write_search_files(spooled, LocalStore(folder), "catalog.parquet")
    fakes: Any = FakeExecutions(), FakeS3()
    plane = ControlPlane(settings=Settings.from_environment(ENVIRONMENT), executions=fakes[0], s3=fakes[1])
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        submit, status = (
            stack.enter_context(cold_start(patched, name)).app_of(plane, Logger(service="described"))
            for name in ("submit", "status")
        )
        catalog = f"file://{folder}/catalog.parquet"
        search = stack.enter_context(cold_start(patched, "answer_searches", PIXEL_GATHER_CATALOG=catalog))

        def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].encode("latin-1").decode()
            body = (
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode(errors="replace")
                or None
            )
            found = search_event(method, f"/?{environ['QUERY_STRING']}", body=body)
            resource, parameters = resource_of(path)
            found |= {"path": path, "resource": resource, "pathParameters": parameters or None}
            if not path.startswith(_PREFIXES_OF_GATHERS):
                told = search.handler(found, Context())
            else:
                told = (submit if method == "POST" and path in _PREFIXES_OF_GATHERS else status).resolve(
                    found, Context()
                )
            many = {name: values[0] for name, values in (told.get("multiValueHeaders") or {}).items()}
            headers = many | dict(told.get("headers") or {})
            start_response(f"{told['statusCode']} -", [(name, str(value)) for name, value in headers.items()])
            return [(told["body"] or "").encode()]

        yield answer
        search.catalog.close()


_SCHEMA: Final = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT))).exclude(
    path_regex=_LEFT_OUT
)
_ROUTES: Final = {found.ok().label: found.ok() for found in _SCHEMA.get_all_operations()}


@pytest.mark.parametrize(
    "route",
    [pytest.param(each, marks=pytest.mark.long if each == "POST /gathers" else []) for each in _ROUTES],
)
def test_each_answer_is_described(route: str, api: Any) -> None:
    """Its status, its media type and its fields are in the description, and it is no failure.

    Schemathesis' own decorator would make up the requests of all routes in each process that collects tests.
    """
    build = importlib.import_module("schemathesis.pytest._test_builder").build_operation_test
    feedback = importlib.import_module("schemathesis.generation.feedback").FeedbackSources
    constants = importlib.import_module("schemathesis.python._constants.orchestrator")
    checks = schemathesis.checks
    checks.load_all_checks()

    @settings(
        max_examples=_EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def is_described(case: Any) -> None:
        answer = case.call(app=api, base_url="http://api.example.org")
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                schemathesis.specs.openapi.checks.status_code_conformance,
                schemathesis.specs.openapi.checks.content_type_conformance,
                schemathesis.specs.openapi.checks.response_schema_conformance,
            ],
        )

    build(
        config=_SCHEMA.config,
        operation=_ROUTES[route],
        test_func=is_described,
        given_kwargs={},
        feedback=feedback(constants_value_source=constants.make_constants_value_source(_SCHEMA)),
    )()
