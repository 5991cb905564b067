"""The claim of an output location: which gather a cube belongs to, and every check of it.

A gather claims a location with the first PUT of the group's metadata. The claim is named after the time of
its plan. A cube that is removed and planned again has another claim, so workers of the old plan stop.
"""

from typing import Final

from pixel_gather.errors import ArrayExistsError
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.stores import ControlStore, CubeStore, FoundCube, needed_file

_CLAIM_KEY: Final = "claim"
_PLANNED_ANEW: Final = (
    "the cube was removed and has been planned anew since: submit its request again instead of redriving"
)
_REMOVED: Final = "the cube has been removed since it was planned: submit its request again"


async def find_cube(cube: CubeStore, digest: str) -> FoundCube | None:
    """Return this gather's cube at the location, complete or not. Return None if the location is empty.

    Args:
        cube: The location.
        digest: `pixel_gather.plan.plan.gather_digest` of the gather at hand.

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


def check_found_claim(found: FoundCube | None, plan: CubePlan) -> FoundCube:
    """Return the cube at the location if it still belongs to this plan.

    An append checks its own claim; see `pixel_gather.use_cases.row_claim`.

    Raises:
        ArrayExistsError: The cube was removed. It may have been planned again since.
    """
    if found is None or (plan.append is None and found.claim != plan.claim):
        raise ArrayExistsError(_REMOVED if found is None else _PLANNED_ANEW)
    return found


async def write_claim(control: ControlStore, claim: str) -> None:
    """Write the claim for workers, which may not read the cube."""
    await control.put(_CLAIM_KEY, claim.encode())


def is_append(claim: str) -> bool:
    """Return whether a claim is that of an append, as `CubePlan.claim` makes it."""
    return "-" in claim


async def check_claim(control: ControlStore, claim: str) -> None:
    """Raise an error if the cube was removed and planned again since.

    An append has another check, right before it writes: `pixel_gather.use_cases.row_claim.check_row_claim`.

    Args:
        control: The store that was given to `pixel_gather.use_cases.plan_gather.plan_gather`.
        claim: Claim of the current plan.

    Raises:
        ArrayExistsError: The location has another claim now.
        StoreError: The gather was not planned, or its control files have expired.
    """
    if not is_append(claim) and await needed_file(control, _CLAIM_KEY) != claim.encode():
        raise ArrayExistsError(_PLANNED_ANEW)
