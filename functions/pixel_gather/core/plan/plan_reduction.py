"""What becomes of the measurements of scenes that are reduced to one row. Pure."""

import math
from collections.abc import Sequence
from copy import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandMeaning, has_classes
from pixel_gather.core.plan.choose_layout import Layout, plan_layout
from pixel_gather.core.plan.cube_plan import CHOSEN, Append, Measurement, Reduction, SourceSlot
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.reduced_table import ReducedTable, most_scenes
from pixel_gather.core.ports import SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest

_OF_COMPLEX: Final = ("first", "last")
"""Statistics of complex numbers, beside ``count``."""

_COUNTS: Final = BandMeaning(unit="1")
"""CF's unit of numbers of things. A measurement with a unit is an amount, and no map of few classes."""

_MOST_COUNTED: Final = 65_535
_NARROW_NBYTES: Final = 2
"""Integers of up to this size have all of their medians in float32."""


def reduced_measurements(
    request: "GatherRequest",
    slots: Sequence[SourceSlot],
    measurements: Sequence[Measurement],
    *,
    n_scenes: int,
) -> tuple[tuple[SourceSlot, ...], tuple[Measurement, ...]]:
    """Return slots and measurements of the cube, from those of its scenes. The mask's band is left out.

    Raises:
        RequestError: A band has no such statistic.
    """
    assert request.reduce is not None  # noqa: S101 # the caller's
    statistic, mask = request.reduce.statistic, None if request.mask is None else request.mask.band
    kept_slots: list[SourceSlot] = []
    found: list[Measurement] = []
    for at, slot in enumerate(slots):
        of_slot = [each for each in measurements if each.slot == at]
        kept = [each for each in of_slot if each.name != mask]
        if kept:
            made = [
                _reduce_measurement(each, statistic, slot=len(kept_slots), n_scenes=n_scenes) for each in kept
            ]
            bands = [band for band, each in zip(slot.bands, of_slot, strict=True) if each.name != mask]
            kept_slots.append(replace(slot, bands=tuple(bands), dtype=made[0].dtype))
            found += made
    if not found:
        raise RequestError("the mask is the only band: name another one, too", field="mask.band")
    return tuple(kept_slots), tuple(found)


def _reduce_measurement(measurement: Measurement, statistic: str, *, slot: int, n_scenes: int) -> Measurement:
    """Return what a measurement becomes."""
    name, dtype = measurement.name, np.dtype(measurement.dtype)
    if statistic == "count":
        counted = "uint16" if n_scenes <= _MOST_COUNTED else "uint32"
        return Measurement(
            name=name, slot=slot, dtype=counted, nodata=None, scale=1.0, offset=0.0, meaning=_COUNTS
        )
    if dtype.kind == "c" and statistic not in _OF_COMPLEX:
        why = "no mean is made of them" if statistic == "mean" else "complex numbers have no order"
        raise RequestError(
            f"{name} is {dtype}, and {why}: write count, {' or '.join(_OF_COMPLEX)}", field="reduce.statistic"
        )
    if statistic in CHOSEN:
        if not measurement.marks_missing:
            raise RequestError(
                f"where no scene has a pixel, a row needs nodata, and the sources of {name} declare none: "
                "give one",
                field="nodata",
            )
        return replace(measurement, slot=slot, stored=None)
    if has_classes(name, measurement.meaning):
        raise RequestError(
            f"{name} holds classes, which have no {statistic}: leave it out, or name it as the mask",
            field="reduce.statistic",
        )
    is_narrow = dtype == np.float32 or (dtype.kind in "iu" and dtype.itemsize <= _NARROW_NBYTES)
    return replace(
        measurement, slot=slot, dtype="float32" if is_narrow else "float64", nodata=None, stored=None
    )


def reduced_layout(
    request: "GatherRequest",
    table: ReducedTable,
    shape: tuple[int, int, int],
    measurements: Sequence[Measurement],
    *,
    scene_nbytes: float,
    max_task_nbytes: int,
) -> Layout:
    """Return the layout of a cube whose workers hold all scenes of a row at once.

    Args:
        request: The checked request.
        table: The groups.
        shape: (rows, y, x) of the cube.
        measurements: Those of the cube.
        scene_nbytes: Bytes that a worker holds of one pixel of one scene.
        max_task_nbytes: Largest size of a task. Larger windows are split into strips along y.
    """
    sizes = [np.dtype(each.dtype).itemsize for each in measurements]
    n_together = math.ceil((sum(sizes) + table.most_in(1) * scene_nbytes) / max(sizes))
    return plan_layout(
        shape,
        itemsize=max(sizes),
        n_measurements=n_together,
        n_in_object=n_together,
        wanted=request.output.layout,
        is_sharded=request.output.sharding,
        max_task_nbytes=max_task_nbytes,
    )


def reduction_by(template: CubeTemplate, append: Append, table: SourceTable | None) -> Reduction | None:
    """Return how the scenes of a gather become rows, as the cube prescribes it. None if each row is one.

    Args:
        template: The cube's.
        append: Where the rows go, and which ones are reduced anew.
        table: The new rows; None if there are none.
    """
    if template.reduce is None:
        return None
    shard_rows, again = template.layout.shard[0], zip(append.again, append.scenes_again, strict=True)
    new = table if isinstance(table, ReducedTable) else None
    return Reduction(
        by=template.reduce["by"],
        statistic=template.reduce["statistic"],
        order=template.reduce.get("order"),
        slots=template.scene_slots,
        measurements=template.scene_measurements,
        mask=template.mask,
        columns=template.scene_columns,
        n_scenes=sum(append.scenes_again) + (0 if new is None else new.n_scenes),
        most_scenes=most_scenes(again, shard_rows) if new is None else new.most_in(shard_rows, append=append),
    )
