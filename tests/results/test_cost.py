"""The cost of a finished gather, computed from its report."""

from typing import Any

import pytest

from pixel_gather.core.estimate.assumptions import COLD_START, DRAWING
from pixel_gather.core.estimate.pricing import USD_PER_GB_S, USD_PER_GET, USD_PER_TRANSITION
from pixel_gather.core.results.cost import usd_by_service
from pixel_gather.core.results.report import Report


def report(**counted: Any) -> Report:
    """Return a report with these counts and no others."""
    nothing: dict[str, Any] = dict.fromkeys(Report.__struct_fields__, 0)
    return Report(
        **nothing | {"measurements": ("band_1",), "shape": (100, 16, 16), "n_sources": 100} | counted
    )


def test_usd_counts_what_the_report_counts() -> None:
    """Each request has its price, and each second of a worker costs by its memory."""
    usd, more = (
        usd_by_service(report(n_shards=10, **counted), worker_memory_mib=2048, max_workers=5)
        for counted in ({}, {"requests": 1000, "worker_s": 100.0})
    )

    assert more["s3"] - usd["s3"] == pytest.approx(1000 * USD_PER_GET)
    assert more["lambda"] - usd["lambda"] == pytest.approx(100.0 * 2 * USD_PER_GB_S)
    assert more["step_functions"] == usd["step_functions"] == pytest.approx((10 * 3 + 5) * USD_PER_TRANSITION)


def test_usd_counts_the_drawing_of_a_report_that_is_wanted() -> None:
    """The function that finishes a gather has 1,769 MB, and is billed while it draws."""
    drawn, undrawn = (
        usd_by_service(report(n_shards=1), worker_memory_mib=1024, max_workers=1, has_report=has_report)
        for has_report in (True, False)
    )

    price = DRAWING.value * 1769 / 1024 * USD_PER_GB_S
    assert drawn["lambda"] - undrawn["lambda"] == pytest.approx(price)
    assert drawn | {"lambda": undrawn["lambda"]} == undrawn


def test_usd_counts_a_start_for_each_worker_not_for_each_shard() -> None:
    """A warm worker has no further start."""
    few, many = (
        usd_by_service(report(n_shards=1000), worker_memory_mib=1024, max_workers=n)["lambda"]
        for n in (10, 500)
    )

    assert many - few == pytest.approx(490 * COLD_START.value * USD_PER_GB_S)
