"""Which measurements a new cube has: their dtypes, nodata and scaling, and which band masks them. Pure."""

from collections.abc import Sequence
from copy import replace
from typing import TYPE_CHECKING

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import BandMeaning, has_classes
from pixel_gather.core.model.scaling import SCALED, fits_dtype
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.core.plan.cube_plan import BAND, BANDS, Measurement, StoredValues
from pixel_gather.core.plan.slot_draft import Draft
from pixel_gather.core.ports import SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest


def choose_measurements(drafts: Sequence[Draft], request: "GatherRequest") -> list[Measurement]:
    """Return a new cube's measurements: all bands of all drafts, in their order.

    Raises:
        RequestError: The sources need a nodata value, or that of the request does not fit them. Or the
            request wants values that are not raw, and a file holds classes beside other bands.
    """
    found = []
    for index, draft in enumerate(drafts):
        names = [draft.slot.name or f"band_{band}" for band in draft.slot.bands]
        # Classes and masks keep their values. A file of both kinds has to be split by bands.
        stay = {
            name
            for name, band in zip(names, draft.slot.bands, strict=True)
            if _stays_raw(name, draft.meaning(band), request)
        }
        if stay and len(stay) < len(names):
            raise RequestError(
                f"{min(stay)} holds classes or is the mask, and its files hold other bands, too: gather it "
                "by a list with a column band",
                field="values",
            )
        # Is there a nodata value, and does it fit?
        for band, name, (scale, offset) in zip(draft.slot.bands, names, draft.scalings, strict=True):
            if request.nodata is not None and not fits_dtype(request.nodata, draft.header.dtype):
                raise RequestError(
                    f"{request.nodata} does not fit {draft.header.dtype}; give a value that does",
                    field="nodata",
                )
            if draft.nodata is None and request.masked:
                raise RequestError(
                    "masked pixels need a nodata value, and the sources declare none: give one",
                    field="nodata",
                )
            raw = Measurement(
                name=name,
                slot=index,
                dtype=draft.header.dtype,
                nodata=draft.nodata,
                scale=draft.header.scales[band - 1],
                offset=draft.header.offsets[band - 1],
                meaning=draft.meaning(band),
            )
            # How are the pixels stored?
            if name in stay:
                found.append(raw)
            elif request.values == "harmonised":
                found.append(replace(raw, scale=scale, offset=offset))
            else:
                stored = StoredValues(nodata=draft.nodata, scale=scale, offset=offset)
                found.append(replace(raw, dtype=SCALED, nodata=None, scale=1.0, offset=0.0, stored=stored))
    return found


def _stays_raw(name: str, meaning: BandMeaning, request: "GatherRequest") -> bool:
    """Return whether a band keeps its numbers: those of a mask are classes, which no scale makes values."""
    if request.values == "raw" or (request.mask is not None and name == request.mask.band):
        return True
    return request.values == "scaled" and has_classes(name, meaning)


def mask_of_cube(request: "GatherRequest", measurements: Sequence[Measurement]) -> PixelMask | None:
    """Return a new cube's mask.

    Raises:
        RequestError: The cube has no such band. Or hidden pixels of another band would look like values.
    """
    if request.mask is None:
        return None
    mask = request.mask.mask()
    band = next((each for each in measurements if each.name == mask.band), None)
    if band is None:
        raise RequestError(
            f"the cube has no band {mask.band}; it has {', '.join(each.name for each in measurements)}. "
            "Name it among the sources, too",
            field="mask.band",
        )
    if np.dtype(band.dtype).kind not in "iu":
        raise RequestError(f"{mask.band} is {band.dtype}, and a mask has whole numbers", field="mask.band")
    for each in measurements if request.reduce is None else ():  # scenes are not stored: see `Outcome.inside`
        if not each.marks_missing and each.name != mask.band:
            raise RequestError(
                f"hidden pixels need a nodata value, and the sources of {each.name} declare none: give one",
                field="nodata",
            )
    return mask


def check_band_axis(measurements: Sequence[Measurement], table: SourceTable) -> None:
    """Refuse bands that one array cannot hold, or whose array would have the name of a column."""
    first = measurements[0]
    for each in measurements[1:]:
        for what, ours, theirs in (
            ("dtype", first.dtype, each.dtype),
            ("nodata", str(first.nodata), str(each.nodata)),
            ("scale", first.scale, each.scale),
            ("offset", first.offset, each.offset),
        ):
            if ours != theirs:
                raise RequestError(
                    f"bands along one axis have one {what}, but {first.name} has {ours} and {each.name} "
                    f"{theirs}: leave one of them out, or write arrays",
                    field="output.bands",
                )
    if twice := next((each.name for each in table.columns if each.name in (BANDS, BAND)), None):
        raise RequestError(
            f"a cube with an axis of bands has {twice} already: rename the column {twice}", field="sources"
        )
