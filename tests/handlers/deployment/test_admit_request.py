"""How a function reads the list of a request: no list blocks it, and it takes only what is asked for."""

import asyncio
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from copy import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.deployment import admit_request
from handlers.deployment.admit_request import admit, open_gather_table
from pixel_gather.core.model.source import Source
from pixel_gather.core.request.request import parse_request
from pixel_gather.features.catalog.catalog import make_catalog
from pixel_gather.features.index.index import index
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from rank.rasters import landscape, make_cog
from scenes.scenes import item
from support.api_bridge import told
from support.lambda_functions import Context, StateMachine, cold_start

WINDOW: dict[str, Any] = {"window": {"pixels": [0, 0, 40, 30]}}


class EndlessList:
    """A list that never yields a source. It records whether its reader has stopped."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def named(self, *_: Any, check: Callable[[], None], **__: Any) -> SourceList:
        """Replace ``named_sources``."""
        return SourceList(name="endless", is_typed=True, sources=self._sources(check))

    def _sources(self, check: Callable[[], None]) -> Iterator[Source]:
        try:
            while True:
                check()
                time.sleep(0.001)
        finally:
            self.ended.set()
        yield Source(href="s3://sources/never.tif")


def test_dry_run_stops_reading_a_list_before_it_answers(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads the list must not run on in the next invocation."""
    del s3
    endless = EndlessList()
    with cold_start(monkeypatch, "dry_run") as module:
        monkeypatch.setattr(admit_request, "named_sources", endless.named)
        given = WINDOW | {"sources": {"prefix": "s3://sources/landsat"}}
        code, problem = told(module.app, "POST", "/plans", given, left_s=4.0)
        has_ended = endless.ended.is_set()

    assert has_ended
    assert code == 504
    assert "submit the gather" in problem["detail"]


def test_plan_gather_refuses_a_list_that_takes_too_long(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is refused before Lambda ends the function and it is tried again."""
    del s3
    with cold_start(monkeypatch, "plan_gather") as module:
        monkeypatch.setattr(admit_request, "named_sources", EndlessList().named)
        event = {"request": WINDOW | {"sources": {"prefix": "s3://sources/landsat"}}, "execution": "x"}
        verdict = module.handler(event, Context(left_s=0.2))

    assert (verdict["verdict"], verdict["error"]) == ("refused", "BudgetError")
    assert "the list takes longer to read than" in verdict["cause"]


@pytest.mark.long
@pytest.mark.parametrize(
    "sources",
    [
        {"list": "s3://sources/lists/blank.txt"},
        {"prefix": "s3://sources/landsat", "glob": "*.no"},
        {"list": "s3://sources/lists/blank"},
    ],
    ids=["list", "prefix", "list of no kind"],
)
def test_plan_gather_gives_up_a_list_that_names_nothing(
    sources: dict[str, str], machine: StateMachine
) -> None:
    """The time is checked although no source comes out."""
    for name in ("blank.txt", "blank"):
        machine.s3.put_object(Bucket="sources", Key=f"lists/{name}", Body=gzip.compress(b"\n" * 900_000))

    event = {"request": WINDOW | {"sources": sources}, "execution": "x"}
    verdict = machine.plan.handler(event, Context(left_s=0.0))

    assert (verdict["verdict"], verdict["error"]) == ("refused", "BudgetError")
    assert "the list takes longer to read than" in verdict["cause"]


async def _open(machine: StateMachine, given: Any) -> tuple[set[str], int]:
    """Return the hrefs of all rows of a request, and how many headers are known."""
    plan: Any = machine.plan
    request = admit(parse_request(given), plan.settings)
    async with open_gather_table(request, plan.deployment, left_s=60.0) as table:
        rows = table.rows(0, table.n_rows)
        return {each.href for row in rows for each in row.sources if each is not None}, table.n_known


def test_a_search_for_chips_finds_scenes_that_a_chip_may_lie_on(
    machine: StateMachine, tmp_path: Path
) -> None:
    """Scenes between the two chips, and beyond them, are left out."""
    boxes = {"west": (11.0, 46.0), "between": (14.0, 46.0), "east": (17.0, 46.0), "beyond": (30.0, 46.0)}
    items = [
        item(
            name,
            box=(x, y, x + 1.0, y + 1.0),
            time=f"2024-06-{n + 1:02}T00:00:00Z",
            assets={"red": {"href": f"s3://sources/{name}.tif"}},
        )
        for n, (name, (x, y)) in enumerate(boxes.items())
    ]
    make_catalog(items, to=tmp_path / "all.parquet")
    for file in tmp_path.iterdir():
        machine.s3.upload_file(str(file), "sources", f"catalogs/{file.name}")
    machine.s3.put_object(Bucket="sources", Key="chips.csv", Body=b"id,x,y\na,11.5,46.5\nb,17.5,46.5\n")
    request = {
        "sources": {"catalog": {"file": "s3://sources/catalogs/all.parquet", "assets": ["red"]}},
        "windows": {"table": "s3://sources/chips.csv", "size": [4, 4], "crs": "EPSG:4326"},
    }

    hrefs, _ = asyncio.run(_open(machine, request))

    assert hrefs == {"s3://sources/west.tif", "s3://sources/east.tif"}


@pytest.mark.long
@pytest.mark.parametrize(("level", "n_known"), [({"overview": 0}, 1), ({"overview": 1}, 0), ({}, 0)])
def test_an_index_tells_of_headers_at_the_overview_that_is_read(
    level: dict[str, int], n_known: int, machine: StateMachine, s3_url: str, tmp_path: Path
) -> None:
    """An index of the first overview knows nothing of another one, nor of the whole image."""
    href, place = "s3://sources/scene.tif", "s3://sources/index.parquet"
    machine.s3.upload_file(str(make_cog(tmp_path / "scene.tif", landscape(1))), "sources", "scene.tif")
    index([href], to=place, overview=0, settings=Settings(stores=StoreSettings(endpoint=s3_url)))

    _, n = asyncio.run(_open(machine, WINDOW | {"sources": [href], "index": place} | level))

    assert n == n_known


def test_an_index_is_signed_for_as_its_sources_are(
    machine: StateMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lie where they do."""
    deployment: Any = machine.plan.deployment
    signed, seen = Objects(deployment.objects.settings, by_root=deployment.objects.by_root), []

    def read_index(*_: Any, objects: Objects, **__: Any) -> Iterator[Any]:
        seen.append(objects)
        return iter(())

    monkeypatch.setattr(admit_request, "read_index", read_index)
    monkeypatch.setattr(deployment, "signed_objects", {"earthdata": signed}.__getitem__)
    for each in (machine.plan, deployment):
        monkeypatch.setattr(each, "settings", replace(each.settings, signing=frozenset({"earthdata"})))
    sources = {"hrefs": ["s3://sources/scene.tif"], "sign": "earthdata"}

    asyncio.run(_open(machine, WINDOW | {"sources": sources, "index": "s3://sources/index.parquet"}))

    assert seen == [signed]
