"""The claim of an output location: which gather a cube belongs to, and every check of it.

A gather claims a location with the first PUT of the group's metadata. The claim is named after the time of
its plan. A cube that is removed and planned again has another claim, so workers of the old plan stop. The
same metadata tell which version the cube has reached, so late workers of a committed version stop, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pixel_gather.core.errors import AlreadyCommittedError, AppendRunningError, ArrayExistsError
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.request.wrong_values import show_value
from pixel_gather.core.stores import CubeStore, FoundCube

_PLANNED_ANEW: Final = (
    "the cube was removed and has been planned anew since: submit its request again instead of redriving"
)
CHANGE_NOTHING: Final = (
    *("limits", "index", "failed_rows", "sources.sign", "sources.stac.most", "sources.catalog.most"),
    *("output.name", "output.append_to", "output.report"),
)
"""Fields that are not in the digest of a request."""

_MOST_SAID: Final = 3
_REMOVED: Final = "the cube has been removed since it was planned: submit its request again"


async def find_cube(cube: CubeStore, digest: str, request: Mapping[str, Any]) -> FoundCube | None:
    """Return this gather's cube at the location, complete or not. Return None if the location is empty.

    Args:
        cube: The location.
        digest: `pixel_gather.core.plan.plan.gather_digest` of the gather at hand.
        request: Its request as JSON values, without a key. Only errors tell of it.

    Raises:
        ArrayExistsError: Another cube, or something that is no cube, is there.
    """
    found = await cube.found()
    if found is not None:
        _check_digest(found, digest, request)
    return found


def check_can_continue(found: FoundCube, digest: str, request: Mapping[str, Any]) -> None:
    """Refuse a cube that a gather cannot continue; the arguments are those of `find_cube`.

    Raises:
        ArrayExistsError: The cube has another digest, or it is complete.
    """
    _check_digest(found, digest, request)
    if found.report is not None:
        raise ArrayExistsError(
            f"{found.place}: the cube of this request is complete: there is nothing to gather"
        )


def _check_digest(found: FoundCube, digest: str, request: Mapping[str, Any]) -> None:
    if found.digest == digest:
        return
    n = len(digest) // 2  # the request's; the other half is the list's
    is_same_request = found.digest[:n] == digest[:n]
    differing = {} if is_same_request else _differences(found.origin.get("request", {}), request)
    which = "another request or another list"
    if is_same_request:
        which = "this request and another list"
    elif differing:
        which = "another request"
    said = "; ".join(list(differing.values())[:_MOST_SAID])
    said += f"; and {n_more:,} more" if (n_more := len(differing) - _MOST_SAID) > 0 else ""
    instead = "choose another place"
    takes_list = is_same_request or (differing and all(name.startswith("sources") for name in differing))
    if takes_list and found.report is not None and _can_take_sources(request):
        instead += ", or add these sources to that cube by output.append_to (--append-to)"
    if found.place.startswith("s3://"):
        instead += " (on AWS: give this request another output.name, or submit it with force)"
    raise ArrayExistsError(
        f"{found.place}: a cube of {which} is there{f' ({said})' if said else ''}: {instead}"
    )


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, str]:
    """Return in words the fields of two requests that differ and decide what a cube holds."""
    theirs, ours = dict(_fields_of(there)), dict(_fields_of(here))
    return {
        name: f"{name}: {_show(theirs, name)} there, {_show(ours, name)} here"
        for name in {**theirs, **ours}
        if theirs.get(name) != ours.get(name) and not name.startswith(CHANGE_NOTHING)
    }


def _fields_of(request: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in request.items():
        if isinstance(value, Mapping):
            yield from _fields_of(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _show(fields: Mapping[str, Any], name: str) -> str:
    return show_value(fields[name]) if name in fields else "not given"


def _can_take_sources(request: Mapping[str, Any]) -> bool:
    return "windows" not in request and request.get("output", {}).get("codec") != AS_STORED


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
