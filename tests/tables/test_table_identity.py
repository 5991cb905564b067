"""Which fields of a request decide a table of points or zones, besides its list and its features."""

from copy import replace
from types import SimpleNamespace
from typing import Any, Final

from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather.features.zones.zone_statistics import parse_statistics
from pixel_gather.in_process.table_job import TableJob
from pixel_gather.tables.image_work import TableKind
from pixel_gather.tables.read_features import FeatureColumns
from pixel_gather.tables.table_limits import TableLimits
from pixel_gather.tables.table_request import TableRequest, about_of
from pixel_gather.tables.table_values import Values
from support.identities import alike, another, check_identity

_WORK: Any = SimpleNamespace(columns=("ndvi",))
_POINTS: Final = PointTable(Method())
_REQUEST: Final = TableRequest.of(
    features="plots.csv",
    sources="list.csv",
    by=["ndvi"],
    mask={"band": "scl", "drop": [3]},
    bands={"red": "B04"},
)


def _about(request: TableRequest, kind: TableKind = _POINTS) -> dict[str, Any]:
    return about_of(request, kind, request.values, _WORK, {})


def test_a_table_is_the_same_by_what_is_computed() -> None:
    """Features and images count by what they hold, wherever it is written. Limits only refuse a table."""
    values = Values.of(by="evi=nir-red", mask=None, bands=None, raw=False)
    changes = {
        "features": alike(_REQUEST, features="other.csv"),
        "sources": alike(_REQUEST, sources="other.csv"),
        "columns": alike(_REQUEST, columns=FeatureColumns(id="plot")),
        "values": another(_REQUEST, values=values),
        "limits": alike(_REQUEST, limits=TableLimits.of({"usd": 1})),
        "tolerance_us": another(_REQUEST, tolerance_us=1),
    }

    check_identity(_about, changes, fields=TableRequest.__struct_fields__)


def test_a_table_is_the_same_by_its_values_and_their_order() -> None:
    """The order of values is that of the columns."""
    two, turned = (
        TableRequest.of(features="plots.csv", sources="list.csv", by=by).values
        for by in (["ndvi", "ndwi"], ["ndwi", "ndvi"])
    )
    changes = {
        "values": another(two, values=turned.values),
        "mask": another(two, mask=PixelMask(band="scl", drop=(3,))),
        "bands": another(two, bands=(("red", "B04"),)),
        "raw": another(two, raw=True),
    }

    check_identity(
        lambda values: _about(replace(_REQUEST, values=values)), changes, fields=Values.__struct_fields__
    )


def test_a_table_with_another_name_of_a_column_is_another_table() -> None:
    """``rgb:1`` is ``rgb`` of a file with one band. But the columns are called as they were asked for."""
    tables = [
        _about(TableRequest.of(features="plots.csv", sources="list.csv", by=by))
        for by in (["rgb"], ["rgb:1"], ["red=rgb"])
    ]

    assert [each["values"] for each in tables] == [["rgb"], ["rgb:1"], ["red"]]


def test_a_table_is_the_same_by_the_pixels_that_do_not_count() -> None:
    """A table dilates nothing."""
    of_bits = PixelMask(band="scl", bits=(3,))
    changes = {
        "band": another(of_bits, band="qa"),
        "drop": another(PixelMask(band="scl", drop=(3,)), drop=(8,)),
        "bits": another(of_bits, bits=(4,)),
        "dilate": alike(of_bits, dilate=1),
    }

    check_identity(
        lambda mask: _about(replace(_REQUEST, values=replace(_REQUEST.values, mask=mask))),
        changes,
        fields=PixelMask.__struct_fields__,
    )


def test_a_table_is_the_same_by_its_kind() -> None:
    """By all that points and zones say of themselves."""
    zones = ZoneTable.of("mean")
    of_zones = {
        "statistics": another(zones, statistics=parse_statistics("p99.9991")),
        "coverage": another(zones, coverage="centre"),
        "merge": another(zones, merge=False),
    }
    of_points = {
        "kind": another(Method(), kind="bilinear"),
        "square": another(Method(), square=3),
    }

    check_identity(lambda kind: _about(_REQUEST, kind), of_zones, fields=ZoneTable.__struct_fields__)
    check_identity(
        lambda method: _about(_REQUEST, PointTable(method)), of_points, fields=Method.__struct_fields__
    )
    assert PointTable.__struct_fields__ == ("method",)


def test_a_table_is_the_same_by_the_bands_of_its_assets() -> None:
    """The second band of an asset has other values than the first."""
    found = [
        about_of(_REQUEST, _POINTS, _REQUEST.values, _WORK, numbers)
        for numbers in ({}, {"rgb": 1}, {"rgb": 2})
    ]

    assert found[0] != found[1] != found[2]


def test_what_a_run_has_computed_is_used_for_the_same_table_alone() -> None:
    """By list, features, request and table to append to. The rest follows from these."""

    def with_digest(digest: str, **more: Any) -> Any:
        return SimpleNamespace(digest=digest, **more)

    job = TableJob(
        job=SimpleNamespace(table=with_digest("a")),  # type: ignore[arg-type] # what the digest asks
        features=with_digest("a"),
        work=_WORK,
        combine=None,
        request=_about(_REQUEST),
        base=SimpleNamespace(receipt={"digest": "a"}),  # type: ignore[arg-type] # as above
    )
    changes = {
        "job": another(job, job=SimpleNamespace(table=with_digest("b"))),
        "features": another(job, features=with_digest("b")),
        "work": alike(job, work=SimpleNamespace(columns=("evi",))),
        "combine": alike(job, combine=min),
        "request": another(job, request={}),
        "tolerance_us": alike(job, tolerance_us=1),
        "base": another(job, base=SimpleNamespace(receipt={"digest": "b"})),
    }

    check_identity(lambda it: it.digest, changes, fields=TableJob.__struct_fields__)
