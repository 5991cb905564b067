"""References to the tiles of all windows, some rows at a time."""

import asyncio

import numpy as np
import pytest

from pixel_gather.core.model.status import Status
from pixel_gather.core.read.read_shard import OnSource, ignore
from pixel_gather.features.virtual.refer_tiles import ReferredRows, refer_tiles
from support.fakes import CODING, FakeImage, FakeReader, access_to, table_of
from support.plans import planned

A = np.zeros((2, 40, 32), "uint16")
NAMES = [f"s3://b/{n}" for n in range(5)]


def referred(
    *, n_rows: int, on_source: OnSource = ignore, packed: int | None = None
) -> tuple[list[ReferredRows], FakeReader]:
    """Refer to five sources, of which the fourth is missing. The header of one of them may be known."""
    image = FakeImage(pixels=A, header={"coding": CODING})
    images = {name: image for n, name in enumerate(NAMES) if n != 3}
    reader = FakeReader(images)
    table = table_of(*NAMES, index={} if packed is None else {NAMES[packed]: b"packed"})
    reader.entries[b"packed"] = {"header": image.header_at(NAMES[packed or 0]), "image": image}
    plan = planned(reader, table, window={"pixels": [0, 0, 16, 40]}, output={"codec": "source"})
    reader.opened.clear()

    async def work() -> list[ReferredRows]:
        batches = refer_tiles(
            plan,
            table=table,
            sources=access_to(reader),
            on_source=on_source,
            n_rows=n_rows,
        )
        return [each async for each in batches]

    return asyncio.run(work()), reader


def test_every_row_is_referred_to_once_and_in_order() -> None:
    """So are the rows of the last, shorter batch, and whole windows with both bands."""
    told: list[int] = []
    batches, reader = referred(n_rows=2, on_source=lambda row, _slot, _outcome: told.append(row))

    assert sorted(told) == [0, 1, 2, 3, 4]
    assert [(each.start, len(each.rows)) for each in batches] == [(0, 2), (2, 2), (4, 1)]
    assert [source.href for each in batches for row in each.rows for source in row.sources if source] == NAMES
    assert sorted(reader.opened) == NAMES
    for each in batches:
        (tiles,) = each.tiles
        assert len(tiles.rows) == len(each.rows)
        for band in range(2):
            for _, row, ranges in tiles.of_band(band):
                assert row.href in NAMES
                assert [tuple(at) for at in ranges if at] == [(band * 16 * 40 * 2, 16 * 40 * 2)]


@pytest.mark.parametrize("packed", [1, 2, 4])
def test_a_source_whose_header_is_known_is_not_opened(packed: int) -> None:
    """Each batch is given the headers of its own rows."""
    _, reader = referred(n_rows=2, packed=packed)

    assert sorted({*NAMES} - {*reader.opened}) == [NAMES[packed]]


def test_a_source_that_fails_has_its_status_and_no_reference() -> None:
    """The others have digests of their versions and places."""
    (batch,), _ = referred(n_rows=99)

    outcomes = [outcome for (outcome,) in batch.outcomes]
    assert [each.status for each in outcomes] == [Status.OK] * 3 + [Status.MISSING, Status.OK]
    assert [[band.n_valid for band in each.bands] for each in outcomes] == [
        [None, None],
        [None, None],
        [None, None],
        [0, 0],
        [None, None],
    ]
    (tiles,) = batch.tiles
    assert [place for place, _, _ in tiles.of_band(0)] == [0, 1, 2, 4]
    assert outcomes[0].bands[0].digest != outcomes[0].bands[1].digest
