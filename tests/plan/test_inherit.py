"""What a cube prescribes to later gathers, and how a gather that differs is refused."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.errors import BudgetError, RequestError
from pixel_gather.model.source import CubeRow, ListColumn, Source
from pixel_gather.model.window import Transform
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.inherit import CubeTemplate
from pixel_gather.plan.plan import plan_cube
from pixel_gather.plan.table_view import TableView
from pixel_gather.ports import SourceTable
from pixel_gather.read.read_shard import Pixels
from pixel_gather.request.request import parse_request
from support.fakes import FakeImage, FakeProjector, FakeReader, FakeTable, table_of
from support.plans import MIB, planned

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
    *,
    max_task_nbytes: int = 64 * MIB,
    **request: Any,
) -> CubePlan:
    """Plan another gather that inherits."""
    given: Mapping[str, Any] = {"sources": "list.csv", "window": WINDOW} | request
    images = {f"s3://b/{name}": image for name in "abcd"}
    return asyncio.run(
        plan_cube(
            parse_request(given),
            table=table or table_of("s3://b/c", "s3://b/d"),
            reader=FakeReader(images),
            projector=FakeProjector(),
            max_task_nbytes=max_task_nbytes,
            now=0.0,
            template=template,
        )
    )


def test_a_plan_inherits_what_it_does_not_ask_for() -> None:
    """Chunks, shards and the codec are the cube's, whatever the new list would have led to."""
    template = template_of(output={"codec": "zstd", "layout": {"chunk": [2, 3, 4], "shard_rows": 6}})

    plan = inheriting(template)

    assert (plan.codec, plan.layout) == ("zstd", template.layout)
    assert plan.wants_same_grid
    assert CubeTemplate.of(plan, is_aligned=True) == template


@pytest.mark.parametrize("nodata", [None, 0, -9999.0, float("nan"), float("-inf")])
def test_a_template_survives_json(nodata: float | None) -> None:
    """Also a nodata that JSON cannot hold."""
    image = FakeImage(pixels=A.astype("float32"), header={"nodata": nodata})

    template = template_of(image)

    told = json.loads(json.dumps(template.to_json(), allow_nan=False))
    assert repr(CubeTemplate.from_json(told)) == repr(template)


EAST = Transform(10.0, 0.0, 500_005.0, 0.0, -10.0, 4_600_000.0)


@pytest.mark.parametrize(
    ("image", "request_", "field", "words"),
    [
        (A.astype("float32"), {}, "sources", ("uint16", "float32")),
        (A, {"bands": [1]}, "bands", ("2 bands (1, 2)", "is 1")),
        (A, {"window": {"pixels": [3, 4, 8, 5]}}, "window", ("8 x 6", "8 x 5")),
        (A, {"window": {"pixels": [4, 4, 8, 6]}}, "window", ("x 500030", "x 500040")),
        (FakeImage(pixels=A, header={"transform": EAST}), {}, "window", ("x 500030", "x 500035")),
        (FakeImage(pixels=A, header={"crs": "EPSG:32632"}), {}, "window", ("EPSG:32631", "EPSG:32632")),
        (A, {"output": {"codec": "none"}}, "output.codec", ("blosc-lz4", "none")),
        (A, {"output": {"layout": {"chunk": [1, 2, 2]}}}, "output.layout.chunk", ("1 x 6 x 8", "1 x 2 x 2")),
        (A, {"nodata": 7}, "nodata", ("None", "7")),
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


def test_shards_that_workers_cannot_hold_are_refused() -> None:
    """The cube may come from a machine with more memory."""
    with pytest.raises(BudgetError, match="workers with more memory"):
        inheriting(template_of(), max_task_nbytes=100)


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

    assert plan.columns == whole.columns == (cloud,)
    assert [each for each in plan.warnings if "cloud" in each] == [
        "the list has no cloud: these rows have no value there"
    ]
    with pytest.raises(RequestError, match="float64 in the column cloud; here it is string"):
        inheriting(template, table=FakeTable((row(2),), columns=(replace(cloud, dtype="string"),)))
    with pytest.raises(RequestError, match="the columns cloud; here it is a column snow, too"):
        inheriting(template, table=FakeTable((row(2),), columns=(cloud, replace(cloud, name="snow"))))


def test_bands_are_put_in_the_cubes_order() -> None:
    """A list may name them in another order, or lack one of them. It cannot add one."""

    def scene(**hrefs: str) -> CubeRow:
        sources = tuple(Source(href=f"s3://b/{at}", band=name, scene="s") for name, at in hrefs.items())
        return CubeRow(time_us=None, sources=sources)

    red_nir = FakeTable((scene(red="a", nir="b"),), bands=("red", "nir"))
    template = template_of(A[:1], table=red_nir)
    turned = FakeTable((scene(nir="c", red="d"),), bands=("nir", "red"))
    lacking = FakeTable((scene(nir="c"),), bands=("nir",))

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
    table = FakeTable(table_of(*hrefs).all_rows, index={hrefs[4]: b"4", hrefs[5]: b"5"})
    view = TableView(table=table, bands=(), slot_order=(0,), kept=(1, 2, 4, 8))

    shown = [each.href for row in view.rows(0, 4) for each in row.sources if each is not None]

    assert shown == [hrefs[n] for n in (1, 2, 4, 8)]
    assert [each.href for row in view.rows(1, 3) for each in row.sources if each] == [hrefs[2], hrefs[4]]
    assert list(view.packed_headers(0, 4)) == [(None,), (None,), (b"4",), (None,)]
    assert (view.n_rows, view.n_sources, view.n_known, view.n_repeated) == (4, 4, 1, 0)
    assert dict(view.n_by_bucket) == {"x": 3, "y": 1}
    assert [each.href for each in view.spread(2, band=None)] == [hrefs[1], hrefs[8]]
