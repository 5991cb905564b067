"""Which plan may write the next rows of a cube.

A new cube is claimed by the first PUT of the group's metadata. This claim never lapses.

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
from copy import replace
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import AppendRunningError, ArrayExistsError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.stores import CubeStore, FoundCube, StoredObject, decode_json

LAPSES_AFTER_S: Final = 1800.0
"""Twice the longest time of a Lambda function: a worker renews the claim at the start of each shard."""

_RENEWED_AFTER_S: Final = 300.0
_THEN_REPEAT: Final = "If it was stopped, run its own command again: that goes on with it"


class Claim(Struct, frozen=True, kw_only=True):
    """Who gathers the rows of the cube's next version."""

    claim: str
    """`pixel_gather.core.plan.cube_plan.CubePlan.claim` of the plan."""

    digest: str
    """Digest of the plan."""

    planned_at: float
    """When the plan was made, in seconds since 1970-01-01 UTC."""


class RowClaim(Claim, frozen=True, kw_only=True):
    """The claim of an append, as its file has it."""

    first_row: int
    n_rows: int
    """Rows of the cube after the append."""

    has_taken_over: bool = False

    tries_again: bool = False
    """Whether rows of the cube are tried again. If such an append is given up, it may have left pixels and
    coordinates in rows that still count as failed."""

    settles: bool = False
    """Whether all rows that have failed are written anew, also those that nobody would try again."""

    again: str = ""
    """Digest of the rows that are tried again. Plans of one request that try others share no files."""

    @classmethod
    def of(cls, plan: CubePlan) -> "RowClaim":
        """Return the claim of a plan."""
        return cls(
            claim=plan.claim,
            digest=plan.digest,
            planned_at=plan.planned_at,
            first_row=plan.first_row,
            n_rows=plan.n_rows,
            tries_again=bool(plan.append.again),
            again=digest_of_again(plan),
        )

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes, *, version: int) -> "RowClaim":
        """Return the claim that a version's file holds.

        Raises:
            StoreError: The file is damaged.
        """
        return decode_json(content, cls, key=claim_key(version))


def digest_of_again(plan: CubePlan) -> str:
    """Return a digest of the rows that a plan tries again; nothing if there are none."""
    rows = plan.append.again
    return sha256(json.dumps(rows).encode()).hexdigest()[:16] if rows else ""


def claim_key(version: int) -> str:
    """Return the key of a version's claim in the cube."""
    return f"versions/{version:05d}.claim"


async def find_claim(
    cube: CubeStore, found: FoundCube | None, digest: str, *, is_whole: bool = True
) -> Claim | None:
    """Return this request's own claim of the next version; None if the version is free, or was abandoned.

    Args:
        cube: The cube.
        found: The cube as it is; None if the place is empty.
        digest: Digest of the request and its list, or the request's alone.
        is_whole: Whether the list is known. Then another append that is at work is an error.

    Raises:
        AppendRunningError: Another append is at work.
    """
    if found is None:
        return None
    # A cube that is not complete has its claim in the group's metadata.
    if not found.version:
        claim = Claim(claim=found.claim, digest=found.digest, planned_at=found.planned_at)
        return claim if claim.digest.startswith(digest) else None
    # Each later version has a claim of its own.
    there = await cube.read_object(claim_key(found.version + 1))
    if there is None:
        return None
    append = RowClaim.from_bytes(there.content, version=found.version + 1)
    if append.digest.startswith(digest):
        return append
    if is_whole:
        _check_abandoned(cube, there)
    return None


async def must_settle(cube: CubeStore, found: FoundCube, digest: str) -> bool:
    """Return whether the next version has to write all failed rows anew; see `RowClaim.settles`.

    Args:
        cube: The cube.
        found: The cube as it is.
        digest: Digest of the plan. Another claim that is there was abandoned.
    """
    there = await cube.read_object(claim_key(found.version + 1))
    if there is None:
        return False
    claim = RowClaim.from_bytes(there.content, version=found.version + 1)
    return claim.settles or (claim.tries_again and claim.digest != digest)


async def claim_rows(cube: CubeStore, plan: CubePlan, *, settles: bool = False) -> CubePlan | None:
    """Claim the rows of a plan, or continue the claim of the same request.

    Args:
        cube: The cube.
        plan: The plan.
        settles: As `RowClaim.settles`.

    Returns:
        The plan. If another run of the same request was first, with that run's ``planned_at``. None if that
        run has completed a new cube meanwhile.

    Raises:
        ArrayExistsError: Another gather has claimed the place meanwhile.
        AppendRunningError: Another append has claimed the rows, or was committed meanwhile.
        BusyError: Others write there at the same time.
    """
    if plan.append.is_first:
        try:
            return await cube.create(plan)
        except ArrayExistsError:
            found = await cube.found()
            if found is None or not found.has_version_of(plan.digest):
                raise
            return None
    claim = await take_claim(cube, plan.append.version, replace(RowClaim.of(plan), settles=settles))
    return replace(plan, planned_at=claim.planned_at)


async def take_claim(
    cube: CubeStore, version: int, wanted: RowClaim, *, then: str = _THEN_REPEAT
) -> RowClaim:
    """Claim the next version of a cube, or continue the claim of the same request.

    Args:
        cube: The cube.
        version: The one to claim.
        wanted: The claim.
        then: What the error says to do if another append is at work.

    Returns:
        The claim. Of another run of the same request, if that was first.

    Raises:
        AppendRunningError: Another append has claimed them, or has committed them meanwhile. Or one was given
            up that has to be settled first; see `RowClaim.settles`.
    """
    key, claim = claim_key(version), wanted
    while True:
        there = await cube.read_object(key)
        if there is not None:
            theirs = RowClaim.from_bytes(there.content, version=version)
            if (theirs.digest, theirs.again) == (wanted.digest, wanted.again):
                claim = theirs
                break
            _check_abandoned(cube, there, then=then)
            is_given_up = theirs.digest != wanted.digest and (theirs.tries_again or theirs.settles)
            if is_given_up and not wanted.settles:
                raise AppendRunningError(
                    f"{cube.place}: an append that tried failed rows again was given up: run an append first"
                )
            claim = replace(wanted, has_taken_over=True)
        await check_next_version(cube, version)
        replaces = None if there is None else there.etag
        if await cube.put_object(key, claim.to_bytes(), replaces=replaces):
            break
    await check_next_version(cube, version)
    if claim.has_taken_over and not await cube.fence(claim.claim, version=version):
        raise AppendRunningError(f"{cube.place}: another append is being committed: run again")
    return claim


async def check_next_version(cube: CubeStore, version: int) -> None:
    """Raise an error if a version is not the next one of a cube.

    Raises:
        AppendRunningError: Another append was committed meanwhile.
    """
    found = await cube.found_among_files()
    if found is None or found.version != version - 1:
        raise AppendRunningError(f"{cube.place}: another append was committed meanwhile: run again")


async def was_taken_over(cube: CubeStore, plan: CubePlan) -> bool:
    """Return whether the plan of an append has taken its rows over from one that was abandoned."""
    version = plan.append.version
    there = await cube.read_object(claim_key(version))
    return there is not None and RowClaim.from_bytes(there.content, version=version).has_taken_over


async def check_row_claim(cube: CubeStore, plan: CubePlan) -> None:
    """Raise an error if another append has taken over the rows of a plan; see `check_claimed`.

    A new cube has no such claim: its group's metadata say whose the place is.
    """
    if not plan.append.is_first:
        await check_claimed(cube, plan.append.version, plan.claim)


async def check_claimed(cube: CubeStore, version: int, claim: str) -> None:
    """Raise an error if a version's claim is no longer this one. Renew the claim if it is old.

    Raises:
        ArrayExistsError: Another append has taken over.
    """
    key = claim_key(version)
    there = await cube.read_object(key)
    if there is None or RowClaim.from_bytes(there.content, version=version).claim != claim:
        raise ArrayExistsError(
            f"{cube.place}: another append has taken over, because this one gave no sign of work for "
            f"{LAPSES_AFTER_S / 60:.0f} minutes: run this one again"
        )
    if time.time() - there.modified_at > _RENEWED_AFTER_S:
        await cube.put_object(key, there.content, replaces=there.etag)


def _check_abandoned(cube: CubeStore, there: StoredObject, *, then: str = _THEN_REPEAT) -> None:
    age_s = time.time() - there.modified_at
    if age_s < LAPSES_AFTER_S:
        raise AppendRunningError(
            f"{cube.place}: another append is at work. Its last sign of work is {max(age_s, 0) / 60:.0f} "
            f"minutes old. After {LAPSES_AFTER_S / 60:.0f} it counts as abandoned. {then}"
        )
