"""Kept statistics in one SQLite file: what is put comes back, also from files of earlier versions."""

import json
import math
import sqlite3
from pathlib import Path

import pytest

from pixel_gather.core.model.source import Source
from pixel_gather.features.rank.kept_statistics import SqliteStatistics
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.tables.find_bands import BandOf
from support.measured_scene import measured_scene

_SCENE = RankScene(id="a", time_us=None, bands={"b1": BandOf(Source(href="s3://a/1.tif"), 1)}, mask=None)


@pytest.mark.parametrize("has_texts", [False, True], ids=["as written", "as earlier versions wrote"])
def test_numbers_that_are_not_finite_are_kept(tmp_path: Path, has_texts: bool) -> None:  # noqa: FBT001 # a case
    """Earlier versions wrote them as texts."""
    path, measured = tmp_path / "kept.sqlite", measured_scene(math.nan, error=math.inf)
    with SqliteStatistics(path, inputs="") as kept:
        kept.put(_SCENE, step="exact", measured=measured)
    if has_texts:
        with sqlite3.connect(path) as database:
            ((content,),) = database.execute("SELECT measured FROM statistic").fetchall()
            texts = json.dumps(json.loads(content) | {"value": "nan", "error": "inf"})
            database.execute("UPDATE statistic SET measured = ?", (texts,))

    with SqliteStatistics(path, inputs="") as kept:
        found = kept.get(_SCENE, step="exact")

    assert found is not None
    assert math.isnan(found.value)
    assert (found.error, found.etags, found.levels) == (math.inf, measured.etags, measured.levels)
