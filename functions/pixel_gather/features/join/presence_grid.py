"""Grids of presence that are stored with a joined array."""

from typing import Any, Final

import numpy as np
from zarr.abc.store import Store as ZarrStore

from pixel_gather.core.results.presence import Presence
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.features.join.joined_group import JoinedGroup, create_array, group_document, put_object
from pixel_gather.io.cube.bounded_codecs import bounded

_GRIDS: Final = "grids"
_GRID_CHUNK: Final = 1 << 16
"""Values in one chunk of a grid of presence: 1,024 blocks of 64 bytes."""


def write_grid(store: ZarrStore, name: str, by: str, number: int, grid: Presence) -> None:
    """Store a grid of presence, compressed, in chunks of whole blocks. Replaces an older one."""
    folder = f"{name}/{_GRIDS}/{number}"
    attributes = {
        "by": by,
        "names": list(grid.names),
        "shape": list(grid.shape),
        "n_left_out": grid.n_left_out,
        "units": [np.datetime_data(each.dtype)[0] if each.dtype.kind == "M" else "" for each in grid.labels],
    }
    put_object(store, f"{name}/{_GRIDS}/zarr.json", group_document({}))
    put_object(store, f"{folder}/zarr.json", group_document(attributes))
    labels = {
        f"labels_{n}": each.astype("int64") if each.dtype.kind == "M" else each
        for n, each in enumerate(grid.labels)
    }
    parts: dict[str, Values] = {
        "bits": grid.bits,
        "ranks": grid.ranks,
        "starts": grid.starts,
        "order": grid.order,
    }
    for part, values in (parts | labels).items():
        create_array(store, f"{folder}/{part}", values, (part,), {}, chunk=_GRID_CHUNK)


def read_grid(joined: JoinedGroup, by: str) -> Presence | None:
    """Return a stored grid of presence, or None if this one is not stored."""
    if by not in joined.record["by"]:
        return None
    with bounded():
        group: Any = joined.group[f"{_GRIDS}/{joined.record['by'].index(by)}"]
        arrays = dict(group.arrays())
    part = {name: np.asarray(array[...]) for name, array in arrays.items()}
    labels = tuple(
        part[f"labels_{n}"].astype(f"datetime64[{unit}]") if unit else part[f"labels_{n}"]
        for n, unit in enumerate(group.attrs["units"])
    )
    return Presence(
        names=tuple(group.attrs["names"]),
        labels=labels,
        bits=part["bits"],
        ranks=part["ranks"],
        starts=part["starts"],
        order=part["order"],
        n_left_out=int(group.attrs["n_left_out"]),
    )
