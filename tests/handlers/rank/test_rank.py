"""POST /rankings over S3: what it answers, what it refuses, and what it tells of a large ranking."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import rasterio

from handlers.api.answer_size import fit_scenes
from pixel_gather import Settings, make_catalog
from pixel_gather.features.rank.choose_reads import Rounds
from pixel_gather.io.store.store_settings import StoreSettings
from support.api_bridge import told
from support.lambda_functions import ENVIRONMENT, cold_start

_SERIES = Path(__file__).parents[2] / "data/series/files/stactools-noaa-cdr"


@pytest.fixture
def rank(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Open the function over S3."""
    del s3
    with cold_start(monkeypatch, "rank") as module:
        yield module


def _ask(module: ModuleType, body: Any, *, left_s: float = 29.0) -> tuple[int, Any]:
    return told(module.app, "POST", "/rankings", body, left_s=left_s)


def _mean(name: str) -> float:
    with rasterio.open(_SERIES / name) as dataset:
        values = dataset.read(1, masked=True).astype("float64").compressed()
    return float(values[np.isfinite(values)].mean())


@pytest.mark.long
def test_ranking_of_a_prefix_is_answered_at_once(rank: ModuleType) -> None:
    """The order is NumPy's, and every scene says what it took."""
    code, found = _ask(rank, {"sources": {"prefix": "s3://sources/heat/"}, "by": "b1", "precision": "exact"})

    assert code == 200
    expected = {path.name: _mean(path.name) for path in _SERIES.glob("heat_content_anomaly_0-2000*.tif")}
    assert [row["id"] for row in found["scenes"]] == sorted(expected, key=lambda name: -expected[name])
    assert {row["id"]: row["value"] for row in found["scenes"]} == pytest.approx(expected)
    assert all(row["requests"] > 0 and row["status"] == "ok" for row in found["scenes"])


@pytest.mark.long
def test_ranking_of_a_catalog_reads_the_assets_that_it_needs(
    rank: ModuleType, s3_url: str, tmp_path: Path
) -> None:
    """It finds their scenes in the box by the rules of the search."""
    lines = [
        f"s3://sources/heat/{path.name},2020-01-01"
        for path in _SERIES.glob("heat_content_anomaly_0-2000*.tif")
    ]
    (tmp_path / "list.csv").write_text("\n".join(["href,time", *lines]))
    stores = StoreSettings(endpoint=s3_url, region=ENVIRONMENT["AWS_REGION"])
    make_catalog(
        tmp_path / "list.csv",
        kind="sources",
        to="s3://sources/heat.parquet",
        settings=Settings(stores=stores),
    )

    code, found = _ask(
        rank,
        {
            "scenes": {"catalog": "s3://sources/heat.parquet", "datetime": "2020"},
            "area": {"bbox": [-30, 0, 30, 40]},
            "by": "heat * 2",
            "bands": {"heat": "data"},
            "top": 1,
        },
    )

    assert code == 200, found
    assert len(found["scenes"]) == 4
    assert found["expression"] == "heat * 2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ([], "request", "an object"),
        ({"by": "red"}, "scenes", "give scenes or sources: sources are as in a gather"),
        ({"scenes": {}, "sources": [], "by": "red"}, "scenes", "give scenes or sources, not both"),
        (
            {"sources": [], "by": "b1", "bay": 1},
            "bay",
            "no such field; it takes area, bands, by, check_kept, limits",
        ),
        ({"sources": ["s3://sources/a.tif"]}, "by", "write what to rank by"),
        ({"sources": ["s3://sources/a.tif"], "by": "red +"}, "by", "position 6"),
        ({"sources": ["s3://other/a.tif"], "by": "b1"}, "sources.hrefs.0", "other"),
        ({"sources": [{"href": "s3://sources/a.tif"}], "by": "b1"}, "sources", "POST /lists"),
        ({"sources": ["s3://sources/a.tif"], "by": "b1", "limits": {"usd": -1}}, "limits.usd", "above 0"),
        ({"sources": ["s3://sources/a.tif"], "by": "clear"}, "mask", "clear needs a mask"),
        ({"scenes": {"catlog": "x"}, "by": "red"}, "scenes.catlog", "no such field; it takes address, bbox"),
        (
            {"scenes": {"catalog": "s3://sources/nosuch.parquet"}, "by": "red"},
            "sources.catalog.file",
            "there is no catalog at s3://sources/nosuch.parquet",
        ),
        ({"scenes": {}, "by": "red"}, "scenes.catalog", "there is no other catalog: name one"),
        (
            {"sources": ["s3://sources/a.tif"], "by": "b1", "area": {"bbox": [1, 2]}},
            "area.bbox",
            "four numbers",
        ),
    ],
)
def test_wrong_requests_are_refused_by_the_field(rank: ModuleType, body: Any, field: str, words: str) -> None:
    """Before anything is read."""
    code, problem = _ask(rank, body)

    assert (code, problem["field"]) == (422, field)
    assert words in problem["detail"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"seconds": 0.001}, "limits.seconds: 4 scenes would take about"),
        ({"usd": 1e-9}, "limits.usd: 4 scenes would cost about"),
    ],
)
def test_ranking_over_a_limit_is_refused_with_what_to_do(
    rank: ModuleType, limits: dict[str, float], said: str
) -> None:
    """After its first scene; the forecast says how much it would take."""
    code, problem = _ask(rank, {"sources": {"prefix": "s3://sources/heat/"}, "by": "b1", "limits": limits})

    assert code == 422
    assert problem["detail"].startswith(said)
    assert problem["detail"].endswith("take precision coarse (--precision coarse), or raise the limit")


def test_a_limit_leaves_room_for_scenes_that_are_read_on(
    rank: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is read on if its coarsest level will do."""
    monkeypatch.setattr("pixel_gather.features.rank.forecast._READ_ON", 1e6)
    monkeypatch.setattr(rank, "_LONGEST_S", 1e12)
    body = {"sources": {"prefix": "s3://sources/heat/"}, "by": "b1", "limits": {"usd": 0.5}}

    assert [_ask(rank, body | {"precision": each})[0] for each in (0.01, "coarse")] == [422, 200]


def test_missing_files_are_listed(rank: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last, with their status. It is noted that they are named like bands of one scene.

    What is open of the ranks is noted, too.
    """
    monkeypatch.setattr(Rounds, "notes", lambda _, ranked: [f"of {len(ranked)} scenes"])
    heat = next(_SERIES.glob("heat_content_anomaly_0-2000*.tif")).name
    missing = [f"s3://sources/LC08_L2SP_193027_20240601_20240610_02_T1_SR_B{number}.TIF" for number in (2, 3)]
    code, found = _ask(rank, {"sources": [*missing, f"s3://sources/heat/{heat}"], "by": "b1"})

    assert code == 200
    assert [row["status"] for row in found["scenes"]] == ["ok", "missing", "missing"]
    assert "several bands" in found["notes"][0]
    assert found["notes"][-1] == "of 3 scenes"


def test_the_scenes_that_fit_are_counted_as_lambda_answers_them() -> None:
    """The answer is a text within JSON. So each quote in it has a backslash, and each backslash another."""
    scenes = [{"id": 'a "b"', "reason": None, "hrefs": [f"s3://sources/{n}.tif"]} for n in range(80_000)]

    found = fit_scenes({"scenes": scenes, "notes": ["one"]})

    whole = json.dumps({"body": json.dumps(found, separators=(",", ":"))})
    n = len(found["scenes"])
    assert 4_900_000 < len(whole) < 5_001_000
    assert found["scenes"] == scenes[:n]
    assert found["notes"] == [
        "one",
        f"this answer has the first {n:,} of 80,000 scenes; the whole table is a file",
    ]
    assert fit_scenes({"scenes": scenes[:10], "notes": []}) == {"scenes": scenes[:10], "notes": []}
