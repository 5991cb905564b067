"""Splits chips so that no two parts hold neighbours. Pure."""

from collections.abc import Mapping
from itertools import product
from numbers import Real
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted

_EARTH_KM: Final = 6371.0088
_ROUNDING: Final = 1e-9

type Floats = np.ndarray[Any, np.dtype[np.float64]]
type Integers = np.ndarray[Any, np.dtype[np.int64]]


def places_apart(lons: Floats, lats: Floats, *, apart_km: float) -> Integers:
    """Return the number of each chip's place. Chips nearer than ``apart_km`` have the same place.

    Chips are put into cubes of that side, and places are cubes that touch. So chips up to some three times as
    far from each other may share a place, too.
    """
    lon, lat = np.radians(lons), np.radians(lats)
    xyz = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    cells, of_chip = np.unique(
        np.floor(xyz * _EARTH_KM / apart_km).astype(np.int64), axis=0, return_inverse=True
    )
    number = {tuple(cell): index for index, cell in enumerate(cells.tolist())}
    parent = list(range(len(cells)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    steps = [step for step in product((-1, 0, 1), repeat=3) if step > (0, 0, 0)]
    for (x, y, z), index in number.items():
        for dx, dy, dz in steps:
            other = number.get((x + dx, y + dy, z + dz))
            if other is not None:
                parent[root(index)] = root(other)
    roots = np.array([root(index) for index in range(len(cells))])
    _, found = np.unique(roots[of_chip.ravel()], return_inverse=True)
    return found.ravel().astype(np.int64)


def share_out(places: Integers, shares: Mapping[str, float], *, seed: int) -> dict[str, Integers]:
    """Give whole places to parts, each time to the part that lacks most of its share.

    Chips beyond the shares are in no part.

    Returns:
        For each part, which chips it has, ascending.

    Raises:
        RequestError: A share is not positive, they add up to more than 1, or a part gets no chip.
    """
    if not all(isinstance(each, Real) and each > 0 for each in shares.values() or (0,)):
        raise RequestError("give each part a share above 0, such as train=0.8", field="shares")
    if (total := sum(shares.values())) > 1 + _ROUNDING:
        raise RequestError(f"they add up to {total:g}; the most is 1", field="shares")
    counts = np.bincount(places)
    order = np.random.default_rng(seed).permutation(len(counts))
    names = list(shares)
    beyond = 1 - total if total < 1 - _ROUNDING else 0
    wanted = np.array([*(float(shares[name]) for name in names), beyond]) * len(places)
    part_of = np.zeros(len(counts), np.int64)
    for place in order[np.argsort(-counts[order], kind="stable")]:  # large ones first: they fit worst
        part = int(np.argmax(wanted))
        part_of[place] = part
        wanted[part] -= counts[place]
    found = {name: np.flatnonzero(part_of[places] == at) for at, name in enumerate(names)}
    if empty := next((name for name, chips in found.items() if not len(chips)), None):
        raise RequestError(
            f"the chips are at {counted(len(counts), 'place')}, too few for these parts: {empty} would have "
            "none. Give a smaller apart_km",
            field="apart_km",
        )
    return found
