"""What has changed in the sources of a cube since they were gathered. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.shown import shown
from pixel_gather.core.model.status import Status


class Drift(StrEnum):
    """What a replay finds of one source."""

    SAME = "same"
    """The same version and the same pixels. Also a source that failed then and fails now in the same way."""

    ETAG_CHANGED = "etag changed"
    """The file was replaced. Its window has the same pixels, or was not read."""

    PIXELS_DIFFER = "pixels differ"
    GONE = "gone"
    """It was read then; no object is there now."""

    FAILED_NOW = "failed now"
    """It was read then, or failed in another way."""

    READ_NOW = "read now"
    """It failed then. If only versions were compared: it could not be reached then, and can be now."""

    NEW = "new"
    """The cube's search finds it now, and the cube does not have it."""

    UNKNOWN = "unknown"
    """Only the versions were compared, and the cube or the store does not know the version."""


_NOT_REACHED: Final = frozenset({Status.MISSING, Status.DENIED, Status.TIMED_OUT, Status.LOST})
"""Failures that say nothing of the file itself."""


class Version(Struct, frozen=True, kw_only=True):
    """One source as it was read at one time."""

    status: Status
    etag: str | None = None
    reason: str | None = None
    """Why it failed: one sentence. None if it is not known."""


class SourceDrift(Struct, frozen=True, kw_only=True):
    """One source, then and now."""

    row: int | None
    """Row of the cube, from 0. None for a new source."""

    band: str | None
    """The list's ``band``; None without such a column."""

    href: str
    drift: Drift
    then: Version | None = None
    """None for a new source."""

    now: Version | None = None
    """None for a new source, which is not read."""

    @property
    def reason(self) -> str | None:
        """Why it is not the same, in words; None if the drift says everything."""
        if self.now is not None and self.now.status.is_failure:
            return self.now.reason or self.now.status.name.lower().replace("_", " ")
        if self.drift is Drift.READ_NOW and self.then is not None:
            return f"then: {self.then.status.name.lower().replace('_', ' ')}"
        return None

    def to_json(self) -> dict[str, str | int | None]:
        """Return it as one flat JSON object."""
        then, now = self.then, self.now
        return {
            "row": self.row,
            "band": self.band,
            "href": self.href,
            "drift": self.drift.value,
            "status_then": None if then is None else then.status.name.lower(),
            "status_now": None if now is None else now.status.name.lower(),
            "etag_then": None if then is None else then.etag,
            "etag_now": None if now is None else now.etag,
            "reason": self.reason,
        }


COLUMNS: Final = tuple(SourceDrift(row=0, band=None, href="", drift=Drift.SAME).to_json())
"""Keys of `SourceDrift.to_json`, in order."""


@dataclass(slots=True, kw_only=True)
class Replayed:
    """What a replay has found."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    to: str | None = None
    """Location of the new cube; None if none is compared."""

    was_complete: bool = False
    """Whether the cube at ``to`` was there before, so that no source was read; a remark says so."""

    counts: Counter[Drift] = field(default_factory=Counter)
    """Number of sources by their drift."""

    drifted: list[SourceDrift] = field(default_factory=list)
    """Every source that is not the same, in the order of the cube's rows. New ones come last."""

    remarks: list[str] = field(default_factory=list)
    """What could not be compared, and why."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.counts[each]:,} {each.value}" for each in Drift if self.counts[each])
        return shown(f"Replayed: {self.place}: {counts}", self.remarks)

    @property
    def is_same(self) -> bool:
        """Whether everything was compared and nothing has changed."""
        return not self.drifted and not self.remarks

    def add(self, found: SourceDrift) -> None:
        """Count a source."""
        self.counts[found.drift] += 1
        if found.drift is not Drift.SAME:
            self.drifted.append(found)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        counts: Mapping[str, int] = {each.value: self.counts[each] for each in Drift if self.counts[each]}
        return {
            "cube": self.place,
            "to": self.to,
            "is_same": self.is_same,
            "counts": counts,
            "remarks": self.remarks,
            "drifted": [each.to_json() for each in self.drifted],
        }


def find_drift(
    then: Version, now: Version, *, pixels_are_same: bool | None, are_shared: bool = False
) -> Drift:
    """Return what has changed in one source.

    Args:
        then: As the cube says.
        now: As it was found now.
        pixels_are_same: Result of the comparison; None if the pixels were not read.
        are_shared: Whether the pixels were made of other sources, too. Then they may differ by those.
    """
    if now.status.is_failure:
        if then.status is now.status:
            return Drift.SAME
        was_read = then.status is Status.OK
        return Drift.GONE if was_read and now.status is Status.MISSING else Drift.FAILED_NOW
    if then.status.is_failure and (pixels_are_same is not None or then.status in _NOT_REACHED):
        return Drift.READ_NOW
    is_known = bool(then.etag and now.etag)
    if pixels_are_same is False and not (are_shared and is_known and then.etag == now.etag):
        return Drift.PIXELS_DIFFER
    if is_known:
        return Drift.SAME if then.etag == now.etag else Drift.ETAG_CHANGED
    return Drift.UNKNOWN if pixels_are_same is None else Drift.SAME
