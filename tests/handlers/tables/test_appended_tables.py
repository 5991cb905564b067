"""Appends to tables of a deployment: whatever happens twice or late, no line is lost or doubled."""

import io
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import rasterio

from pixel_gather import verify_table
from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.features.verify.verify import find_table
from pixel_gather.features.versions.compact_table import CompactedTable, compact_table
from pixel_gather.tables.feature_rounds import TaskImage, lost_images
from pixel_gather.tables.map_tasks import last_attempt
from support.api_bridge import is_a, told
from support.geojson import collection, feature
from support.lambda_functions import EXECUTION, STATE_MACHINE, keys_of, remove_objects
from support.table_service import FIELDS, HREFS, PLOTS, N, Service

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_hedges")]


def appending(service: Service, *numbers: int, **more: Any) -> dict[str, Any]:
    """Return a request that appends some images to the table ``grows``."""
    hrefs = [HREFS[number] for number in numbers]
    return {"points": PLOTS, "id": "plot", "crs": service.crs, "sources": hrefs, "append_to": "grows"} | more


def without(body: dict[str, Any], *numbers: int) -> dict[str, Any]:
    """Return the request of the same table, made at once."""
    hrefs = [HREFS[number] for number in numbers]
    return {name: each for name, each in body.items() if name != "append_to"} | {"sources": hrefs}


def current(service: Service) -> dict[str, Any]:
    """Return the document of the table as it is now."""
    code, document = service.do("GET", "/tables/points-grows")
    assert code == 200, document
    assert is_a("TableStatus", document)
    return dict(document)


def lines(service: Service) -> list[dict[str, Any]]:
    """Return the lines of the table as it is now."""
    return sorted(service.table(current(service)).to_pylist(), key=str)


def at_once(service: Service, folder: Path, *numbers: int) -> list[dict[str, Any]]:
    """Return the lines of the same table, made in this process."""
    return sorted(service.here(without(appending(service), *numbers), folder).to_pylist(), key=str)


def test_appends_make_the_table_that_is_made_at_once(service: Service, tmp_path: Path) -> None:
    """The first one makes it. Each version is whole, and stays."""
    first = service.made(appending(service, 0, 2))
    second = service.made(appending(service, *range(N)))
    third = service.made(appending(service, 1))

    assert [each["state"] for each in (first, second, third)] == ["succeeded"] * 3, (first, second, third)
    results = [each["result"] for each in (first, second, third)]
    assert [each["read"] for each in results] == [2, 4, 0]
    assert [each["version"] for each in results] == [1, 2, 2]
    assert [each["appended"] for each in results] == [None, N - 2, 0]
    assert service.machine.n_children == [2, 4]
    assert lines(service) == at_once(service, tmp_path, *range(N))
    assert service.table(first).num_rows == 2 * 40 + 1
    receipt = json.loads(service.table(second, "images_table").schema.metadata[b"pixel_gather"])
    assert (receipt["appends"], receipt["n_images"]) == (1, N)
    for document in (first, second):
        assert verify_table(document["links"]["table"], stores=service.stores).is_same
    found = find_table("s3://cubes/out/tables/points-grows", stores=service.stores)
    assert found == second["links"]["table"]
    assert find_table("s3://cubes/out/tables/points-other", stores=service.stores) is None
    assert current(service)["result"]["name"] == "points-grows"
    assert service.do("POST", "/tables", appending(service, 1))[0] == 200  # nothing is started again


@pytest.mark.long
def test_zones_are_appended_to_as_well(service: Service, tmp_path: Path) -> None:
    """With their features, which each version has beside it."""
    body = {"zones": FIELDS, "id": "field", "crs": service.crs, "append_to": "zones2"}
    for numbers in ((0,), (0, 1)):
        document = service.made(body | {"sources": [HREFS[number] for number in numbers]})

    assert document["result"]["name"] == "zones-zones2"
    assert service.table(document).equals(service.here(without(body, 0, 1), tmp_path))
    assert service.table(document, "features_table").num_rows == 8


@pytest.mark.long
def test_a_later_list_may_have_its_bands_in_another_order(service: Service) -> None:
    """No image comes twice."""
    lines = [f"{href},{band},one" for href, band in zip(HREFS, ("red", "nir"), strict=False)]
    made = []
    for key, some in (("list.csv", lines), ("later.csv", lines[::-1])):
        content = "\n".join(["href,band,scene", *some])
        service.machine.s3.put_object(Bucket="sources", Key=key, Body=content.encode())
        made.append(service.made(appending(service, by="red,nir", sources=f"s3://sources/{key}")))
    first, again = made

    assert (again["result"]["scenes"], again["result"]["read"]) == (1, 0)
    assert service.table(again).equals(service.table(first))


@pytest.mark.long
def test_a_lost_image_is_read_again_by_the_next_append(service: Service, tmp_path: Path) -> None:
    """Though its list does not name it. Each append counts its own try."""
    service.machine.poison = {"scenes/1.tif"}
    service.made(appending(service, 0, 1))
    again = service.made(appending(service, 3))
    assert sorted(service.table(again, "images_table")["tries"].to_pylist()) == [1, 1, 2]
    service.machine.poison = set()
    document = service.made(appending(service, 2))

    result = document["result"]
    assert (result["appended"], result["read"], result["failed"]) == (1, 2, 0)
    assert lines(service) == at_once(service, tmp_path, 0, 1, 2, 3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "rest", "query"),
    [("DELETE", "", {}), ("POST", "/redrive", {}), ("POST", "/limit", {"workers": "1"})],
)
def test_what_concerns_a_job_does_not_take_the_name_of_a_table(
    service: Service, method: str, rest: str, query: dict[str, str]
) -> None:
    """A table has a job for each append, so its name tells of none. GET takes it."""
    document = service.made(appending(service, 0))

    code, problem = service.do(method, f"/tables/points-grows{rest}", **query)
    unknown, _ = service.do(method, f"/tables/points-else{rest}", **query)

    assert (code, unknown) == (404, 404)
    assert "points-grows is a table, and each append to it is a job" in problem["detail"]
    assert problem["detail"].endswith(f"The last that has ended is {document['id']}")
    assert service.do("GET", "/tables/points-grows")[0] == 200


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_appends_in_any_order_keep_every_line(service: Service, tmp_path: Path, seed: int) -> None:
    """They are planned at one time, and end in any order, some twice, some long after others."""
    rng = random.Random(seed)  # noqa: S311 # no secret
    wanted: set[int] = set()
    begun: list[tuple[dict[str, Any], list[int]]] = []
    for turn in range(7):
        if not begun or rng.random() < 0.5:
            numbers = rng.sample(range(N), 2)
            verdict = service.begun(appending(service, *numbers), f"execution-{turn}")
            if verdict["verdict"] == "complete":
                continue
            service.handle(verdict)
            begun.append((verdict, numbers))
        else:
            verdict, numbers = rng.choice(begun)
            assert service.ended(verdict["gather"])["verdict"] == "complete"
            wanted |= set(numbers)
            if rng.random() < 0.5:
                compacted(service)
    for verdict, numbers in begun:
        service.ended(verdict["gather"])
        wanted |= set(numbers)

    s3 = service.machine.s3
    result = pq.read_table(io.BytesIO(_last(s3)))
    assert sorted(result.to_pylist(), key=str) == at_once(service, tmp_path, *sorted(wanted))


def _last(s3: Any) -> bytes:
    """Return the last version of the table."""
    result = json.loads(
        s3.get_object(Bucket="cubes", Key="out/tables/points-grows/result.json")["Body"].read()
    )
    bucket, _, key = result["table"].removeprefix("s3://").partition("/")
    content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return content


@pytest.mark.long
def test_an_append_counts_the_tries_of_images_of_which_none_can_be_opened(service: Service) -> None:
    """The plan opens them all. Later appends read them again, five times in all."""
    missing = HREFS[1].replace("/1.tif", "/none.tif")
    body = appending(service, 0) | {"sources": [HREFS[0], missing]}
    made = [service.made(body) for _ in range(6)]

    assert [each["state"] for each in made] == ["succeeded"] * 6
    assert [each["result"]["read"] for each in made] == [2, 1, 1, 1, 1, 0]
    assert {each["result"]["failed"] for each in made} == {1}


def test_an_append_to_a_table_with_a_damaged_result_is_refused(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It writes nothing over it. The log names the table."""
    service.made(appending(service, 0))
    result = {"Bucket": "cubes", "Key": "out/tables/points-grows/result.json"}
    service.machine.s3.put_object(**result, Body='{"version": ')
    code, problem = service.do("POST", "/tables", appending(service, 1))

    assert (code, problem["type"].rpartition(":")[2]) == (503, "store_error")
    assert "s3://cubes/out/tables/points-grows: its result.json is damaged" in caplog.text
    assert service.machine.s3.get_object(**result)["Body"].read() == b'{"version": '


def test_a_commit_that_comes_second_begins_anew(service: Service, tmp_path: Path) -> None:
    """Another append is committed between its look and its PUT."""
    from handlers.tables.committed_tables import CommittedTables  # noqa: PLC0415 # it needs the environment

    service.made(appending(service, 0))
    slow, quick = (service.begun(appending(service, number), f"e{number}") for number in (1, 2))
    for verdict in (slow, quick):
        service.handle(verdict, 0)
    upload = CommittedTables.upload
    was_first: list[bool] = []

    async def late(self: Any, *given: Any, **more: Any) -> dict[str, str]:
        found = await upload(self, *given, **more)
        if not was_first:
            was_first.append(True)
            steps = service.machine.plan.workflow.steps["points"]
            await steps.after(*_round_of(quick), execution=EXECUTION)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommittedTables, "upload", late)
        result = service.ended(slow["gather"])["result"]

    assert (result["version"], result["appended"]) == (3, 1)
    assert service.ended(slow["gather"])["result"] == result
    of_quick = service.ended(quick["gather"])["result"]
    assert (of_quick["version"], of_quick["appended"]) == (2, 1)
    table = sorted(pq.read_table(io.BytesIO(_last(service.machine.s3))).to_pylist(), key=str)
    assert table == at_once(service, tmp_path, 0, 1, 2)


@pytest.mark.long
def test_a_round_of_a_table_that_was_removed_meanwhile_is_not_gone_on_with(service: Service) -> None:
    """Another call has written the table, somebody has removed it, and a third one has begun it anew."""
    body = {name: each for name, each in appending(service, 0, 1).items() if name != "append_to"}
    first = service.begun(body, "a")
    service.handle(first)
    steps, s3, done = service.machine.plan.workflow.steps["points"], service.machine.s3, list[Any]()
    row = CubeRow(time_us=None, sources=(Source(href=HREFS[1]),))

    async def late(*given: Any) -> list[TaskImage]:
        if done:
            return await lost_images(*given)
        done.append(None)
        await steps.after(*_round_of(first), execution="twin")
        remove_objects(s3, "cubes", "out/tables/points-")
        done.append(await steps.begin(body, execution="b", left_s=60.0))
        return [TaskImage(1, row)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.tables.feature_steps.lost_images", late)
        with pytest.raises(StoreError, match="the table was removed meanwhile, and is made anew: try again"):
            service.ended(first["gather"])

    assert done[1]["gather"].endswith("/1")


def test_an_append_that_finds_a_table_made_meanwhile_is_to_try_again(service: Service) -> None:
    """When it looked for images that the table has, there was no table. It would read all of them anew."""
    quick = service.begun(appending(service, 0), "quick")
    service.handle(quick, 0)

    async def late(*given: Any) -> Any:
        found = await last_attempt(*given)
        steps = service.machine.plan.workflow.steps["points"]
        await steps.after(*_round_of(quick), execution=EXECUTION)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.tables.feature_steps.last_attempt", late)
        with pytest.raises(StoreError, match="made by another call while this one read the list: try again"):
            service.begun(appending(service, 0, 1), "slow")

    assert service.made(appending(service, 0, 1))["result"]["read"] == 1


@pytest.mark.parametrize("appends", [False, True])
def test_a_list_that_takes_too_long_names_its_table_for_an_hour(
    service: Service, monkeypatch: pytest.MonkeyPatch, *, appends: bool
) -> None:
    """It may have changed by then. Before, a table was given for ever that was of an older list."""
    service.machine.is_slow = True
    body = appending(service, 0)
    body = body if appends else without(body, 0)
    ids = []
    for now_s in (3600.0, 7199.0, 7200.0):
        clock = SimpleNamespace(time=partial(float, now_s), monotonic=time.monotonic)
        monkeypatch.setattr("handlers.deployment.admit_request.time", clock)
        ids.append(told(service.app, "POST", "/tables", body, left_s=3.0)[1]["id"])

    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_tick_whose_search_finds_nothing_is_no_failure(service: Service, *, is_there: bool) -> None:
    """A table that is there stays as it is. If none is, only a schedule waits for what comes later."""
    if is_there:
        service.made(appending(service, 0))
    service.machine.s3.put_object(Bucket="sources", Key="none.json", Body=json.dumps(collection(())))
    body = appending(service) | {
        "sources": {"stac": {"items": "s3://sources/none.json", "assets": ["B2"]}},
        "append_to": "points-grows",
    }
    before = current(service)["result"] if is_there else {"kind": "points", "name": "points-grows"}

    tick = "tick-daily-20260603T120000Z"
    service.machine.start_execution(stateMachineArn=STATE_MACHINE, name=tick, input=json.dumps(body))
    _, by_tick = service.do("GET", f"/tables/{tick}")
    by_hand = service.begun(body, EXECUTION)

    assert by_tick["state"] == "succeeded"
    result = by_tick["result"]
    told = ("appended", "read", "requests", "bytes", "usd")
    assert [result[name] for name in told] == [0] * len(told)
    assert "no scene was found" in result["notes"][0]
    if is_there:
        assert by_hand == {"verdict": "complete", "result": result}
        assert {**before, **{name: result[name] for name in (*told, "notes")}} == result
    else:
        assert by_hand["verdict"] == "refused"
        assert (result["scenes"], result["failed"]) == (0, 0)
        assert before.items() <= result.items()


def _round_of(verdict: dict[str, Any]) -> tuple[str, int]:
    name, _, number = verdict["gather"].rpartition("/")
    return name, int(number)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"append_to": "a/b"}, "write 1 to 60 letters, digits and hyphens"),
        ({"append_to": 3}, "write 1 to 60 letters"),
        ({"square": 3}, "the table was made with another value of square"),
        ({"crs": "EPSG:32632"}, "the table was made of other features"),
    ],
    ids=str,
)
def test_an_append_of_other_things_is_refused(service: Service, changes: dict[str, Any], says: str) -> None:
    """By the API, before anything is started."""
    service.made(appending(service, 0))

    code, problem = service.do("POST", "/tables", appending(service, 1) | changes)

    assert code == 422, problem
    assert says in problem["detail"]


def test_a_table_that_grows_is_not_begun_with_an_id_twice(service: Service) -> None:
    """The second append could not tell whose lines are whose."""
    point = feature({"type": "Point", "coordinates": [500_100, 5_199_900]}, plot=1)
    twice = {"points": collection([point, point])}

    code, problem = service.do("POST", "/tables", appending(service, 0) | twice)

    assert (code, problem["field"]) == (422, "append_to"), problem
    assert "an id repeats among the features" in problem["detail"]


@pytest.fixture(scope="module")
def halves(opened: Service, cogs: list[Path]) -> dict[str, str]:
    """Two halves of a scene, which overlap and are of one pass, and a list of each on S3."""
    lists = {}
    with rasterio.open(cogs[0]) as scene:
        for n, (name, col) in enumerate((("left", 0), ("right", 250))):
            window = rasterio.windows.Window(col, 0, 262, scene.height)
            profile = scene.profile | {
                "driver": "GTiff",
                "width": 262,
                "transform": scene.window_transform(window),
            }
            with rasterio.MemoryFile() as memory:
                with memory.open(**profile) as half:
                    half.write(scene.read(window=window))
                opened.machine.s3.put_object(Bucket="sources", Key=f"passes/{name}.tif", Body=memory.read())
            line = f"s3://sources/passes/{name}.tif,2024-06-01T10:00:{5 * n:02d}Z,s2a"
            content = f"href,time,platform\n{line}\n"
            opened.machine.s3.put_object(Bucket="sources", Key=f"{name}.csv", Body=content.encode())
            lists[name] = line
    both = "\n".join(["href,time,platform", *lists.values()])
    opened.machine.s3.put_object(Bucket="sources", Key="both.csv", Body=both.encode())
    return {name: f"s3://sources/{name}.csv" for name in ("left", "right", "both")}


@pytest.mark.long
def test_tiles_of_one_pass_are_merged_in_any_order(
    service: Service, halves: dict[str, str], tmp_path: Path
) -> None:
    """By tasks of one image each, and by appends of one image each: as in this process."""
    body = {"zones": FIELDS, "id": "field", "crs": service.crs}
    expected = service.here(body | {"sources": halves["both"]}, tmp_path)
    at_once = service.made(body | {"sources": halves["both"]})
    service.made(body | {"sources": halves["right"], "append_to": "passes"})
    later = service.made(body | {"sources": halves["left"], "append_to": "passes"})

    assert max(expected["images"].to_pylist()) == 2
    assert service.table(at_once).to_pylist() == expected.to_pylist()
    assert service.table(later).to_pylist() == expected.to_pylist()
    assert verify_table(later["links"]["table"], stores=service.stores).is_same


def compacted(service: Service) -> CompactedTable:
    """Remove old versions of the table ``grows``."""
    done = compact_table("s3://cubes/out/tables/points-grows", stores=service.stores)
    assert done is not None
    return done


@pytest.mark.long
def test_a_compaction_keeps_the_last_two_versions(service: Service, tmp_path: Path) -> None:
    """Their files stay whole, and appends go on."""
    documents = [service.made(appending(service, number)) for number in range(4)]
    first, again = compacted(service), compacted(service)
    last = service.made(appending(service, 4))

    assert (first.version, first.n_removed, again.n_removed) == (4, 2, 0)
    for document in (*documents[2:], last):
        assert verify_table(document["links"]["table"], stores=service.stores).is_same
    with pytest.raises(StoreError):
        verify_table(documents[1]["links"]["table"], stores=service.stores)
    code, gone = service.do("GET", f"/tables/{documents[0]['id']}")
    said = f"version 1 of the table points-grows, which {documents[0]['id']} wrote, was removed"
    assert (code, gone["detail"]) == (404, f"{said}: the last one is version 5, by {last['id']}")
    assert lines(service) == at_once(service, tmp_path, *range(5))


@pytest.mark.long
@pytest.mark.parametrize("appends", [True, False])
def test_a_table_that_was_removed_is_made_again(service: Service, tmp_path: Path, *, appends: bool) -> None:
    """All of it is read anew, as its images may have been replaced."""
    body = appending(service, 0, 1)
    if not appends:
        del body["append_to"]
    made = service.made(body)
    first = made["result"]
    s3, folder = service.machine.s3, first["table"].split("/")[5]
    remove_objects(s3, "cubes", f"out/tables/{folder}/")
    code, gone = service.do("GET", f"/tables/{made['id']}")
    assert (code, "were removed: send its request again" in gone["detail"]) == (404, True)

    with replaced(s3, "scenes/1.tif", by="scenes/5.tif"):
        again = service.made(body)["result"]
        expected = at_once(service, tmp_path, 0, 1)

    assert (again["read"], again["version"]) == (first["read"], 1)
    content = s3.get_object(Bucket="cubes", Key=again["table"].removeprefix("s3://cubes/"))["Body"].read()
    assert sorted(pq.read_table(io.BytesIO(content)).to_pylist(), key=str) == expected
    third = service.made(body)["result"]
    assert (third["table"], third["version"]) == (again["table"], 1)  # and now it is there


@pytest.mark.long
@pytest.mark.parametrize("more", [{"by": "b1 * 2"}, {"square": 3}], ids=str)
def test_first_appends_of_other_values_are_not_mixed(service: Service, more: dict[str, Any]) -> None:
    """Neither job finds a table when it begins. The one that ends last is refused."""
    first = service.begun(appending(service, 0, by="b1"), "a")
    other = service.begun(appending(service, 1, **{"by": "b1", **more}), "b")
    for each in (first, other):
        service.handle(each, 0)
    service.ended(first["gather"])

    refused = service.ended(other["gather"])

    assert (refused["verdict"], refused["error"]) == ("refused", "RequestError")
    assert "append_to: the table was made with" in refused["cause"]
    kept = service.machine.s3.get_object(Bucket="cubes", Key="out/tables/points-grows/result.json")
    assert json.load(kept["Body"])["version"] == 1


@pytest.mark.long
def test_what_was_read_before_a_removal_does_not_come_back(service: Service) -> None:
    """A job was stopped, and another one made the table. Somebody removes the table, and asks again."""
    first = service.begun(appending(service, 0), "a")
    service.handle(first, 0)
    service.made(appending(service, 1))
    s3, redriven = service.machine.s3, "the table was removed since this job was begun"
    remove_objects(s3, "cubes", "out/tables/points-grows/")

    with pytest.raises(StoreError, match=redriven):
        service.ended(first["gather"])
    again = service.begun(appending(service, 0), "b")
    made = service.made(appending(service, 1))["result"]
    with pytest.raises(StoreError, match=redriven):
        service.ended(first["gather"])
    service.handle(again, 0)
    last = service.ended(again["gather"])["result"]

    name, _, number = first["gather"].partition("/")
    assert (number, again["gather"], again["n_missing"]) == ("0", f"{name}/1", 1)
    assert [(each["version"], each["removals"], each["scenes"]) for each in (made, last)] == [
        (1, 1, 1),
        (2, 1, 2),
    ]


@pytest.mark.long
@pytest.mark.parametrize("appends", [False, True])
def test_a_late_commit_does_not_bring_a_removed_table_back(service: Service, *, appends: bool) -> None:
    """Another call has written the table meanwhile, and somebody has removed it."""
    from handlers.tables.committed_tables import CommittedTables  # noqa: PLC0415 # it needs the environment

    body = appending(service, 0)
    if not appends:
        del body["append_to"]
    begun = service.begun(body, "a")
    service.handle(begun, 0)
    upload, s3, first = CommittedTables.upload, service.machine.s3, list[dict[str, Any]]()

    async def late(self: Any, *given: Any, **more: Any) -> dict[str, str]:
        if not first:
            first.append({})
            steps = service.machine.plan.workflow.steps["points"]
            first.append(await steps.after(*_round_of(begun), execution="twin"))
            remove_objects(s3, "cubes", "out/tables/points-")
        return await upload(self, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommittedTables, "upload", late)
        second = service.ended(begun["gather"])

    assert second["result"] == first[1]["result"]
    assert not [key for key in keys_of(s3, "cubes") if key.endswith("/result.json")]


@contextmanager
def replaced(s3: Any, key: str, *, by: str) -> Iterator[None]:
    """Replace an image by another one for a while."""
    own = s3.get_object(Bucket="sources", Key=key)["Body"].read()
    s3.copy_object(Bucket="sources", Key=key, CopySource={"Bucket": "sources", "Key": by})
    yield
    s3.put_object(Bucket="sources", Key=key, Body=own)


@pytest.mark.long
def test_a_table_whose_control_files_have_expired_in_part_lacks_nothing(service: Service) -> None:
    """Each file expires by itself. What is left of a former attempt is not taken for all of it."""
    body = appending(service, 0, 1)
    former = service.begun(body, "a")
    service.handle(former, 0)
    s3, name = service.machine.s3, former["gather"].partition("/")[0]
    s3.delete_object(Bucket="control", Key=f"tables/{name}/rounds/0/state")

    result = service.made(body)["result"]

    assert (result["scenes"], result["read"], result["failed"]) == (2, 2, 0)


@pytest.mark.long
def test_only_the_first_append_leaves_a_copy_of_the_features(service: Service) -> None:
    """Later ones take those of the table, so daily appends do not fill the bucket with copies."""
    jobs = [service.made(appending(service, number))["id"] for number in (0, 1)]

    there = keys_of(service.machine.s3, "cubes", "out/tables/")
    copies = [key for key in there if key.endswith("/table.features.parquet")]
    assert [sum(f"/{job}/" in key for key in copies) for job in jobs] == [1, 0]


@pytest.mark.long
def test_a_table_may_be_left_unmerged(service: Service, halves: dict[str, str]) -> None:
    """It has a line for each tile."""
    body = {"zones": FIELDS, "id": "field", "crs": service.crs, "sources": halves["both"]}
    document = service.made(body | {"merge": False})

    assert "images" not in service.table(document).column_names
