"""Which append may write the next rows of a cube.

An append claims the cube's next version with a small file, ``versions/NNNNN.claim``, which only one can
create. Another append waits until the version is there, and then plans behind it. Each sign of work renews
the claim. A claim without a sign for `LAPSES_AFTER_S` was abandoned, and another append may take it over.

Nobody loses by a takeover, however late the former owner wakes up. A takeover replaces the claim, and then
changes the group's metadata. The former owner could commit only if these metadata were unchanged. A writer of
an append looks at an object, then reads the group's metadata and its claim, then puts the object. The PUT
succeeds only if the object has not changed since that look. A claim whose version is committed entitles to
nothing more; see `pixel_gather.core.claim.check_uncommitted`.
"""

import json
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from pixel_gather.core.errors import AppendRunningError, ArrayExistsError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.stores import GrowingCube, StoredObject

LAPSES_AFTER_S: Final = 1800.0
"""Twice the longest time of a Lambda function: a worker renews the claim at the start of each shard."""

_RENEWED_AFTER_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowClaim:
    """Who gathers the rows of the cube's next version."""

    claim: str
    """`pixel_gather.core.plan.cube_plan.CubePlan.claim` of the append."""

    digest: str
    planned_at: float
    first_row: int
    n_rows: int
    """Rows of the cube after the append."""

    has_taken_over: bool = False

    @classmethod
    def of(cls, plan: CubePlan) -> "RowClaim":
        """Return the claim of a plan."""
        return cls(
            claim=plan.claim,
            digest=plan.digest,
            planned_at=plan.planned_at,
            first_row=plan.first_row,
            n_rows=plan.n_rows,
        )

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        told: dict[str, Any] = {name: getattr(self, name) for name in type(self).__slots__}
        return json.dumps(told).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "RowClaim":
        """Return the claim that a file holds."""
        return cls(**json.loads(content))


def claim_key(version: int) -> str:
    """Return the key of a version's claim in the cube."""
    return f"versions/{version:05d}.claim"


async def found_claim(cube: GrowingCube, version: int, digest: str) -> RowClaim | None:
    """Return this request's own claim of a version; None if the version is free, or was abandoned.

    Raises:
        AppendRunningError: Another append is at work.
    """
    there = await cube.read_object(claim_key(version))
    if there is None:
        return None
    claim = RowClaim.from_bytes(there.content)
    if claim.digest == digest:
        return claim
    _check_abandoned(cube, there)
    return None


async def take_claim(cube: GrowingCube, version: int, wanted: RowClaim) -> RowClaim:
    """Claim the next version of a cube, or continue the claim of the same request.

    Returns:
        The claim. Of another run of the same request, if that was first.

    Raises:
        AppendRunningError: Another append has claimed them, or has committed them meanwhile.
    """
    key, claim = claim_key(version), wanted
    while True:
        there = await cube.read_object(key)
        if there is not None:
            theirs = RowClaim.from_bytes(there.content)
            if theirs.digest == wanted.digest:
                claim = theirs
                break
            _check_abandoned(cube, there)
            claim = replace(wanted, has_taken_over=True)
        await _check_next(cube, version)
        replaces = None if there is None else there.etag
        if await cube.put_object(key, claim.to_bytes(), replaces=replaces):
            break
    await _check_next(cube, version)
    if claim.has_taken_over and not await cube.fence(claim.claim, version=version):
        raise AppendRunningError(f"{cube.place}: another append is being committed: run again")
    return claim


async def _check_next(cube: GrowingCube, version: int) -> None:
    """Raise an error if a version is not the next one of the cube."""
    found = await cube.found()
    if found is None or found.version != version - 1:
        raise AppendRunningError(f"{cube.place}: another append was committed meanwhile: run again")


async def check_row_claim(cube: GrowingCube, plan: CubePlan) -> None:
    """Raise an error if another append has taken over the rows of a plan; see `check_claimed`."""
    assert plan.append is not None  # noqa: S101 # callers have an append
    await check_claimed(cube, plan.append.version, plan.claim)


async def check_claimed(cube: GrowingCube, version: int, claim: str) -> None:
    """Raise an error if a version's claim is no longer this one. Renew the claim if it is old.

    Raises:
        ArrayExistsError: Another append has taken over.
    """
    key = claim_key(version)
    there = await cube.read_object(key)
    if there is None or RowClaim.from_bytes(there.content).claim != claim:
        raise ArrayExistsError(
            f"{cube.place}: another append has taken over, because this one gave no sign of work for "
            f"{LAPSES_AFTER_S / 60:.0f} minutes: run this one again"
        )
    if time.time() - there.modified_at > _RENEWED_AFTER_S:
        await cube.put_object(key, there.content, replaces=there.etag)


def _check_abandoned(cube: GrowingCube, there: StoredObject) -> None:
    age_s = time.time() - there.modified_at
    if age_s < LAPSES_AFTER_S:
        raise AppendRunningError(
            f"{cube.place}: another append is at work: run again when it is done. Its last sign of work is "
            f"{max(age_s, 0) / 60:.0f} minutes old. After {LAPSES_AFTER_S / 60:.0f} it counts as abandoned"
        )
