"""The functions behind the API: their answers, and problem details for every refusal."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

from handlers.api.control_plane import ControlPlane, open_control_plane
from handlers.api.problems import KINDS
from handlers.deployment.settings import Settings
from handlers.openapi.document import openapi_document
from handlers.openapi.routes import ROUTES
from pixel_gather.core import errors
from pixel_gather.core.errors import (
    AlreadyCommittedError,
    DeniedError,
    DeploymentError,
    GatherError,
    GatherNotFoundError,
    MissingExtraError,
    NotRedrivableError,
    ShardLateError,
    ShardsLeftError,
    SourceError,
    StaleHeaderError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.core.request.naming import execution_name
from pixel_gather.core.request.request import parse_request
from support.api_bridge import body_of, event, header_of, is_a
from support.lambda_functions import ENVIRONMENT, Context, cold_start, line_of

REQUEST: dict[str, Any] = {"sources": ["s3://sources/a.tif"], "window": "centre"}
ADDRESS = "https://api.example.org/v1"


@dataclass
class FakeExecutions:
    """A fake of `pixel_gather.io.aws.executions.Executions`. It can be made to fail."""

    error: Exception | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    links_from: str = ""
    result: dict[str, Any] | None = None

    def __replace__(self, *, links_from: str) -> "FakeExecutions":
        """Return the same with another base of links."""
        self.links_from = links_from
        return self

    def submit(self, request: Mapping[str, Any], *, name: str, again: bool = False) -> dict[str, Any]:
        """Start each name once."""
        self._called("submit", request, name)
        is_new = again or name not in self.known
        self.known.add(name)
        return line_of(self.links_from, name) | {"is_new": is_new}

    def status(self, id_: str) -> dict[str, Any]:
        """Describe a gather."""
        self._called("status", id_)
        return line_of(self.links_from, id_) | {"result": self.result}

    def list_(self, *, limit: int, token: str | None, state: str | None) -> dict[str, Any]:
        """List one gather."""
        self._called("list", limit, token, state)
        return {"gathers": [line_of(self.links_from, "a")], "next": None}

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop."""
        self._called("stop", id_)
        return line_of(self.links_from, id_)

    def limit(self, id_: str, workers: int) -> dict[str, Any]:
        """Limit."""
        self._called("limit", id_, workers)
        return line_of(self.links_from, id_)

    def redrive(self, id_: str) -> dict[str, Any]:
        """Redrive."""
        self._called("redrive", id_)
        return line_of(self.links_from, id_)

    def _called(self, *call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(call)


@dataclass
class Api:
    """The routes of one function over fakes."""

    app: Any
    executions: FakeExecutions

    def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Send a request as API Gateway does. Return status and body."""
        answer = self.answer(method, path, **more)
        return answer["statusCode"], body_of(answer)

    def answer(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str | Sequence[str]] | None = None,
    ) -> dict[str, Any]:
        """Return the whole answer."""
        content = body if isinstance(body, str | None) else json.dumps(body)
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        found: dict[str, Any] = self.app.resolve(event(method, target, body=content), Context())
        return found


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API function with POST /gathers."""
    with cold_start(monkeypatch, "submit") as module:
        yield _api(module, None)


@pytest.fixture
def lists(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API function with POST /lists, over S3."""
    with cold_start(monkeypatch, "submit") as module:
        yield _api(module, s3)


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    """The API function with the other routes, and the document of its package."""
    with cold_start(monkeypatch, "status") as module:
        document = tmp_path / "openapi.json"
        document.write_text(json.dumps(openapi_document()))
        monkeypatch.setattr(module, "_OPENAPI", document)
        yield _api(module, None)


@pytest.fixture
def dry_run(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API function with POST /plans, over S3."""
    del s3
    with cold_start(monkeypatch, "dry_run") as module:
        yield Api(module.app, FakeExecutions())


def _api(module: ModuleType, s3: Any) -> Api:
    executions = FakeExecutions()
    plane = ControlPlane(
        settings=Settings.from_environment(ENVIRONMENT),
        executions=executions,  # type: ignore[arg-type] # a fake of it
        s3=s3,
    )
    return Api(module.app_of(plane, Logger(service="api-test")), executions)


def test_submit_starts_a_gather_once(submit: Api) -> None:
    """A new gather answers 202 with links. The same request again answers 200."""
    code, first = submit.ask("POST", "/gathers", body=REQUEST)
    again_code, again = submit.ask("POST", "/gathers", body=REQUEST | {"limits": {"usd": 3}})

    name = execution_name(parse_request(REQUEST))
    assert (code, again_code) == (202, 200)
    assert first["id"] == again["id"] == name
    assert (first["is_new"], again["is_new"]) == (True, False)
    assert first["links"]["self"] == f"{ADDRESS}/gathers/{name}"
    assert is_a("Submitted", first)
    assert submit.executions.calls[0] == ("submit", parse_request(REQUEST).to_json(), name)


def test_an_append_is_submitted_again(submit: Api) -> None:
    """It may find more sources by then."""
    body = REQUEST | {"output": {"append_to": "a"}}
    answers = [submit.ask("POST", "/gathers", body=body) for _ in range(2)]

    assert [(code, told["is_new"]) for code, told in answers] == [(202, True)] * 2
    assert answers[0][1]["id"] == answers[1][1]["id"]


def test_submit_with_force_starts_another(submit: Api) -> None:
    """A forced gather has a new name, and so another cube."""
    submit.ask("POST", "/gathers", body=REQUEST)
    code, forced = submit.ask("POST", "/gathers", body=REQUEST, query={"force": "true"})

    assert (code, forced["is_new"]) == (202, True)
    _, request, name = submit.executions.calls[1]
    assert request["output"]["name"].startswith(parse_request(REQUEST).digest())
    assert forced["id"] == name == execution_name(parse_request(request))


@dataclass(frozen=True)
class Refused:
    """A request that is refused at once, and the expected problem."""

    id: str
    body: Any
    status: int
    field: str | None
    says: str
    query: dict[str, str] | None = None


REFUSED = (
    Refused("no-json", "{", 400, None, "no JSON"),
    Refused("no-body", None, 400, None, "empty"),
    Refused("twice", '{"window": {"tile": [0, 0], "tile": [1, 0]}}', 400, None, "has tile twice"),
    Refused("deep", "[" * 200_000, 400, None, "no JSON"),
    Refused("text", '"gather"', 422, "request", "must be an object"),
    Refused("unknown-field", REQUEST | {"colour": 1}, 422, "colour", "no such field"),
    Refused("no-window", {"sources": ["s3://sources/a.tif"]}, 422, "window", "needed"),
    Refused("two", REQUEST | {"colour": 1, "flavour": 2}, 422, "colour", "Also wrong: flavour"),
    Refused(
        "bucket", REQUEST | {"sources": ["s3://sources/a", "s3://other/b"]}, 422, "sources.hrefs.1", "other"
    ),
    Refused("relative", REQUEST | {"sources": ["a.tif"]}, 422, "sources.hrefs.0", "write the whole address"),
    Refused(
        "metadata-server",
        REQUEST | {"sources": ["https://169.254.169.254/latest"]},
        422,
        "sources.hrefs.0",
        "https:// is not read",
    ),
    Refused(
        "web",
        REQUEST | {"sources": ["http://data.example.org/a.tif"]},
        422,
        "sources.hrefs.0",
        "setting https_hosts",
    ),
    Refused("stdin", REQUEST | {"sources": "-"}, 422, "sources.list", "upload the list"),
    Refused("list", REQUEST | {"sources": "s3://other/list.csv"}, 422, "sources.list", "other"),
    Refused(
        "control", REQUEST | {"sources": "s3://control/gathers/a/x.csv"}, 422, "sources.list", "not allowed"
    ),
    Refused("control-up", REQUEST | {"sources": "s3://control/lists/../x.csv"}, 422, "sources.list", ".."),
    Refused(
        "source-in-control",
        REQUEST | {"sources": ["s3://control/lists/a.tif"]},
        422,
        "sources.hrefs.0",
        "not allowed",
    ),
    Refused("rows", REQUEST | {"sources": [{"href": "s3://sources/a.tif"}]}, 422, "sources", "POST /lists"),
    Refused("prefix", REQUEST | {"sources": {"prefix": "s3://other/"}}, 422, "sources.prefix", "other"),
    Refused("force", REQUEST, 422, "force", "true or false", {"force": "maybe"}),
    Refused("query", REQUEST, 422, "forse", "no such parameter; it takes force", {"forse": "true"}),
)


@pytest.mark.long
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_submit_refuses_at_once(case: Refused, submit: Api) -> None:
    """Nothing is started. The problem names the field and says what to do."""
    code, problem = submit.ask("POST", "/gathers", body=case.body, query=case.query)

    assert (code, problem["status"]) == (case.status, case.status)
    assert problem.get("field") == case.field
    assert case.says in problem["detail"]
    assert problem["type"].startswith("urn:pixel-gather:problem:")
    assert is_a("Problem", problem)
    if case.field is not None:
        assert problem["detail"].startswith(f"{case.field}: {problem['reason']}")
        assert problem["is_missing"] == (case.id == "no-window")
    assert submit.executions.calls == []


def test_submit_takes_an_uploaded_list(submit: Api) -> None:
    """Of the control bucket, only lists/ may be read."""
    code, _ = submit.ask("POST", "/gathers", body=REQUEST | {"sources": "s3://control/lists/ab.csv"})

    assert code == 202


@dataclass(frozen=True)
class Failure:
    """An error of a service, and the API's expected answer."""

    error: Exception
    status: int
    says: str
    headers: Mapping[str, str] = field(default_factory=dict)


FAILURES = (
    Failure(GatherNotFoundError("there is no gather x"), 404, "there is no gather x"),
    Failure(NotRedrivableError("it is still running"), 409, "it is still running"),
    Failure(ThrottledError("asked too often"), 429, "asked too often", {"Retry-After": "5"}),
    Failure(ThrottledError("too often", retry_after_s=9), 429, "too often", {"Retry-After": "9"}),
    Failure(DeniedError("secret role name"), 500, "request request-1"),
    Failure(DeploymentError("secret ARN"), 500, "request request-1"),
    Failure(UnreachableError("secret address"), 503, "request request-1"),
    Failure(GatherError("secret"), 500, "request request-1"),
    Failure(KeyError("secret"), 500, "request request-1"),
)


@pytest.mark.long
@pytest.mark.parametrize("case", FAILURES, ids=lambda case: type(case.error).__name__)
def test_status_tells_failures_as_problems(case: Failure, status: Api) -> None:
    """Messages for the caller are in the answer. Internal messages are only logged."""
    status.executions.error = case.error
    answer = status.answer("POST", "/gathers/x/redrive")

    problem = body_of(answer)
    assert answer["statusCode"] == problem["status"] == case.status
    assert header_of(answer, "Content-Type") == "application/problem+json"
    assert case.says in problem["detail"]
    assert "secret" not in answer["body"]
    for name, value in case.headers.items():
        assert header_of(answer, name) == value


def test_every_error_of_a_deployment_has_a_kind() -> None:
    """Every error class that the API's functions may raise has an HTTP status."""
    classes = {each for each in vars(errors).values() if isinstance(each, type)}
    raised = {each for each in classes if issubclass(each, GatherError)}
    of_workers = {SourceError, StaleHeaderError, ShardLateError, ShardsLeftError, AlreadyCommittedError}
    of_workers |= {errors.GatherCancelledError, errors.NoOverviewError}
    of_installations = {MissingExtraError}
    for each in raised - {GatherError} - of_workers - of_installations:
        assert set(each.__mro__) & set(KINDS), each


@pytest.mark.long
def test_status_passes_on_what_is_asked(status: Api) -> None:
    """Each route calls its own method and returns the answer."""
    asked = [
        status.ask("GET", "/gathers/abc"),
        status.ask("DELETE", "/gathers/abc"),
        status.ask("POST", "/gathers/abc/redrive"),
        status.ask("POST", "/gathers/abc/limit", query={"workers": "7"}),
        status.ask("GET", "/gathers"),
        status.ask("GET", "/gathers", query={"limit": "7", "token": "t", "state": "failed"}),
        status.ask("GET", "/gathers", query={"token": "", "state": ""}),
    ]

    assert [code for code, _ in asked] == [200, 200, 202, 200, 200, 200, 200]
    assert status.executions.calls == [
        ("status", "abc"),
        ("stop", "abc"),
        ("redrive", "abc"),
        ("limit", "abc", 7),
        ("list", 50, None, None),
        ("list", 7, "t", "failed"),
        ("list", 50, None, None),
    ]
    assert asked[0][1]["links"]["self"] == f"{ADDRESS}/gathers/abc"
    assert is_a("Gather", asked[1][1])
    assert is_a("Gather", asked[3][1])
    assert is_a("Gathers", asked[4][1])
    assert status.ask("POST", "/gathers/abc/limit")[1]["field"] == "workers"
    code, problem = status.ask("POST", "/gathers/abc/limit", query={"workers": "501"})
    assert (code, problem["detail"]) == (
        422,
        "workers: this deployment's setting max_workers allows 500 at most",
    )
    code, problem = status.ask("GET", "/gathers", query={"limit": "all"})
    assert (code, problem["field"]) == (422, "limit")


def test_status_of_a_gather_whose_cube_was_removed_says_so(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a table. Another program would look for pixels that are not there."""
    key = {"Bucket": "cubes", "Key": "out/gone.zarr/zarr.json"}
    with cold_start(monkeypatch, "status") as module:
        api = _api(module, s3)
        api.executions.result = {"cube": "s3://cubes/out/gone.zarr"}
        s3.put_object(**key, Body=b"{}")
        there_code, _ = api.ask("GET", "/gathers/abc")
        s3.delete_object(**key)
        code, problem = api.ask("GET", "/gathers/abc")

    assert (there_code, code) == (200, 404)
    assert problem["detail"].startswith("the cube of abc was removed (s3://cubes/out/gone.zarr): to make")


def test_status_of_a_gather_whose_cube_cannot_be_looked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only S3's word that nothing is there counts."""

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "403"}}, "HeadObject")

    with cold_start(monkeypatch, "status") as module:
        api = _api(module, SimpleNamespace(head_object=refuse))
        api.executions.result = {"cube": "s3://cubes/out/a.zarr"}

        assert api.ask("GET", "/gathers/abc")[0] == 200


def test_parameters_that_a_route_does_not_have_are_refused(status: Api) -> None:
    """By the table of routes, so a misspelt parameter is not ignored."""
    code, problem = status.ask("GET", "/gathers", query={"limit": "7", "stat": "failed"})
    none_code, none = status.ask("DELETE", "/gathers/abc", query={"dry": "true"})

    assert (code, problem["field"]) == (none_code, "stat") == (422, "stat")
    assert "it takes limit, state, token" in problem["detail"]
    assert none["detail"] == "dry: there is no such parameter; it takes none"
    assert status.executions.calls == []
    assert status.ask("GET", "/gathers", query={"X-Amz-Date": "20261129T000000Z"})[0] == 200


def test_parameters_that_are_given_twice_are_refused(status: Api) -> None:
    """API Gateway hands on the last value alone, so the others would be ignored."""
    code, problem = status.ask("GET", "/gathers", query={"limit": ["7", "9"]})
    signed = {"X-Amz-Date": ["20261129T000000Z"] * 2, "limit": "7"}

    assert (code, problem["field"]) == (422, "limit")
    assert "more than once" in problem["detail"]
    assert status.executions.calls == []
    assert status.ask("GET", "/gathers", query=signed)[0] == 200


BEHIND_A_DOMAIN: dict[tuple[str, str], tuple[Any, ...]] = {
    ("GET", "/gathers"): ("list", 50, None, None),
    ("GET", "/gathers/abc"): ("status", "abc"),
    ("GET", "/gathers/gathers"): ("status", "gathers"),
    ("DELETE", "/gathers/abc"): ("stop", "abc"),
    ("POST", "/gathers/abc/redrive"): ("redrive", "abc"),
}
"""The call of each route."""


@pytest.mark.long
@pytest.mark.parametrize("base_path", ["", "/pixels", "/gathers-of-2026", "/data/v1"])
def test_routes_are_found_behind_a_domain_with_a_base_path(base_path: str, status: Api) -> None:
    """Paths and links begin with the base path, and so does the server of the document."""
    address = f"https://gather.example.org{base_path}"

    def ask(method: str, path: str) -> Any:
        asked = event(method, path, domain="gather.example.org", base=base_path)
        return body_of(status.app.resolve(asked, Context()))

    for (method, path), call in BEHIND_A_DOMAIN.items():
        found = ask(method, path)
        line = found["gathers"][0] if path == "/gathers" else found
        assert status.executions.calls[-1] == call, (method, path)
        assert line["links"]["self"] == f"{address}/gathers/{line['id']}", (method, path)
    assert len(status.executions.calls) == len(BEHIND_A_DOMAIN)
    assert ask("GET", "/openapi.json")["servers"] == [{"url": address}]


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("PUT", "/gathers"), ("GET", "/")])
def test_address_that_is_not_there_is_a_problem(method: str, path: str, status: Api) -> None:
    """The problem says where the addresses are listed."""
    code, problem = status.ask(method, path)

    assert code == 404
    assert "/openapi.json" in problem["detail"]


def test_openapi_is_served_with_the_servers_own_address(status: Api) -> None:
    """A client that is made from the document finds the API."""
    code, document = status.ask("GET", "/openapi.json")

    assert code == 200
    assert document["servers"] == [{"url": ADDRESS}]
    assert document | {"servers": None} == openapi_document() | {"servers": None}


def test_each_function_serves_its_routes_of_the_table(
    submit: Api, status: Api, dry_run: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function that API Gateway calls for a route answers it."""
    with (
        cold_start(monkeypatch, "answer_searches") as search,
        cold_start(monkeypatch, "rank") as rank,
        cold_start(monkeypatch, "answer_tables") as tables,
    ):
        apps = {
            "gather.submit": submit.app,
            "gather.status": status.app,
            "gather.dry_run": dry_run.app,
            "search.answer_searches": search.app,
            "rank.rank": rank.app,
            "tables.answer_tables": tables.app,
        }
        search.catalog.close()
    served = {
        (function, route.method, re.sub(r"<(\w+)_>", r"{\1}", route.path))
        for function, app in apps.items()
        for route in (*app._static_routes, *app._dynamic_routes)
    }

    assert served == {(each.function, each.method, each.path) for each in ROUTES}


SHA256 = "ab" * 32


def test_lists_lends_a_place_named_by_content(lists: Api) -> None:
    """The answer has an address that accepts only this content, and the list's href."""
    code, place = lists.ask("POST", "/lists", body={"sha256": SHA256, "suffix": "csv", "nbytes": 12})

    assert code == 200
    assert place["href"] == f"s3://control/lists/{SHA256}.csv"
    assert f"lists/{SHA256}.csv" in place["upload"]
    assert "X-Amz-Signature" in place["upload"]
    signed = place["upload"].partition("X-Amz-SignedHeaders=")[2].partition("&")[0].split("%3B")
    assert {"host", "content-length", "x-amz-checksum-sha256"} <= set(signed)
    assert place["headers"].keys() == {"x-amz-checksum-sha256"}
    assert is_a("ListPlace", place)


def test_lists_that_are_there_need_no_upload(lists: Api, s3: Any) -> None:
    """A list that is there is found by its digest."""
    s3.put_object(Bucket="control", Key=f"lists/{SHA256}.csv", Body=b"href\n")

    _, place = lists.ask("POST", "/lists", body={"sha256": SHA256, "suffix": "csv", "nbytes": 5})

    assert place == {"href": f"s3://control/lists/{SHA256}.csv", "upload": None, "headers": {}}
    assert is_a("ListPlace", place)


@pytest.mark.parametrize(
    ("region", "endpoint", "address"),
    [
        ("us-east-1", None, "https://control.s3.us-east-1.amazonaws.com/lists/a.csv"),
        ("eu-south-2", None, "https://control.s3.eu-south-2.amazonaws.com/lists/a.csv"),
        ("eu-south-2", "https://127.0.0.1:4566", "https://127.0.0.1:4566/control/lists/a.csv"),
    ],
)
def test_lists_are_uploaded_to_their_own_region(
    region: str, endpoint: str | None, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address names the Region. That of the global host is redirected, or refused in newer Regions."""
    told = dict(ENVIRONMENT) | {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for name, value in told.items() if endpoint is None else (told | {"AWS_ENDPOINT_URL": endpoint}).items():
        monkeypatch.setenv(name, value)

    plane = open_control_plane(Settings.from_environment(told))
    url = plane.s3.generate_presigned_url("put_object", Params={"Bucket": "control", "Key": "lists/a.csv"})

    assert url.partition("?")[0] == address


@pytest.mark.parametrize(
    ("change", "wrong", "is_described"),
    [
        ({"sha256": "AB" * 32}, "sha256", False),
        ({"sha256": "../" + "a" * 61}, "sha256", False),
        ({"sha256": SHA256 + "a"}, "sha256", False),
        ({"suffix": "csv/../x"}, "suffix", True),
        ({"suffix": None}, "suffix", False),
        ({"nbytes": 0}, "nbytes", False),
        ({"nbytes": 6 * 2**30}, "nbytes", True),
        ({"nbytes": True}, "nbytes", False),
        ({"colour": "red"}, "colour", False),
    ],
)
def test_lists_refuses_what_is_no_list(
    change: dict[str, Any], wrong: str, submit: Api, *, is_described: bool
) -> None:
    """The problem names the field. The OpenAPI document lets through little else than lists."""
    body = {"sha256": SHA256, "suffix": "csv", "nbytes": 12} | change
    code, problem = submit.ask("POST", "/lists", body=body)

    assert (code, problem["field"]) == (422, wrong)
    assert is_a("List", body) is is_described


@pytest.mark.long
def test_plans_prices_a_gather_and_writes_nothing(dry_run: Api, s3: Any) -> None:
    """The answer equals that of `pixel-gather plan --json`."""
    request = {"sources": {"prefix": "s3://sources/landsat"}, "window": {"pixels": [0, 0, 50, 40]}}
    code, plan = dry_run.ask("POST", "/plans", body=request)

    assert code == 200
    assert plan["shape"] == [8, 40, 50]
    assert plan["estimate"]["usd"] > 0
    assert is_a("Plan", plan)
    for bucket in ("cubes", "control"):
        assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_plans_counts_on_the_workers_that_there_are(dry_run: Api) -> None:
    """The plan has the deployment's workers, or fewer if the request asks for fewer."""
    request = {"sources": {"prefix": "s3://sources/landsat"}, "window": "centre"}
    told = []
    for limits in ({}, {"workers": 3}):
        _, plan = dry_run.ask("POST", "/plans", body=request | {"limits": limits})
        told += [each["rests_on"][0] for each in plan["estimate"]["figures"] if each["what"] == "workers"]

    assert told == ["at most 500: the deployment's max_workers", "at most 3: the request's limits.workers"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"sources": "s3://sources/no.csv", "window": "centre"}, "sources.list"),
        ({"sources": "s3://sources/lists/no.txt.gz", "window": "centre"}, "sources.list"),
        (
            {
                "sources": ["s3://sources/a.tif"],
                "windows": {"table": "s3://sources/no.csv", "size": [16, 12], "crs": "EPSG:32618"},
            },
            "windows.table",
        ),
    ],
)
def test_plans_of_a_file_that_is_not_there_name_the_field(
    request_: dict[str, Any], field: str, dry_run: Api
) -> None:
    """And not the file alone: a program looks for the field of its request."""
    code, problem = dry_run.ask("POST", "/plans", body=request_)

    assert (code, problem["field"]) == (422, field), problem
    assert "cannot be read: " in problem["detail"]


def test_plans_of_a_catalog_that_is_not_there_name_it(dry_run: Api) -> None:
    """Another try would not help, so the problem is the request's."""
    catalog = {"file": "s3://sources/nosuch.parquet", "assets": ["red"], "area": "all"}
    request = {"sources": {"catalog": catalog}, "window": "centre"}
    code, problem = dry_run.ask("POST", "/plans", body=request)

    assert (code, problem["field"]) == (422, "sources.catalog.file")
    assert "there is no catalog at s3://sources/nosuch.parquet" in problem["detail"]


def test_the_deployments_own_catalog_is_no_mistake_of_a_request(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller has not named it, so the problem tells neither a field nor the place."""
    del s3
    place = "s3://sources/own.parquet"
    with cold_start(monkeypatch, "dry_run", PIXEL_GATHER_CATALOG=place) as module:
        catalog = {"file": place, "assets": ["red"], "area": "all"}
        request = {"sources": {"catalog": catalog}, "window": "centre"}
        code, problem = Api(module.app, FakeExecutions()).ask("POST", "/plans", body=request)

    assert code == 503
    assert "field" not in problem
    assert "own.parquet" not in json.dumps(problem)


def test_plans_refuses_what_is_over_a_limit(dry_run: Api) -> None:
    """The problem has the sentence of the plan."""
    request = {"sources": {"prefix": "s3://sources/landsat"}, "window": "centre", "limits": {"files": 7}}
    code, problem = dry_run.ask("POST", "/plans", body=request)

    assert code == 422
    assert problem["type"] == "urn:pixel-gather:problem:budget_error"
    assert problem["field"] == "limits.files"
    assert "7 files" in problem["detail"]


def test_plans_that_take_too_long_say_what_to_do_instead(dry_run: Api) -> None:
    """The problem is answered before API Gateway's time limit."""
    request = {"sources": {"prefix": "s3://sources/landsat"}, "window": "centre"}
    made = event("POST", "/plans", body=json.dumps(request))
    answer = dry_run.app.resolve(made, Context(left_s=2.0))

    assert answer["statusCode"] == 504
    assert "submit the gather" in body_of(answer)["detail"]
