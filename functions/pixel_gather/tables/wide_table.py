"""A table as a wide CSV: a line for each feature, a column for each value and time."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pixel_gather.io.atomic_write import replacing
from pixel_gather.tables.part_folder import NO_VALUES
from pixel_gather.tables.table_receipt import side_path


def write_wide(table: Path, to: Path) -> int:
    """Write a table anew, feature by feature. Memory does not grow with the number of features.

    If several images have one time, or none, the first of them with a value counts. The file is replaced.

    Returns:
        The number of values that were left out, as an earlier image of their feature and time has one.

    Raises:
        StoreError: The file cannot be written.
    """
    from arro3.io import read_parquet  # noqa: PLC0415 # 0.1 s, for Parquet alone

    times: dict[str, None] = {}
    for batch in read_parquet(side_path(table, "images")):
        times.update(dict.fromkeys(_text(each) for each in batch.column("time").to_pylist()))
    reader = read_parquet(table)
    values = [name for name in reader.schema.names if name not in (*NO_VALUES, "valid")]
    shorten = all(each.endswith("T00:00:00Z") for each in times if each)
    titles = {each: (each.removesuffix("T00:00:00Z") if shorten else each) or "no time" for each in times}
    with replacing(to) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        several = len(values) > 1
        writer.writerow(
            [
                "id",
                *(f"{name} {titles[each]}" if several else titles[each] for each in times for name in values),
            ]
        )
        n_left_out = 0
        for key, found, n_twice in _by_feature(reader, values):
            writer.writerow([key, *(found.get((each, name), "") for each in times for name in values)])
            n_left_out += n_twice
    return n_left_out


def _by_feature(reader: Any, values: list[str]) -> Iterator[tuple[Any, dict[tuple[str, str], float], int]]:
    """Yield each id, its first value for each time and name, and how many further values were left out.

    Features with the same id become one.
    """
    last: Any = None
    found: dict[tuple[str, str], float] = {}
    n_known = 0
    for batch in reader:
        columns = [batch.column(name).to_pylist() for name in ("id", "time", *values)]
        for key, time, *row in zip(*columns, strict=True):
            if key is None:
                continue
            if last is not None and key != last:
                yield last, found, n_known - len(found)
                found, n_known = {}, 0
            last = key
            for name, value in zip(values, row, strict=True):
                if value is not None:
                    found.setdefault((_text(time), name), value)
                    n_known += 1
    if last is not None:
        yield last, found, n_known - len(found)


def _text(time: Any) -> str:
    return "" if time is None else f"{time.replace(tzinfo=None).isoformat()}Z"
