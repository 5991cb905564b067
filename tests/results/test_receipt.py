"""The receipt: what it says of a gather, and digests that anybody can compute from the cube's pixels."""

from copy import replace

import msgspec
import numpy as np
import pytest
import xxhash

from pixel_gather.core.model.outcome import BandStats, Outcome, ShardResult
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import cut_tasks
from pixel_gather.core.read.measure_rows import digest_of
from pixel_gather.core.results.receipt import Receipt, WrittenFile, receipt_of, shard_digests
from pixel_gather.core.results.report import Report, Tally
from pixel_gather.version import __version__
from support.fakes import FakeReader, table_of
from support.plans import planned

A = np.arange(1, 401, dtype="uint16").reshape(1, 20, 20)
NAMES = ("a", "b", "c")


@pytest.fixture
def plan() -> CubePlan:
    """Return a plan of three rows in two shards."""
    output = {"layout": {"chunk": [1, 16, 16], "shard_rows": 2}}
    return planned(FakeReader(dict.fromkeys(NAMES, A)), table_of(*NAMES), output=output)


@pytest.fixture
def report(plan: CubePlan) -> Report:
    """Return the report of nothing."""
    return Tally(plan=plan).report()


def result_of(index: int, *digests: str) -> ShardResult:
    """Return the result of a task with one band in each row."""
    rows = [[Outcome(status=Status.OK, bands=[BandStats(digest=digest)])] for digest in digests]
    return ShardResult(index=index, rows=rows, read_s=0, write_s=0, stored_nbytes=0, peak_rss_mib=0)


def test_shard_digest_is_computed_from_the_pixels_of_its_rows(plan: CubePlan) -> None:
    """It is XXH3-128 of the rows' digests in order, so two rows that change places change it."""
    first, last = cut_tasks(plan, [0, 0])
    one, other = digest_of(A[0]), digest_of(A[0] + 1)

    found = shard_digests(plan, first, result_of(0, one, other).rows)

    assert found == {"band_1/c/0/0/0": xxhash.xxh3_128_hexdigest(f"{one}{other}".encode())}
    assert shard_digests(plan, first, result_of(0, other, one).rows) != found
    assert list(shard_digests(plan, last, result_of(1, one).rows)) == ["band_1/c/1/0/0"]


def test_lost_shard_has_no_digest(plan: CubePlan) -> None:
    """Nobody knows the pixels of a shard whose worker failed."""
    task = cut_tasks(plan, [0, 0])[1]

    assert shard_digests(plan, task, None) == {"band_1/c/1/0/0": None}


def test_receipt_says_what_was_asked_and_stored(plan: CubePlan, report: Report) -> None:
    """The request is in it as given, with the digests of request and list, and the versions."""
    files = [WrittenFile(key="headers.parquet", nbytes=3, sha256="ab")]

    receipt = receipt_of(
        plan, report, shards={"band_1/c/0/0/0": "0f"}, files=files, sources="headers.parquet"
    )

    assert receipt.request == plan.request
    assert plan.digest.endswith(receipt.list_digest)
    assert len(receipt.list_digest) == 16
    assert receipt.versions["pixel_gather"] == __version__
    assert receipt.versions["numpy"] == np.__version__
    assert (receipt.shape, receipt.dtypes) == (plan.shape, {"band_1": "uint16"})
    assert receipt.planned_at == "2023-11-14T22:13:20.000000+00:00"
    assert receipt.files["headers.parquet"].sha256 == "ab"
    assert msgspec.json.decode(receipt.to_bytes(), type=Receipt) == receipt


def test_receipt_tells_whether_pixels_were_stored_with_loss(plan: CubePlan, report: Report) -> None:
    """Digests of pixels before compression do not hold for what a lossy codec stored."""
    lossy = replace(plan, codec="zfp", zfp_tolerance=0.01)

    assert receipt_of(plan, report, shards={}, files=[], sources=None).is_lossless
    assert not receipt_of(lossy, report, shards={}, files=[], sources=None).is_lossless
