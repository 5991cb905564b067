"""The functions: what they run, how large they are, what they are told."""

import json
from typing import Any

import pytest

from handlers.settings import Settings as HandlerSettings
from handlers.settings import SourceBucket as HandlerBucket
from infra.context import SettingsError
from pixel_gather.request.request import Limits
from support.synthesized import SOURCES, Synthesized, synthesized

API_FUNCTIONS = ("submit", "status", "search", "dry_run", "rank")
STEPS = ("plan_gather", "gather_shard", "small_gather_shard", "finish_gather")


@pytest.fixture(scope="module")
def stack() -> Synthesized:
    """The stack as it is by default."""
    return synthesized()


def test_functions_are_those_nine_on_arm_and_python_3_13(stack: Synthesized) -> None:
    """Each runs its own module, zipped."""
    functions = stack.functions()

    assert functions.keys() == {*API_FUNCTIONS, *STEPS}
    for module, function in functions.items():
        assert function["Handler"] == f"handlers.{module.removeprefix('small_')}.handler"
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert function.get("PackageType", "Zip") == "Zip"


def test_functions_behind_the_api_end_when_it_stops_waiting(stack: Synthesized) -> None:
    """API Gateway waits 29 seconds; what runs longer would be paid for and thrown away."""
    functions = stack.functions()

    assert {functions[name]["Timeout"] for name in API_FUNCTIONS} == {29}
    assert {functions[name]["Timeout"] for name in STEPS} == {900}


def test_planners_have_room_for_a_million_lines(stack: Synthesized) -> None:
    """The list is sorted on disk, in /tmp; nobody else pays for more than is free."""
    disks = {
        module: function.get("EphemeralStorage", {"Size": 512})["Size"]
        for module, function in stack.functions().items()
    }

    assert disks["plan_gather"] >= 2048
    assert disks["dry_run"] == disks["rank"] == disks["plan_gather"]
    assert all(
        disks[name] == 512
        for name in ("submit", "status", "search", "gather_shard", "small_gather_shard", "finish_gather")
    )


def test_worker_is_as_large_as_the_deployment_says() -> None:
    """The key sets the worker's memory alone; the planners are told of it, as they size the shards."""
    small, large = synthesized().functions(), synthesized(worker_memory_mib=3008).functions()

    assert small["gather_shard"]["MemorySize"] == 1769
    assert large["gather_shard"]["MemorySize"] == 3008
    assert {name: large[name]["MemorySize"] for name in large if name != "gather_shard"} == {
        name: small[name]["MemorySize"] for name in small if name != "gather_shard"
    }
    assert {each["Environment"]["Variables"]["PIXEL_GATHER_SHARD_MEMORY_MIB"] for each in large.values()} == {
        "[1024,3008]"
    }
    assert large["small_gather_shard"]["MemorySize"] == 1024


def reserved(stack: Synthesized) -> dict[str, int]:
    """Return what functions reserve of the account's concurrency."""
    return {
        name: each["ReservedConcurrentExecutions"]
        for name, each in stack.functions().items()
        if "ReservedConcurrentExecutions" in each
    }


def test_a_running_gather_can_always_be_stopped(stack: Synthesized) -> None:
    """Status and submit have environments that no worker can take; workers have none reserved."""
    assert reserved(stack) == {"submit": 10, "status": 10}


@pytest.mark.parametrize(
    ("account_concurrency", "workers", "is_reserved"),
    [(4, 2, False), (10, 8, False), (50, 45, False), (119, 107, False), (120, 108, True), (1000, 500, True)],
)
def test_workers_leave_room_in_the_account(
    account_concurrency: int, workers: int, *, is_reserved: bool
) -> None:
    """Whatever the account may run at one time, gathers take nine tenths at most.

    Lambda refuses a reservation that leaves fewer than 100 unreserved, so small accounts have none.
    """
    stack = synthesized(account_concurrency=account_concurrency)
    limits = json.loads(stack.functions()["plan_gather"]["Environment"]["Variables"]["PIXEL_GATHER_LIMITS"])

    assert limits["workers"] == workers
    assert bool(reserved(stack)) is is_reserved


def test_as_many_threads_compute_as_the_memory_has_vcpus() -> None:
    """Lambda shows two CPUs to functions that get the time of one; Python counts by this variable."""
    for memory_mib, n_threads in ((1769, 1), (2048, 1), (3008, 2), (3538, 2), (10_240, 6)):
        functions = synthesized(worker_memory_mib=memory_mib).functions()
        shown = {name: each["Environment"]["Variables"] for name, each in functions.items()}
        assert shown["gather_shard"]["PYTHON_CPU_COUNT"] == str(n_threads)
        assert shown["plan_gather"]["PYTHON_CPU_COUNT"] == shown["status"]["PYTHON_CPU_COUNT"] == "1"


def test_environment_tells_the_deployment(stack: Synthesized) -> None:
    """Every function is told the same; only those that work with executions know the machine."""
    for module, function in stack.functions().items():
        told = {name: stack.show(value) for name, value in function["Environment"]["Variables"].items()}
        machine = told.pop("PIXEL_GATHER_STATE_MACHINE_ARN", None)
        assert machine == ("<machine>" if module in ("submit", "status") else None)
        assert json.loads(told.pop("PIXEL_GATHER_SOURCE_BUCKETS")) == SOURCES
        assert json.loads(told.pop("PIXEL_GATHER_HTTPS_HOSTS")) == []
        assert json.loads(told.pop("PIXEL_GATHER_LIMITS")) == {
            "usd": 10,
            "files": 1_000_000,
            "pixels": None,
            "fetched_bytes": None,
            "workers": 500,
            "failed_shards": 0.1,
        }
        assert told == {
            "PIXEL_GATHER_STAGE": "main",
            "PIXEL_GATHER_ARRAY_BUCKET": "<arrays>",
            "PIXEL_GATHER_OUTPUT_PREFIX": "",
            "PIXEL_GATHER_CONTROL_BUCKET": "<control>",
            "PIXEL_GATHER_CONCURRENCY": "128",
            "PIXEL_GATHER_SHARD_MEMORY_MIB": "[1024,1769]",
            "POWERTOOLS_SERVICE_NAME": "pixel-gather",
            "POWERTOOLS_METRICS_NAMESPACE": "PixelGather",
            "POWERTOOLS_LOG_LEVEL": "INFO",
            "PYTHON_CPU_COUNT": "1",
            "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 # of Lambda
        }


def test_functions_are_told_of_the_catalog_where_there_is_one(stack: Synthesized) -> None:
    """Without one, the variable is not there."""
    href = "s3://catalogs/europe.parquet"
    told = synthesized(catalog=href).functions()["search"]["Environment"]["Variables"]

    assert HandlerSettings.from_environment(_settled(told)).catalog == href
    assert "PIXEL_GATHER_CATALOG" not in stack.functions()["search"]["Environment"]["Variables"]


def _settled(told: dict[str, Any]) -> dict[str, str]:
    """Return an environment with names of buckets, and with what Lambda adds."""
    known = {name: value if isinstance(value, str) else "bucket" for name, value in told.items()}
    return known | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769"}


def test_environment_holds_dozens_of_buckets_as_functions_read_them() -> None:
    """Without a word too many, as Lambda holds 4,096 bytes; the longest names of the rest fit, too."""
    names = [f"sentinel-scenes-of-the-year-{year}" for year in range(1984, 2034)]
    functions = synthesized(source_buckets=[{"name": each} for each in names]).functions()
    told = functions["submit"]["Environment"]["Variables"]
    nbytes = sum(len(name) + (len(told[name]) if isinstance(told[name], str) else 63) for name in told)
    buckets = json.loads(told["PIXEL_GATHER_SOURCE_BUCKETS"])

    assert nbytes + 142 - 63 <= 4096  # the machine's ARN is longer than a bucket's name
    assert " " not in told["PIXEL_GATHER_SOURCE_BUCKETS"] + told["PIXEL_GATHER_LIMITS"]
    assert [HandlerBucket(**each) for each in buckets] == [HandlerBucket(name=each) for each in names]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source_buckets", [{"name": f"{number:060}"} for number in range(60)]),
        ("https_hosts", [f"{number:060}.example.org" for number in range(60)]),
    ],
)
def test_more_buckets_than_an_environment_holds_are_refused_at_synth(key: str, value: Any) -> None:
    """By a sentence that names the key, and not by Lambda in the middle of a deployment."""
    with pytest.raises(SettingsError, match=rf"context key {key}: .*60.* should be .* 4,096 bytes"):
        synthesized(**{key: value})


def test_caps_are_limits_that_requests_understand(stack: Synthesized) -> None:
    """What the deployment caps goes by the names, and within the bounds, of a request's own limits."""
    caps = json.loads(stack.functions()["submit"]["Environment"]["Variables"]["PIXEL_GATHER_LIMITS"])

    assert Limits.model_validate(caps).model_dump(exclude_unset=True) == caps


def test_logs_are_the_functions_own_and_end(stack: Synthesized) -> None:
    """Each function writes to its own log group, which forgets after a while and goes with the stack."""
    logs = stack.of("AWS::Logs::LogGroup")
    used = [each["LoggingConfig"]["LogGroup"]["Ref"] for each in stack.functions().values()]

    assert len(set(used)) == 9
    assert all(0 < each["Properties"]["RetentionInDays"] <= 365 for each in logs.values())
    assert all(each["DeletionPolicy"] == "Delete" for each in logs.values())
