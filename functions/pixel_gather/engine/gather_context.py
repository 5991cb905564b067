"""What the steps of a gather share, as one value that they pass on."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.stores import ControlStore, CubeStore


class GatherStores(Struct, frozen=True, kw_only=True):
    """Where a gather writes. A finish needs no more."""

    cube: CubeStore
    """Where the cube is, or is to be."""

    control: ControlStore
    """Where the control files are: those of all plans, or of one."""

    def of_plan(self, claim: str) -> Self:
        """Return the same with the control files of one plan.

        Args:
            claim: `pixel_gather.core.plan.cube_plan.CubePlan.claim` of the plan.
        """
        return replace(self, control=self.control.below(claim))


class GatherContext(GatherStores, frozen=True, kw_only=True):
    """Where a gather writes, and how it reads."""

    sources: SourceAccess


async def always() -> None:
    """Raise no error: nothing forbids writing."""
