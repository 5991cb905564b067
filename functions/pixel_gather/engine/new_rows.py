"""Which rows of a list a cube lacks, and which of its shards they continue. Pure."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.ports import SourceTable
from pixel_gather.engine.base import Base

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest


def choose_rows(request: "GatherRequest", whole: SourceTable, base: Base) -> SourceTable:
    """Return the rows of a list that are to be gathered.

    Args:
        request: The checked request. Its ``duplicates`` says what becomes of rows that the cube has.
        whole: The list, with its bands in the cube's order.
        base: What the rows are added to.

    Raises:
        RequestError: The cube has some of the rows, and the request forbids it.
    """
    if base.append.is_first or request.duplicates == "again":
        return whole
    assert isinstance(whole, TableView)  # noqa: S101 # the cube has an order of bands
    # Which rows has the cube?
    hrefs, scenes = _read_known(base)
    kept: list[int] = []
    known: list[int] = []
    for index, row in enumerate(whole.rows(0, whole.n_rows)):
        (known if _is_known(row, hrefs, scenes) else kept).append(index)
    # Leave them out, or refuse the list.
    if known and request.duplicates == "fail":
        first = next(each for row in whole.rows(known[0], known[0] + 1) for each in row.sources if each)
        raise RequestError(
            f"the cube already has {counted(len(known), 'row')} of this list, such as {first.href}. Leave "
            "them out of the list, or set duplicates to skip or again",
            field="duplicates",
        )
    return replace(whole, kept=kept)


def _read_known(base: Base) -> tuple[set[str], set[str]]:
    """Return the hrefs and the scenes of the cube's rows."""
    hrefs: set[str] = set()
    scenes: set[str] = set()
    has_scenes = base.template is not None and any(each.name == "scene" for each in base.template.columns)
    left = base.append.first_row  # the table of an append that was not committed has more
    for batch in base.rows:
        hrefs.update(batch["href"][:left].ravel().tolist())
        if has_scenes:
            scenes.update(batch["scene"][:left].ravel().tolist())
        left -= min(len(batch["href"]), left)
    return hrefs, scenes - {""}


def _is_known(row: CubeRow, hrefs: set[str], scenes: set[str]) -> bool:
    """Return whether the cube has a row's scene, or all of its sources."""
    sources = [each for each in row.sources if each is not None]
    return any(each.scene in scenes for each in sources) or all(each.href in hrefs for each in sources)


def find_tails(plan: CubePlan, base: Base) -> tuple[str, ...]:
    """Return the keys of the shards that the first new rows share with rows of the cube."""
    place, n_before = divmod(plan.first_row, plan.layout.shard[0])
    if not n_before:
        return ()
    strips = range(plan.n_strips)
    return tuple(key for strip in strips for key in plan.object_keys(place, strip) if key in base.shards)
