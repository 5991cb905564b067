"""What of a table its page draws: the values of all features, or of every n-th one of a large table."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.io.parquet.parquet_batches import blame_file, parquet_batches
from pixel_gather.tables.base_table import BaseTable, floats_of, microseconds_of
from pixel_gather.tables.features import NO_TIME
from pixel_gather.tables.table_receipt import side_path

_BATCH: Final = 65_536
_MOST_VALUES: Final = 4_000_000
"""Of each value that are held."""

_MOST_SHAPES: Final = 3_000

type Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True, kw_only=True)
class DrawnTable:
    """What of a table is drawn."""

    ids: list[Any]
    shapes: np.ndarray[Any, Any]
    """Of shapely, in the order of ids; None where a feature has no coordinates."""

    is_geographic: bool
    names: tuple[str, ...]
    step: int
    """Each ``step``-th feature is drawn."""

    feature: np.ndarray[Any, Any]
    """Of each line with a time: the number of its feature."""

    times: np.ndarray[Any, Any]
    values: dict[str, Floats]
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Lines by status and reason."""


def read_drawn(table: Path, base: BaseTable) -> DrawnTable:
    """Read what of a table is drawn.

    Raises:
        StoreError: A file cannot be read.
    """
    import shapely  # noqa: PLC0415 # seldom needed

    # Only every n-th feature is drawn, so that the page stays small.
    names = tuple(base.receipt["request"]["columns"])
    n, lines = base.receipt["n_features"], base.receipt["lines"]
    step = max(1, -(-lines // _MOST_VALUES), -(-n // _MOST_SHAPES))
    ids: list[Any] = []
    shapes: list[Any] = []
    crs: Any = None
    for schema, batch in _batches(side_path(table, "features")):
        geo = {key.decode(): text for key, text in schema.metadata.items()}["geo"]
        crs = json.loads(geo)["columns"]["geometry"].get("crs")
        ids += batch.column("id").to_pylist()
        shapes += batch.column("geometry").to_pylist()
    # An id that several rows have is drawn by the first of them.
    kept = list(dict.fromkeys(ids))[::step]
    at = {each: index for index, each in enumerate(kept)}
    first = dict(zip(reversed(ids), reversed(shapes), strict=True))
    drawn = DrawnTable(
        ids=kept,
        shapes=shapely.from_wkb(np.array([first[each] for each in kept], object)),
        is_geographic=crs is None or "Geographic" in crs.get("type", ""),
        names=names,
        step=step,
        feature=np.zeros(0, np.int64),
        times=np.zeros(0, np.int64),
        values={},
    )
    # The lines of these features, and how many of all lines failed.
    feature, times = [drawn.feature], [drawn.times]
    values: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in names}
    for _, batch in _batches(table):
        said = zip(batch.column("status").to_pylist(), batch.column("reason").to_pylist(), strict=True)
        drawn.failed.update((status, reason or "") for status, reason in said if status != "ok")
        own = np.array([at.get(each, -1) for each in batch.column("id").to_pylist()], np.int64)
        time = microseconds_of(batch.column("time"))
        is_kept = (own >= 0) & (time != NO_TIME)
        feature.append(own[is_kept])
        times.append(time[is_kept])
        for name in names:
            values[name].append(floats_of(batch.column(name))[is_kept])
    drawn.feature, drawn.times = np.concatenate(feature), np.concatenate(times)
    drawn.values = {name: np.concatenate(parts) for name, parts in values.items()}
    return drawn


def _batches(path: Path) -> Iterator[tuple[Any, Any]]:
    try:
        with path.open("rb") as file, blame_file(str(path)):
            schema, batches = parquet_batches(file, batch_size=_BATCH)
            for batch in batches:
                yield schema, batch
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
