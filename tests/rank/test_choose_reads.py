"""What a round of a ranking reads, takes of what is kept, and keeps, scene by scene."""

import math
from dataclasses import dataclass, field

import pytest

from pixel_gather.core.model.source import Source
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.choose_reads import NothingKept, RankedScene, Rounds, begun
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.tables.find_bands import BandOf
from support.measured_scene import measured_scene


@dataclass
class FakeKept(NothingKept):
    """Keeps statistics by their step alone."""

    steps: dict[str, MeasuredScene] = field(default_factory=dict)

    def get(self, scene: RankScene, *, step: str) -> MeasuredScene | None:
        """Return what is kept."""
        del scene
        return self.steps.get(step)

    def put(self, scene: RankScene, *, step: str, measured: MeasuredScene) -> None:
        """Keep one."""
        del scene
        self.steps[step] = measured


def rounds(precision: str = "2%", kept: FakeKept | None = None) -> Rounds:
    """Return the rounds of a ranking by one band."""
    return Rounds(RankingRequest.of(by="b1", precision=precision), kept or FakeKept())


def scene(measured: MeasuredScene | None = None, *, step: int | None = 0) -> RankedScene:
    """Return a scene as an earlier round has left it."""
    bands = {"b1": BandOf(Source(href="s3://a/0.tif"), 1)}
    (found,) = begun([RankScene(id="s", time_us=0, bands=bands, mask=None)])
    found.measured, found.step = measured, step
    return found


@pytest.mark.parametrize(
    ("status", "is_failed"), [(Status.OK, False), (Status.OUTSIDE, False), (Status.MISSING, True)]
)
def test_a_scene_outside_the_area_has_not_failed(status: Status, *, is_failed: bool) -> None:
    """It could be read."""
    found = scene()
    found.fail(status, "why")

    assert found.is_failed is is_failed


@pytest.mark.parametrize("error", [0.25, math.inf])
def test_a_scene_whose_finer_level_cannot_be_read_is_not_tried_again(error: float) -> None:
    """Else its ranking would not end."""
    found = scene(measured_scene(1.0, error=error))
    found.fail(Status.CORRUPT, "why")

    assert rounds("coarse").choose_reads([found]) == []


@pytest.mark.parametrize(("precision", "step"), [("coarse", 1), ("2%", 3)])
def test_after_a_level_that_tells_nothing_full_resolution_is_read(precision: str, step: int) -> None:
    """A coarse ranking wants the next level."""
    levels = {"level": 2, "levels": (2, 1, 0, None), "level_nbytes": (1.0, 4.0, 16.0, 64.0)}
    found = scene(measured_scene(1.0, error=math.inf, **levels))

    assert [each.step for each in rounds(precision).choose_reads([found])] == [step]


@pytest.mark.parametrize(("error", "step"), [(0.3, 1), (0.5, 2), (9.0, 3)])
def test_a_scene_is_read_at_the_coarsest_level_that_may_decide_it(error: float, step: int) -> None:
    """An error may be a quarter at the next level. The last level is full resolution."""
    levels = {"level": 2, "levels": (2, 1, 0, None), "level_nbytes": (1.0, 4.0, 16.0, 64.0)}
    found = [scene(measured_scene(1.0, error=error, **levels)) for _ in range(2)]

    assert [each.step for each in rounds("0.1").choose_reads(found)] == [step, step]


def test_only_scenes_that_can_be_read_finer_are_read() -> None:
    """The rank of both is open. Of one, no finer level could be read."""
    stuck, other = scene(measured_scene(1.0)), scene(measured_scene(1.0))
    stuck.fail(Status.CORRUPT, "why")

    assert [each.ranked for each in rounds("0.1").choose_reads([stuck, other])] == [other]


@pytest.mark.parametrize("was_read", [True, False])
def test_a_scene_counts_as_kept_if_nothing_of_it_was_read(*, was_read: bool) -> None:
    """A finer level that is kept does not change that its coarsest one was read."""
    coarse, full = measured_scene(1.0, error=math.inf), measured_scene(1.0, error=0.0, level=None)
    kept = FakeKept({"step 1": full} | ({} if was_read else {"step 0": coarse}))
    found = scene(coarse if was_read else None)

    assert rounds(kept=kept).choose_reads([found]) == []
    assert (found.measured, found.was_kept) == (full, not was_read)


def test_full_resolution_is_kept_by_its_step_and_as_exact() -> None:
    """So a later ranking of any precision takes it. An overview is kept by its step alone."""
    coarse, full = measured_scene(1.0), measured_scene(1.0, error=0.0, level=None)
    kept = FakeKept()

    rounds(kept=kept).keep(scene(coarse, step=0))
    of_overview = dict(kept.steps)
    rounds(kept=kept).keep(scene(full, step=1))

    assert of_overview == {"step 0": coarse}
    assert kept.steps == {"step 0": coarse, "step 1": full, "exact": full}


@pytest.mark.parametrize(("level", "says"), [(0, None), (None, "no pixel of the area has data")])
def test_a_scene_is_said_to_have_no_pixel_if_all_of_it_was_read(level: int | None, says: str | None) -> None:
    """A limit may end a ranking before. An overview that shows no pixel may have lost some."""
    found = scene(measured_scene(math.nan, error=math.inf, level=level, n_pixels=0))

    assert [each.reason for each in rounds().sort([found])] == [says]
