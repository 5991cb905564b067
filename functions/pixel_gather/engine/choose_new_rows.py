"""Which rows of a list a cube lacks, and which of its shards they continue. Pure."""

from collections.abc import Container, Mapping
from copy import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.reduced_table import ReducedTable, reduced_table
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.ports import Projector, SourceTable
from pixel_gather.core.results.contributors import CONTRIBUTORS
from pixel_gather.engine.base_cube import Base
from pixel_gather.engine.new_chips import choose_chips

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

_NO_SLOTS: Final = frozenset[int]()


def choose_rows(
    request: "GatherRequest", whole: SourceTable, base: Base, projector: Projector
) -> SourceTable:
    """Return the rows of a list that are to be gathered, in groups if the request reduces them.

    Args:
        request: The checked request. Its ``duplicates`` says what becomes of rows that the cube has.
        whole: The list, with its bands in the cube's order.
        base: What the rows are added to.
        projector: For days by the sun.

    Raises:
        RequestError: The cube has some of the rows, and the request forbids it. Or it has a row to which more
            scenes would belong.
    """
    if base.append.is_first:
        return reduced_table(request, whole, projector)
    if isinstance(whole, ChipTable):
        return choose_chips(request, whole, base)
    if request.reduce is not None:
        return _choose_groups(request, whole, base, projector)
    if request.duplicates == "again":
        return whole
    assert isinstance(whole, TableView)  # noqa: S101 # the cube has an order of bands
    return _leave_out_known(request, whole, *_read_known(base))


def _choose_groups(
    request: "GatherRequest", whole: SourceTable, base: Base, projector: Projector
) -> SourceTable:
    """Return the groups that a cube lacks, without the scenes that it has.

    Raises:
        RequestError: A row of the cube would have to change.
    """
    assert isinstance(whole, TableView)  # noqa: S101 # the cube has an order of bands
    assert request.reduce is not None  # noqa: S101 # the caller's
    if request.duplicates == "again":
        raise RequestError(
            "a scene enters a row once: leave it out, or write skip or fail", field="duplicates"
        )
    # What has the cube?
    hrefs: set[str] = set()
    groups: set[Any] = set()
    by = request.reduce.by if base.template is not None and not base.template.has_time else "time"
    left = base.append.first_row  # the table of an append that was not committed has more
    for batch in base.rows:
        hrefs.update(line["href"] for lines in batch[CONTRIBUTORS][:left].tolist() for line in lines)
        groups.update(batch[by][:left].tolist())
        left -= min(len(batch["href"]), left)
    # Other scenes of a group that is there would change its row.
    found = reduced_table(request, _leave_out_known(request, whole, hrefs, {}), projector)
    assert isinstance(found, ReducedTable)  # noqa: S101 # as above
    for row, group in enumerate(found.groups):
        if group in groups:
            scene = next(each for each in next(found.rows(row, row + 1)).members[0].sources if each)
            raise RequestError(
                f"the cube has the row {request.reduce.by} {_in_words(group, by)}, which stays as it is, and "
                f"lacks {counted(found.n_scenes_of(row), 'scene')} of it, such as {shown_href(scene.href)}. "
                "Leave them out, or gather a new cube",
                field="sources",
            )
    return found


def _in_words(group: Any, by: str) -> str:
    """Return a period by its first day, or a value as it is."""
    return str(np.datetime64(group, "us").astype("datetime64[D]")) if by == "time" else str(group)


def _leave_out_known(
    request: "GatherRequest", whole: TableView, hrefs: set[str], scenes: Mapping[str, frozenset[int]]
) -> TableView:
    """Return the rows of a list that are not known, or refuse the list.

    A scene that the cube has without a band is not known if the list has the band. No row of a cube gets a
    band later, so the scene becomes a row once more.
    """
    kept: list[int] = []
    known: list[int] = []
    completed: list[Source] = []
    for index, row in enumerate(whole.rows(0, whole.n_rows)):
        late = _late_band(row, hrefs, scenes)
        (known if late is None and _is_known(row, hrefs, scenes) else kept).append(index)
        if late is not None:
            completed.append(late)
    if known and request.duplicates == "fail":
        first = next(each for row in whole.rows(known[0], known[0] + 1) for each in row.sources if each)
        raise RequestError(
            f"the cube already has {counted(len(known), 'row')} of this list, such as "
            f"{shown_href(first.href)}. Leave them out of the list, or set duplicates to skip or again",
            field="duplicates",
        )
    if not completed:
        return replace(whole, kept=kept)
    note = (
        f"{counted(len(completed), 'scene')} of the cube lacked a band that the list has, such as "
        f"{shown_href(completed[0].href)}. Each became a row of its own, beside the row without the band"
    )
    return replace(whole, kept=kept, own_notes=(note,))


def _read_known(base: Base) -> tuple[set[str], dict[str, frozenset[int]]]:
    """Return the hrefs of the cube's rows, and for each of its scenes the slots that no row of it fills."""
    hrefs: set[str] = set()
    scenes: dict[str, frozenset[int]] = {}
    has_scenes = base.template is not None and any(each.name == "scene" for each in base.template.columns)
    left = base.append.first_row  # the table of an append that was not committed has more
    for batch in base.rows:
        hrefs.update(batch["href"][:left].ravel().tolist())
        if has_scenes:
            of_rows = zip(_by_slot(batch["scene"][:left]), _by_slot(batch["href"][:left]), strict=True)
            for names, there in of_rows:
                lacking = (
                    _NO_SLOTS if all(there) else frozenset(at for at, href in enumerate(there) if not href)
                )
                for name in filter(None, names):
                    scenes[name] = scenes[name] & lacking if name in scenes else lacking
        left -= min(len(batch["href"]), left)
    return hrefs, scenes


def _by_slot(values: np.ndarray[Any, Any]) -> list[list[str]]:
    """Return the values of each row as a list: one for each slot, or one for the row."""
    rows = values.tolist()
    return [[each] for each in rows] if values.ndim == 1 else cast("list[list[str]]", rows)


def _late_band(row: CubeRow, hrefs: set[str], scenes: Mapping[str, frozenset[int]]) -> Source | None:
    """Return a source of a band that the cube lacks of this scene; None if there is none."""
    return next(
        (
            each
            for slot, each in enumerate(row.sources)
            if each is not None
            and each.scene is not None
            and slot in scenes.get(each.scene, ())
            and each.href not in hrefs
        ),
        None,
    )


def _is_known(row: CubeRow, hrefs: set[str], scenes: Container[str]) -> bool:
    """Return whether the cube has a row's scene, or all of its sources."""
    sources = [each for each in row.sources if each is not None]
    return any(each.scene in scenes for each in sources) or all(each.href in hrefs for each in sources)


def find_tails(plan: CubePlan, base: Base) -> tuple[str, ...]:
    """Return the keys of the shards that the first new rows share with rows of the cube."""
    place, n_before = divmod(plan.first_row, plan.layout.shard[0])
    if not n_before:
        return ()
    return tuple(key for key in plan.keys_at(place) if key in base.shards)
