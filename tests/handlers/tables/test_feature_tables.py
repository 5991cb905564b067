"""Tables of points and zones over S3: they are those of this process, whatever happens to workers."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aws_lambda_powertools import Logger
from jsonschema import Draft202012Validator

from handlers.openapi.document import openapi_document
from pixel_gather import Settings, points, zones
from pixel_gather.io.aws.executions import Executions
from pixel_gather.io.store.object_store import StoreSettings
from rank.rasters import landscape, make_cog
from support.lambda_functions import ENVIRONMENT, STATE_MACHINE, Context, cold_start, emptied
from support.table_machine import TableMachine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_hedges")]

N: Final = 6
HREFS: Final = [f"s3://sources/scenes/{n}.tif" for n in range(N)]
PLOTS: Final = "s3://sources/plots.csv"
FIELDS: Final = "s3://sources/fields.geojson"


@pytest.fixture(scope="module")
def cogs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six scenes of one grid."""
    folder = tmp_path_factory.mktemp("scenes")
    return [make_cog(folder / f"{n}.tif", landscape(n, level=1000 * (n + 1), step=5)) for n in range(N)]


def box_of(path: Path) -> tuple[float, float, float, float]:
    """Return the bounds of a file, in its CRS."""
    import rasterio  # noqa: PLC0415 # for the tests' features

    with rasterio.open(path) as file:
        return tuple(file.bounds)


@dataclass
class Service:
    """The function of the API over a state machine that runs at once."""

    app: Any
    machine: TableMachine
    s3_url: str
    crs: str

    def do(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """Send a request."""
        event = {
            "resource": path,
            "path": path,
            "httpMethod": method,
            "headers": {},
            "queryStringParameters": query or None,
            "requestContext": {"requestId": "r", "domainName": "api.example.org", "path": f"/v1{path}"},
            "body": None if body is None else json.dumps(body),
            "isBase64Encoded": False,
        }
        answer = self.app.resolve(event, Context(left_s=29.0))
        return answer["statusCode"], json.loads(answer["body"])

    def made(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a table, and return its document."""
        _, line = self.do("POST", "/tables", body)
        document: dict[str, Any] = self.do("GET", f"/tables/{line['id']}")[1]
        return document

    def table(self, document: dict[str, Any], name: str = "table") -> pa.Table:
        """Return a file of a table."""
        bucket, _, key = document["links"][name].removeprefix("s3://").partition("/")
        content = self.machine.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return pq.read_table(io.BytesIO(content))

    def here(self, body: dict[str, Any], folder: Path) -> pa.Table:
        """Return the same table, made in this process."""
        stores = StoreSettings(endpoint=self.s3_url, region=ENVIRONMENT["AWS_REGION"])
        kind = "points" if "points" in body else "zones"
        more = {name: value for name, value in body.items() if name not in (kind, "sources")}
        make = points if kind == "points" else zones
        to = folder / "here.parquet"
        make(body[kind], body["sources"], to=to, settings=Settings(stores=stores), **more)
        return pq.read_table(to)

    def handle(self, verdict: dict[str, Any], item: int) -> None:
        """Let a worker do one task of a round."""
        event = {"gather": verdict["gather"], "tasks": self.machine.items(verdict)[item], "limit_s": 60}
        self.machine.worker.handler(event, Context())

    def ended(self, gather: str) -> dict[str, Any]:
        """Call the function that ends a round."""
        verdict: dict[str, Any] = self.machine.plan.handler(
            {"gather": gather, "failed_shards": 100}, Context()
        )
        return verdict

    def begun(self, body: dict[str, Any], execution: str) -> dict[str, Any]:
        """Begin a table, and return the verdict."""
        event = {"request": body, "execution": execution}
        verdict: dict[str, Any] = self.machine.plan.handler(event, Context())
        return verdict


@pytest.fixture(scope="module")
def opened(s3_url: str, cogs: list[Path]) -> Iterator[Service]:
    """Open the functions over S3."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for variable, value in (dict(ENVIRONMENT) | {"AWS_ENDPOINT_URL": s3_url}).items():
            patch.setenv(variable, value)
        client = emptied(s3_url)
        module, plan, worker = (
            stack.enter_context(cold_start(patch, name))
            for name in ("answer_tables", "plan_table", "read_images")
        )
        machine = TableMachine(plan, worker, client)
        executions = Executions(
            STATE_MACHINE, stepfunctions=machine, s3=client, control_bucket="control", kind="table"
        )
        service = module.TableService(module.deployment, lambda: executions)
        for path in cogs:
            client.upload_file(str(path), "sources", f"scenes/{path.name}")
        west, south, east, north = box_of(cogs[0])
        rng = np.random.default_rng(1)
        xs, ys = rng.uniform(west, east, 40), rng.uniform(south, north, 40)
        rows = "".join(f"p{n},{x},{y}\n" for n, (x, y) in enumerate(zip(xs, ys, strict=True)))
        client.put_object(Bucket="sources", Key="plots.csv", Body=f"plot,x,y\n{rows}far,0,0\n".encode())
        side = (east - west) / 7
        fields = [
            {
                "type": "Feature",
                "properties": {"field": f"f{n}"},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[[x, y], [x + side, y], [x + side / 2, y + side], [x, y]]],
                },
            }
            for n, (x, y) in enumerate(zip(xs[:8], ys[:8], strict=True))
        ]
        content = json.dumps({"type": "FeatureCollection", "features": fields})
        client.put_object(Bucket="sources", Key="fields.geojson", Body=content.encode())
        import rasterio  # noqa: PLC0415 # as above

        with rasterio.open(cogs[0]) as file:
            crs = file.crs.to_string()
        yield Service(module.app_of(service, Logger(service="test")), machine, s3_url, crs)


@pytest.fixture
def service(opened: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The functions, without anything of earlier tables. Each image is a task of its own."""
    machine = opened.machine
    machine.poison, machine.found, machine.n_children, machine.is_slow = set(), {}, [], False
    for bucket in ("cubes", "control"):
        there = machine.s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        if there:
            keys = [{"Key": each["Key"]} for each in there]
            machine.s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    monkeypatch.setattr("handlers.tables.feature_steps._LINES_PER_TASK", 1)
    return opened


def of_points(service: Service, **more: Any) -> dict[str, Any]:
    """Return a request for points."""
    return {"points": PLOTS, "id": "plot", "crs": service.crs, "sources": HREFS, **more}


def of_zones(service: Service, **more: Any) -> dict[str, Any]:
    """Return a request for zones."""
    return {"zones": FIELDS, "id": "field", "crs": service.crs, "sources": HREFS, **more}


def check_document(name: str, document: dict[str, Any]) -> None:
    """Assert that a document is as the API's description says."""
    components = openapi_document()["components"]
    whole = {"$ref": f"#/components/schemas/{name}", "components": components}
    assert not list(Draft202012Validator(whole).iter_errors(document))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"square": 3},
        {"method": "bilinear", "by": "b1 * 2"},
        {"by": "b1", "mask": {"band": "b1", "drop": [5]}},
    ],
    ids=str,
)
def test_points_by_a_deployment_are_those_of_this_process(
    service: Service, tmp_path: Path, more: dict[str, Any]
) -> None:
    """Line by line."""
    body = of_points(service, **more)

    document = service.made(body)

    assert document["state"] == "succeeded", document
    assert service.table(document).equals(service.here(body, tmp_path))
    assert service.machine.n_children == [N]


@pytest.mark.parametrize("more", [{}, {"statistics": "median,p90", "coverage": "touched"}], ids=str)
def test_zones_by_a_deployment_are_those_of_this_process(
    service: Service, tmp_path: Path, more: dict[str, Any]
) -> None:
    """Line by line."""
    body = of_zones(service, **more)

    document = service.made(body)

    assert document["state"] == "succeeded", document
    assert service.table(document).equals(service.here(body, tmp_path))


def test_documents_are_those_of_the_description(service: Service) -> None:
    """They tell lines, statuses, requests, dollars and the places of three files."""
    code, line = service.do("POST", "/tables", of_points(service))
    _, shown = service.do("GET", f"/tables/{line['id']}")
    _, listed = service.do("GET", "/tables")

    assert code == 202
    assert line["id"].startswith("points-")
    for name, document in (("TableStarted", line), ("TableStatus", shown), ("Tables", listed)):
        check_document(name, document)
    result = shown["result"]
    assert (result["features"], result["scenes"], result["failed"]) == (41, N, 0)
    assert result["statuses"] == {"ok": 40 * N, "outside": 1}
    assert shown["scenes"] == {"total": N, "wanted": 0, "read": 0, "failed": 0}
    assert 0 < shown["usd"] < 0.01
    assert service.table(shown, "features_table").column_names == ["id", "plot", "x", "y", "geometry"]
    assert service.table(shown, "images_table").num_rows == N


def test_a_plan_reads_no_pixel_and_says_what_it_takes(service: Service) -> None:
    """Lines and requests are those that the table then has."""
    code, plan = service.do("POST", "/tables/plan", of_points(service))
    result = service.made(of_points(service))["result"]

    assert code == 200
    check_document("TablePlan", plan)
    assert plan["lines"] == result["lines"] - 1  # but that of the point far away
    assert plan["requests"] >= result["requests"]
    assert plan["workers"] == N
    assert 0 < plan["usd"] < 0.01


def test_the_same_request_is_made_once_and_other_features_are_another_table(service: Service) -> None:
    """The name is of what the list and the features hold, not of their addresses."""
    body = of_points(service)
    _, line = service.do("POST", "/tables", body)
    code, again = service.do("POST", "/tables", body)
    before = service.machine.s3.get_object(Bucket="sources", Key="plots.csv")["Body"].read()
    service.machine.s3.put_object(Bucket="sources", Key="plots.csv", Body=before.replace(b"far,0,0\n", b""))
    other_code, other = service.do("POST", "/tables", body)
    service.machine.s3.put_object(Bucket="sources", Key="plots.csv", Body=before)

    assert (code, again["id"]) == (200, line["id"])
    check_document("TableStatus", again)
    assert other_code == 202
    assert other["id"] != line["id"]


def test_an_image_that_kills_its_worker_is_lost_and_no_other(service: Service, tmp_path: Path) -> None:
    """It is read again alone, and then listed."""
    service.machine.poison = {"scenes/2.tif"}
    body = of_points(service)

    document = service.made(body)

    found, here = service.table(document).to_pylist(), service.here(body, tmp_path).to_pylist()
    assert document["result"]["failed"] == 1
    assert [each for each in found if each["status"] == "lost"] == [
        dict.fromkeys(found[0])
        | {"scene": HREFS[2], "href": HREFS[2], "status": "lost", "valid": 0.0}
        | {"reason": "its worker failed at every try, also when it read no other scene"}
    ]
    assert [each for each in found if each["href"] != HREFS[2]] == [
        each for each in here if each["href"] != HREFS[2]
    ]


def test_a_table_of_which_no_worker_reads_anything_fails(service: Service) -> None:
    """It is no table of lost images: the workers cannot read at all."""
    from pixel_gather.core.errors import StoreError  # noqa: PLC0415 # for this test alone

    first = service.begun(of_points(service), "a")
    second = service.ended(first["gather"])

    with pytest.raises(StoreError, match="every worker failed"):
        service.ended(second["gather"])


def test_an_image_that_cannot_be_read_is_told(service: Service) -> None:
    """The table has all others."""
    document = service.made(of_points(service, sources=[*HREFS[:2], "s3://sources/gone.tif"]))

    assert document["result"]["failed"] == 1
    assert document["result"]["statuses"] == {"ok": 80, "missing": 1, "outside": 1}


def test_tasks_and_finish_may_run_in_any_order_and_again(service: Service, tmp_path: Path) -> None:
    """A task that is done again, before or after the end, changes nothing. Nor does another finish."""
    body = of_points(service)
    verdict = service.begun(body, "a")
    for item in (3, 0, 3, 5, 1):
        service.handle(verdict, item)
    second = service.ended(verdict["gather"])  # tasks 2 and 4 are lost: a round of their own
    service.handle(verdict, 2)  # late: its task of the first round, committed there as well
    for item in (1, 0, 0):
        service.handle(second, item)
    done = service.ended(second["gather"])
    table = service.machine.s3.list_objects_v2(Bucket="cubes")["Contents"]
    service.handle(second, 1)
    again = [service.ended(second["gather"]), service.ended(verdict["gather"]), service.begun(body, "b")]
    after = service.machine.s3.list_objects_v2(Bucket="cubes")["Contents"]

    assert (second["verdict"], second["n_missing"], done["verdict"]) == ("planned", 2, "complete")
    assert again == [done, done, done]
    assert table == after
    bucket, _, key = done["result"]["table"].removeprefix("s3://").partition("/")
    content = service.machine.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    assert pq.read_table(io.BytesIO(content)).equals(service.here(body, tmp_path))


def test_a_begun_table_goes_on_where_it_was(service: Service) -> None:
    """A second execution reads what the first one has not read."""
    body = of_zones(service)
    verdict = service.begun(body, "a")
    service.handle(verdict, 0)

    again = service.begun(body, "b")

    assert again["gather"] == verdict["gather"]
    assert (verdict["n_missing"], again["n_missing"]) == (N, N - 1)


def test_tables_are_stopped_and_redriven(service: Service, tmp_path: Path) -> None:
    """As gathers are. The redriven table is that of this process."""
    service.machine.is_slow = True
    body = of_points(service)
    _, line = service.do("POST", "/tables", body)
    path = f"/tables/{line['id']}"
    _, stopped = service.do("DELETE", path)
    code, redriven = service.do("POST", f"{path}/redrive")
    _, ended = service.do("GET", path)

    assert (stopped["state"], code, redriven["state"]) == ("stopped", 202, "running")
    assert service.table(ended).equals(service.here(body, tmp_path))


def test_only_images_near_in_time_are_read(service: Service, tmp_path: Path) -> None:
    """If none is, there is no round of the map, and all lines say why."""
    times = [f"2024-01-{day:02d}" for day in range(1, N + 1)]
    sources = [{"href": href, "time": time} for href, time in zip(HREFS, times, strict=True)]
    content = "\n".join(["href,time", *(f"{each['href']},{each['time']}" for each in sources)])
    service.machine.s3.put_object(Bucket="sources", Key="list.csv", Body=content.encode())
    before = service.machine.s3.get_object(Bucket="sources", Key="plots.csv")["Body"].read().decode()
    lines = before.splitlines()
    for key, day in (("near.csv", "2024-01-02"), ("late.csv", "2025-01-01")):
        rows = [f"{lines[0]},seen", *(f"{each},{day}" for each in lines[1:])]
        service.machine.s3.put_object(Bucket="sources", Key=key, Body="\n".join(rows).encode())
    body = of_points(service, sources="s3://sources/list.csv", time="seen", tolerance="30h")

    near = service.made(body | {"points": "s3://sources/near.csv"})
    n_children = list(service.machine.n_children)
    late = service.made(body | {"points": "s3://sources/late.csv"})

    assert near["result"]["not_opened"] == N - 3
    assert service.table(near).equals(service.here(body | {"points": "s3://sources/near.csv"}, tmp_path))
    assert service.machine.n_children == n_children == [3]
    assert late["result"]["statuses"] == {"unmatched": 41}


def test_geojson_in_the_request_needs_no_file(service: Service) -> None:
    """A few features are part of the request."""
    content = service.machine.s3.get_object(Bucket="sources", Key="fields.geojson")["Body"].read()

    document = service.made(of_zones(service, zones=json.loads(content)))

    assert document["result"]["features"] == 8


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"points": "s3://elsewhere/plots.csv"}, "points", "elsewhere"),
        ({"points": "s3://control/gathers/a/plan.msgpack"}, "points", "control"),
        ({"sources": ["s3://elsewhere/a.tif"]}, "sources.hrefs.0", "elsewhere"),
        ({"zones": FIELDS}, "points", "points or zones"),
        ({"statistics": "mean"}, "statistics", "no such field"),
        ({"by": 7}, "request", "wrong kind"),
        ({"square": 2}, "square", "odd"),
        ({"limits": {"eur": 1}}, "limits", "usd and seconds"),
        ({"id": "name"}, "id", "no column name"),
        ({"sources": ["s3://sources/gone.tif"]}, "sources", ""),
    ],
    ids=str,
)
def test_wrong_requests_are_refused_before_anything_is_started(
    service: Service, changes: dict[str, Any], field: str, says: str
) -> None:
    """The problem names the field."""
    code, problem = service.do("POST", "/tables", of_points(service, **changes))

    assert (code, problem["field"]) == (422, field), problem
    assert says in problem["detail"]
    assert not service.machine.found


def test_limits_of_dollars_and_of_size_refuse(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read then."""
    cheap = service.made(of_points(service, limits={"usd": 1e-6}))
    monkeypatch.setattr("handlers.tables.feature_steps.MOST_LINES", 10)
    large = service.made(of_points(service))
    monkeypatch.setattr("handlers.tables.feature_table.MOST_FEATURES", 10)
    code, many = service.do("POST", "/tables", of_points(service))

    assert (cheap["state"], cheap["error"]["type"]) == ("failed", "BudgetError")
    assert cheap["error"]["detail"].startswith("limits.usd: 6 images would cost about")
    assert large["error"]["detail"].startswith("there would be about 240 lines")
    assert (code, many["detail"].startswith("there are 41 features")) == (422, True)
    assert service.machine.n_children == []
