"""Which images are tiles of one acquisition, so that a zone across them has one line. Pure.

They are of one collection and platform, and each is within 45 seconds of the next. Pixels of one size lie on
one grid. Images of one place and second are processings of one scene, as in
`pixel_gather.core.scenes.duplicates`: each is of an acquisition of its own.
"""

import json
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import xxhash

from pixel_gather.core.model.source import CubeRow, Header
from pixel_gather.core.scenes.duplicates import SAME_TIME_US
from pixel_gather.tables.features import Integers
from pixel_gather.tables.part_folder import ImageRecord

_LONGEST_GAP_US: Final = 45_000_000
"""Between neighbours along the path. Landsat's follow each other after 24 s, Sentinel-1's after 25 s."""

_MOST_PIXELS: Final = 2**31
_DIGITS: Final = 2
"""Of the part of a pixel by which a grid lies off the origin of its CRS."""

WHOLE_SHIFT: Final = 0.5 / 10**_DIGITS
"""Grids that are so much of a pixel off each other are one."""


def find_acquisition(row: CubeRow, header: Header) -> tuple[str, tuple[int, ...]]:
    """Return what images of one acquisition share, and the place of an image on their grid.

    The row's list has a column ``platform``, and may have a column ``collection``.

    Returns:
        ``acquisition`` and ``place`` of an `ImageRecord`. Both are empty if it is not known, or has no grid
        whose rows run from west to east.
    """
    columns = next((source.columns for source in row.sources if source is not None), {})
    platform, transform = columns.get("platform"), header.transform
    if not platform or row.time_us is None or transform is None or header.crs is None:
        return "", ()
    if not (transform.is_usable and transform.is_rectilinear and transform.e < 0 < transform.a):
        return "", ()
    corner = transform.c / transform.a, transform.f / transform.e
    shifts = [round(at - math.floor(at), _DIGITS) % 1 for at in corner]
    first = [round(at - shift) for at, shift in zip(corner, shifts, strict=True)]
    if max(map(abs, first)) + header.width + header.height >= _MOST_PIXELS:
        return "", ()
    size = [f"{each:.9g}" for each in (transform.a, transform.e)]
    shared = [columns.get("collection"), platform, header.crs, size, shifts]
    return xxhash.xxh3_64(json.dumps(shared).encode()).hexdigest(), (*first, header.width, header.height)


class Groups(NamedTuple):
    """How images belong together. An image of no known acquisition is alone."""

    passes: Integers
    """The pass of each image, a number from 0. More images may join two passes, and part none."""

    acquisitions: Integers
    """The acquisition of each image, a number from 0: its pass without other processings of its scenes. One
    more image may change which of two processings belongs to the others."""

    ranks: Integers
    """Of each image among all. They do not depend on the order of the list."""


def group_images(records: Sequence[ImageRecord]) -> Groups:
    """Return the pass, the acquisition and the rank of each image."""
    order = sorted(range(len(records)), key=lambda at: (records[at].time_us or 0, records[at].key, at))
    ranks, groups, passes = np.zeros(len(records), np.int64), np.arange(len(records)), np.arange(len(records))
    ranks[order] = np.arange(len(records))
    found: dict[str, tuple[list[int], list[int]]] = {}
    for at in order:
        record = records[at]
        if not record.acquisition or record.time_us is None:
            continue
        members, numbers = found.setdefault(record.acquisition, ([], []))
        if members and record.time_us - (records[members[-1]].time_us or 0) > _LONGEST_GAP_US:
            members.clear()
            numbers.clear()
        n_before = sum(_is_same_scene(records[each], record) for each in members)
        members.append(at)
        if n_before == len(numbers):
            numbers.append(at)
        groups[at], passes[at] = numbers[n_before], members[0]
    return Groups(passes, groups, ranks)


def _is_same_scene(one: ImageRecord, other: ImageRecord) -> bool:
    return one.place == other.place and abs((one.time_us or 0) - (other.time_us or 0)) < SAME_TIME_US
