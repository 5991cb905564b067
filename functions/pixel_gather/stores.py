"""Where a gather keeps what it makes: the cube, and the control files of a run that is under way."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from pixel_gather.errors import ArrayExistsError
from pixel_gather.plan.cube_plan import CubePlan, Measurement, claim_of
from pixel_gather.read.read_shard import Pixels

if TYPE_CHECKING:  # what only plan and finish need is not in a worker's start
    from pixel_gather.read.quicklook import Quicklooks
    from pixel_gather.report.report import Report
    from pixel_gather.report.row_coordinates import Coordinate, Values


PLANNED_ANEW: Final = (
    "the cube was removed and has been planned anew since: submit its request again instead of redriving"
)
_REMOVED: Final = "the cube has been removed since it was planned: submit its request again"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCube:
    """A cube that is at the place already."""

    place: str
    """Where it is, as the user wrote it."""

    digest: str
    """Of the plan that it was made by."""

    planned_at: float
    """When that was made, in seconds since 1970-01-01 UTC."""

    report: Mapping[str, Any] | None
    """Its report, where it is complete."""

    @property
    def claim(self) -> str:
        """As `CubePlan.claim`."""
        return claim_of(self.planned_at)

    def check_is_of(self, digest: str) -> None:
        """Refuse a cube of another request or another list.

        Args:
            digest: `pixel_gather.plan.plan.gather_digest` of the gather at hand.

        Raises:
            ArrayExistsError: The cube has another digest.
        """
        if self.digest != digest:
            raise ArrayExistsError(
                f"{self.place}: a cube of another request or another list is there: choose another place"
            )

    def check_can_continue(self, digest: str) -> None:
        """Refuse a cube that a gather cannot continue.

        Raises:
            ArrayExistsError: The cube has another digest, or it is complete.
        """
        self.check_is_of(digest)
        if self.report is not None:
            raise ArrayExistsError(
                f"{self.place}: the cube of this request is complete: there is nothing to gather"
            )

    def complete_report(self) -> "Report | None":
        """Return what a complete cube tells of itself, or None of one that is not."""
        from pixel_gather.report.report import Report  # noqa: PLC0415 # see above

        return None if self.report is None else msgspec.convert(self.report, Report)


def checked_claim(found: FoundCube | None, plan: CubePlan) -> FoundCube:
    """Return what is at a cube's place, if it is still the making of the cube that was planned.

    Raises:
        ArrayExistsError: It was removed, and may have been planned anew since.
    """
    if found is None or found.claim != plan.claim:
        raise ArrayExistsError(_REMOVED if found is None else PLANNED_ANEW)
    return found


class CubeStore(Protocol):
    """One cube, written in an order that leaves none that looks complete before it is."""

    async def found(self) -> FoundCube | None:
        """Return what cube is at the place, or None where the place is empty.

        Raises:
            ArrayExistsError: Something else is there.
        """

    async def create(self, plan: CubePlan) -> CubePlan:
        """Claim the place and describe the measurements.

        Returns:
            The plan, or as it was made by whoever has claimed the place for the same digest before.

        Raises:
            ArrayExistsError: Another gather has claimed it meanwhile, or the cube is complete.
            BusyError: Others are at it, and none of them gets through.
        """

    async def write_shard(
        self, plan: CubePlan, measurement: Measurement, key: tuple[int, int, int], pixels: Pixels
    ) -> int:
        """Compress and store one object in one PUT; return its size in bytes.

        Args:
            plan: The cube.
            measurement: Which array.
            key: Place of the shard in the array's grid.
            pixels: Shape (row, y, x), at most that of a shard.
        """

    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence["Coordinate"]) -> None:
        """Describe the arrays along the first axis, in place of any from an earlier try."""

    async def write_rows(self, start: int, values: Mapping[str, "Values"]) -> None:
        """Write a run of rows of several coordinates."""

    async def write_headers(self, entries: AsyncIterator[Sequence[tuple[str, bytes]]]) -> None:
        """Write what opens each source again without reading its header, for other gathers to use.

        Args:
            entries: Hrefs, each with its source's `pixel_gather.ports.OpenedSource.known`, some at a time;
                nothing is written where there is none.
        """

    async def write_quicklooks(self, quicklooks: Sequence["Quicklooks"]) -> None:
        """Write small pictures of some windows beside the arrays."""

    async def complete(self, plan: CubePlan, report: "Report") -> None:
        """Place the cube on the map, consolidate its metadata and, last of all, say that it is complete.

        Raises:
            ArrayExistsError: The cube was removed, and may have been planned anew since: what is there says
                nothing of being complete.
        """


class ControlStore(Protocol):
    """Small files of one gather: the plan, the list in shard order, the sidecars."""

    async def put(self, key: str, content: bytes) -> None:
        """Write a file whole, in place of any earlier one."""

    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Write a file of any length from parts, holding a few of them at a time."""

    async def get(self, key: str) -> bytes | None:
        """Read a file, or None where there is none."""

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a file that is there."""

    async def list_(self, prefix: str) -> set[str]:
        """Return the keys below a prefix."""

    async def clear(self) -> None:
        """Remove every file: the cube is complete and says itself what they said."""

    def below(self, folder: str) -> Self:
        """Return the store of the files in one folder."""
