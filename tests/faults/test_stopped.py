"""Processes that are stopped, and go on when others have committed, write nothing more."""

from pathlib import Path
from typing import Final

import pytest

from faults.stopped import Commands, Place, Started, Stop, commands_in, made_place, run
from pixel_gather.core.stores import ROOT_KEY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_LAST_LOOK: Final = Stop(method="head_async", key=ROOT_KEY, after="receipt.json", nth=1)
"""The look at the group's metadata that comes right before the commit."""

_COMMIT: Final = Stop(method="head_async", key=ROOT_KEY, after="receipt.json", nth=3)
"""The look that is made under the lock, right before the file is replaced."""


def _done(started: Started) -> str:
    code, said = started.ended()
    assert code == 0, said
    return said


def _gathered(commands: Commands, place: Place, *numbers: int) -> None:
    for number in numbers:
        _done(commands.start(*place.gathering(number)))


def _contents(place: Place) -> dict[str, bytes]:
    """Return the files of the cube. Control files of a gather that is done may be cleared away."""
    files = (path for path in place.cube.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if ".gather" not in path.parts}


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_a_twin_that_goes_on_after_later_appends_writes_nothing(number: int, tmp_path: Path) -> None:
    """It was stopped right before its commit. Another process has completed the work, and an append came."""
    place = made_place(tmp_path)
    with commands_in(tmp_path) as commands:
        _gathered(commands, place, *range(number))
        twin = commands.start(*place.gathering(number), stop=_LAST_LOOK)
        twin.wait_until_stopped()
        _gathered(commands, place, number, number + 1)
        before = _contents(place)

        twin.go_on()
        _done(twin)

        assert _contents(place) == before
        assert len(place.versions()) == number + 2
        _done(commands.start("verify", place.cube))
    place.check(number + 2)


@pytest.mark.long
def test_a_commit_that_was_stopped_under_its_lock_replaces_nothing_newer(tmp_path: Path) -> None:
    """A local folder knows no condition on a PUT. So nobody else commits until the process goes on."""
    place = made_place(tmp_path)
    with commands_in(tmp_path) as commands:
        _gathered(commands, place, 0)
        stopped = commands.start(*place.gathering(1), stop=_COMMIT)
        stopped.wait_until_stopped()
        said = [commands.start(*place.gathering(number), patience_s=0.5).ended()[1] for number in (1, 2)]
        before = place.versions()

        stopped.go_on()
        _done(stopped)

        assert place.versions()[: len(before)] == before
        assert all("another process writes here" in each for each in said), said
        _gathered(commands, place, 1, 2)
        _done(commands.start("verify", place.cube))
    place.check(3)


@pytest.mark.long
def test_a_cube_grows_while_processes_are_stopped_and_go_on(tmp_path: Path) -> None:
    """A short run of ``scripts/chaos --stops``."""
    told = run(tmp_path, seed=1, n_least=5, n_lists=3)

    assert told["stopped"] > 0
