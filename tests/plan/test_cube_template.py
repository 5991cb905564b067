"""What a cube prescribes to later gathers, and how a gather that differs is refused."""

import json
from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.ports import SourceTable
from pixel_gather.core.read.shard_buffers import Pixels
from support.fakes import FakeImage, FakeReader, FakeTable, table_of
from support.plans import planned

A = np.arange(2 * 50 * 40, dtype="uint16").reshape(2, 50, 40)
WINDOW = {"pixels": [3, 4, 8, 6]}


def template_of(
    image: Pixels | FakeImage = A, table: FakeTable | None = None, **request: Any
) -> CubeTemplate:
    """Return what a cube of images of this kind prescribes."""
    table = table or table_of("s3://b/a")
    images = {each.href: image for row in table.all_rows for each in row.sources if each is not None}
    plan = planned(FakeReader(images), table, window=WINDOW, **request)
    return CubeTemplate.of(plan, is_aligned=True)


def inheriting(
    template: CubeTemplate,
    image: Pixels | FakeImage = A,
    table: SourceTable | None = None,
    **request: Any,
) -> CubePlan:
    """Plan another gather that inherits."""
    reader = FakeReader({f"s3://b/{name}": image for name in "abcd"})
    table = table or table_of("s3://b/c", "s3://b/d")
    return planned(reader, table, template=template, **{"window": WINDOW} | request)


def test_a_plan_inherits_what_it_does_not_ask_for() -> None:
    """Chunks, shards and the codec are the cube's, whatever the new list would have led to."""
    template = template_of(output={"codec": "zstd", "layout": {"chunk": [2, 3, 4], "shard_rows": 6}})

    plan = inheriting(template)

    assert (plan.codec, plan.layout) == ("zstd", template.layout)
    assert plan.wants_same_grid
    assert CubeTemplate.of(plan, is_aligned=True) == template


@pytest.mark.parametrize("nodata", [None, 0, -9999.0, float("nan"), float("-inf")])
def test_a_template_survives_json(nodata: float | None) -> None:
    """So does a nodata that JSON cannot hold."""
    image = FakeImage(pixels=A.astype("float32"), header={"nodata": nodata})

    template = template_of(image)

    told = json.loads(json.dumps(template.to_json(), allow_nan=False))
    assert repr(CubeTemplate.from_json(told)) == repr(template)


EAST = Transform(10.0, 0.0, 500_005.0, 0.0, -10.0, 4_600_000.0)


@pytest.mark.parametrize(
    ("image", "request_", "field", "words"),
    [
        (A.astype("float32"), {}, "sources", ("uint16", "float32")),
        (A, {"bands": [1]}, "bands", ("2 bands (1, 2)", "have 1 band (1)")),
        (A, {"window": {"pixels": [3, 4, 8, 5]}}, "window", ("8 x 6", "8 x 5")),
        (A, {"window": {"pixels": [4, 4, 8, 6]}}, "window", ("x 500030", "x 500040")),
        (FakeImage(pixels=A, header={"transform": EAST}), {}, "window", ("x 500030", "x 500035")),
        (FakeImage(pixels=A, header={"crs": "EPSG:32632"}), {}, "window", ("EPSG:32631", "EPSG:32632")),
        (A, {"output": {"codec": "none"}}, "output.codec", ("blosc-lz4", "none")),
        (A, {"output": {"layout": {"chunk": [1, 2, 2]}}}, "output.layout.chunk", ("1 x 6 x 8", "1 x 2 x 2")),
        (A, {"nodata": 7}, "nodata", ("none", "7")),
    ],
)
def test_a_gather_that_differs_is_refused_with_both_values(
    image: Pixels | FakeImage, request_: dict[str, Any], field: str, words: tuple[str, str]
) -> None:
    """The error names the field."""
    with pytest.raises(RequestError) as caught:
        inheriting(template_of(), image, **request_)

    assert caught.value.field == field
    assert all(word in str(caught.value) for word in words)


def test_rows_without_a_grid_in_common_need_not_be_aligned() -> None:
    """A cube that is no aligned stack takes any window of its size."""
    template = replace(template_of(), is_aligned=False)

    plan = inheriting(template, FakeImage(pixels=A, header={"transform": EAST}))

    assert not plan.wants_same_grid


def row(n: int, **columns: Any) -> CubeRow:
    """Return a row of the list with values of its columns."""
    return CubeRow(time_us=None, sources=(Source(href=f"s3://b/{'abcd'[n]}", columns=columns),))


def test_columns_are_the_cubes() -> None:
    """A column that the list lacks is warned of. Others are refused, and so are other types."""
    cloud = ListColumn(name="cloud", dtype="float64", varies_in_row=False)
    template = template_of(table=FakeTable((row(0, cloud=0.5),), columns=(cloud,)))

    plan = inheriting(template, table=FakeTable((row(2),)))
    whole = inheriting(
        template, table=FakeTable((row(2, cloud=1),), columns=(replace(cloud, dtype="int64"),))
    )

    assert plan.columns == (replace(cloud, has_gaps=True),)
    assert whole.columns == (cloud,)
    assert [each for each in plan.warnings if "cloud" in each] == [
        "the list lacks columns of the cube: the new rows have no value of cloud"
    ]
    with pytest.raises(RequestError, match="float64 in the column cloud; the new rows would have string"):
        inheriting(template, table=FakeTable((row(2),), columns=(replace(cloud, dtype="string"),)))
    with pytest.raises(RequestError, match="the columns cloud; the new rows would have a column snow, too"):
        inheriting(template, table=FakeTable((row(2),), columns=(cloud, replace(cloud, name="snow"))))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"dtype": "bool"}, ["as numbers: 1 is true, 0 is false, NaN is missing"]),
        ({"dtype": "int64"}, ["as float64: NaN is missing"]),
        (
            {"dtype": "int64", "is_large": True},
            ["as int64, as float64 cannot hold its values: -9223372036854775808 is missing"],
        ),
        ({"dtype": "int64", "has_gaps": True}, []),  # it is so already
        ({"dtype": "bool", "has_gaps": True}, []),
        ({"dtype": "string"}, []),
    ],
)
def test_a_column_that_rows_begin_to_lack_is_opened_otherwise(
    column: dict[str, Any], said: list[str]
) -> None:
    """Programs that read its values have to know. Other columns stay as they are."""
    cloud, stays = (ListColumn(name=name, varies_in_row=False, **column) for name in ("cloud", "stays"))
    template = replace(template_of(), columns=(cloud, stays))

    plan = inheriting(template, table=FakeTable((row(2, stays=None),), columns=(stays,)))

    assert [each for each in plan.warnings if "xarray" in each] == [
        f"so xarray opens the column cloud {each}" for each in said
    ]


def scene(**hrefs: str) -> FakeTable:
    """Return a list of one scene of these bands."""
    sources = tuple(Source(href=f"s3://b/{at}", band=name, scene="s") for name, at in hrefs.items())
    return FakeTable((CubeRow(time_us=None, sources=sources),), bands=tuple(hrefs))


RED_NIR = scene(red="a", nir="b")


def test_bands_are_put_in_the_cubes_order() -> None:
    """A list may name them in another order, or lack one of them. It cannot add one."""
    template = template_of(A[:1], table=RED_NIR)
    turned, lacking = scene(nir="c", red="d"), scene(nir="c")

    for table, expected in ((turned, ["s3://b/d", "s3://b/c"]), (lacking, [None, "s3://b/c"])):
        order = template.slot_order(table.bands)
        view = TableView(table=table, bands=("red", "nir"), slot_order=order, kept=(0,))
        plan = inheriting(template, A[:1], view)
        assert [each.name for each in plan.measurements] == ["red", "nir"]
        assert [source and source.href for source in next(iter(view.rows(0, 1))).sources] == expected
    with pytest.raises(RequestError, match="the list's bands are blue; the cube's are red, nir"):
        template.slot_order(("blue",))


def test_a_view_shows_some_rows_of_a_list() -> None:
    """Rows, counts, headers and the sample are those of the rows that are kept."""
    hrefs = [f"s3://{'xy'[n % 2]}/{n}" for n in range(9)]
    table = FakeTable(table_of(*hrefs).all_rows, index={hrefs[1]: b"1", hrefs[4]: b"4", hrefs[5]: b"5"})
    view = TableView(table=table, bands=(), slot_order=(0,), kept=(1, 2, 4, 8))

    shown = [each.href for row in view.rows(0, 4) for each in row.sources if each is not None]

    assert shown == [hrefs[n] for n in (1, 2, 4, 8)]
    assert [each.href for row in view.rows(1, 3) for each in row.sources if each] == [hrefs[2], hrefs[4]]
    assert list(view.packed_headers(0, 4)) == [(b"1",), (None,), (b"4",), (None,)]
    assert (view.n_rows, view.n_sources, view.n_known, view.n_repeated) == (4, 4, 2, 0)
    assert dict(view.n_by_bucket) == {"x": 3, "y": 1}
    assert [each.href for each in view.spread(2, band=None)] == [hrefs[1], hrefs[8]]


def test_a_view_has_a_run_of_rows_for_each_gap() -> None:
    """Whatever rows are kept, and from whichever row on it is read."""
    table = table_of(*map(str, range(9)))

    for kept in ((), (0,), (0, 1, 2), (0, 2, 3, 7, 8), (8,)):
        view = TableView(table=table, bands=(), slot_order=(0,), kept=kept)
        for start in range(len(kept) + 1):
            rows = [each.href for row in view.rows(start, len(kept)) for each in row.sources if each]
            assert rows == [str(n) for n in kept[start:]]


def test_a_sample_of_a_view_is_spread_from_its_first_to_its_last_row() -> None:
    """Of one band, if the list names them."""
    rows = [
        CubeRow(
            time_us=None,
            sources=(
                Source(href=f"r{n}", band="red", scene=str(n)),
                None if n == 4 else Source(href=f"n{n}", band="nir", scene=str(n)),
            ),
        )
        for n in range(5)
    ]
    table = FakeTable(rows, bands=("red", "nir"))
    view = TableView(table=table, bands=("red", "nir"), slot_order=(0, 1), kept=range(5))

    def spread(n: int, band: str | None) -> list[str]:
        return [each.href for each in view.spread(n, band=band)]

    assert spread(3, "red") == ["r0", "r2", "r4"]
    assert spread(2, "nir") == ["n0", "n3"]
    assert spread(1, "nir") == ["n0"]
    assert spread(99, None) == ["r0", "n0", "r1", "n1", "r2", "n2", "r3", "n3", "r4"]
    assert view.n_sources == 9


def test_a_view_is_otherwise_that_of_its_list() -> None:
    """Repeated sources are those within it. Only objects in S3 have a bucket."""
    column = ListColumn(name="cloud", dtype="float64", varies_in_row=False)
    meanings = {"red": BandMeaning(unit="K")}
    rows = table_of("s3://x/1", "https://h/1", "s3://x/1", "https://h/1").all_rows
    table = FakeTable(
        rows,
        has_time=True,
        columns=(column,),
        found=b"list",
        notes=("a note",),
        band_numbers={"red": 3},
        band_meanings=meanings,
    )
    view = TableView(table=table, bands=(), slot_order=(0,), kept=(0, 1, 2))

    assert (view.n_rows, view.n_sources, view.n_repeated, view.n_known) == (3, 3, 1, 0)
    assert dict(view.n_by_bucket) == {"x": 2}
    assert (view.digest, view.notes, view.has_time) == (table.digest, ("a note",), True)
    assert (view.columns, view.found_list(), view.band_numbers) == ((column,), b"list", {"red": 3})
    assert (view.search_cost, view.band_meanings) == (None, meanings)


SIX = table_of(*["s3://b/a"] * 6)


def test_a_gather_that_asks_for_what_the_cube_has_is_welcome() -> None:
    """It may say again what it would inherit."""
    output = {"codec": "zstd", "layout": {"chunk": [2, 3, 4], "shard_rows": 4}}
    image = FakeImage(pixels=A, header={"nodata": 7})
    template = template_of(image, SIX, output=output)

    plan = inheriting(template, image, nodata=7, masked=True, output=output)

    assert plan.layout == template.layout
    assert inheriting(template, image, output={"layout": "slice"}).layout == template.layout
    assert inheriting(template, image, output={"layout": {"chunk": [2, 3, 4]}}).layout == template.layout


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (
            {"output": {"layout": {"chunk": [2, 3, 4], "shard_rows": 4}}},
            "output.layout.shard_rows",
            ("6", "4"),
        ),
        ({"nodata": 7}, "nodata", ("nodata none, none", "nodata 7")),
        ({"output": {"codec": "zfp", "zfp_tolerance": 0.1}}, "output.codec", ("zstd", "zfp")),
    ],
)
def test_a_field_that_differs_from_the_cube_is_named(
    request_: dict[str, Any], field: str, words: tuple[str, str]
) -> None:
    """The error has the cube's value first."""
    template = template_of(
        table=SIX, output={"codec": "zstd", "layout": {"chunk": [2, 3, 4], "shard_rows": 6}}
    )

    with pytest.raises(
        RequestError, match=rf"the cube has {words[0]}.*; the new rows would have {words[1]}"
    ) as caught:
        inheriting(template, **request_)

    assert caught.value.field == field


def test_masked_pixels_need_nodata_in_every_measurement() -> None:
    """One of them has none."""
    template = template_of(FakeImage(pixels=A, header={"nodata": 7}))
    first, second = template.measurements
    template = replace(template, measurements=(first, replace(second, nodata=None)))

    with pytest.raises(
        RequestError, match="masked pixels need a nodata value, and the cube has none"
    ) as caught:
        inheriting(template, FakeImage(pixels=A, header={"nodata": 7}), masked=True)

    assert caught.value.field == "masked"


def test_nodata_of_a_request_is_that_of_every_measurement() -> None:
    """NaN equals NaN, and 7 equals 7.0."""
    nan = FakeImage(pixels=A.astype("float32"), header={"nodata": float("nan")})
    template = template_of(nan)
    first, second = template.measurements

    assert inheriting(template, nan, nodata="nan").measurements == template.measurements
    mixed = replace(template, measurements=(replace(first, nodata=7.0), replace(second, nodata=8)))
    with pytest.raises(RequestError, match=r"the cube has nodata 7\.0, 8; the new rows would have nodata 7"):
        inheriting(mixed, nan, nodata=7)
    of_sevens = replace(mixed, measurements=(mixed.measurements[0], replace(second, nodata=7)))
    assert inheriting(of_sevens, nan, nodata=7).measurements == of_sevens.measurements


def test_nodata_that_the_first_gather_was_asked_for_may_be_asked_again() -> None:
    """The files of a cube may declare another one, and keep it. The same request adds rows to its cube."""
    image = FakeImage(pixels=A, header={"nodata": 7})
    template = template_of(image, nodata=9)

    assert template.measurements[0].nodata == 7
    assert inheriting(template, image, nodata=9).default_nodata == 9
    assert inheriting(template, image, nodata=7).default_nodata == 9
    with pytest.raises(RequestError, match=r"the cube has nodata 7, 7; the new rows would have nodata 8"):
        inheriting(template, image, nodata=8)


def test_overviews_times_and_codecs_with_a_tolerance_are_inherited() -> None:
    """All of them are refused if they differ."""
    template = template_of()

    with pytest.raises(
        RequestError, match="the cube has overview 2; the new rows would have full resolution"
    ) as overview:
        inheriting(replace(template, overview=2))
    with pytest.raises(
        RequestError,
        match="a time in every row; the new rows would have no time in some rows: give each line of the list",
    ) as time:
        inheriting(replace(template, has_time=True))
    with pytest.raises(RequestError, match=r"the cube has 0\.5; the new rows would have 0\.25") as tolerance:
        inheriting(
            replace(template, codec="zfp", zfp_tolerance=0.5), output={"codec": "zfp", "zfp_tolerance": 0.25}
        )

    assert [each.value.field for each in (overview, time, tolerance)] == [
        "overview",
        "sources",
        "output.zfp_tolerance",
    ]


def test_windows_without_a_map_are_compared_by_their_pixels() -> None:
    """The message says where both are."""
    plain = FakeImage(pixels=A, header={"transform": None, "crs": None})
    template = template_of(plain)

    assert inheriting(template, plain).wants_same_grid
    with pytest.raises(
        RequestError,
        match=r"the cube has no georeference and a window at column 3, line 4; the new rows would have no "
        r"georeference and a window at column 4, line 4",
    ):
        inheriting(template, plain, window={"pixels": [4, 4, 8, 6]})
    with pytest.raises(
        RequestError, match=r"the new rows would have a window with its corner at x 500030, y 4599960 in "
    ):
        inheriting(template, A)


def test_a_column_may_not_vary_in_rows_of_a_cube_in_which_it_does_not() -> None:
    """The other way round it may. A column of whole numbers may go to one of fractions, not back."""
    cloud = ListColumn(name="cloud", dtype="float64", varies_in_row=False)
    template = template_of(table=FakeTable((row(0, cloud=0.5),), columns=(cloud,)))

    def columns(ours: ListColumn, theirs: ListColumn) -> tuple[ListColumn, ...]:
        table = FakeTable((row(2, cloud=1),), columns=(ours,))
        return inheriting(replace(template, columns=(theirs,)), table=table).columns

    varies, whole = replace(cloud, varies_in_row=True), replace(cloud, dtype="int64")
    assert columns(cloud, varies) == (varies,)
    assert columns(varies, varies) == (varies,)
    with pytest.raises(
        RequestError, match="one value of cloud in each row; the new rows would have several, one for each"
    ):
        columns(varies, cloud)
    with pytest.raises(RequestError, match="int64 in the column cloud; the new rows would have float64"):
        columns(cloud, whole)
    with pytest.raises(
        RequestError, match=r"the columns \(none\); the new rows would have a column cloud, too"
    ):
        inheriting(replace(template, columns=()), table=FakeTable((row(2),), columns=(cloud,)))


def test_names_of_bands_are_part_of_what_differs() -> None:
    """A list with bands does not fit a cube without, nor the other way round."""
    named = template_of(A[:1], table=RED_NIR)

    assert template_of().slot_order(()) == (0,)
    with pytest.raises(RequestError, match="the list's bands are red; the cube's are not named"):
        template_of().slot_order(("red",))
    with pytest.raises(RequestError, match="the list's bands are not named; the cube's are red, nir"):
        named.slot_order(())
    with pytest.raises(
        RequestError, match="the cube has dtype uint16 of red; the new rows would have float32"
    ):
        inheriting(named, A[:1].astype("float32"), RED_NIR)


def test_shards_that_workers_just_hold_are_accepted() -> None:
    """A byte less is refused, with both sizes: the cube may come from a machine with more memory."""
    template = template_of(output={"layout": {"chunk": [1024, 6, 8], "shard_rows": 2048}})
    nbytes = 1 * 6 * 8 * 2 * 2

    assert inheriting(template, max_task_nbytes=nbytes).layout.shard == (1, 6, 8)
    with pytest.raises(BudgetError, match=r"takes 0 MiB, and workers hold 0 MiB.*workers with more memory"):
        inheriting(template, max_task_nbytes=nbytes - 1)
