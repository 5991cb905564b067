"""Chips as rows."""

from copy import replace

import numpy as np
import pytest

from pixel_gather.core.errors import BudgetError
from pixel_gather.core.model.source import ListColumn
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.plan.chip_rows import ChipAxis
from pixel_gather.core.plan.chip_table import Chips, ChipTable, order_of_places
from pixel_gather.core.plan.choose_layout import chip_layout
from support.fakes import CODING, UTM, FakeImage, FakeReader, table_of
from support.identities import alike, another, check_identity
from support.plans import planned

SIZES = {"itemsize": 2, "n_measurements": 1, "max_task_nbytes": 1 << 30}


def chips(n: int, **changes: object) -> Chips:
    """Return chips in a row."""
    at = np.arange(n, dtype=float)
    given = {
        "ids": [f"c{number}" for number in range(n)],
        "xs": at,
        "ys": at,
        "crs": "EPSG:4326",
        "lons": at,
        "lats": at,
        "size": (8, 4),
        "kinds": (ListColumn(name="label", dtype="string", varies_in_row=False),),
        "columns": {"label": [f"l{number}" for number in range(n)]},
    }
    return Chips(**given | changes)  # type: ignore[arg-type] # a dict of all fields


def test_rows_are_all_images_of_the_first_chip_and_then_of_the_next() -> None:
    """Also of a part that begins and ends within a chip."""
    table = ChipTable(table=table_of("a", "b", "c"), chips=chips(4))
    rows = [(row.chip.id, row.sources[0].href) for row in table.rows(2, 7) if row.chip and row.sources[0]]

    assert rows == [("c0", "c"), ("c1", "a"), ("c1", "b"), ("c1", "c"), ("c2", "a")]
    assert (table.n_rows, table.n_sources) == (12, 12)
    assert table.part(3, 9).rows() == list(table.rows(3, 9))
    (first,) = table.rows(3, 4)
    assert first.chip is not None
    assert first.chip.rule == WindowRule(point=(1.0, 1.0), size=(8, 4), crs="EPSG:4326")


def test_a_table_of_chips_tells_all_that_is_read_and_all_remarks() -> None:
    """Each chip reads every image. So the bytes that leave a bucket grow with the chips."""
    images = table_of("s3://near/a", "s3://near/b", "s3://far/c", "d", notes=("of the list",))
    table = ChipTable(table=images, chips=chips(4, notes=("of the chips",)))

    assert table.n_by_bucket == {"near": 8, "far": 4}
    assert table.notes == ("of the list", "of the chips")


def test_chips_that_are_left_of_a_table_have_the_digest_of_the_table() -> None:
    """So an append of the same table is known again, however many of its chips the cube has."""
    images = table_of("a")
    whole = ChipTable(table=images, chips=chips(3))

    assert replace(whole, chips=whole.chips.some([2]), whole_digest=whole.digest).digest == whole.digest


@pytest.mark.parametrize("name", ["has_gaps", "is_large"])
def test_a_column_of_chips_is_as_the_one_or_the_other_table_needs(name: str) -> None:
    """The cube lacks values that one of the two tables lacks, and those beyond 2^53."""
    plain = ListColumn(name="label", dtype="int64", varies_in_row=False)
    special = replace(plain, has_gaps=name == "has_gaps", is_large=name == "is_large")
    for one, other in ((plain, special), (special, plain)):
        axes = [ChipAxis(n_images=1, id_dtype="int64", columns=(each,)) for each in (one, other)]

        assert axes[0].grown_by(axes[1]).columns == (special,)


def test_chips_are_the_same_by_all_that_decides_the_cube() -> None:
    """Degrees follow from the places, and whether ids were given is no matter where they are equal."""
    given, label = chips(2), ListColumn(name="label", dtype="string", varies_in_row=False)
    changes = {
        "ids": another(given, ids=["c0", "d"]),
        "xs": another(given, xs=np.array([0.0, 1.5])),
        "ys": another(given, ys=np.array([0.0, 1.5])),
        "crs": another(given, crs="EPSG:32632"),
        "lons": alike(given, lons=np.array([0.0, 1.5])),
        "lats": alike(given, lats=np.array([0.0, 1.5])),
        "size": another(given, size=(4, 8)),
        "kinds": another(given, kinds=(replace(label, name="kind"),)),
        "columns": another(given, columns={"label": ["l0", "other"]}),
        "notes": alike(given, notes=("another",)),
        "is_numbered": alike(given, is_numbered=True),
    }

    check_identity(
        lambda it: ChipTable(table=table_of("a"), chips=it).digest, changes, fields=Chips.__struct_fields__
    )


def test_the_digest_of_chips_tells_where_a_column_ends() -> None:
    """Before, the ids 1 and 2 with labels 34 and 5 were those of the ids 1 and 23 with labels 4 and 5."""
    one = chips(2, ids=[1, 2], columns={"label": [34, 5]})

    assert one.digest != chips(2, ids=[1, 23], columns={"label": [4, 5]}).digest
    assert one.digest == chips(2, ids=(1, 2), columns={"label": (34, 5)}).digest


def test_order_of_places_keeps_quarters_together() -> None:
    """Each quarter of the box is done before the next begins."""
    xs, ys = np.meshgrid(np.arange(8.0), np.arange(8.0))
    order = order_of_places(xs.ravel(), ys.ravel())
    quarters = (xs.ravel()[order] >= 4) + 2 * (ys.ravel()[order] >= 4)

    assert np.count_nonzero(np.diff(quarters)) == 3
    assert order_of_places(np.ones(3), np.ones(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("n_chips", "n_images", "expected"),
    [
        (1000, 30, 17),  # 64 MiB
        (100, 30, 13),  # eight tasks
        (100, 1, 32),  # 4 MiB stay together
        (3, 1, 3),
        (10, 600, 1),  # more than 64 MiB
    ],
)
def test_chip_layout_puts_whole_chips_into_shards(n_chips: int, n_images: int, expected: int) -> None:
    """A chunk is a chip."""
    layout = chip_layout((n_chips * n_images, 256, 256), n_images=n_images, **SIZES)

    assert layout.chunk == (n_images, 256, 256)
    assert layout.shard == (expected * n_images, 256, 256)


def test_chip_layout_refuses_a_chip_that_no_task_holds() -> None:
    """One byte less is too little."""
    sizes = SIZES | {"n_measurements": 2, "max_task_nbytes": 3 * 16 * 16 * 2 * 2}

    assert chip_layout((9, 16, 16), n_images=3, **sizes).shard == (3, 16, 16)
    with pytest.raises(BudgetError, match="one chip with its 3 images"):
        chip_layout((9, 16, 16), n_images=3, **sizes | {"max_task_nbytes": 3 * 16 * 16 * 2 * 2 - 1})


@pytest.mark.parametrize(
    ("n_chips", "is_interleaved", "n_gets", "nbytes"),
    [
        (20, True, 60 * (1 / 20 + 1), 60 * (1 / 20 * 512 + 1 / 20 * 16_896)),
        (20, False, 60 * (1 / 20 + 2), 60 * (1 / 20 * 512 + 1 / 20 * 16_896)),
        (2, True, 6 * (1 / 2 + 1), 6 * (1 / 2 * 512 + 1 / 16 * 16_896)),
    ],
)
def test_a_task_opens_each_image_once_for_all_of_its_chips(
    *, n_chips: int, is_interleaved: bool, n_gets: float, nbytes: float
) -> None:
    """Chips take a tile of 16 each, of each band if bands have tiles of their own, but at most the image."""
    hrefs = [f"s3://b/{n}" for n in range(3)]
    image = FakeImage(
        pixels=np.zeros((2, 64, 64), "uint16"),
        header={"coding": replace(CODING, is_interleaved=is_interleaved)},
    )
    table = ChipTable(
        table=table_of(*hrefs), chips=chips(n_chips, xs=UTM.c + np.arange(n_chips), crs="EPSG:32631")
    )

    plan = planned(
        FakeReader(dict.fromkeys(hrefs, image)),
        table,
        window=None,
        windows={"table": "chips.csv", "size": [8, 4]},
    )

    assert plan.layout.shard == (n_chips * 3, 4, 8)
    assert plan.estimate.n_gets == round(n_gets)
    assert plan.estimate.fetched_nbytes == round(nbytes)
    assert plan.n_files == 3


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((-1.0, -1.0, 0.5, 0.5), True),  # around the first
        ((0.05, 0.05, 0.5, 0.5), True),  # the first chip may reach into it
        ((0.5, 0.5, 0.95, 0.95), True),  # the second may, from the other side
        ((0.5, 0.5, 0.85, 2.0), False),  # it is too far to the east
        ((0.5, 0.5, 2.0, 0.85), False),
        ((0.2, 0.2, 0.8, 0.8), False),  # between two
        ((0.5, 0.0, 0.5, 9.0), False),  # a line
        ((2.5, 0.0, 2.8, 9.0), False),
        ((170.0, -1.0, -179.0, 9.0), False),  # across the antimeridian
        ((170.0, -1.0, 1.5, 9.0), True),
        ((359.95, -1.0, 360.05, 9.0), True),  # where longitudes go on to 360
        ((-180.0, -90.0, 180.0, 90.0), True),
        ((0.0, 3.5, 9.0, 9.0), False),
    ],
)
def test_chips_meet_the_boxes_of_scenes_that_may_hold_them(
    *, box: tuple[float, float, float, float], expected: bool
) -> None:
    """Scenes that hold no chip are left out of what a search finds."""
    assert chips(3).meets(box) is expected


def test_scenes_of_chips_are_looked_for_on_the_short_way_around() -> None:
    """Across 180 degrees, and wherever the table begins to count longitudes."""
    for xs in ([179.0, -179.0], [179.0, 181.0], [-181.0, -179.0]):
        assert chips(2, xs=np.array(xs)).rule_of_all().bounds == (179, 0, -179, 1)
    metres = chips(2, xs=np.array([5e5, 6e5]), crs="EPSG:32632")
    assert metres.rule_of_all().bounds == (5e5, 0, 6e5, 1)
