"""Tables of points and zones over S3: they are those of this process, whatever happens to workers."""

import io
import json
from collections.abc import Callable
from copy import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from handlers.deployment.stores import Deployment
from pixel_gather import verify_table
from pixel_gather.core.errors import ShardLateError, StoreError
from pixel_gather.core.estimate.pricing import USD_PER_GET
from pixel_gather.io.aws.gather_document import summary_key
from pixel_gather.io.store.object_store import Objects
from pixel_gather.tables import map_tasks
from scenes import scenes
from support.api_bridge import is_a
from support.geojson import collection, feature
from support.images import write_image
from support.lambda_functions import Context, keys_of, remove_objects
from support.spending import USD_OF_CHILD, spent_in, tell_parts_apart
from support.table_service import FIELDS, HREFS, PLOTS, N, Service

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_hedges")]


def of_points(service: Service, **more: Any) -> dict[str, Any]:
    """Return a request for points."""
    return {"points": PLOTS, "id": "plot", "crs": service.crs, "sources": HREFS, **more}


def of_zones(service: Service, **more: Any) -> dict[str, Any]:
    """Return a request for zones."""
    return {"zones": FIELDS, "id": "field", "crs": service.crs, "sources": HREFS, **more}


@pytest.mark.long
@pytest.mark.parametrize(
    ("of_kind", "more"),
    [
        (of_points, {}),
        (of_points, {"square": 3}),
        (of_points, {"method": "bilinear", "by": "b1 * 2"}),
        (of_points, {"by": "b1", "mask": {"band": "b1", "drop": [5]}}),
        (of_zones, {}),
        (of_zones, {"statistics": "median,p90", "coverage": "touched"}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_tables_by_a_deployment_are_those_of_this_process(
    service: Service, tmp_path: Path, of_kind: Callable[..., dict[str, Any]], more: dict[str, Any]
) -> None:
    """Line by line. The receipt has the digest of the features, which were written before."""
    body = of_kind(service, **more)

    document = service.made(body)

    assert document["state"] == "succeeded", document
    assert service.table(document).equals(service.here(body, tmp_path))
    assert service.machine.n_children == [N]
    verified = verify_table(document["links"]["table"], stores=service.stores)
    assert verified.is_same, verified
    assert (verified.n_lines, verified.n_images) == (document["result"]["lines"], N)


@pytest.mark.long
def test_documents_are_those_of_the_description(service: Service) -> None:
    """They tell lines, statuses, requests, dollars and the places of three files.

    A plan reads no pixel. Its lines and requests are those that the table then has.
    """
    plan_code, plan = service.do("POST", "/tables/plan", of_points(service))
    code, line = service.do("POST", "/tables", of_points(service))
    _, shown = service.do("GET", f"/tables/{line['id']}")
    _, listed = service.do("GET", "/tables")

    assert code == 202
    assert line["id"].startswith("points-")
    documents = {"TablePlan": plan, "TableStarted": line, "TableStatus": shown, "Tables": listed}
    for name, document in documents.items():
        assert is_a(name, document)
    result = shown["result"]
    assert plan_code == 200
    assert plan["lines"] == result["lines"] - 1  # but that of the point far away
    assert plan["requests"] >= result["requests"]
    assert plan["workers"] == N
    assert 0 < plan["usd"] < 0.01
    assert (result["features"], result["scenes"], result["failed"]) == (41, N, 0)
    assert result["statuses"] == {"ok": 40 * N, "outside": 1}
    assert shown["scenes"] == {"total": N, "wanted": 0, "read": 0, "failed": 0}
    assert 0 < shown["usd"] < 0.01
    assert service.table(shown, "features_table").column_names == ["id", "plot", "x", "y", "geometry"]
    assert service.table(shown, "images_table").num_rows == N


def test_a_round_is_told_to_cost_what_the_plan_says_and_a_table_what_it_took(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dollars of a table are those of its workers, and of their requests to the images."""
    monkeypatch.setattr(
        "handlers.tables.feature_steps.usd_of_round",
        lambda *, worker_s, n_tasks: 0.25 * n_tasks * (worker_s > 0),
    )
    body = of_points(service)
    _, plan = service.do("POST", "/tables/plan", body)
    document = service.made(body)

    s3, result = service.machine.s3, document["result"]
    summary = json.loads(s3.get_object(Bucket="control", Key=summary_key(result["job"]))["Body"].read())
    images = read(service, result["images_table"])
    assert (summary["usd"], summary["seconds"]) == pytest.approx((plan["usd"], plan["seconds"]), rel=0.01)
    assert result["bytes"] == sum(images["bytes"].to_pylist()) > 0
    assert result["requests"] == sum(images["requests"].to_pylist()) > 0
    assert result["usd"] == pytest.approx(N * 0.25 + result["requests"] * USD_PER_GET, rel=1e-12)
    assert 0 <= result["seconds"] < 3600


@pytest.mark.long
def test_workers_tell_what_they_have_spent(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each tells its requests, one file that it puts, and the steps of a child."""
    tell_parts_apart(monkeypatch)
    result = service.made(of_points(service))["result"]

    spent = sum(spent_in(capsys.readouterr().out))
    assert spent == pytest.approx(N * USD_OF_CHILD + result["requests"], abs=0.5)


@pytest.mark.long
def test_images_are_signed_for_as_the_request_says(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the function of the API, by that of the plan, and by each worker."""
    asked = []

    def signed_objects(deployment: Deployment, sign: str) -> Objects:
        asked.append((deployment, sign))
        return deployment.objects

    monkeypatch.setattr(Deployment, "signed_objects", signed_objects)
    deployments = [service.deployment, service.machine.plan.deployment, service.machine.worker.deployment]
    for each in deployments:
        monkeypatch.setattr(each, "settings", replace(each.settings, signing=frozenset({"earthdata"})))
    sources = {"hrefs": HREFS, "sign": "earthdata"}
    document = service.made(of_points(service, sources=sources, by="b1 / 7"))

    assert document["state"] == "succeeded"
    assert [(each, "earthdata") for each in deployments] == list(dict.fromkeys(asked))


@pytest.mark.long
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
    assert is_a("TableStatus", again)
    assert other_code == 202
    assert other["id"] != line["id"]


@pytest.mark.long
def test_an_image_that_kills_its_worker_is_lost_and_no_other(service: Service, tmp_path: Path) -> None:
    """It is read again alone, and then listed."""
    service.machine.poison = {"scenes/2.tif"}
    body = of_points(service)

    document = service.made(body)

    found, here = service.table(document).to_pylist(), service.here(body, tmp_path).to_pylist()
    assert service.machine.n_children == [N, 1]
    assert document["result"]["failed"] == 1
    assert [each for each in found if each["status"] == "lost"] == [
        dict.fromkeys(found[0])
        | {"scene": HREFS[2], "href": HREFS[2], "status": "lost", "valid": 0.0}
        | {"reason": "its worker failed at every try, also when it read no other scene"}
    ]
    elsewhere = [each for each in found if each["href"] != HREFS[2]]
    assert [each | {"status": "outside"} for each in elsewhere if each["status"] == "unread"] == [
        each for each in here if each["status"] == "outside"
    ]
    assert [each for each in elsewhere if each["status"] != "unread"] == [
        each for each in here if each["href"] not in (HREFS[2], None)
    ]


def test_a_table_of_which_no_worker_reads_anything_fails(service: Service) -> None:
    """It is no table of lost images: the workers cannot read at all."""
    first = service.begun(of_points(service), "a")
    second = service.ended(first["gather"])

    with pytest.raises(StoreError, match="every worker failed"):
        service.ended(second["gather"])


@pytest.mark.long
def test_an_image_that_cannot_be_read_is_told(service: Service) -> None:
    """The table has all others."""
    document = service.made(of_points(service, sources=[*HREFS[:2], "s3://sources/gone.tif"]))

    assert document["result"]["failed"] == 1
    assert document["result"]["statuses"] == {"ok": 80, "missing": 1, "unread": 1}


@pytest.mark.long
def test_tasks_and_finish_may_run_in_any_order_and_again(service: Service, tmp_path: Path) -> None:
    """A task that is done again, before or after the end, changes nothing. Nor does another finish."""
    body = of_points(service)
    verdict = service.begun(body, "a")
    service.handle(verdict, 3, 0, 3, 5, 1)
    second = service.ended(verdict["gather"])  # tasks 2 and 4 are lost: a round of their own
    service.handle(second, 1, 0, 0)
    service.handle(verdict, 2, 4)  # late: tasks of the first round, committed there as well
    done = service.ended(verdict["gather"])  # it knows of no second round
    table = service.machine.s3.list_objects_v2(Bucket="cubes")["Contents"]
    service.handle(second, 1)
    again = [service.ended(second["gather"]), service.ended(verdict["gather"]), service.begun(body, "b")]
    after = service.machine.s3.list_objects_v2(Bucket="cubes")["Contents"]
    note = {"Bucket": "control", "Key": f"tables/{done['result']['name']}/rounds/0/result.json"}
    for step in (partial(service.ended, verdict["gather"]), partial(service.begun, body, "c")):
        service.machine.s3.delete_object(**note)  # as if the call that wrote it was killed
        again.append(step())
        noted = json.loads(service.machine.s3.get_object(**note)["Body"].read())
        assert noted["result"] == done["result"]

    assert (second["verdict"], second["n_missing"], done["verdict"]) == ("planned", 2, "complete")
    assert again == [done] * 5
    assert table == after
    lines, images = (read(service, done["result"][each]) for each in ("table", "images_table"))
    assert lines.equals(service.here(body, tmp_path))
    for name in ("requests", "bytes"):  # what was read twice was paid twice
        of_images = dict(zip(images["hrefs"].to_pylist(), images[name].to_pylist(), strict=True))
        twice = sum(of_images[json.dumps([HREFS[item]])] for item in (2, 4))
        assert done["result"][name] == sum(of_images.values()) + twice


@pytest.mark.long
@pytest.mark.parametrize("n_in_time", [0, 1])
def test_an_image_of_a_late_worker_is_not_lost(service: Service, n_in_time: int) -> None:
    """It comes after its round has ended. Its worker of the next round fails as well."""
    verdict = service.begun(of_points(service, sources=HREFS[:2]), "a")
    for item in range(n_in_time):
        service.handle(verdict, item)
    second = service.ended(verdict["gather"])
    service.handle(verdict, *range(n_in_time, 2))

    result = service.ended(second["gather"])["result"]

    assert (second["n_missing"], result["scenes"], result["failed"]) == (2 - n_in_time, 2, 0)


@pytest.mark.long
@pytest.mark.parametrize(("expired", "says"), [("state", "2 images"), ("measured/", "1 image")])
def test_a_table_that_lacks_control_files_is_not_written(service: Service, expired: str, says: str) -> None:
    """Those of its first round have expired, so what was read then cannot be found."""
    verdict = service.begun(of_points(service, sources=HREFS[:2]), "a")
    service.handle(verdict, 0)
    second = service.ended(verdict["gather"])
    service.handle(second, 0)
    name, s3 = verdict["gather"].partition("/")[0], service.machine.s3
    prefix = f"tables/{name}/rounds/0/{expired}"
    remove_objects(s3, "control", prefix)

    with pytest.raises(StoreError, match=f"{says} of the table cannot be found in its control files"):
        service.ended(second["gather"])


@pytest.mark.parametrize("damaged", ["rounds/0/state", "rounds/0/measured/"])
def test_a_damaged_control_file_is_named(service: Service, damaged: str) -> None:
    """The error says what to do, and nothing is written. Without the damaged file, the task is done again."""
    verdict = service.begun(of_points(service, sources=HREFS[:1]), "a")
    service.handle(verdict, 0)
    name, s3 = verdict["gather"].partition("/")[0], service.machine.s3
    (found,) = s3.list_objects_v2(Bucket="control", Prefix=f"tables/{name}/{damaged}")["Contents"]
    key = found["Key"].removeprefix(f"tables/{name}/")
    s3.put_object(Bucket="control", Key=found["Key"], Body=b"\x93\x01")

    with pytest.raises(StoreError, match=f"^{key} is damaged .*: remove this control file and run again"):
        service.ended(verdict["gather"])
    assert keys_of(s3, "cubes") == [f"out/tables/{name}/table.features.parquet"]
    s3.delete_object(Bucket="control", Key=found["Key"])
    again = service.begun(of_points(service, sources=HREFS[:1]), "b")
    assert (again["gather"], again["n_missing"]) == (verdict["gather"], 1)


@pytest.mark.parametrize(
    "content",
    [b"", *(pytest.param(each, marks=pytest.mark.long) for each in (b"[1]", b"\x93"))],
    ids=["empty", "other", "short"],
)
@pytest.mark.parametrize(
    ("damaged", "named"),
    [("work.json", "work.json"), ("features", "features"), ("rounds/0/scenes-", "rounds/0/state")],
)
def test_a_damaged_file_of_the_workers_is_named(
    service: Service, damaged: str, named: str, content: bytes
) -> None:
    """Once the file that is named is removed, the same request makes the table."""
    by = f"b1 + {len(damaged)}{len(content)}"  # a worker keeps the last table open, by its name
    body = of_points(service, sources=HREFS[:1], by=by)
    verdict = service.begun(body, "a")
    name, s3 = verdict["gather"].partition("/")[0], service.machine.s3
    (found,) = s3.list_objects_v2(Bucket="control", Prefix=f"tables/{name}/{damaged}")["Contents"]
    whole = content.ljust(found["Size"]) if "scenes" in damaged else content  # they are read by their place
    s3.put_object(Bucket="control", Key=found["Key"], Body=whole)

    with pytest.raises(StoreError, match=f"^{named} is damaged .*: remove this control file and run again"):
        service.handle(verdict, 0)
    s3.delete_object(Bucket="control", Key=f"tables/{name}/{named}")
    again = service.begun(body, "b")
    service.handle(again, 0)
    assert service.ended(again["gather"])["result"]["failed"] == 0


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"started_at": '], ids=["empty", "other", "short"])
def test_a_damaged_note_of_the_result_is_named(service: Service, content: bytes) -> None:
    """Once the note is removed, the table is found as it is."""
    body = of_points(service, sources=HREFS[:1])
    verdict = service.begun(body, "a")
    service.handle(verdict, 0)
    done = service.ended(verdict["gather"])
    name, s3 = verdict["gather"].partition("/")[0], service.machine.s3
    key = "rounds/0/result.json"
    s3.put_object(Bucket="control", Key=f"tables/{name}/{key}", Body=content)

    with pytest.raises(StoreError, match=f"^{key} is damaged .*: remove this control file and run again"):
        service.begun(body, "b")
    s3.delete_object(Bucket="control", Key=f"tables/{name}/{key}")
    assert service.begun(body, "c") == done


def read(service: Service, href: str) -> pa.Table:
    """Return a Parquet file of the bucket."""
    bucket, _, key = href.removeprefix("s3://").partition("/")
    content = service.machine.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return pq.read_table(io.BytesIO(content))


def test_an_old_table_is_begun_anew(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 14 days, as some of its control files may have expired. What was read before does not count.

    Nor does what is read now count for a step of the old attempt that comes late.
    """
    body = of_zones(service, sources=HREFS[:1])
    verdict = service.begun(body, "a")
    service.handle(verdict, 0)
    monkeypatch.setattr(map_tasks, "_LONGEST_ATTEMPT_S", 0.0)
    again = service.begun(body, "b")
    service.handle(again, 0)
    late = service.ended(verdict["gather"])["result"]

    name, _, number = verdict["gather"].partition("/")
    assert (number, again["gather"], again["n_missing"]) == ("0", f"{name}/1", 1)
    assert [late["requests"]] == read(service, late["images_table"])["requests"].to_pylist()


def test_a_begun_table_goes_on_where_it_was(service: Service) -> None:
    """A second execution reads what the first one has not read, such as what took too long."""
    body = of_zones(service)
    verdict = service.begun(body, "a")
    event = {"gather": verdict["gather"], "tasks": service.machine.items(verdict)[1], "limit_s": 0}
    with pytest.raises(ShardLateError):
        service.machine.worker.handler(event, Context())
    service.handle(verdict, 0)

    again = service.begun(body, "b")

    assert again["gather"] == verdict["gather"]
    assert (verdict["n_missing"], again["n_missing"]) == (N, N - 1)
    assert verdict["manifest"]["key"] != again["manifest"]["key"]  # the first may still be read
    assert (verdict["shard_limit_s"], verdict["late_shard_s"]) == (120, 840)
    refused = service.begun(body | {"limits": {"usd": 1e-6}}, "c")  # limits are not in a table's name
    assert refused["cause"].startswith(f"limits.usd: {N} images would cost about")


@pytest.mark.parametrize("n_earlier", [0, 1])
def test_a_refused_request_leaves_the_files_of_workers_as_they_are(service: Service, n_earlier: int) -> None:
    """Workers of an earlier request read them. If there is none, nothing is written."""
    body = of_zones(service)
    for _ in range(n_earlier):
        service.begun(body, "a")
    before = stored(service)

    refused = service.begun(body | {"limits": {"usd": 1e-6}}, "b")

    assert refused["cause"].startswith("limits.usd: ")
    assert stored(service) == before
    assert sum(key.endswith("/work.json") for key in before) == n_earlier


def stored(service: Service) -> dict[str, bytes]:
    """Return what is stored of tables, by bucket and key."""
    s3 = service.machine.s3
    return {
        f"{bucket}/{key}": s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        for bucket in ("control", "cubes")
        for key in keys_of(s3, bucket)
    }


@pytest.mark.long
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

    assert [near["result"][name] for name in ("scenes", "not_opened", "read")] == [N, N - 3, 3]
    assert service.table(near).equals(service.here(body | {"points": "s3://sources/near.csv"}, tmp_path))
    assert service.machine.n_children == n_children == [3]
    assert late["result"]["statuses"] == {"unmatched": 41}


def test_a_scene_that_a_search_finds_between_the_features_is_not_read(service: Service) -> None:
    """It lies in the box of all of them, and on none."""
    places = [{"type": "Point", "coordinates": [lon, 46.0]} for lon in (11.0, 13.0)]
    items = [
        scenes.item(f"at-{lon}", box=(lon - 0.1, 45.9, lon + 0.1, 46.1), assets={"red": {"href": href}})
        for lon, href in zip((11.0, 12.0), HREFS, strict=False)
    ]
    service.machine.s3.put_object(Bucket="sources", Key="between.json", Body=json.dumps(collection(items)))
    stac = {"items": "s3://sources/between.json", "assets": ["red"]}
    points = collection(map(feature, places))

    document = service.made({"points": points, "sources": {"stac": stac}, "by": "red"})

    assert document["state"] == "succeeded"
    assert document["result"]["scenes"] == 1


@pytest.mark.long
def test_workers_read_the_band_of_a_numbered_asset(service: Service, tmp_path: Path) -> None:
    """And not the first one of its file."""
    pixels = np.stack([np.full((16, 16), band, "uint16") for band in (1, 2, 3)])
    file = write_image(tmp_path / "rgb.tif", pixels, west=11, north=46, size=0.01, crs="EPSG:4326")
    item = scenes.item("s1", box=(11, 45.84, 11.16, 46), assets={"rgb": {"href": "s3://sources/rgb.tif"}})
    service.machine.s3.upload_file(file, "sources", "rgb.tif")
    service.machine.s3.put_object(Bucket="sources", Key="rgb.json", Body=json.dumps(collection([item])))
    point = collection([feature({"type": "Point", "coordinates": [11.05, 45.95]})])

    for number in (3, 2):  # each is a table of its own
        assets = {"blue": f"rgb:{number}", "red": "rgb"}
        for given, named in (({"assets": assets}, {}), ({}, {"by": "blue,red", "bands": assets})):
            stac = {"items": "s3://sources/rgb.json", **given}
            document = service.made({"points": point, "sources": {"stac": stac}, **named})

            assert document["state"] == "succeeded", document
            (row,) = service.table(document).to_pylist()
            assert (row["blue"], row["red"]) == (number, 1)


@pytest.mark.long
def test_features_with_other_columns_have_a_table_of_their_own(service: Service) -> None:
    """The table of features has these columns. It was that of the first request before."""
    crops = []
    for crop in ("wheat", "maize"):
        point = feature({"type": "Point", "coordinates": [11, 46]}, crop=crop)
        document = service.made({"points": collection([point]), "sources": HREFS})
        crops += service.table(document, "features_table").column("crop").to_pylist()

    assert crops == ["wheat", "maize"]


@pytest.mark.long
def test_geojson_in_the_request_needs_no_file(service: Service) -> None:
    """A few features are part of the request."""
    content = service.machine.s3.get_object(Bucket="sources", Key="fields.geojson")["Body"].read()
    given = json.loads(content)
    given["features"].append(feature(None, field="none"))

    document = service.made(of_zones(service, zones=given))

    assert document["result"]["features"] == 9
    assert document["result"]["notes"] == ["1 feature without coordinates: the table says empty"]


def test_features_on_no_image_are_noted(service: Service) -> None:
    """As in process, where the table says outside, too."""
    document = service.made(
        {"points": collection([feature({"type": "Point", "coordinates": [46, 11]})]), "sources": HREFS}
    )

    assert document["result"]["statuses"] == {"outside": 1}
    assert document["result"]["notes"] == [
        "no feature lies on an image: is their CRS EPSG:4326, with x first?"
    ]


def test_statistics_of_a_wrong_kind_are_named(service: Service) -> None:
    """Not only that some field is wrong."""
    code, problem = service.do("POST", "/tables/plan", of_zones(service, statistics=5))

    assert (code, problem["detail"]) == (422, "statistics: it is 5; write names, such as mean,p90")


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"points": "s3://elsewhere/plots.csv"}, "points", "elsewhere"),
        ({"points": "s3://control/gathers/a/plan.msgpack"}, "points", "control"),
        ({"sources": ["s3://elsewhere/a.tif"]}, "sources.hrefs.0", "elsewhere"),
        ({"sources": [{"href": "s3://sources/a.tif"}]}, "sources", "POST /lists"),
        ({"zones": FIELDS}, "points", "points or zones"),
        ({"statistics": "mean"}, "statistics", "no such field; it takes append_to, bands"),
        ({"by": 7}, "by", "it is 7; write names"),
        ({"square": 2}, "square", "odd"),
        ({"limits": {"eur": 1}}, "limits.eur", "no such field; it takes seconds, usd"),
        ({"id": "name"}, "id", "no column name"),
        ({"sources": ["s3://sources/gone.tif"]}, "sources", ""),
        ({"sources": "s3://sources/gone.csv"}, "sources.list", "the list cannot be read"),
        ({"points": "s3://sources/gone.csv"}, "points", "the file of features cannot be read"),
        (
            {"points": {"type": "Point", "coordinates": [46, 111]}, "id": None, "crs": "EPSG:4326"},
            "points",
            "latitudes from -90 to 90",
        ),
        (
            {"points": {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}, "id": None},
            "points",
            "no single points",
        ),
    ],
    ids=str,
)
def test_wrong_requests_are_refused_before_anything_is_started(
    service: Service, changes: dict[str, Any], field: str, says: str
) -> None:
    """The problem names the field."""
    code, problem = service.do("POST", "/tables", of_points(service, **changes))
    refused = service.begun(of_points(service, **changes), "a")

    assert (code, problem["field"]) == (422, field), problem
    assert says in problem["detail"]
    assert not service.machine.found
    assert (refused["error"], says in refused["cause"]) == ("RequestError", True)


@pytest.mark.long
def test_limits_of_dollars_and_of_size_refuse(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read then."""
    cheap = service.made(of_points(service, limits={"usd": 1e-6}))
    plan_code, plan = service.do("POST", "/tables/plan", of_points(service, limits={"usd": 1e-6}))
    monkeypatch.setattr("handlers.tables.feature_steps.MOST_LINES", 10)
    large = service.made(of_points(service))
    monkeypatch.setattr("handlers.tables.feature_table.MOST_FEATURES", 10)
    code, many = service.do("POST", "/tables", of_points(service))

    assert (cheap["state"], cheap["error"]["type"]) == ("failed", "BudgetError")
    assert cheap["error"]["detail"].startswith("limits.usd: 6 images would cost about")
    assert (plan_code, plan["detail"]) == (422, cheap["error"]["detail"])
    assert large["error"]["detail"].startswith("there would be about 240 lines")
    assert (code, many["detail"].startswith("there are 41 features")) == (422, True)
    assert service.machine.n_children == []


def test_a_table_may_have_just_as_many_features_images_and_lines_as_one_takes(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is too many. A worker has no more lines than it can hold."""
    of_steps = "handlers.tables.feature_steps"
    for name, most in (
        (f"{of_steps}._LINES_PER_TASK", 100),
        (f"{of_steps}.MOST_LINES", 40 * N),
        (f"{of_steps}.MOST_IMAGES", N),
        ("handlers.tables.feature_table.MOST_FEATURES", 41),
    ):
        monkeypatch.setattr(name, most)
    code, plan = service.do("POST", "/tables/plan", of_points(service))
    monkeypatch.setattr(f"{of_steps}.MOST_IMAGES", N - 1)
    many_code, many = service.do("POST", "/tables/plan", of_points(service))

    assert (code, plan["lines"], plan["workers"]) == (200, 40 * N, 3)
    assert many_code == 422
    assert many["detail"].startswith("there are 6 images, and one table takes at most 5: make one table for")
