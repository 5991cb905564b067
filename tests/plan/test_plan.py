"""Plans: what they decide and refuse before a pixel is read."""

import math
import re
from contextlib import nullcontext
from copy import replace
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import BudgetError, RequestError, SourceError
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool
from pixel_gather.core.model.plurals import size
from pixel_gather.core.model.source import CubeRow, ListColumn, SearchCost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.plan import gather_digest
from pixel_gather.core.plan.sample_headers import SAMPLED_HEADERS
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.request.request import parse_request
from support.fakes import CODING, UTM, FakeImage, FakeProjector, FakeReader, FakeTable, table_of
from support.plans import planned, red_and_nir

A = np.arange(2 * 50 * 40, dtype="uint16").reshape(2, 50, 40)


def reader_of(**images: Pixels | FakeImage) -> FakeReader:
    """Return a reader of images by the letter of their href."""
    return FakeReader({f"s3://b/{name}": image for name, image in images.items()})


def hrefs(*names: str) -> FakeTable:
    """Return a table of these letters."""
    return table_of(*(f"s3://b/{name}" for name in names))


def like(**header: Any) -> FakeImage:
    """Return an image as `A` with another header."""
    return FakeImage(pixels=A, header=header)


def test_plan_cube_takes_its_shape_from_the_typical_header() -> None:
    """All bands of a source are measurements of the window's size."""
    plan = planned(reader_of(a=A, b=A), hrefs("a", "b"))

    assert plan.shape == (2, 16, 16)
    assert [each.name for each in plan.measurements] == ["band_1", "band_2"]
    assert {each.dtype for each in plan.measurements} == {"uint16"}
    assert plan.slots[0].window == Window(col_off=16, row_off=16, width=16, height=16)
    assert plan.dim == "source"
    assert plan.warnings == ()


def test_plan_cube_keeps_the_request_as_it_was_given() -> None:
    """Defaults are left out. The stored request makes the same request again."""
    plan = planned(reader_of(a=A), hrefs("a"), bands=[2])

    assert plan.request == {"sources": {"list": "list.csv"}, "window": {"tile": "centre"}, "bands": [2]}
    assert gather_digest(parse_request(plan.request), hrefs("a")) == plan.digest


def test_plan_cube_names_measurements_by_the_lists_bands() -> None:
    """With a band column each band is a slot of its own, with its own dtype."""
    row = red_and_nir("s3://b/a", "s3://b/f")
    plan = planned(reader_of(a=A, f=A.astype("float32")), FakeTable((row,), bands=("red", "nir")))

    assert [(each.name, each.slot, each.dtype) for each in plan.measurements] == [
        ("red", 0, "uint16"),
        ("nir", 1, "float32"),
    ]
    assert [slot.bands for slot in plan.slots] == [(1,), (1,)]


def test_plan_cube_opens_a_few_headers_only() -> None:
    """A long list is sampled from the first to the last source. No pixel is read."""
    names = [f"s3://b/{n}" for n in range(1000)]
    reader = FakeReader(dict.fromkeys(names, A))

    planned(reader, table_of(*names))

    assert len(reader.opened) == SAMPLED_HEADERS
    assert {names[0], names[-1]} <= set(reader.opened)
    assert reader.windows == []


def test_the_gravest_warnings_of_a_plan_come_first() -> None:
    """What pixels mean, before sources that are lost."""
    scaled = like(scales=(0.5, 2.0), offsets=(1.0, -1.0))
    plan = planned(reader_of(a=A.astype("int8"), b=A, c=A, d=scaled), hrefs("a", "b", "c", "d"))

    grave, lost = (
        next(n for n, each in enumerate(plan.warnings) if words in each)
        for words in ("declare different scales or offsets", "are int8, not uint16")
    )
    assert grave < lost


def test_plan_cube_plans_on_where_some_sources_cannot_be_opened() -> None:
    """A missing source only causes a warning."""
    plan = planned(reader_of(b=A), hrefs("a", "b"))

    assert plan.n_rows == 2
    assert "1 of 2 sources that were tried cannot be opened: s3://b/a: no such object" in plan.warnings[0]


def test_plan_cube_takes_the_next_source_where_the_window_is_outside_the_first() -> None:
    """A source without the window cannot be the typical one."""
    far = like(transform=UTM.shifted(10_000, 0))
    plan = planned(
        reader_of(a=far, b=A), hrefs("a", "b"), window={"point": [500_055, 4_599_945], "crs": "source"}
    )

    assert plan.slots[0].grid.transform == UTM


def test_plan_cube_takes_the_nodata_that_most_sources_declare() -> None:
    """A single unusual nodata value does not become the cube's."""
    images: dict[str, Pixels | FakeImage] = {
        "a": like(nodata=255),
        "b": like(nodata=0),
        "c": like(nodata=0),
        "d": A,
    }

    plan = planned(reader_of(**images), hrefs("a", "b", "c", "d"), nodata=9)
    of_none = planned(reader_of(a=like(nodata=255), b=A, c=A), hrefs("a", "b", "c"))
    nan = FakeImage(pixels=A / 2, header={"nodata": math.nan})
    of_nan = planned(reader_of(a=nan, b=nan, c=A / 2), hrefs("a", "b", "c"))

    others = dict.fromkeys("efg", FakeImage(pixels=A / 2, header={"nodata": 7}))
    of_dtypes = planned(reader_of(**images, **others), hrefs(*"abcdefg"))

    assert [each.nodata for each in plan.measurements] == [0, 0]
    assert [each.nodata for each in of_none.measurements] == [None, None]
    assert [each.nodata for each in of_dtypes.measurements] == [0, 0]  # of the dtype that most have
    assert math.isnan(of_nan.measurements[0].nodata or 0)
    assert "(0: 2, 255: 1, none: 1): the cube has 0. Each row keeps its own" in plan.warnings[0]


def test_plan_cube_refuses_a_window_that_is_far_larger_than_every_source() -> None:
    """An almost empty cube is refused. The limit says how large a window may be."""
    images, window = reader_of(a=A), {"pixels": [-2000, -2000, 4000, 4000]}

    with pytest.raises(BudgetError, match=r"^window: the window of 4,000 x 4,000 pixels is 8,000 times"):
        planned(images, hrefs("a"), window=window)
    with pytest.raises(BudgetError, match=r"The limit is 7999 times\. Ask for a smaller window, or raise"):
        planned(images, hrefs("a"), window=window, limits={"times_source": 7999})
    plan = planned(images, hrefs("a"), window=window, limits={"times_source": 8000})

    assert plan.shape == (1, 4000, 4000)
    assert planned(images, hrefs("a"), window={"pixels": [0, 0, 1024, 1024]}).shape == (1, 1024, 1024)


def test_plan_cube_warns_of_a_window_that_overhangs() -> None:
    """The warning says which share is outside, and which value it will have."""
    (said,) = planned(reader_of(a=A), hrefs("a"), window={"pixels": [30, 0, 20, 20]}).warnings

    assert said.startswith("the window lies partly outside 1 of 1 sampled sources")
    assert re.search(r"with 50\.00% of its pixels outside s3://b/a: .* holds 0, which looks", said)


IN_DEGREES = (
    "longitude comes first, and the image lies between longitudes {} "
    "and between latitudes 4599500 and 4600000$"
)
IN_METRES = "x comes first, and the image lies between x 500000 and 500400 and between y 4599500 and 4600000$"


@pytest.mark.parametrize(
    ("crs", "window", "shift", "said"),
    [
        ("EPSG:32631", {"point": [46.5, 11.35]}, 0.0, IN_DEGREES.format("500000 and 500400")),
        ("EPSG:32631", {"point": [1, 2]}, 1000.0, IN_DEGREES.format("501000 and 501400")),
        ("EPSG:32631", {"bbox": [1, 2, 3, 4], "crs": "source"}, 0.0, IN_METRES),
        (None, {"point": [1, 2], "crs": "source"}, 0.0, IN_METRES),
        ("EPSG:32631", {"point": [1, 2]}, math.inf, "the window's coordinates do not exist in its CRS$"),
    ],
)
def test_plan_cube_says_where_the_image_lies_that_the_window_misses(
    crs: str | None, window: dict[str, Any], shift: float, said: str
) -> None:
    """In the window's CRS, if it exists there. Latitude before longitude is the most frequent mistake."""
    beginning = "" if shift == math.inf else "lies outside its 40 x 50 pixels; "

    with pytest.raises(RequestError, match=beginning + said) as caught:
        planned(reader_of(a=like(crs=crs)), hrefs("a"), window=window, projector=FakeProjector(shift=shift))

    assert caught.value.field == "window"


@pytest.mark.parametrize(
    ("window", "west", "said"),
    [
        ({"point": [-170.5, 10]}, 170.0, "; longitude -170.5 is 189.5 there: write that"),
        ({"bbox": [-175, 5, -174, 6]}, 170.0, "; longitude -175 is 185 there: write that"),
        ({"point": [175.5, 10]}, -190.0, "; longitude 175.5 is -184.5 there: write that"),
        ({"point": [120, 10]}, 170.0, "between latitudes 0 and 20"),
    ],
)
def test_plan_cube_says_which_longitude_to_write_for_an_image_past_180_degrees(
    window: dict[str, Any], west: float, said: str
) -> None:
    """Some products count longitudes from 0 to 360."""
    grid = Transform(a=0.5, b=0.0, c=west, d=0.0, e=-0.4, f=20.0)
    image = FakeImage(pixels=A, header={"transform": grid, "crs": "EPSG:4326"})

    with pytest.raises(RequestError, match=f"{re.escape(said)}$"):
        planned(reader_of(a=image), hrefs("a"), window=window)


def test_plan_cube_warns_of_sources_that_are_named_twice() -> None:
    """Repeated sources are read, stored and paid for again."""
    twice = planned(reader_of(a=A, b=A), hrefs("a", "b", "a"))
    often = planned(reader_of(a=A, b=A), hrefs("a", "b", "a", "a"))

    assert twice.warnings == ("1 of 3 lines repeats an earlier source, which is read and stored again",)
    assert often.warnings[0].startswith("2 of 4 lines repeat an earlier source")


def test_plan_cube_warns_of_an_index_that_knows_none_of_the_sources() -> None:
    """A wrong index would otherwise cost one GET per file unnoticed."""
    rows = hrefs("a", "b")
    first = next(rows.rows(0, 1)).sources[0]
    assert first is not None

    def warnings(table: FakeTable, index: str | None) -> tuple[str, ...]:
        window = {"pixels": [0, 0, 5, 5]}
        return planned(reader_of(a=A, b=A), table, window=window, index=index).warnings

    assert warnings(rows, None) == ()
    assert warnings(rows, "x.parquet")[0].startswith("the header index has no entry for these sources")
    assert warnings(replace(rows, index={first.href: b"what its header told"}), "x.parquet") == ()


def test_plan_cube_plans_on_where_one_source_has_an_unknown_crs() -> None:
    """If PROJ cannot transform to the CRS of one source, only that source fails."""
    projector = FakeProjector(unknown=frozenset({"LOCAL"}))
    odd = like(crs="LOCAL", transform=UTM.shifted(1, 1))
    window = {"point": [500_055, 4_599_945], "crs": "EPSG:3857"}

    for first, second in ((odd, A), (A, odd)):
        plan = planned(reader_of(a=first, b=second), hrefs("a", "b"), projector=projector, window=window)

        assert plan.slots[0].grid.crs == "EPSG:32631"


@dataclass(frozen=True)
class Refused:
    """A request that does not fit its sources, and the field that is named."""

    id: str
    image: Pixels | FakeImage
    request: dict[str, Any]
    field: str
    says: str


REFUSED = [
    Refused(
        "missing",
        FakeImage(pixels=A, open_error=SourceError("no such object", href="x", status=Status.MISSING)),
        {},
        "sources",
        "the one source that was tried cannot be opened",
    ),
    Refused("band", A, {"bands": [3]}, "bands", "has 2 bands, not 3"),
    Refused("outside", A, {"window": {"pixels": [99, 0, 1, 1]}}, "window", r"outside its 40 x 50 pixels$"),
    Refused("unplaced", like(transform=None), {"window": {"point": [0, 0]}}, "window", "no geotransform"),
    Refused("nodata too large", A, {"nodata": 65_536}, "nodata", "65536 does not fit uint16"),
    Refused("nodata below 0", A, {"nodata": -1}, "nodata", "does not fit"),
    Refused("nodata half", A, {"nodata": 0.5}, "nodata", "does not fit"),
    Refused("nodata NaN", A, {"nodata": "nan"}, "nodata", "does not fit"),
    Refused("nodata for others", like(nodata=0), {"nodata": 65_536}, "nodata", "does not fit"),
    Refused("nodata beyond float32", A.astype("float32"), {"nodata": 1e300}, "nodata", "does not fit"),
    Refused("masked", A, {"masked": True}, "nodata", "masked pixels need a nodata value"),
    Refused(
        "zfp",
        A.astype("float16"),
        {"output": {"codec": "zfp", "zfp_tolerance": 0}},
        "output.codec",
        "not for band_1",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_plan_cube_refuses_what_the_sources_cannot_give(case: Refused) -> None:
    """The error names the wrong field."""
    with pytest.raises(RequestError, match=case.says) as caught:
        planned(reader_of(a=case.image), hrefs("a"), **case.request)

    assert caught.value.field == case.field


AXIS: dict[str, Any] = {"output": {"bands": "axis"}}


@pytest.mark.parametrize(
    ("nir", "request_", "said"),
    [
        (like(nodata=7), AXIS, "output.bands: .* have one nodata, but red has None and nir 7: leave"),
        (like(scales=(0.5, 1.0)), AXIS, r"have one scale, but red has 1\.0 and nir 0\.5"),
        (like(offsets=(3.0, 0.0)), AXIS, r"have one offset, but red has 0\.0 and nir 3\.0"),
        (
            FakeImage(pixels=A.astype("float32")),
            {"mask": {"band": "nir", "drop": [3]}, "nodata": 0},
            "mask.band: nir is float32, and a mask has whole numbers",
        ),
    ],
)
def test_plan_cube_refuses_bands_that_do_not_go_together(
    nir: FakeImage, request_: dict[str, Any], said: str
) -> None:
    """One array has one nodata, scale and offset. Fractions are no classes."""
    table = FakeTable((red_and_nir("s3://b/a", "s3://b/c"),), bands=("red", "nir"))

    with pytest.raises(RequestError, match=said):
        planned(reader_of(a=A, c=nir), table, **request_)


@pytest.mark.parametrize("name", ["band", "bands"])
def test_plan_cube_refuses_a_column_with_the_name_of_an_axis_of_bands(name: str) -> None:
    """The cube would have two arrays of one name."""
    table = FakeTable(
        (red_and_nir("s3://b/a", "s3://b/a"),),
        bands=("red", "nir"),
        columns=(ListColumn(name=name, dtype="string", varies_in_row=False),),
    )

    with pytest.raises(
        RequestError, match=f"sources: a cube with an axis of bands has {name} already: rename"
    ):
        planned(reader_of(a=A), table, **AXIS)
    assert planned(reader_of(a=A), table).columns == table.columns


def test_plan_cube_refuses_bands_of_several_sizes() -> None:
    """Bands of 10 m and 20 m do not have the same shape."""
    row = red_and_nir("s3://b/a", "s3://b/c")
    coarse = FakeImage(pixels=A[:, ::2, ::2], header={"transform": UTM.scaled(2, 2)})
    table = FakeTable((row,), bands=("red", "nir"))
    window = {"bbox": [500_000, 4_599_900, 500_100, 4_600_000], "crs": "source"}

    with pytest.raises(RequestError, match="10 x 10 pixels of band red but 5 x 5 of band nir"):
        planned(reader_of(a=A, c=coarse), table, window=window)
    for of_pixels in (
        {"pixels": [0, 0, 4, 4]},
        {"point": [500_050, 4_599_950], "crs": "source", "size": [4, 4]},
    ):
        with pytest.raises(
            RequestError, match="band red are 10 wide and those of band nir 20, so the windows"
        ):
            planned(reader_of(a=A, c=coarse), table, window=of_pixels)
    far = FakeImage(pixels=A, header={"crs": "EPSG:32633"})
    three = FakeTable(
        (
            replace(
                row, sources=(row.sources[0], Source(href="s3://b/f", band="x", scene="1"), row.sources[1])
            ),
        ),
        bands=("red", "x", "nir"),
    )
    with pytest.raises(RequestError, match="band red are 10 wide and those of band nir 20"):
        planned(reader_of(a=A, c=coarse, f=far), three, window={"pixels": [0, 0, 4, 4]})
    for near in ({"transform": UTM.scaled(1.01, 1.01)}, {"transform": None}, {"crs": None}):
        planned(reader_of(a=A, c=FakeImage(pixels=A, header=near)), table, window={"pixels": [0, 0, 4, 4]})
    with pytest.raises(RequestError, match="name one band only"):
        planned(reader_of(a=A, c=coarse), table, bands=[1, 2])


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"usd": 0}, r"limits.usd: the plan takes \$"),
        ({"files": 2}, "limits.files: the plan takes 3 files, the limit is 2 files"),
        ({"pixels": 1000}, "limits.pixels: the plan takes 1,536 pixels"),
        ({"fetched_bytes": 1}, "limits.fetched_bytes"),
    ],
    ids=str,
)
def test_plan_cube_refuses_what_is_over_a_limit(limits: dict[str, Any], says: str) -> None:
    """The error names the limit, what the plan takes, and what to do."""
    with pytest.raises(BudgetError, match=says) as caught:
        planned(reader_of(a=A), hrefs("a", "a", "a"), limits=limits)

    assert caught.value.field == f"limits.{next(iter(limits))}"


@pytest.mark.long
@given(
    nodata=st.none() | st.just(float("nan")) | st.floats(-1e9, 1e9) | st.integers(-(2**31), 2**31),
    codec=st.sampled_from(("none", "blosc-lz4", "zstd")),
    placed=st.booleans(),
)
def test_plan_survives_msgpack(nodata: float | None, codec: str, *, placed: bool) -> None:
    """Workers read the same plan that was written, also with NaN."""
    image = FakeImage(
        pixels=A.astype("float64"),
        header={"nodata": nodata, "scales": (0.1, 1.0)} | ({} if placed else {"transform": None}),
    )
    plan = planned(reader_of(a=image), hrefs("a"), output={"codec": codec})

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=CubePlan)

    assert repr(again) == repr(plan)  # NaN differs from itself, but is written the same
    assert type(again.slots[0].grid.transform) is type(plan.slots[0].grid.transform)


def test_plan_cube_accepts_what_is_just_within_its_limits() -> None:
    """A limit is the most that may be, not the first that may not."""
    plan = planned(reader_of(a=A), hrefs("a", "a", "a"))
    exact = {
        "usd": plan.estimate.usd,
        "files": 3,
        "pixels": 3 * 16 * 16 * 2,
        "fetched_bytes": plan.estimate.fetched_nbytes,
    }

    assert planned(reader_of(a=A), hrefs("a", "a", "a"), limits=exact).shape == plan.shape
    for name, limit in exact.items():
        with pytest.raises(BudgetError, match=f"limits.{name}: "):
            planned(
                reader_of(a=A),
                hrefs("a", "a", "a"),
                limits=exact | {name: limit * 0.999 if name == "usd" else limit - 1},
            )


@pytest.mark.parametrize(
    ("dtype", "nodata", "fits"),
    [
        ("uint8", 255, True),
        ("uint8", 256, False),
        ("int16", -32_768, True),
        ("int16", -32_769, False),
        ("uint8", 7.0, True),
        ("float32", 3.4028234663852886e38, True),
        ("float32", -3.5e38, False),
        ("float32", "inf", True),
        ("float32", "nan", True),
        ("float64", 1e300, True),
        ("complex64", 3.5e38, False),
    ],
)
def test_plan_cube_takes_nodata_that_the_dtype_can_hold(dtype: str, nodata: Any, *, fits: bool) -> None:
    """Integers exactly, floats within their range."""
    reader = reader_of(a=A.astype(dtype))

    if fits:
        assert str(planned(reader, hrefs("a"), nodata=nodata).measurements[0].nodata) in (str(nodata), "7")
    else:
        with pytest.raises(RequestError, match="does not fit"):
            planned(reader, hrefs("a"), nodata=nodata)


def test_plan_cube_holds_a_window_against_the_largest_source() -> None:
    """Of all that were sampled, by its pixels. The window of a million pixels is always allowed."""
    wide = FakeImage(pixels=np.zeros((2, 1, 4000), "uint16"))
    tall = FakeImage(pixels=np.zeros((2, 300, 300), "uint16"))
    window = {"pixels": [0, 0, 1200, 1200]}

    assert planned(reader_of(a=wide, b=tall), hrefs("a", "b"), window=window).shape == (2, 1200, 1200)
    with pytest.raises(
        BudgetError, match=r"is 360 times as large as .* \(4,000 x 1\). The limit is 16 times"
    ):
        planned(reader_of(a=wide), hrefs("a"), window=window)
    with pytest.raises(BudgetError, match="is 16 times as large"):
        planned(reader_of(b=tall), hrefs("b"), window={"pixels": [0, 0, 1201, 1200]})
    with pytest.raises(BudgetError, match="times_source"):
        planned(reader_of(a=A), hrefs("a"), window={"pixels": [0, 0, 1024, 1025]})


def test_plan_cube_counts_the_work_of_scenes() -> None:
    """Two bands of three scenes, one of which has no nir, of which the index knows two headers."""

    def scene(n: int, *, nir: bool = True) -> CubeRow:
        sources = (
            Source(href=f"s3://b/r{n}", band="red", scene=str(n)),
            Source(href=f"s3://c/n{n}", band="nir", scene=str(n)) if nir else None,
        )
        return CubeRow(time_us=None, sources=sources)

    table = FakeTable(
        (scene(0), scene(1), scene(2, nir=False)),
        bands=("red", "nir"),
        index={"s3://b/r0": b"0", "s3://c/n0": b"1"},
        search_cost=SearchCost(n_gets=7, n_pages=0),
    )
    images = {each.href: A for row in table.all_rows for each in row.sources if each is not None}

    plan = planned(FakeReader(images), table, window={"pixels": [0, 0, 40, 20]}, index="x.parquet")

    estimate = plan.estimate
    header, share = 512, 0.5
    assert estimate.n_gets == round(5 * (3 / 5 + 2))
    assert estimate.fetched_nbytes == round(5 * (3 / 5 * header + share * (A.nbytes + 512)))
    assert estimate.decoded_nbytes == 3 * 20 * 40 * (2 + 2)
    assert estimate.n_puts == 1 * (2 + 2) + 20 + 45
    told = {each.what: each for each in estimate.figures}
    assert told["shards"].how_much == "1"
    assert told["search"].how_much == "7 GETs"
    assert "except 2 that are in an index" in told["GETs"].rests_on[0]
    assert told["parts"].rests_on[0] == f"{size(share * (A.nbytes + 512))} per source, 6 sources at one time"


def test_a_plan_tells_how_many_pages_a_search_took() -> None:
    """They are those of an API."""
    table = replace(hrefs("a"), search_cost=SearchCost(n_gets=0, n_pages=3))

    told = {each.what: each.how_much for each in planned(reader_of(a=A), table).estimate.figures}

    assert told["search"] == "3 pages"


def test_plan_cube_counts_no_header_of_a_source_that_is_indexed() -> None:
    """Of the only one."""
    table = replace(hrefs("a"), index={"s3://b/a": b"1"})

    estimate = planned(reader_of(a=A), table, index="x.parquet").estimate

    assert (estimate.n_gets, estimate.fetched_nbytes) == (1, round((A.nbytes + 512) / 12))


def test_plan_cube_shares_the_bytes_of_a_window_among_its_strips() -> None:
    """Each task needs its strip of each source."""
    reader, table = FakeReader({"a": A}), table_of(*"aaaa")
    layout = {"layout": {"chunk": [1, 10, 40], "shard_rows": 2}}

    plan = planned(
        reader, table, window={"pixels": [0, 0, 40, 50]}, output=layout, max_task_nbytes=2 * 10 * 40 * 2 * 2
    )

    assert plan.layout.shard == (2, 10, 40)
    told = {each.what: each for each in plan.estimate.figures}
    assert told["shards"].how_much == "10"
    assert told["parts"].rests_on[0] == f"{size((A.nbytes + 512) / 5)} per source, 2 sources at one time"


@pytest.mark.parametrize(
    ("window", "n_ranges", "share"),
    [
        ([0, 0, 16, 16], 1, 1 / 12),
        ([16, 16, 16, 16], 1, 1 / 12),
        ([15, 15, 2, 2], 2, 4 / 12),
        ([0, 0, 40, 50], 4, 1),
        ([-100, -100, 300, 300], 4, 1),
        ([39, 49, 5, 5], 1, 1 / 12),
    ],
)
def test_plan_cube_counts_the_tiles_that_a_window_touches(
    window: list[int], n_ranges: int, share: float
) -> None:
    """On 40 x 50 pixels in 3 x 4 tiles. A row of tiles is one range."""
    estimate = planned(reader_of(a=A), hrefs("a"), window={"pixels": window}).estimate

    assert estimate.n_gets == 1 + n_ranges
    assert estimate.fetched_nbytes == 512 + round(share * (A.nbytes + 512))


def test_plan_cube_counts_the_tiles_of_each_band() -> None:
    """Unless a tile holds all bands."""

    def gets(bands: list[int], *, is_interleaved: bool) -> int:
        coding = replace(CODING, is_interleaved=is_interleaved)
        image = FakeImage(pixels=np.zeros((3, 50, 40), "uint16"), header={"coding": coding})
        asked: dict[str, Any] = {"bands": bands, "window": {"pixels": [0, 15, 9, 2]}}
        return planned(reader_of(a=image), hrefs("a"), **asked).estimate.n_gets

    assert gets([1, 2, 3], is_interleaved=True) == 1 + 2
    assert gets([1, 2, 3], is_interleaved=False) == 1 + 3 * 2
    assert gets([2, 3], is_interleaved=False) == 1 + 2 * 2


FAR = WorkerPool(
    region="eu-central-1",
    far_buckets={
        "b": FarBucket(region="us-west-2"),
        "c": FarBucket(region="us-east-1", is_charged=False),
        "d": FarBucket(region="sa-east-1"),
    },
)
WHOLE = {"pixels": [0, 0, 40, 50]}


def test_plan_cube_warns_of_buckets_in_other_regions() -> None:
    """Of those that the list has, with what their transfer costs, or who pays for it."""
    workers = replace(FAR, is_deployed=True)
    images = dict.fromkeys(("s3://e/1", "s3://b/1", "s3://b/2", "s3://c/1"), like(nbytes=10**10))

    def plan(*names: str) -> CubePlan:
        return planned(FakeReader(images), table_of(*names), workers=workers, window=WHOLE)

    *far, of_prices = plan(*images).warnings
    assert far == [
        (
            "2 sources lie in the bucket b in us-west-2, but the workers run in eu-central-1: transfer is "
            "charged and in the price ($0.40 in all); a deployment in us-west-2 would avoid this"
        ),
        (
            "1 source lies in the bucket c in us-east-1, but the workers run in eu-central-1: its owner pays "
            "for transfer, and each request takes longer; a deployment in us-east-1 would avoid this"
        ),
    ]
    assert plan(*images).estimate.transfer_nbytes == pytest.approx(2 * 10**10, rel=1e-3)
    assert plan("s3://e/1").warnings == (of_prices,)
    assert of_prices.startswith(
        "the dollars are by the prices of us-east-1, arm64, November 2026: those of eu-"
    )
    workers = replace(workers, region="us-west-2")
    assert plan("s3://e/1").warnings == ()


@pytest.mark.parametrize("place", ["gs://b", "az://c", "abfs://c"])
def test_plan_cube_warns_of_sources_in_another_cloud(place: str) -> None:
    """Workers on AWS would read none of them."""
    plan = planned(FakeReader({f"{place}/a": A, "s3://b/b": A}), table_of("s3://b/b", f"{place}/a"))

    (said,) = plan.warnings
    assert said.startswith(f"sources such as {place}/a lie in another cloud: gather them in process")


@pytest.mark.parametrize(
    ("nbytes", "limits", "refused"),
    [
        (10**10, {}, None),
        (10**11, {}, r"\$4\.00.* to eu-central-1.* the limit is \$1\.0000\. Deploy in us-west-2"),
        (10**11, {"transfer_usd": 5}, None),
        (10**10, {"transfer_usd": 0}, r"the limit is \$0\.0000\. Deploy in us-west-2, where most"),
    ],
)
def test_plan_cube_refuses_to_pay_for_much_transfer(
    nbytes: int, limits: dict[str, Any], refused: str | None
) -> None:
    """More than a dollar has to be allowed. The message names the Region to deploy in."""
    images = dict.fromkeys(("s3://b/1", "s3://b/2", "s3://c/1", "s3://c/2", "s3://c/3"), like(nbytes=nbytes))

    with nullcontext() if refused is None else pytest.raises(BudgetError, match=refused):
        planned(FakeReader(images), table_of(*images), workers=FAR, window=WHOLE, limits=limits)


@pytest.mark.parametrize(
    ("per_s", "seconds", "n_workers"),
    [
        ({}, 5.5, None),
        ({"s3://b": 20.0}, 100, 5),
        ({"s3://b": 20.0, "https://h": 4.0}, 100, 5),
        ({"s3://other": 1.0}, 5.5, None),
        ({"s3://b": 1.0}, 2000, 1),
    ],
)
def test_plan_cube_follows_what_a_host_may_be_asked(
    per_s: dict[str, float], seconds: float, n_workers: int | None
) -> None:
    """The time is that of all requests at this rate. No more workers start than have something to do."""
    images = {f"s3://b/{n}": like() for n in range(1000)}
    limits = {"requests_per_s": per_s} if per_s else {}

    plan = planned(FakeReader(images), table_of(*images), window={"pixels": [0, 0, 3, 3]}, limits=limits)

    assert plan.requests_per_s == per_s
    assert plan.estimate.seconds == pytest.approx(seconds, rel=0.3)
    if n_workers is not None:
        assert plan.estimate.n_workers <= n_workers
        assert plan.estimate.bound_by == "limits.requests_per_s"


def test_plan_cube_gives_each_shard_a_child_where_some_may_be_lost() -> None:
    """The map counts what fails by its children."""
    names = [f"s3://b/{n}" for n in range(600)]
    reader, table = FakeReader(dict.fromkeys(names, A)), table_of(*names)
    output = {"layout": {"chunk": [1, 16, 16], "shard_rows": 1}}

    def per_child(**limits: Any) -> int:
        return planned(reader, table, output=output, limits={"workers": 2} | limits).estimate.tasks_per_child

    assert per_child() > 1
    assert per_child(failed_shards=0.1) == 1


def test_plan_cube_makes_room_for_the_rows_that_are_expected() -> None:
    """Shards of an archive are as large as its largest cube needs. The cube itself has its own rows."""
    few = planned(reader_of(a=A), hrefs("a"))
    expecting = planned(reader_of(a=A), hrefs("a"), output={"archive": "x", "expected_rows": 500})

    assert few.layout.shard[0] == 1
    assert expecting.layout.shard[0] == 500
    assert few.n_rows == expecting.n_rows == 1


def test_plan_cube_keeps_the_grids_of_its_sample_once() -> None:
    """They show where the sources lie."""
    moved = like(transform=UTM.shifted(1, 1))

    plan = planned(reader_of(a=A, b=moved, c=A), hrefs("a", "b", "c"), window={"pixels": [0, 0, 5, 5]})

    assert [each.transform for each in plan.sampled_grids] == [UTM, UTM.shifted(1, 1)]


def test_plan_cube_keeps_scales_and_offsets_of_the_bands_that_it_reads() -> None:
    """The number of each band decides which ones it keeps."""
    image = like(scales=(0.5, 2.0), offsets=(1.0, -1.0))

    plan = planned(reader_of(a=image), hrefs("a"), bands=[2, 1])

    assert [(each.name, each.scale, each.offset) for each in plan.measurements] == [
        ("band_2", 2.0, -1.0),
        ("band_1", 0.5, 1.0),
    ]


def test_plan_cube_harmonises_to_the_lowest_offset_beside_the_commonest_scale() -> None:
    """So no pixel falls below zero. What is no scale, or no offset, does not count."""

    def of(scale: float, offset: float) -> FakeImage:
        return like(scales=(scale, scale), offsets=(offset, offset))

    images = {"a": of(1.0, 0.0), "b": of(1.0, -1000.0), "c": of(2.0, -5000.0), "d": of(1.0, -math.inf)}

    plan = planned(reader_of(**images), hrefs("a", "b", "c", "d"), values="harmonised")

    assert [(each.scale, each.offset) for each in plan.measurements] == [(1.0, -1000.0)] * 2


def test_plan_cube_warns_of_times_that_not_all_hrefs_have_and_of_a_lists_notes() -> None:
    """The first axis is then the source."""
    sources = {"list": "l.csv", "time": "(?P<year>\\d{4})"}

    untimed = planned(reader_of(a=A), replace(hrefs("a"), notes=("a note",)), sources=sources)
    timed = planned(reader_of(a=A), replace(hrefs("a"), has_time=True), sources=sources)

    assert untimed.warnings == (
        "sources.time finds no time in some hrefs: the cube's first axis is source, not time",
        "a note",
    )
    assert timed.warnings == ()


def test_a_limit_of_a_small_sum_is_not_printed_as_nothing() -> None:
    """So that the message says by how much the plan is over it."""
    with pytest.raises(BudgetError, match=r"takes \$0\.0\d+, the limit is \$0\.000010\. Ask for less"):
        planned(reader_of(a=A), hrefs("a"), limits={"usd": 0.00001})
    with pytest.raises(BudgetError, match=r"the limit is \$0\.0000\. Ask for less"):
        planned(reader_of(a=A), hrefs("a"), limits={"usd": 0})


def test_plan_cube_warns_of_rows_without_a_time() -> None:
    """Because of one of them the cube has no time axis. It may be an empty cell in a long list."""
    one = planned(reader_of(a=A), replace(hrefs("a", "a"), n_timeless=1))
    two = planned(reader_of(a=A), replace(hrefs("a", "a"), n_timeless=2))

    said = "of 2 rows {} no time: the cube's first axis is source, not time. Give every row a time, or leave "
    assert one.warnings[0] == f"1 {said.format('has')}these rows out"
    assert two.warnings[0] == f"2 {said.format('have')}these rows out"


@pytest.mark.parametrize("name", ["datetime", "date", "Time"])
def test_plan_cube_warns_of_a_time_by_another_name(name: str) -> None:
    """STAC calls it datetime. Such a column is text of each row, and the cube has no time axis."""
    table = replace(hrefs("a"), columns=(ListColumn(name=name, dtype="string", varies_in_row=False),))

    untimed = planned(reader_of(a=A), table)
    timed = planned(reader_of(a=A), replace(table, has_time=True))

    (said,) = untimed.warnings
    assert said == (
        "the list has no column time, so the cube's first axis is source. If the column "
        f"{name} is the time of the images, name it time"
    )
    assert timed.warnings == ()


def test_plan_cube_warns_of_columns_with_a_space() -> None:
    """CF separates names by spaces, so xarray cannot tell that such a column is a coordinate."""
    columns = tuple(
        ListColumn(name=name, dtype="int64", varies_in_row=False) for name in ("a_b", "cloud cover")
    )

    spaced = planned(reader_of(a=A), replace(hrefs("a"), columns=columns))
    plain = planned(reader_of(a=A), replace(hrefs("a"), columns=columns[:1]))

    said = (
        "the name of column 'cloud cover' has a space: xarray opens it as a variable, not as a coordinate, "
        "and conditions cannot name it. Write _ instead"
    )
    assert spaced.warnings == (said,)
    assert plain.warnings == ()


def test_plan_cube_warns_if_a_listed_band_has_files_of_several_bands() -> None:
    """Only their first band is read, unless the request says which one."""
    row = red_and_nir("s3://b/a", "s3://b/c")
    table = FakeTable((row,), bands=("red", "nir"))
    reader = reader_of(a=A, c=A[:1])

    told = planned(reader, table)
    asked = planned(reader, table, bands=[1])

    said = (
        "only the first band is read of the sources of red: 1 of 1 sampled ones have more, such as s3://b/a; "
        "say which one by bands"
    )
    assert told.warnings == (said,)
    assert asked.warnings == ()


def test_plan_cube_says_that_cubes_of_zfp_need_imagecodecs() -> None:
    """By itself, xarray cannot open such a cube. Cubes of the other codecs need no word."""
    floats = reader_of(a=A.astype("float32"))

    zfp = planned(floats, hrefs("a"), output={"codec": "zfp", "zfp_tolerance": 0.5})
    zstd = planned(floats, hrefs("a"), output={"codec": "zstd"})

    assert zfp.zfp_tolerance == 0.5
    (warning,) = set(zfp.warnings) - set(zstd.warnings)
    assert warning.startswith("the cube is compressed by zfp: zarr-python with imagecodecs opens it, after ")
    assert "imagecodecs.zarr.register_codecs()" in warning
    assert not any("imagecodecs" in each for each in zstd.warnings)


def test_plan_cube_takes_the_kind_of_source_that_most_are() -> None:
    """The most frequent dtype decides first, then the most frequent number of bands among its sources."""
    one, two, float_ = A[:1], A, A[:1].astype("float32")
    images = dict(zip("abcdefg", (float_, float_, float_, two, one, one, two), strict=True))

    plan = planned(reader_of(**images, h=two), hrefs(*"abcdefgh"))

    assert (plan.measurements[0].dtype, len(plan.measurements)) == ("uint16", 2)


def test_plan_cube_takes_a_source_that_has_the_bands() -> None:
    """Even if most have fewer."""
    plan = planned(reader_of(a=A[:1], b=A[:1], c=A), hrefs("a", "b", "c"), bands=[2])

    assert plan.slots[0].bands == (2,)
    with pytest.raises(RequestError, match=r"s3://b/a has 2 bands, not 3"):
        planned(reader_of(a=A), hrefs("a"), bands=[1, 3])
    with pytest.raises(RequestError, match=r"s3://b/a has 1 band, not 2"):
        planned(reader_of(a=A[:1], b=A[:1]), hrefs("a", "b"), bands=[2])


def test_plan_cube_says_how_many_sources_were_tried_in_vain() -> None:
    """It also gives the first error."""
    with pytest.raises(
        RequestError, match=r"none of the 2 sources that were tried can be opened; the first: .*b/x"
    ):
        planned(reader_of(), hrefs("x", "y"))


def test_plan_cube_refuses_a_crs_that_nobody_knows() -> None:
    """Before a source is opened."""
    reader = reader_of(a=A)
    projector = FakeProjector(unknown=frozenset({"EPSG:9"}))

    with pytest.raises(RequestError, match="EPSG:9 is not known") as caught:
        planned(reader, hrefs("a"), window={"point": [1, 2], "crs": "EPSG:9"}, projector=projector)

    assert caught.value.field == "window.crs"
    assert reader.opened == []


def test_plan_cube_of_bands_holds_to_the_largest_of_them() -> None:
    """The window may be as large as the larger source allows. Chunks are for the larger dtype."""
    row = red_and_nir("a", "b")
    images = {"a": np.zeros((1, 50, 40), "uint8"), "b": np.zeros((1, 300, 300), "float64")}
    table = FakeTable((row,) * 100, bands=("red", "nir"))

    plan = planned(FakeReader(images), table, window={"pixels": [0, 0, 1100, 1100]}, max_task_nbytes=2**30)

    assert [each.dtype for each in plan.measurements] == ["uint8", "float64"]
    assert plan.layout.chunk == (3, 123, 123)
    assert plan.layout.shard[0] * plan.layout.shard[1] * plan.layout.shard[2] * 8 <= 32 * 2**20 * 1.3


def test_plan_cube_reads_as_many_sources_at_one_time_as_a_worker_may() -> None:
    """If each is one range."""
    names = [f"s3://b/{n}" for n in range(100)]

    plan = planned(FakeReader(dict.fromkeys(names, A)), table_of(*names))

    [parts] = [each for each in plan.estimate.figures if each.what == "parts"]
    assert parts.rests_on[0].endswith("per source, 64 sources at one time")
