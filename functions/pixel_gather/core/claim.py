"""The claim of an output location: which gather a cube belongs to, and every check of it.

A gather claims a location with the first PUT of the group's metadata. The claim is named after the time of
its plan. A cube that is removed and planned again has another claim, so workers of the old plan stop. The
same metadata tell which version the cube has reached, so late workers of a committed version stop, too.
"""

from collections.abc import Iterable
from typing import Final

from pixel_gather.core.errors import AlreadyCommittedError, AppendRunningError, ArrayExistsError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.stores import CubeStore, FoundCube

_PLANNED_ANEW: Final = (
    "the cube was removed and has been planned anew since: submit its request again instead of redriving"
)
_REMOVED: Final = "the cube has been removed since it was planned: submit its request again"


async def find_cube(cube: CubeStore, digest: str) -> FoundCube | None:
    """Return this gather's cube at the location, complete or not. Return None if the location is empty.

    Args:
        cube: The location.
        digest: `pixel_gather.core.plan.plan.gather_digest` of the gather at hand.

    Raises:
        ArrayExistsError: Another cube, or something that is no cube, is there.
    """
    found = await cube.found()
    if found is not None:
        _check_digest(found, digest)
    return found


def check_can_continue(found: FoundCube, digest: str) -> None:
    """Refuse a cube that a gather cannot continue.

    Raises:
        ArrayExistsError: The cube has another digest, or it is complete.
    """
    _check_digest(found, digest)
    if found.report is not None:
        raise ArrayExistsError(
            f"{found.place}: the cube of this request is complete: there is nothing to gather"
        )


def _check_digest(found: FoundCube, digest: str) -> None:
    if found.digest != digest:
        n = len(digest) // 2  # the request's; the other half is the list's
        which = "this request and another list"
        if found.digest[:n] != digest[:n]:
            which = "another request or another list"
        raise ArrayExistsError(
            f"{found.place}: a cube of {which} is there: choose another place "
            "(on AWS: give this request another output.name, or submit it with force)"
        )


def check_files(found: FoundCube, *, n_rows: Iterable[int]) -> None:
    """Check that metadata, table and receipt are of the version that a cube has reached.

    Args:
        found: The cube.
        n_rows: Rows that each of them tells of.

    Raises:
        AppendRunningError: An append has put files of the next version, and was stopped before its commit.
    """
    if any(each != found.versions[-1].n_rows for each in n_rows):
        raise AppendRunningError(
            f"{found.place}: an append was stopped within its commit, or is at work: "
            "run the append again first"
        )


def check_uncommitted(found: FoundCube | None, plan: CubePlan) -> FoundCube:
    """Return the cube at the location if it has not reached the version that a plan is for.

    What is committed is done: nobody writes for a version that the cube has reached, or for an older one.

    Raises:
        AlreadyCommittedError: This plan's version is committed.
        ArrayExistsError: The cube was removed, and may have been planned again since. Or another append was
            committed as this version.
    """
    if found is None:
        raise ArrayExistsError(_REMOVED)
    if found.claim != plan.place_claim:
        raise ArrayExistsError(_PLANNED_ANEW)
    if found.has_version_of(plan.digest):
        raise AlreadyCommittedError(f"{found.place}: these rows are committed: there is nothing to do")
    if found.version != plan.append.version - 1:
        raise ArrayExistsError(f"{found.place}: another append was committed meanwhile: run again")
    return found
