"""Large rankings over S3: their table is that of this process, whatever happens to workers."""

import json
from collections.abc import Iterator, Sequence
from copy import replace
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import arro3.io
import pytest
from aws_lambda_powertools import Logger

from pixel_gather import Settings, rank
from pixel_gather.core.errors import StoreError
from pixel_gather.core.estimate.pricing import USD_PER_GET
from pixel_gather.core.halt_marker import HALTED_KEY, halt_content
from pixel_gather.features.rank.choose_reads import NothingKept, WantedRead
from pixel_gather.features.rank.ranker import Ranker
from pixel_gather.tables import map_tasks
from rank.rasters import landscape, make_cog
from support.api_bridge import event, is_a, told
from support.lambda_functions import Context, keys_of, remove_objects
from support.spending import USD_OF_CHILD, spent_in, tell_parts_apart
from support.table_machine import TableClient, opened_machine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_hedges")]

LEVELS: Final = (1000, 4000, 4001, 4002, 7000, 7001)
"""Mean values of the scenes. The coarsest level decides neither the three in the middle nor the last two."""

SAME: Final = ("rank", "rank_low", "rank_high", "id", "time", "value", "error", "level", "clear", "status")


@pytest.fixture(scope="module")
def cogs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six scenes with overviews."""
    folder = tmp_path_factory.mktemp("scenes")
    return [
        make_cog(folder / f"scene{n}.tif", landscape(n, level=level, step=5))
        for n, level in enumerate(LEVELS)
    ]


@dataclass
class Service(TableClient):
    """The function of the API over a state machine that runs at once."""

    rankings: Any
    """Answers POST /rankings."""

    def ask(self, body: Any, *, left_s: float = 29.0) -> tuple[int, Any]:
        """Post a ranking."""
        return told(self.rankings, "POST", "/rankings", body, left_s=left_s)

    def show(self, id_: str) -> tuple[int, Any]:
        """Get a ranking."""
        return self.do("GET", f"/tables/{id_}")

    def here(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of the same ranking in this process."""
        more = {name: value for name, value in body.items() if name != "sources"}
        return rank(body["sources"], **more, settings=Settings(stores=self.stores)).rows()


@pytest.fixture(scope="module")
def opened(s3_url: str, cogs: list[Path]) -> Iterator[Service]:
    """Open the functions over S3. Every ranking is large."""
    with (
        opened_machine(s3_url, "rank", "answer_tables") as (machine, executions, (module, tables)),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(module, "_LONGEST_S", 1e-6)
        service = module.RankService(module.deployment, lambda: executions)
        others = tables.TableService(tables.deployment, lambda: executions)
        log = Logger(service="test")
        for path in cogs:
            machine.s3.upload_file(str(path), "sources", f"scenes/{path.name}")
        yield Service(tables.app_of(others, log), machine, s3_url, module.app_of(service, log))


@pytest.fixture
def service(opened: Service) -> Service:
    """The functions, without anything of earlier rankings."""
    opened.machine.forget()
    return opened


SCENES: Final = {"prefix": "s3://sources/scenes/"}
COARSE: Final = {"sources": SCENES, "by": "b1", "precision": "coarse"}


def same(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns that do not depend on who has read the scenes."""
    return [{name: row[name] for name in SAME} for row in rows]


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [{}, {"top": 1}, {"precision": "exact", "statistic": "median"}, {"order": "asc", "precision": "coarse"}],
    ids=str,
)
def test_large_ranking_has_the_table_of_this_process(service: Service, more: dict[str, Any]) -> None:
    """The same values, errors and ranks, at the same levels."""
    body = {"sources": SCENES, "by": "b1", **more}

    code, line = service.ask(body)
    shown_code, shown = service.show(line["id"])

    assert (code, shown_code) == (202, 200)
    assert line["links"]["self"].endswith(f"/tables/{line['id']}")
    assert shown["state"] == "succeeded"
    assert same(shown["ranking"]["scenes"]) == same(service.here(body))


@pytest.mark.long
def test_large_ranking_takes_rounds_and_few_children(service: Service, tmp_path: Path) -> None:
    """Only scenes whose rank is open are read again. The documents are those of the API's description.

    The whole table lies on S3 as JSON and as Parquet, with the same rows as the answer.
    """
    _, line = service.ask({"sources": SCENES, "by": "b1", "precision": 0.01, "limits": {"seconds": 600}})
    _, shown = service.show(line["id"])
    places = {name: shown["links"][name] for name in ("table", "parquet")}
    for name, place in places.items():
        bucket, _, key = place.removeprefix("s3://").partition("/")
        service.machine.s3.download_file(bucket, key, str(tmp_path / name))

    assert len(service.machine.n_children) > 1
    assert shown["scenes"] == {"total": 6, "wanted": 0, "read": 0, "failed": 0}
    assert shown["result"]["rounds"] == len(service.machine.n_children)
    assert 0 < shown["usd"] < 0.01
    assert is_a("TableStarted", line)
    assert is_a("TableStatus", shown)
    rows = shown["ranking"]["scenes"]
    assert json.loads((tmp_path / "table").read_text())["scenes"] == rows
    table = arro3.io.read_parquet(str(tmp_path / "parquet")).read_all()
    assert table["value"].to_pylist() == [row["value"] for row in rows]
    assert shown["ranking"]["table"] == places["table"]


@pytest.mark.long
def test_same_request_again_is_answered_at_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """From kept statistics; where there are none, by the table of the first one. Nothing is started."""
    body = {"sources": SCENES, "by": "b1"}
    _, line = service.ask(body)
    first = service.show(line["id"])[1]["ranking"]
    n_rounds = len(service.machine.n_children)

    code, kept = service.ask(body)
    remove_objects(service.machine.s3, "cubes", "out/tables/statistics/")
    again_code, table = service.ask(body)

    assert (code, again_code) == (200, 200)
    assert kept["totals"]["requests"] == 0
    assert same(kept["scenes"]) == same(first["scenes"])
    assert table == first
    assert len(service.machine.n_children) == n_rounds

    # Then its result is damaged: it names no table.
    place = f"out/tables/{service.show(line['id'])[1]['result']['name']}"
    service.machine.s3.put_object(Bucket="cubes", Key=f"{place}/result.json", Body=b"{}")
    broken_code, problem = service.show(line["id"])

    assert (broken_code, problem["type"]) == (503, "urn:pixel-gather:problem:store_error")
    assert f"s3://cubes/{place}: its result.json is damaged" in caplog.text


@pytest.mark.long
def test_what_was_measured_is_not_read_again(service: Service) -> None:
    """Another ranking of the same area, expression and statistic uses it, large or small."""
    service.ask({"sources": SCENES, "by": "b1"})
    before = len(service.machine.n_children)

    code, table = service.ask({"sources": SCENES, "by": "b1", "order": "asc"})

    assert code == 200
    assert (table["totals"]["requests"], table["totals"]["kept"]) == (0, 6)
    assert len(service.machine.n_children) == before


@pytest.mark.long
def test_replaced_file_is_measured_anew_where_the_request_says_so(service: Service, cogs: list[Path]) -> None:
    """Or says nothing. Kept statistics are dropped by ETag."""
    body = COARSE
    _, first = service.ask(body)
    service.machine.s3.upload_file(str(cogs[5]), "sources", "scenes/scene0.tif")

    _, unchecked = service.ask(body | {"check_kept": False})
    code, line = service.ask(body | {"check_kept": True})
    _, checked = service.show(line["id"])
    service.machine.s3.upload_file(str(cogs[0]), "sources", "scenes/scene0.tif")
    by_default, _ = service.ask(body | {"top": 1})
    service.machine.s3.upload_file(str(cogs[3]), "sources", "scenes/scene0.tif")
    _, other = service.show(service.ask(body | {"check_kept": True})[1]["id"])
    service.machine.s3.upload_file(str(cogs[0]), "sources", "scenes/scene0.tif")
    values = {row["id"]: row["value"] for row in other["ranking"]["scenes"]}

    assert unchecked["scenes"][-1]["id"] == "scene0.tif"
    assert (code, by_default, line["id"] == first["id"]) == (202, 202, False)
    assert {row["id"] for row in checked["ranking"]["scenes"][:2]} == {"scene0.tif", "scene5.tif"}
    assert values["scene0.tif"] == values["scene3.tif"]


@pytest.mark.long
def test_scene_that_kills_its_worker_is_listed_as_lost_and_no_other(service: Service) -> None:
    """The scenes that its worker had, too, are read by others."""
    service.machine.poison = {"scene2.tif"}
    body = COARSE

    _, line = service.ask(body)
    rows = service.show(line["id"])[1]["ranking"]["scenes"]

    assert [row["status"] for row in rows] == ["ok"] * 5 + ["lost"]
    assert rows[-1]["id"] == "scene2.tif"
    there = [row for row in service.here(body) if row["id"] != "scene2.tif"]
    assert [row["value"] for row in rows[:5]] == [row["value"] for row in there]


def test_scene_that_cannot_be_read_is_listed(service: Service) -> None:
    """It has a status and a reason of its own."""
    hrefs = [f"s3://sources/scenes/{name}.tif" for name in ("gone", "scene0", "scene4")]
    body = {"sources": hrefs, "by": "b1", "precision": "coarse"}

    _, line = service.ask(body)

    rows = service.show(line["id"])[1]["ranking"]["scenes"]
    assert [(row["id"], row["status"]) for row in rows] == [
        ("scene4.tif", "ok"),
        ("scene0.tif", "ok"),
        ("gone.tif", "missing"),
    ]


def test_ranking_of_which_no_scene_can_be_read_says_so(service: Service) -> None:
    """It is no failure: the table lists all of them."""
    body = {"sources": ["s3://sources/a.tif", "s3://sources/b.tif"], "by": "b1"}

    code, table = service.ask(body)

    assert code == 200
    assert [row["status"] for row in table["scenes"]] == ["missing", "missing"]


def test_no_large_ranking_is_begun_that_may_take_no_longer_than_one_function(service: Service) -> None:
    """It is refused at once."""
    code, problem = service.ask({"sources": SCENES, "by": "b1", "limits": {"seconds": 1e-7}})

    assert (code, problem["detail"].partition(":")[0]) == (422, "limits.seconds")


def test_caller_who_does_not_wait_gets_a_large_ranking(service: Service) -> None:
    """However few scenes there are."""
    asked = event("POST", "/rankings", body=json.dumps({"sources": ["s3://sources/a.tif"], "by": "b1"}))
    asked["headers"]["Prefer"] = "respond-async"

    assert service.rankings.resolve(asked, Context(left_s=29.0))["statusCode"] == 202


@pytest.mark.parametrize(("name", "most"), [("_MOST_SCENES", 1), ("MOST_ANSWER_NBYTES", 900)])
def test_many_scenes_are_a_large_ranking(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """Whatever they would take, and if their table is too long for an answer."""
    monkeypatch.setattr(f"handlers.rank.rank.{name}", most)
    body = {"by": "b1", "sources": ["s3://sources/a.tif"]}

    assert [service.ask(body)[0], service.ask(body | {"sources": ["s3://sources/a.tif"] * 2})[0]] == [
        200,
        202,
    ]


@pytest.mark.long
def test_a_prefix_with_another_file_is_another_ranking(service: Service, cogs: list[Path]) -> None:
    """The request is the same, and its list is not."""
    body = {"sources": {"prefix": "s3://sources/growing/"}, "by": "b1", "precision": "coarse"}
    n_scenes = []
    for path in cogs[:2]:
        service.machine.s3.upload_file(str(path), "sources", f"growing/{path.name}")
        _, line = service.ask(body)
        n_scenes.append(len(service.show(line["id"])[1]["ranking"]["scenes"]))

    assert n_scenes == [1, 2]


@pytest.mark.long
def test_limit_of_dollars_refuses_or_ends_a_large_ranking(service: Service) -> None:
    """Before the first round it refuses. Later it keeps what was read, and says which ranks are open."""
    body = {"sources": SCENES, "by": "b1", "precision": 0.01}
    _, line = service.ask(body | {"limits": {"usd": 1e-5}})
    _, refused = service.show(line["id"])
    _, line = service.ask(body | {"limits": {"usd": 0.0005}})
    _, ended = service.show(line["id"])

    assert refused["state"] == "failed"
    assert refused["error"]["type"] == "BudgetError"
    assert refused["error"]["detail"].startswith("limits.usd: 6 scenes would cost about")
    assert ended["state"] == "succeeded"
    (note,) = ended["ranking"]["notes"]
    assert "were not read finer" in note
    assert len(ended["ranking"]["scenes"]) == 6


@pytest.mark.long
def test_a_ranking_costs_its_rounds_and_its_requests(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round costs what its workers cost."""
    monkeypatch.setattr("pixel_gather.features.rank.map_rounds.usd_of_round", lambda **_: 0.25)
    _, line = service.ask({"sources": SCENES, "by": "b1", "precision": 0.01})
    _, shown = service.show(line["id"])

    result, totals = shown["result"], shown["ranking"]["totals"]
    requests = sum(each["requests"] for each in shown["ranking"]["scenes"])
    assert (totals["requests"], result["requests"]) == (requests, requests)
    assert result["rounds"] > 1
    assert result["usd"] == totals["usd"] == pytest.approx(0.25 * result["rounds"] + requests * USD_PER_GET)


@pytest.mark.long
def test_workers_tell_what_they_have_spent(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each tells the requests of its own round alone, one file that it puts, and the steps of a child."""
    tell_parts_apart(monkeypatch)
    _, line = service.ask({"sources": SCENES, "by": "b1", "precision": 0.01})
    _, shown = service.show(line["id"])

    spent = sum(spent_in(capsys.readouterr().out))
    n_children, n_of_sample = service.machine.n_children, 2  # a header, and a level
    n_requests = shown["result"]["requests"] - n_of_sample
    assert len(n_children) > 1
    assert spent == pytest.approx(sum(n_children) * USD_OF_CHILD + n_requests, abs=0.5)


@pytest.mark.long
def test_a_worker_that_is_out_of_time_keeps_what_it_has_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of scenes that were not read does the table say so."""
    measure = Ranker.measure

    async def measure_and_stop(ranker: Ranker, wanted: Sequence[WantedRead]) -> None:
        await measure(ranker, wanted)
        if isinstance(ranker.rounds.kept, NothingKept):  # a worker's
            raise TimeoutError

    monkeypatch.setattr(Ranker, "measure", measure_and_stop)
    _, line = service.ask(COARSE)

    rows = service.show(line["id"])[1]["ranking"]["scenes"]
    assert [(row["status"], row["reason"]) for row in rows] == [("ok", None)] * 6


@pytest.mark.long
@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_spent_counts_where_scenes_are_read_finer(
    service: Service, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    """Scenes that were lost with their worker are read again all the same."""
    monkeypatch.setattr("handlers.rank.ranking_rounds.USD_PER_GET", 1.0)
    service.machine.poison = {"scene2.tif"} if is_lost else set()
    precision = "coarse" if is_lost else 0.01

    _, line = service.ask(
        {"sources": SCENES, "by": "b1", "precision": precision, "limits": {"usd": 1, "seconds": 3600}}
    )
    _, shown = service.show(line["id"])

    statuses = [row["status"] for row in shown["ranking"]["scenes"]]
    notes = shown["ranking"]["notes"]
    assert len(service.machine.n_children) == 1 + is_lost
    assert statuses == ["ok"] * (6 - is_lost) + ["lost"] * is_lost
    assert [each.startswith("limits.usd: ") for each in notes] == [True] * (not is_lost)


@pytest.mark.long
def test_a_limit_of_dollars_leaves_room_for_scenes_that_are_read_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is, if all are read at full resolution at once."""
    monkeypatch.setattr("handlers.rank.ranking_rounds._TO_READ_ON", 1e6)
    states = []
    for precision in (0.01, "exact"):
        body = {"sources": SCENES, "by": "b1", "precision": precision, "limits": {"usd": 0.5}}
        verdict = service.begun(body)
        states.append((verdict["verdict"], verdict.get("error")))

    assert states == [("refused", "BudgetError"), ("planned", None)]


@pytest.mark.long
def test_tables_do_not_begin_while_the_months_budget_is_spent(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has begun goes on with one worker in its later rounds."""
    machine = service.machine
    kind = type(machine.plan.workflow.steps["ranking"])
    map_round = kind._map_round
    many = lambda *given, **named: replace(map_round(*given, **named), n_workers=9)  # noqa: E731 # of a method
    monkeypatch.setattr(kind, "_map_round", many)
    request = {"sources": SCENES, "by": "b1", "precision": 0.01}
    begun = service.begun(request)
    service.handle(begun)
    marker = halt_content(datetime.now(UTC), {})
    machine.s3.put_object(Bucket="control", Key=HALTED_KEY, Body=marker)

    later = service.ended(begun["gather"])
    other = service.begun({**request, "by": "-b1"}, "b")
    code, at_once = service.ask({"sources": SCENES, "by": "b1"})

    assert code == 422
    assert "has spent its budget of the month" in at_once["detail"]
    assert begun["workers"] == 9
    assert (later["verdict"], later["workers"]) == ("planned", 1)
    assert (other["verdict"], other["error"]) == ("refused", "HaltedError")
    assert "has spent its budget of the month" in other["cause"]


@pytest.mark.long
def test_a_ranking_that_was_removed_is_made_again(service: Service) -> None:
    """Of new rounds. Until then, it says that its files are gone. A redrive does not bring them back."""
    body = COARSE
    _, line = service.ask(body)
    _, first = service.show(line["id"])
    s3 = service.machine.s3
    folder = f"out/tables/{first['result']['name']}/"
    for prefix in (folder, "out/tables/statistics/"):
        remove_objects(s3, "cubes", prefix)

    redriven = service.ended(f"{first['result']['name']}/0")
    code, gone = service.show(line["id"])
    before = states(s3)
    started, line = service.ask(body)
    code_again, again = service.show(line["id"])

    assert redriven == {"verdict": "complete", "result": first["result"]}
    assert (code, "were removed: send its request again" in gone["detail"]) == (404, True)
    assert len(states(s3)) > len(before) > 0
    assert (started, again["result"]["failed"], code_again) == (202, 0, 200)
    assert again["result"]["rounds"] == first["result"]["rounds"]
    assert same(again["ranking"]["scenes"]) == same(first["ranking"]["scenes"])


@pytest.mark.long
@pytest.mark.parametrize("asks", [True, False], ids=["request", "redrive"])
def test_a_note_that_is_missing_is_made_up_for(service: Service, *, asks: bool) -> None:
    """The call that wrote the ranking was killed before its note. Then the ranking is removed."""
    machine, s3 = service.machine, service.machine.s3
    body = COARSE
    first = machine.run({"request": body, "execution": "a"})["result"]
    note = f"tables/{first['name']}/rounds/0/result.json"
    s3.delete_object(Bucket="control", Key=note)

    found = service.begun(body, "b") if asks else service.ended(f"{first['name']}/0")
    remove_objects(s3, "cubes", f"out/tables/{first['name']}/")
    before = states(s3)
    again = service.begun(body, "c")

    assert found["result"] == first
    assert again["result"]["kept"] == first["scenes"]  # of new rounds, by statistics that were checked
    assert len(states(s3)) == len(before) + 1


@pytest.mark.long
def test_a_late_last_step_does_not_bring_a_removed_ranking_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had begun before the ranking was written."""
    machine, s3 = service.machine, service.machine.s3
    steps = machine.plan.workflow.steps["ranking"]
    begun = service.begun(COARSE)
    service.handle(begun)
    go_on = type(steps)._go_on
    first: list[dict[str, Any]] = []

    async def late(self: Any, *known: Any) -> Any:
        if not first:
            monkeypatch.setattr(type(steps), "_go_on", go_on)
            first.append(await steps.after(*begun["gather"].split("/"), execution="twin"))
            folder = f"out/tables/{first[0]['result']['name']}/"
            remove_objects(s3, "cubes", folder)
        return await go_on(self, *known)

    monkeypatch.setattr(type(steps), "_go_on", late)
    second = service.ended(begun["gather"])

    assert second["result"] == first[0]["result"]
    assert keys_of(s3, "cubes", "out/tables/ranking-") == []


def test_a_step_that_stood_still_replaces_no_file_of_a_later_attempt(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile its ranking was written by another step, removed, and made anew."""
    machine, s3 = service.machine, service.machine.s3
    steps = machine.plan.workflow.steps["ranking"]
    begun = service.begun(COARSE)
    service.handle(begun)
    name = begun["gather"].split("/")[0]
    folder = f"out/tables/{name}"
    table = f"s3://cubes/{folder}/1/ranking.json"
    anew = {"result.json": json.dumps({"name": name, "table": table}), "1/ranking.json": "rows"}

    async def looks_then_stands_still(*_known: object) -> None:
        for key, content in anew.items():
            s3.put_object(Bucket="cubes", Key=f"{folder}/{key}", Body=content)

    monkeypatch.setitem(type(steps)._complete.__globals__, "result_of", looks_then_stands_still)
    monkeypatch.setitem(type(steps).after.__globals__, "find_complete", looks_then_stands_still)
    verdict = service.ended(begun["gather"])

    assert verdict["result"] == json.loads(anew["result.json"])
    for key, content in anew.items():
        assert s3.get_object(Bucket="cubes", Key=f"{folder}/{key}")["Body"].read().decode() == content


def states(s3: Any) -> list[str]:
    """Return the keys of the states of all rounds."""
    return [key for key in keys_of(s3, "control") if key.endswith("/state")]


@pytest.mark.long
def test_begun_ranking_goes_on_where_it_was(service: Service) -> None:
    """A second attempt reads what the first one has not read."""
    verdict = service.begun(COARSE)
    service.handle(verdict, 0)

    refused = service.begun(COARSE | {"limits": {"usd": 1e-6}}, "b")
    again = service.begun(COARSE, "b")
    done = service.ended(again["gather"])
    complete = service.begun(COARSE, "c")

    assert refused["cause"].startswith("limits.usd: ")  # limits are not in a ranking's name
    assert again["gather"] == verdict["gather"]
    assert again["n_missing"] == verdict["n_missing"] - 1 == 0
    assert done["result"]["failed"] == 0
    assert complete == done


@pytest.mark.parametrize(
    "content",
    [b"", *(pytest.param(each, marks=pytest.mark.long) for each in (b"[1]", b'{"by": '))],
    ids=["empty", "other", "short"],
)
@pytest.mark.parametrize(
    ("damaged", "named"), [("request.json", "request.json"), ("rounds/0/scenes-", "rounds/0/state")]
)
def test_a_damaged_file_of_the_workers_is_named(
    service: Service, damaged: str, named: str, content: bytes
) -> None:
    """Once the file that is named is removed, the same request makes the ranking."""
    s3, verdict = service.machine.s3, service.begun(COARSE)
    name = verdict["gather"].partition("/")[0]
    (found,) = s3.list_objects_v2(Bucket="control", Prefix=f"tables/{name}/{damaged}")["Contents"]
    whole = content.ljust(found["Size"]) if "scenes" in damaged else content  # they are read by their place
    s3.put_object(Bucket="control", Key=found["Key"], Body=whole)

    with pytest.raises(StoreError, match=f"^{named} is damaged .*: remove this control file and run again"):
        service.handle(verdict, 0)
    s3.delete_object(Bucket="control", Key=f"tables/{name}/{named}")
    service.handle(service.begun(COARSE, "b"), 0)


def test_old_ranking_is_begun_anew(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 14 days, as some of its control files may have expired."""
    verdict = service.begun(COARSE)
    monkeypatch.setattr(map_tasks, "_LONGEST_ATTEMPT_S", 0.0)
    again = service.begun(COARSE, "b")

    name, _, number = verdict["gather"].partition("/")
    assert (number, again["gather"]) == ("0", f"{name}/1")
    assert again["n_missing"] == verdict["n_missing"]


def test_ranking_that_is_out_of_time_becomes_a_large_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its list could not be read in time. In an hour the list may be another one."""
    body = {"sources": SCENES, "by": "b1", "precision": "coarse", "check_kept": False}
    monkeypatch.setattr("handlers.rank.rank.unread_list", lambda: "in this hour")
    code, line = service.ask(body, left_s=3.0)
    _, shown = service.show(line["id"])

    assert (code, service.ask(body, left_s=3.0)[0]) == (202, 200)  # it is made once
    assert len(shown["ranking"]["scenes"]) == 6
    monkeypatch.setattr("handlers.rank.rank.unread_list", lambda: "in the next one")
    assert service.ask(body, left_s=3.0)[0] == 202


def test_rankings_that_do_not_exist_are_not_found(service: Service) -> None:
    """A problem says so. A list with a wrong limit is refused as that of gathers."""
    code, problem = service.show("0123456789abcdef")
    limit_code, of_limit = service.do("GET", "/tables", limit="many")

    assert code == 404
    assert problem["detail"].startswith("there is no table 0123456789abcdef")
    assert problem["type"].endswith(":table_not_found")
    assert (limit_code, of_limit["field"]) == (422, "limit")


@pytest.mark.long
def test_rankings_are_listed_stopped_and_redriven(service: Service) -> None:
    """They are handled like gathers. The documents are those of the API's description."""
    body = COARSE
    service.machine.is_slow = True
    _, line = service.ask(body)
    path = f"/tables/{line['id']}"
    _, running = service.show(line["id"])
    early_code, early = service.do("POST", f"{path}/redrive")

    stopped_code, stopped = service.do("DELETE", path)
    _, after = service.show(line["id"])
    listed_code, listed = service.do("GET", "/tables", limit="5")
    code, redriven = service.do("POST", f"{path}/redrive")
    _, ended = service.show(line["id"])
    late_code, late = service.do("POST", f"{path}/redrive")

    assert (early_code, stopped_code, listed_code, code, late_code) == (409, 200, 200, 202, 409)
    assert (running["links"]["stop"], "redrive" in running["links"]) == (running["links"]["self"], False)
    assert early["detail"].startswith(f"the table {line['id']} is still running")
    assert (stopped["id"], stopped["state"], after["state"]) == (line["id"], "stopped", "stopped")
    assert after["links"]["redrive"] == f"{after['links']['self']}/redrive"
    assert after["error"] == {"type": "Stopped", "detail": "stopped on request"}
    assert [each["id"] for each in listed["tables"]] == [line["id"]]
    assert listed["tables"][0]["links"]["self"].endswith(path)
    assert redriven["state"] == "running"
    assert same(ended["ranking"]["scenes"]) == same(service.here(body))
    assert "redrive" not in ended["links"]
    assert late["detail"].startswith(f"the table {line['id']} has succeeded")
    for name, document in (("TableLine", stopped), ("TableLine", redriven), ("Tables", listed)):
        assert is_a(name, document)


def test_a_running_table_gets_fewer_workers(service: Service) -> None:
    """Or more, up to what the deployment allows, as long as the month's budget is not spent.

    None can be set before its workers have begun.
    """
    service.machine.is_slow = True
    _, line = service.ask(COARSE)
    path, found = f"/tables/{line['id']}/limit", service.machine.found[line["id"]]

    early_code, early = service.do("POST", path, workers="5")
    found["workers"] = 10
    code, limited = service.do("POST", path, workers="5")
    most_code, most = service.do("POST", path, workers="100000")
    marker = halt_content(datetime.now(UTC), {})
    service.machine.s3.put_object(Bucket="control", Key=HALTED_KEY, Body=marker)
    halted_code, halted = service.do("POST", path, workers="6")
    fewer_code, _ = service.do("POST", path, workers="4")

    assert (early_code, code, most_code, halted_code, fewer_code) == (422, 200, 422, 422, 200)
    assert "it has 5 workers, and gets no more now" in halted["detail"]
    assert "have not begun" in early["detail"]
    assert (limited["id"], limited["state"], found["workers"]) == (line["id"], "running", 4)
    assert is_a("TableLine", limited)
    assert most["detail"].startswith("workers: this deployment's setting max_workers allows")


def test_list_that_is_too_long_is_refused_with_what_to_do(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read. It cannot be redriven, as it would be refused again."""
    monkeypatch.setattr("handlers.rank.ranking_rounds._MOST_SCENES", 5)
    request = {"sources": SCENES, "by": "b1", "precision": "exact"}
    _, line = service.ask(request)
    _, shown = service.show(line["id"])
    code, problem = service.do("POST", f"/tables/{line['id']}/redrive")
    monkeypatch.setattr("handlers.rank.ranking_rounds._MOST_SCENES", 6)
    just = service.begun(request)

    assert just["verdict"] == "planned"
    assert shown["error"]["type"] == "BudgetError"
    assert shown["error"]["detail"].startswith("there are 6 scenes, and one ranking takes at most 5: choose")
    assert "redrive" not in shown["links"]
    assert (code, "was refused" in problem["detail"]) == (409, True)
