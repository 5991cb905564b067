"""Statistics of earlier rankings: those of older files do not count, and a store that fails stops nothing."""

from pathlib import Path
from typing import override

import pytest

from handlers.rank.statistics_on_s3 import open_kept_statistics
from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import Source
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.choose_reads import RankedScene, Rounds
from pixel_gather.features.rank.kept_statistics import SqliteStatistics
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.tables.find_bands import BandOf
from support.fakes import FakeControl
from support.in_loop import in_loop
from support.measured_scene import measured_scene

_SCENE = RankScene(id="s", time_us=0, bands={"b1": BandOf(Source(href="s3://a/0.tif"), 1)}, mask=None)
_REQUEST = RankingRequest.of(by="b1")
_KEY = f"statistics/{_REQUEST.inputs_digest()}.sqlite"


def test_statistics_of_an_older_version_do_not_count(tmp_path: Path) -> None:
    """Nor do those of another level."""
    with SqliteStatistics(tmp_path / "kept.sqlite", inputs="") as kept:
        for step, etag in (("step 0", "old"), ("step 1", "new")):
            kept.put(_SCENE, step=step, measured=measured_scene(1.0, etags=(etag,)))

        assert kept.get(_SCENE, step="step 0") is None
        assert kept.get(_SCENE, step="step 1") == measured_scene(1.0, etags=("new",))


def test_a_level_that_cannot_be_read_keeps_no_value_of_a_coarser_one(tmp_path: Path) -> None:
    """A later ranking reads it again."""
    ranked = RankedScene(scene=_SCENE, step=1, measured=measured_scene(1.0))
    ranked.fail(Status.CORRUPT, "why")
    with SqliteStatistics(tmp_path / "kept.sqlite", inputs="") as kept:
        Rounds(_REQUEST, kept).keep(ranked)
        assert kept.n_put == 0


class _Refusing(FakeControl):
    """A store that neither reads nor writes."""

    @override
    async def get(self, key: str) -> bytes | None:
        raise StoreError(key)

    @override
    async def put(self, key: str, content: bytes) -> None:
        raise StoreError(key)


@pytest.mark.parametrize("store", [_Refusing(), FakeControl(files={_KEY: b"this is no SQLite" * 100})])
@in_loop
async def test_a_ranking_goes_on_without_kept_statistics(store: FakeControl) -> None:
    """All is measured anew."""
    async with open_kept_statistics(store, _REQUEST) as kept:
        kept.put(_SCENE, step="step 0", measured=measured_scene(1.0))
        assert kept.get(_SCENE, step="step 0") == measured_scene(1.0)
