"""Archives: cubes that are made for each other, so that they can be joined into one array.

The first gather of an archive stores its template as ``NAME.archive.json`` beside its cube. It is put only if
there is none, so of several first gathers at once one wins. All others plan by its template.
"""

import json
from copy import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pixel_gather.core.errors import StoreError
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate, check_layout
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.stores import ArchiveStore

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

_FORMAT: Final = 1


async def read_archive(request: "GatherRequest", archive: ArchiveStore | None) -> CubeTemplate | None:
    """Return what a request's archive prescribes; None without an archive, or for its first gather.

    Args:
        request: The checked request.
        archive: The folder of cubes.

    Raises:
        RequestError: The request has another layout than the first gather.
        StoreError: The archive's file is damaged, or cannot be read.
    """
    if request.output.archive is None or archive is None:
        return None
    key = _key(request.output.archive)
    there = await archive.read_object(key)
    if there is None:
        return None
    try:
        content = json.loads(there.content)
        if content["format"] != _FORMAT:
            raise StoreError(f"{key}: it has format {content['format']}; this version reads {_FORMAT}")
        template = CubeTemplate.from_json(content["template"])
        layout = content.get("layout")  # earlier versions left it out
        if isinstance(layout, dict):
            list(layout["chunk"])
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise StoreError(f"{key}: the archive's file is damaged") from error
    check_layout(template, request.output, None if layout is None else {"layout": layout})
    return template


async def pin_archive(request: "GatherRequest", plan: CubePlan, archive: ArchiveStore | None) -> bool:
    """Store what a plan prescribes to later gathers of its archive.

    Returns:
        False if another gather was first: plan again by its template.
    """
    if request.output.archive is None or archive is None:
        return True
    template = CubeTemplate.of(plan, is_aligned=request.shares_grid)
    layout = request.to_json()["output"].get("layout", "balanced")
    return await _put_template(request.output.archive, template, plan.digest, archive, layout=layout)


async def copy_archive(
    request: "GatherRequest", of_cube: CubeTemplate, digest: str, to: ArchiveStore
) -> None:
    """Store what a cube has of its archive in another folder, for a gather of the same request there.

    Nothing is done without an archive, or if the folder has one of this name.

    Args:
        request: The cube's.
        of_cube: What the cube prescribes.
        digest: The cube's.
        to: The folder.
    """
    if request.output.archive is None:
        return
    is_aligned = of_cube.is_aligned and (request.shares_grid or of_cube.resolution is not None)
    layout = request.to_json()["output"].get("layout")  # the archive's first gather may have had another
    template = replace(of_cube, is_aligned=is_aligned)
    await _put_template(request.output.archive, template, digest, to, layout=layout)


async def _put_template(
    name: str, template: CubeTemplate, digest: str, archive: ArchiveStore, *, layout: Any
) -> bool:
    """Put the file of an archive. Return False if it is there. A layout that is not known is None."""
    content = {"format": _FORMAT, "digest": digest, "layout": layout, "template": template.to_json()}
    return (
        await archive.put_object(_key(name), json.dumps(content, indent=2).encode(), replaces=None)
        is not None
    )


def order_bands(table: SourceTable, template: CubeTemplate | None) -> SourceTable:
    """Return a list with its bands in the order of a template.

    Raises:
        RequestError: The list has bands that the template does not have.
    """
    if template is None:
        return table
    if isinstance(table, ChipTable):
        return replace(table, table=order_bands(table.table, template))
    return TableView(
        table=table,
        bands=tuple(each.name for each in template.slots if each.name is not None),
        slot_order=template.slot_order(table.bands),
        kept=range(table.n_rows),
    )


def _key(name: str) -> str:
    return f"{name}.archive.json"
