"""Reads what a cube tells of its rows: for an append, which goes on from there."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pixel_gather.core.errors import ArrayExistsError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.contributors import CONTRIBUTORS, unpacked_lines
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.stores import RECEIPT_KEY, EarlierRows
from pixel_gather.io.cube.cube_files import CubeFiles
from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table
from pixel_gather.io.cube.stored_receipt import parse_receipt
from pixel_gather.io.header_index import HEADERS_KEY, stored_entries
from pixel_gather.io.parquet.parquet_batches import blame_file


async def read_table_of_rows(cube: CubeFiles) -> tuple[Mapping[str, Any], Iterator[Mapping[str, Values]]]:
    """Return the metadata and the rows of ``rows.parquet``; see `pixel_gather.core.stores.CubeStore`."""
    content = (await cube.read_needed(ROWS_KEY)).content
    with blame_file(f"{cube.place}: {ROWS_KEY}"):
        metadata, batches = read_row_table(content)

    def rows() -> Iterator[Mapping[str, Values]]:
        with blame_file(f"{cube.place}: {ROWS_KEY}"):
            yield from _with_lines(batches)

    return metadata, rows()


def _with_lines(batches: Iterator[Mapping[str, Values]]) -> Iterator[Mapping[str, Values]]:
    """Yield batches of rows, with the lines of the sources that each row was reduced of."""
    for batch in batches:
        lines = {CONTRIBUTORS: unpacked_lines(batch[CONTRIBUTORS])} if CONTRIBUTORS in batch else {}
        yield {**batch, **lines}


async def read_earlier_rows(cube: CubeFiles, plan: CubePlan) -> EarlierRows:
    """Read the report, the receipt, ``rows.parquet`` and ``headers.parquet``; see as above.

    Raises:
        ArrayExistsError: The cube was removed.
        StoreError: A file is missing or damaged.
    """
    found, table, receipt, headers = await asyncio.gather(
        cube.found_among_files(),
        cube.read_needed(ROWS_KEY),
        cube.read_needed(RECEIPT_KEY),
        cube.read_object(HEADERS_KEY),
    )
    report = None if found is None else found.complete_report()
    if report is None:
        raise ArrayExistsError(f"{cube.place}: the cube was removed")

    def rows() -> Iterator[Mapping[str, Values]]:
        """Yield the rows of the cube. The table of an append that was not committed has more."""
        left = plan.first_row
        with blame_file(f"{cube.place}: {ROWS_KEY}"):
            for batch in _with_lines(read_row_table(table.content)[1]):
                yield {name: values[:left] for name, values in batch.items()}
                left -= min(len(batch["href"]), left)
                if not left:
                    return

    def entries() -> Iterator[Sequence[tuple[str, bytes]]]:
        if headers is not None:
            with blame_file(f"{cube.place}: {HEADERS_KEY}"):
                yield from stored_entries(headers.content)

    return EarlierRows(
        report=report,
        receipt=parse_receipt(receipt.content, cube.place),
        rows=rows,
        headers=entries,
    )
