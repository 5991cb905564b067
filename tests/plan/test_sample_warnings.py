"""What the sampled headers warn of, in words."""

import math
from collections.abc import Mapping
from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window, WindowRule
from pixel_gather.core.plan.cube_plan import SourceSlot
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.sample_warnings import (
    in_percent,
    warnings_of_claims,
    warnings_of_places,
    warnings_of_sample,
    warnings_of_silent_sources,
)
from pixel_gather.core.plan.warning_kinds import LossWarning, PixelWarning
from support.fakes import UTM, FakeProjector, header_of

TYPICAL = header_of(np.zeros((2, 50, 40), "uint16"), "s3://b/0")
SLOT = SourceSlot(
    name=None,
    dtype="uint16",
    bands=(1, 2),
    grid=Grid.of(TYPICAL),
    window=Window(col_off=0, row_off=0, width=8, height=8),
)
OF_RED = replace(SLOT, name="red", bands=(1,))


def like(**changes: Any) -> Header:
    """Return another source's header."""
    return replace(TYPICAL, href="s3://b/x", **changes)


def of_sample(
    *headers: Header,
    slot: SourceSlot = SLOT,
    nodata: float | None = None,
    default_nodata: float | None = None,
    values: str = "raw",
    reduced_by: str | None = None,
) -> list[str]:
    """Return the warnings about a sample whose first header is the typical one."""
    sample = (TYPICAL, *headers)
    found = warnings_of_sample(
        slot,
        TYPICAL,
        sample,
        (),
        nodata=nodata,
        default_nodata=default_nodata,
        values=values,
        reduced_by=reduced_by,
    )
    return list(found)


def test_sources_that_are_all_alike_need_no_warning() -> None:
    """A source that differs only in what a gather does not read needs none, either."""
    assert of_sample(like(), like(crs="EPSG:32632", width=41, etag=None)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            ({"dtype": "int16"}, {"dtype": "int8"}, {"dtype": "int16"}),
            (
                "3 of 4 sampled sources are int16 or int8, not uint16, such as s3://b/x: their status "
                "will be unlike"
            ),
        ),
        (
            ({"n_bands": 4, "scales": (1.0,) * 4, "offsets": (0.0,) * 4}, {"n_bands": 1}),
            (
                "2 of 3 sampled sources have 1 or 4 band(s), not 2. Those with fewer will have "
                "the status unlike. Of those with more, only the first bands are read"
            ),
        ),
        (
            ({"nodata": 0}, {"nodata": 0}),
            (
                "sampled sources declare different nodata values (0: 2, none: 1): the cube has none. Each "
                "row keeps its own, which the coordinate nodata holds"
            ),
        ),
        (
            ({"scales": (1.0, 2.0)},),
            "sampled sources declare different scales or offsets: pixels stay raw",
        ),
        (
            ({"offsets": (3.0, 0.0)},),
            "sampled sources declare different scales or offsets: pixels stay raw",
        ),
        (
            ({"scales": (math.nan, 1.0)},),
            (
                "1 of 2 sampled sources declare a scale or offset that is NaN or infinite, such as s3://b/x: "
                "it is ignored"
            ),
        ),
        (
            ({"meanings": (BandMeaning(unit="K"), NO_MEANING)}, {}),
            "sampled sources declare different units: the cube says none",
        ),
        (
            ({"is_tiled": False, "tile_height": 1}, {}),
            "1 of 3 sampled sources are stored in strips, not tiles",
        ),
    ],
)
def test_each_difference_has_its_words(changes: tuple[Mapping[str, Any], ...], expected: str) -> None:
    """With counts, and one source as an example."""
    assert of_sample(*(like(**each) for each in changes)) == [expected]


@pytest.mark.parametrize("values", ["scaled", "harmonised"])
def test_scales_that_are_heeded_are_no_warning(values: str) -> None:
    """Each source's pixels become values by its own scale: none stay raw."""
    assert of_sample(like(scales=(1.0, 2.0), offsets=(3.0, 0.0)), values=values) == []


def test_scales_of_reduced_scenes_cost_their_sources() -> None:
    """Raw pixels of another scale are not reduced with the others."""
    assert of_sample(like(), like(scales=(1.0, 2.0)), reduced_by="mean") == [
        (
            "1 of 3 sampled sources declare another scale or offset, such as s3://b/x, and raw pixels are "
            "not mixed: their status will be unlike. Write values: scaled (--values scaled)"
        )
    ]


NOT_MIXED = (
    "the cube has {}. The statistic first mixes no nodata values. Sources that declare another one or none, "
    "such as s3://b/{}, are left out: their status will be unlike. Write values: scaled (--values scaled)"
)
EACH_ITS_OWN = "ach marks what is missing in its own source"


@pytest.mark.parametrize(
    ("nodata", "values", "reduced_by", "expected"),
    [
        (0, "scaled", None, f"e{EACH_ITS_OWN}"),
        (0, "raw", "mean", f"e{EACH_ITS_OWN}"),
        (0, "scaled", "first", f"e{EACH_ITS_OWN}"),
        (None, "raw", "max", f"the cube has none. E{EACH_ITS_OWN}"),
        (9, "raw", "first", NOT_MIXED.format(9, 0)),
        (0, "raw", "first", NOT_MIXED.format(0, 0)),
    ],
)
def test_cubes_without_the_coordinate_nodata_do_not_promise_it(
    nodata: float | None, values: str, reduced_by: str | None, expected: str
) -> None:
    """Missing values are NaN, and a row of several scenes has no nodata of its own."""
    found = of_sample(like(nodata=9), nodata=nodata, values=values, reduced_by=reduced_by)

    assert found == [f"sampled sources declare different nodata values (none: 1, 9: 1): {expected}"]


@pytest.mark.parametrize(
    ("default", "expected"), [(9, f"the cube has 9. E{EACH_ITS_OWN}"), (0, NOT_MIXED.format(9, 0))]
)
def test_the_requests_nodata_is_that_of_sources_without_one(default: float, expected: str) -> None:
    """So they are like the others if it is the cube's."""
    found = of_sample(like(nodata=9), nodata=9, default_nodata=default, reduced_by="first")

    assert found == [f"sampled sources declare different nodata values (none: 1, 9: 1): {expected}"]


def test_bands_that_are_not_read_do_not_count() -> None:
    """Bands that a source lacks do not count, either: such a source is unlike."""
    assert of_sample(like(scales=(1.0, 2.0)), slot=replace(SLOT, bands=(1,))) == []
    assert of_sample(like(n_bands=1, scales=(1.0,), offsets=(0.0,)), slot=OF_RED) == []
    assert (
        of_sample(like(n_bands=4, scales=(1.0,) * 4, offsets=(0.0,) * 4), slot=replace(SLOT, bands=(1,)))
        == []
    )


def test_an_image_in_one_piece_is_not_in_strips() -> None:
    """Its only tile is the whole image."""
    assert of_sample(like(is_tiled=False, tile_height=50)) == []
    assert len(of_sample(like(is_tiled=False, tile_height=49))) == 1


def test_warnings_name_the_band_and_the_cubes_nodata() -> None:
    """If the list has bands, each has a sample of its own."""
    found = of_sample(like(nodata=9), slot=OF_RED, nodata=9)

    assert found == [
        (
            "sampled sources of band red declare different nodata values (none: 1, 9: 1): the cube has 9. "
            "Each row keeps its own, which the coordinate nodata holds"
        )
    ]


def test_sources_that_cannot_be_opened_are_counted() -> None:
    """The first reason is given, too."""
    errors = [SourceError(why, href=f"s3://b/{why}", status=Status.MISSING) for why in ("one", "two")]

    found = warnings_of_sample(
        OF_RED, TYPICAL, (TYPICAL,), errors, nodata=None, values="raw", reduced_by=None
    )

    assert list(found) == ["2 of 3 sources of band red that were tried cannot be opened: s3://b/one: one"]


def claims(
    *pairs: tuple[Mapping[str, Any], Header | SourceError],
    slot: SourceSlot = SLOT,
    heeds_claims: bool = False,
) -> list[str]:
    """Return the warnings about what a catalog claims of files."""
    sources = [Source(href=f"s3://b/{n}", columns=columns) for n, (columns, _) in enumerate(pairs)]
    headers = [header for _, header in pairs]
    return list(warnings_of_claims(slot, sources, headers, heeds_claims=heeds_claims))


def test_claims_that_files_do_not_declare_are_told() -> None:
    """Each of scale, offset and nodata, with its counts and one example."""
    second = replace(SLOT, name="red", bands=(2,))
    header = like(scales=(9.0, 0.5), offsets=(9.0, 3.0), nodata=None)

    found = claims(
        ({}, header),
        ({"scale_claimed": 0.25, "offset_claimed": 3.0, "nodata_claimed": 0}, header),
        ({"scale_claimed": 0.5}, header),
        ({"scale_claimed": 0.25}, SourceError("gone", href="x", status=Status.MISSING)),
        slot=second,
    )

    assert found == [
        (
            "the catalog claims another scale than the file's for 1 of 2 sampled sources of band red, such "
            "as 0.25 and not 0.5 for s3://b/x. The cube keeps the file's values and applies neither scale. "
            "The claim is in the coordinate scale_claimed"
        ),
        (
            "the catalog claims another nodata than the file's for 1 of 1 sampled sources of band red, such "
            "as 0 and not none for s3://b/x. The cube keeps the file's values and applies neither nodata. "
            "The claim is in the coordinate nodata_claimed"
        ),
    ]


def test_claims_that_files_declare_are_not_told() -> None:
    """They are not told even if they were rounded."""
    header = like(scales=(0.1, 1.0), offsets=(-1000.0, 0.0), nodata=0)

    assert (
        claims(({"scale_claimed": 0.1 + 1e-12, "offset_claimed": -1000, "nodata_claimed": 0.0}, header)) == []
    )
    assert claims(({"scale_claimed": "0.5", "offset_claimed": None}, header)) == []
    assert len(claims(({"offset_claimed": -1001}, header))) == 1
    assert len(claims(({"nodata_claimed": 1}, header))) == 1


def test_claims_of_a_band_that_the_file_lacks_are_told() -> None:
    """It declares nothing."""
    (said,) = claims(({"scale_claimed": 1.0}, TYPICAL), slot=replace(SLOT, bands=(3,)))

    assert said.startswith(
        "the catalog claims another scale than the file's for 1 of 1 sampled sources, such as 1 and not none "
        "for s3://b/0."
    )


def test_claims_that_are_heeded_need_no_warning() -> None:
    """A claimed nodata that differs from the file's is not heeded, as the file knows its own."""
    found = claims(
        ({"scale_claimed": 0.5, "offset_claimed": 3.0, "nodata_claimed": 0}, TYPICAL),
        ({"nodata_claimed": 0}, like(nodata=7)),
        ({"nodata_claimed": 7}, like(nodata=7)),
        heeds_claims=True,
    )

    (said,) = found
    assert said.startswith("the catalog claims another nodata than the file's for 1 of 3 sampled sources")
    assert "such as 0 and not 7 for s3://b/x" in said


HALF = like(scales=(0.5, 1.0), offsets=(3.0, 0.0))
GONE = SourceError("gone", href="x", status=Status.MISSING)


@pytest.mark.parametrize(
    ("headers", "columns", "silent"),
    [
        ((HALF, TYPICAL, TYPICAL), {}, "2 of 3"),
        ((HALF, TYPICAL), {"nodata_claimed": 0}, "1 of 2"),
        ((TYPICAL, TYPICAL), {}, None),  # nobody says any
        ((HALF, HALF), {}, None),
        ((HALF, TYPICAL), {"scale": 1.0}, None),  # the list says that they are values already
        ((HALF, TYPICAL), {"offset_claimed": 0.0}, None),
        ((HALF, GONE), {}, None),
    ],
)
@pytest.mark.parametrize(
    ("scaling", "kind", "what_becomes_of_them"),
    [
        ((1.0, 0.0), PixelWarning, "their numbers stay as they are, beside scaled ones"),
        ((0.5, 3.0), LossWarning, "their status will be unlike"),
    ],
)
def test_a_warning_names_sources_that_say_no_scale_beside_others(
    *,
    headers: tuple[Header | SourceError, ...],
    columns: Mapping[str, Any],
    silent: str | None,
    scaling: tuple[float, float],
    kind: type[str],
    what_becomes_of_them: str,
) -> None:
    """Nobody knows their values. The list can say what the files do not."""
    sources = [Source(href=str(n), columns=columns if n else {}) for n in range(len(headers))]

    found = list(warnings_of_silent_sources(OF_RED, sources, headers, scaling=scaling))

    said = (
        f"{silent} sampled sources of band red, such as s3://b/0, say neither scale nor offset: "
        f"{what_becomes_of_them}. The list can say both, in columns scale and offset"
    )
    assert found == ([] if silent is None else [said])
    assert {type(each) for each in found} <= {kind}


def test_sources_that_lack_the_band_are_not_silent_about_its_scale() -> None:
    """They are unlike anyway."""
    lacking = like(n_bands=1, scales=(1.0,), offsets=(0.0,))
    headers = (like(scales=(1.0, 0.5)), lacking)
    sources = [Source(href=str(n)) for n in range(2)]

    found = warnings_of_silent_sources(replace(SLOT, bands=(2,)), sources, headers, scaling=(0.5, 0.0))

    assert not list(found)


def places(
    *headers: Header,
    slot: SourceSlot = SLOT,
    rule: WindowRule | None = None,
    nodata: float | None = None,
    projector: FakeProjector | None = None,
) -> list[str]:
    """Return the warnings about where a window lies on the sources of a sample."""
    window = slot.window
    own = WindowRule(pixels=(window.col_off, window.row_off, window.width, window.height))
    projector = projector or FakeProjector()
    return list(warnings_of_places(slot, rule or own, headers, projector, nodata=nodata))


def over(col_off: int, row_off: int, *, dtype: str = "uint16") -> SourceSlot:
    """Return a slot whose window begins at a pixel."""
    return replace(SLOT, dtype=dtype, window=Window(col_off=col_off, row_off=row_off, width=8, height=8))


def test_a_window_on_every_source_needs_no_warning() -> None:
    """Sources of another dtype are unlike anyway."""
    assert places(TYPICAL, like(), like(dtype="int8", transform=UTM.shifted(999, 0))) == []


def test_a_window_that_overhangs_is_told_with_the_source_that_has_least_of_it() -> None:
    """What lies outside is 0 if it has no nodata, the cube's or the source's own."""
    slot, small = over(36, 0), like(width=37)
    begin = (
        "the window lies partly outside 2 of 2 sampled sources, with 87.50% of its pixels outside s3://b/x: "
        "what lies outside"
    )

    (zero,) = places(TYPICAL, small, slot=slot)
    (marked,) = places(TYPICAL, small, slot=slot, nodata=5)
    (own,) = places(replace(TYPICAL, nodata=1), replace(small, nodata=2), slot=slot)
    (some,) = places(replace(TYPICAL, nodata=1), small, slot=slot)
    floats = [replace(each, dtype="float32") for each in (TYPICAL, small)]
    (nan,) = places(*floats, slot=replace(slot, dtype="float32"))

    assert len(places(TYPICAL, like(), slot=slot)) == 1  # of two with equal shares, either is named
    assert zero.startswith(f"{begin} holds 0")
    assert some.startswith(f"{begin} holds 0")
    assert all(each.startswith(f"{begin} holds nodata or NaN") for each in (marked, own, nan))


def test_sources_that_the_window_misses_are_counted_among_those_of_the_dtype() -> None:
    """One that cannot be placed at all is not among them: its failure is recorded."""
    rule = WindowRule(point=(500_055, 4_599_945), size=(8, 8), crs="EPSG:4326")
    far, unplaced, unknown = (
        like(transform=UTM.shifted(999, 0)),
        like(transform=None),
        like(crs="LOCAL"),
    )
    slot = replace(OF_RED, window=Window(col_off=1, row_off=1, width=8, height=8))

    found = places(
        TYPICAL,
        far,
        unplaced,
        unknown,
        slot=slot,
        rule=rule,
        projector=FakeProjector(unknown=frozenset({"LOCAL"})),
    )

    assert found == [
        (
            "the window lies wholly outside 1 of 4 sampled sources of band red, such as s3://b/x: their "
            "status will be outside"
        )
    ]


def test_sources_on_another_grid_are_unlike_where_one_grid_is_asked_for() -> None:
    """No unaligned stack comes of it, and what else is odd about them does not matter."""
    other = like(transform=UTM._replace(c=UTM.c + 5), width=37)
    rule = WindowRule(pixels=(36, 0, 8, 8))

    found = warnings_of_places(
        over(36, 0), rule, (like(width=64), other), FakeProjector(), nodata=None, wants_same_grid=True
    )

    assert list(found) == [
        "1 of 2 sampled sources lie on another grid, such as s3://b/x: their status will be unlike"
    ]


def test_sources_that_lack_a_band_that_is_asked_for_are_told() -> None:
    """Of scales and units, only those of bands that both have are compared."""
    slot = replace(SLOT, bands=(2,))
    lacking = like(n_bands=1, scales=(1.0,), offsets=(0.0,), meanings=(BandMeaning(unit="K"),))

    assert of_sample(lacking, slot=slot) == [
        "1 of 2 sampled sources have no band 2, such as s3://b/x: their status will be unlike"
    ]


def test_sources_on_another_grid_make_an_unaligned_stack() -> None:
    """It is enough that one of them is."""
    (said,) = places(TYPICAL, like(transform=UTM._replace(c=UTM.c + 5)), TYPICAL)

    assert said.startswith("sampled sources do not share one grid: the cube will be an unaligned stack")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0%"), (1, "100%"), (1e-9, "0.01%"), (1 - 1e-9, "99.99%"), (0.12345, "12.35%"), (0.5, "50.00%")],
)
def test_only_nothing_is_0_percent_and_only_all_is_100(share: float, expected: str) -> None:
    """Rounding never says that a source has no pixel, or all of them, where that is not so."""
    assert in_percent(share) == expected
