"""Estimates for AWS: their numbers, the binding limit, and the basis of each number."""

from copy import replace
from dataclasses import dataclass
from math import inf

import pytest

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.estimate.compute_estimate import BESIDE, estimate_on_aws
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.pricing import USD_PER_GB_S, ledger_usd, n_puts, usd_on_aws, usd_per_gb_from
from pixel_gather.core.estimate.worker import Worker
from pixel_gather.core.estimate.worker_count import share_of
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool, Workload

WORK = Workload(
    n_sources=100_000,
    n_gets=200_000,
    fetched_nbytes=40_000_000_000,
    decoded_nbytes=52_428_800_000,
    n_tasks=1563,
    n_puts=3300,
    n_prefixes=100,
)


def small(n_sources: int) -> Workload:
    """Return the work of a gather."""
    return replace(
        WORK,
        n_sources=n_sources,
        n_gets=2 * n_sources,
        fetched_nbytes=400_000 * n_sources,
        decoded_nbytes=524_288 * n_sources,
        n_tasks=1,
    )


@dataclass(frozen=True)
class Bound:
    """A gather and its expected binding limit."""

    id: str
    work: Workload
    deployment: WorkerPool
    by: str


BOUND = (
    Bound("few workers", WORK, WorkerPool(max_workers=5, is_deployed=True), "the deployment's max_workers"),
    Bound(
        "fewer asked for", WORK, WorkerPool(max_workers=50, asked_workers=5), "the request's limits.workers"
    ),
    Bound(
        "many short children",
        replace(WORK, n_tasks=9000),
        WorkerPool(max_workers=5000, tasks_per_child=1),
        "dispatch rate",
    ),
    Bound("one prefix", replace(WORK, n_prefixes=1), WorkerPool(), "S3 rate per prefix"),
    Bound(
        "large windows",
        replace(WORK, fetched_nbytes=400_000_000_000, decoded_nbytes=400_000_000_000, n_tasks=150),
        WorkerPool(max_workers=5000),
        "network per worker",
    ),
    Bound("one at a time", replace(WORK, n_tasks=100), WorkerPool(in_flight=1), "time to first byte"),
    Bound("a few files", small(4), WorkerPool(), BESIDE),
)


@pytest.mark.long
@pytest.mark.parametrize("case", BOUND, ids=lambda case: case.id)
def test_estimate_names_the_limit_that_binds(case: Bound) -> None:
    """The limit has a name that tells users what to change."""
    assert estimate_on_aws(case.work, case.deployment).bound_by == case.by


def test_limit_of_an_account_is_named_where_it_is_the_lowest() -> None:
    """A deployment may allow more workers than its account."""
    deployment = WorkerPool(max_workers=5000)

    assert (deployment.n_workers, deployment.limit) == (1000, "the account's concurrency")
    assert WorkerPool().limit == "max_workers, by default"


def test_parts_of_an_estimate_add_up() -> None:
    """The parts of seconds and dollars add up to the totals."""
    estimate = estimate_on_aws(WORK, WorkerPool())

    assert sum(estimate.seconds_by_part.values()) == pytest.approx(estimate.seconds)
    assert sum(estimate.usd_by_service.values()) == pytest.approx(estimate.usd)
    assert list(estimate.seconds_by_part) == ["plan", "dispatch", "start", "read", "store", "finish"]


def test_hardly_fewer_workers_are_not_chosen() -> None:
    """98 of 100 would be as fast. A gather that could use all of its workers is said to use them."""
    assert estimate_on_aws(WORK, WorkerPool(max_workers=100)).n_workers == 100
    assert estimate_on_aws(WORK, WorkerPool(max_workers=400)).n_workers < 300


def test_leases_of_a_host_are_paid() -> None:
    """Workers that share the requests that a host allows ask S3 for their shares."""
    free, shared = (
        estimate_on_aws(WORK, WorkerPool(gets_per_s=per_s, asked_workers=20)) for per_s in (inf, 1000.0)
    )
    worked_s = sum(shared.seconds_by_part[part] for part in ("dispatch", "start", "read", "store"))
    leases = ledger_usd(n_workers=20, seconds=worked_s, per_s=1000.0)

    assert leases > 0
    assert shared.usd_by_service["s3"] - free.usd_by_service["s3"] == pytest.approx(leases)


def test_enough_workers_are_hardly_slower_and_fewer_are() -> None:
    """Users do not pay for workers that only wait."""
    work = replace(WORK, n_prefixes=1)

    def with_workers(n: int) -> Estimate:
        return estimate_on_aws(work, WorkerPool(asked_workers=n))

    estimate = with_workers(500)
    enough = estimate.enough_workers
    assert enough < estimate.n_workers / 4
    assert with_workers(enough).seconds <= estimate.seconds * 1.05
    assert with_workers(enough - 1).seconds > estimate.seconds * 1.05
    assert with_workers(enough).usd < estimate.usd


def test_estimate_takes_no_more_workers_than_can_help_unless_it_is_asked_to() -> None:
    """The chosen number is as fast as all workers, for a fraction of the price.

    The fewest that are enough are larger workers: fewer small ones would be slower. The chosen small ones
    have less memory together, and cost less.
    """
    work = replace(WORK, n_prefixes=1)

    chosen, asked = (estimate_on_aws(work, WorkerPool(asked_workers=n)) for n in (None, 500))
    fewest = estimate_on_aws(work, WorkerPool(asked_workers=asked.enough_workers))

    assert asked.enough_workers <= chosen.most_workers
    assert (chosen.worker_memory_mib, fewest.worker_memory_mib) == (1024, 1769)
    assert chosen.most_workers * 1024 < asked.enough_workers * 1769
    assert chosen.usd < fewest.usd
    assert chosen.most_workers == chosen.n_workers
    assert chosen.enough_workers == asked.enough_workers
    assert chosen.seconds <= 1.01 * asked.seconds
    assert chosen.usd < 0.7 * asked.usd
    assert asked.most_workers == 500


def test_tiles_that_are_kept_take_half_the_cpu_and_say_so() -> None:
    """bench_gather has measured 2.55 against 5.54 CPU s per 1,000 tiles, without TLS."""
    kept = replace(WORK, is_decoded=False)
    on_lambda = Worker.on_lambda(memory_mib=1769, in_flight=64)
    worker = replace(on_lambda, tls_bytes_per_s=inf, first_byte_s=0.0, network_bytes_per_s=inf)
    decoded_s, kept_s = (
        worker.reading_s(share_of(work)) + worker.storing_s(share_of(work)) for work in (WORK, kept)
    )

    estimates = [estimate_on_aws(work, WorkerPool()) for work in (WORK, kept)]

    per_1000 = [each * WORK.n_tasks / WORK.n_sources * 1000 for each in (decoded_s, kept_s)]
    assert per_1000 == pytest.approx([5.54, 2.55], rel=0.08)
    assert estimates[1].usd < estimates[0].usd
    decoding, kept_as_they_are = ("decoding: 400 MB/s", "tiles are stored as they are")
    for estimate, is_said, is_not in (
        (estimates[0], decoding, kept_as_they_are),
        (estimates[1], kept_as_they_are, decoding),
    ):
        basis = " ".join(text for each in estimate.figures for text in each.rests_on)
        assert is_said in basis
        assert is_not not in basis


def test_estimate_keeps_to_the_deployments_workers_where_all_of_them_help() -> None:
    """The plan's choice never raises the number."""
    assert estimate_on_aws(WORK, WorkerPool(max_workers=10)).most_workers == 10


def test_an_index_spares_headers() -> None:
    """There are half the GETs, so S3 takes half the time. The estimate names the index."""
    work = replace(WORK, n_prefixes=1)
    indexed = replace(work, n_gets=100_000, n_indexed=100_000)

    with_it, without = (estimate_on_aws(each, WorkerPool()) for each in (indexed, work))

    assert with_it.seconds < 0.7 * without.seconds
    assert with_it.usd < without.usd
    [gets] = [each for each in with_it.figures if each.what == "GETs"]
    assert "except 100,000 that are in an index" in gets.rests_on[0]


def test_estimate_without_a_report_costs_less_and_lists_none() -> None:
    """Nothing is drawn, so nothing is billed for it. The cube is complete as early."""
    drawn, undrawn = (
        estimate_on_aws(replace(WORK, has_report=wanted), WorkerPool()) for wanted in (True, False)
    )

    assert drawn.usd - undrawn.usd == pytest.approx(4.0 * 1769 / 1024 * USD_PER_GB_S)
    assert drawn.seconds == undrawn.seconds
    assert [each.what for each in drawn.figures if each not in undrawn.figures].count("report") == 1
    assert "report" not in {each.what for each in undrawn.figures}


def test_every_figure_says_what_it_rests_on() -> None:
    """All numbers of the estimate are there, and assumptions are marked as such."""
    estimate = estimate_on_aws(
        WORK, WorkerPool(max_workers=70, is_deployed=True, worker_memory_mib=2048, in_flight=32)
    )

    told = {each.what: each for each in estimate.figures}
    assert all(each.rests_on and all(each.rests_on) for each in estimate.figures)
    assert {f"seconds of {part}" for part in estimate.seconds_by_part} < set(told)
    assert {f"dollars of {service}" for service in estimate.usd_by_service} < set(told)
    assert told["GETs"].how_much == "200,000"
    assert told["seconds"].how_much == f"{estimate.seconds:,.1f}"
    assert told["dollars"].how_much == f"${estimate.usd:,.4f}"
    assert "at most 70: the deployment's max_workers" in told["workers"].rests_on
    assert "2,048 MiB" in " ".join(told["workers"].rests_on)
    assert "32 sources in flight" in " ".join(told["seconds of read"].rests_on)
    assert "78 MB/s (AWS: 625 Mbit/s a Lambda environment)" in " ".join(told["seconds of read"].rests_on)


def test_every_figure_of_the_model_has_a_source() -> None:
    """Each figure is published, measured, counted or called assumed."""
    known = [each for each in vars(assumptions).values() if isinstance(each, assumptions.Figure)]

    assert len(known) > 15
    for each in known:
        assert each.source.startswith(("AWS: ", "report of 2018: ", "measured: ", "counted: ", "assumed"))
        assert each.unit in str(each) or each.unit in ("s", "B/s")


def test_lambda_bills_a_worker_by_gibibytes() -> None:
    """1,769 MiB are 1,769 / 1,024 GB."""
    nothing = dict.fromkeys(("n_gets", "n_puts", "n_tasks", "n_children", "beside_s"), 0)
    usd = usd_on_aws(**nothing, worker_s=1000, worker_mib=1769, is_inline=False)

    assert usd["lambda"] == pytest.approx(1000 * 1769 / 1024 * USD_PER_GB_S, rel=1e-3)


def test_more_workers_than_tasks_change_nothing() -> None:
    """Neither time nor price changes."""
    few, many = (estimate_on_aws(small(64), WorkerPool(max_workers=n)) for n in (1, 1000))

    assert few == replace(many, figures=few.figures, most_workers=1)


def test_n_puts_counts_objects() -> None:
    """Each shard needs one PUT per measurement and two for sidecars. Coordinates need one per 16,384 rows."""
    one = n_puts(n_tasks=10, n_arrays=3, n_rows=16_384, n_columns=2)

    assert n_puts(n_tasks=11, n_arrays=3, n_rows=16_384, n_columns=2) - one == 5
    assert n_puts(n_tasks=10, n_arrays=3, n_rows=16_385, n_columns=2) - one == 22


MILLION = Workload(
    n_sources=1_000_000,
    n_gets=2_000_000,
    fetched_nbytes=402_000_000_000,
    decoded_nbytes=524_288_000_000,
    n_tasks=9804,
    n_puts=30_700,
)


@pytest.mark.long
def test_transfer_between_regions_is_part_of_the_price() -> None:
    """The transfer of a million tiles costs $8, the rest little more than $1."""
    work = replace(MILLION, nbytes_by_bucket={"near": 2_000_000_000, "far": 400_000_000_000})
    far = {"far": FarBucket(region="us-west-2"), "unused": FarBucket(region="sa-east-1")}

    near = estimate_on_aws(work, WorkerPool(region="eu-central-1"))
    estimate = estimate_on_aws(work, WorkerPool(region="eu-central-1", far_buckets=far))

    assert estimate.usd_by_service["transfer"] == pytest.approx(8.0)
    assert estimate.usd == pytest.approx(near.usd + 8.0)
    assert estimate.transfer_nbytes == 400_000_000_000
    assert "transfer" not in near.usd_by_service
    [told] = [each for each in estimate.figures if each.what == "dollars of transfer"]
    assert "far in us-west-2: $0.020 per GB" in told.rests_on


def test_transfer_of_a_bucket_read_without_credentials_is_its_owners() -> None:
    """Without credentials, the owner of the bucket pays."""
    work = replace(MILLION, nbytes_by_bucket={"public": 400_000_000_000})
    far = {"public": FarBucket(region="us-west-2", is_charged=False)}

    estimate = estimate_on_aws(work, WorkerPool(region="eu-central-1", far_buckets=far))

    assert (estimate.transfer_nbytes, "transfer" in estimate.usd_by_service) == (0, False)


@pytest.mark.parametrize(
    ("region", "to", "usd"),
    [
        ("us-east-1", "us-east-2", 0.01),
        ("us-east-1", "us-west-2", 0.02),
        ("ap-southeast-2", "us-west-2", 0.098),
        ("xx-new-1", "us-west-2", 0.147),
    ],
)
def test_price_of_a_gb_is_that_of_the_region_it_comes_from(region: str, to: str, usd: float) -> None:
    """An unknown Region has the highest price, so limits on the price hold."""
    assert usd_per_gb_from(region, to=to) == usd


def test_late_workers_cost_no_more_than_the_estimate_says() -> None:
    """Every first try fails and every second one takes its whole limit. The sum is about the cap."""
    estimate = estimate_on_aws(MILLION, WorkerPool(max_usd=10))
    of_few = estimate_on_aws(small(1278), WorkerPool(max_usd=10))

    assert estimate.usd_if_late is not None
    assert estimate.usd < estimate.usd_if_late < 25
    assert of_few.usd_if_late is not None
    assert of_few.usd_if_late < 1
    [told] = [each for each in estimate.figures if each.what == "dollars if all are late"]
    assert "each shard takes 120 s at its second try" in " ".join(told.rests_on)


@pytest.mark.long
def test_a_million_files_cost_what_their_requests_do_and_little_more() -> None:
    """It has several shards per child, small workers, and only as many as S3 keeps busy."""
    cold = estimate_on_aws(MILLION, WorkerPool())
    indexed = estimate_on_aws(
        replace(MILLION, n_gets=1_000_000, n_indexed=1_000_000, fetched_nbytes=386_000_000_000), WorkerPool()
    )

    assert cold.usd <= 1.35
    assert indexed.usd <= 0.95
    assert cold.worker_memory_mib == indexed.worker_memory_mib == 1024
    assert cold.n_children < 1300


def test_smaller_workers_are_chosen_only_where_the_shards_fit() -> None:
    """Otherwise the largest is chosen. Every shard fits it."""
    estimate = estimate_on_aws(replace(WORK, task_nbytes=140 * 2**20), WorkerPool())

    assert estimate.worker_memory_mib == 1769


@pytest.mark.long
def test_a_search_is_priced_by_the_files_that_it_reads() -> None:
    """GETs of a catalog are charged by S3; pages of an API are not. Without a search there is no line."""
    plain = estimate_on_aws(WORK, WorkerPool())
    by_catalog = estimate_on_aws(replace(WORK, n_search_gets=1000), WorkerPool())
    by_api = estimate_on_aws(replace(WORK, n_search_pages=1000), WorkerPool())

    assert by_catalog.usd == pytest.approx(plain.usd + 1000 * 0.0004 / 1000)
    assert by_api.usd == plain.usd
    said = [[each.how_much for each in one.figures if each.what == "search"] for one in (by_catalog, by_api)]
    assert said == [["1,000 GETs"], ["1,000 pages"]]
    assert not any(each.what == "search" for each in plain.figures)
