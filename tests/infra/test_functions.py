"""The functions: their modules, sizes and environments."""

import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.deployment.settings import Settings as HandlerSettings
from handlers.deployment.settings import SourceBucket as HandlerBucket
from infra.cdk_context import SettingsError
from infra.settings import Settings
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import Limits
from pixel_gather.core.request.web_address import hosts_only
from support.lambda_functions import handler_module
from support.synthesized import ROOT, SOURCES, VARIANTS, Synthesized, synthesized

API_FUNCTIONS = ("submit", "status", "answer_searches", "dry_run", "rank", "answer_tables")
STEPS = (
    "plan_gather",
    "gather_shard",
    "small_gather_shard",
    "finish_gather",
    "plan_table",
    "read_images",
)


def test_functions_are_those_on_arm_and_python_3_13(stack: Synthesized) -> None:
    """Each runs its own module from a zipped package."""
    functions = stack.functions()

    assert functions.keys() == {*API_FUNCTIONS, *STEPS, "tick", "watch"}
    for module, function in functions.items():
        assert function["Handler"] == f"{handler_module(module.removeprefix('small_'))}.handler"
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert function.get("PackageType", "Zip") == "Zip"


def test_functions_behind_the_api_end_when_it_stops_waiting(stack: Synthesized) -> None:
    """API Gateway waits 29 seconds. A longer run would be billed in vain."""
    functions = stack.functions()

    assert {functions[name]["Timeout"] for name in API_FUNCTIONS} == {29}
    assert {functions[name]["Timeout"] for name in STEPS} == {900}
    assert functions["tick"]["Timeout"] == 60
    assert functions["watch"]["Timeout"] == 120


def test_planners_have_room_for_a_million_lines(stack: Synthesized) -> None:
    """The list is sorted in /tmp, and finish keeps its files there. Others have only the free size."""
    disks = {
        module: function.get("EphemeralStorage", {"Size": 512})["Size"]
        for module, function in stack.functions().items()
    }

    assert disks["plan_gather"] >= 2048
    assert disks["finish_gather"] == 2048
    assert disks["dry_run"] == disks["rank"] == disks["answer_tables"] == disks["plan_gather"]
    assert disks["plan_table"] == 10_240  # the lines of a table, and the table
    assert disks["read_images"] == 4096  # where the pixels of zones lie
    assert all(
        disks[name] == 512
        for name in (
            "submit",
            "status",
            "answer_searches",
            "tick",
            "gather_shard",
            "small_gather_shard",
        )
    )


def test_what_computes_has_a_whole_vcpu_and_callers_wait_for_no_less_than_half_of_one(
    stack: Synthesized,
) -> None:
    """Functions that sort, search, rank or write have one vCPU. A tick imports as much as the API does."""
    memory = {module: function["MemorySize"] for module, function in stack.functions().items()}
    computing = {*API_FUNCTIONS, *STEPS} - {"submit", "status", "small_gather_shard"}

    assert {memory[name] for name in computing} == {1769}
    assert {memory[name] for name in ("submit", "status", "tick")} == {1024}


def of_a_small_account() -> Synthesized:
    """Return the stack of an account that has too little concurrency to reserve some, with large workers."""
    return synthesized(account_concurrency=119, alarm_usd_per_day=7, worker_memory_mib=10_240)


@pytest.mark.long
def test_worker_is_as_large_as_the_deployment_says(stack: Synthesized) -> None:
    """The key sets only the worker's memory. The planners know it, because they size the shards."""
    small, large = stack.functions(), of_a_small_account().functions()

    assert small["gather_shard"]["MemorySize"] == 1769
    assert large["gather_shard"]["MemorySize"] == 10_240
    assert {name: large[name]["MemorySize"] for name in large if name != "gather_shard"} == {
        name: small[name]["MemorySize"] for name in small if name != "gather_shard"
    }
    assert {each["Environment"]["Variables"]["PIXEL_GATHER_SHARD_MEMORY_MIB"] for each in large.values()} == {
        "[1024,10240]"
    }
    assert large["small_gather_shard"]["MemorySize"] == 1024


@pytest.mark.long
def test_canary_and_measured_figures_are_there_where_they_are_set() -> None:
    """The canary may start gathers. Every function plans with the figures of its account."""
    functions = synthesized(**VARIANTS["of a young account, with a key"]).functions()
    figures = {
        json.loads(each["Environment"]["Variables"]["PIXEL_GATHER_MEASURED"])["COLD_START"]
        for each in functions.values()
    }

    assert figures == {1.5}
    assert "PIXEL_GATHER_STATE_MACHINE_ARN" in functions["canary"]["Environment"]["Variables"]
    assert functions["canary"]["Timeout"] == functions["halt"]["Timeout"] == 900


@pytest.mark.long
def test_halt_is_told_of_both_state_machines() -> None:
    """Else it would stop nothing when the budget of a month is spent."""
    stack = connected()
    variables = stack.functions()["halt"]["Environment"]["Variables"]

    assert stack.show(variables["PIXEL_GATHER_STATE_MACHINE_ARN"]) == "<machine>"
    assert stack.show(variables["PIXEL_GATHER_TABLE_STATE_MACHINE_ARN"]) == "<tables>"


def reserved(stack: Synthesized) -> dict[str, int]:
    """Return the concurrency that functions reserve."""
    return {
        name: each["ReservedConcurrentExecutions"]
        for name, each in stack.functions().items()
        if "ReservedConcurrentExecutions" in each
    }


def test_a_running_gather_can_always_be_stopped(stack: Synthesized) -> None:
    """Status and submit have reserved concurrency that workers cannot take. Workers have none.

    Lambda refuses a reservation that leaves fewer than 100 unreserved, so small accounts have none.
    """
    assert reserved(stack) == {"submit": 10, "status": 10}
    assert reserved(of_a_small_account()) == {}


@pytest.mark.parametrize(
    ("account_concurrency", "workers", "n_reserved"),
    [(4, 2, 0), (10, 8, 0), (50, 45, 0), (119, 107, 0), (120, 98, 10), (240, 216, 10), (1000, 500, 10)],
)
def test_workers_leave_room_in_the_account(account_concurrency: int, workers: int, n_reserved: int) -> None:
    """Gathers take at most nine tenths of the account's concurrency, and nothing that is reserved."""
    settings = Settings.from_context({"account_concurrency": account_concurrency})

    assert (settings.caps.workers, settings.reserved_for_api) == (workers, n_reserved)


def test_as_many_threads_compute_as_the_memory_has_vcpus() -> None:
    """Lambda shows two CPUs to functions of one vCPU. Python takes the number from this variable."""
    from aws_cdk import Duration  # noqa: PLC0415 # it takes seconds

    from infra.lambda_function import Sizing  # noqa: PLC0415 # as above

    sizing = partial(Sizing, package="shard", module="gather.gather_shard", timeout=Duration.seconds(1))
    functions = of_a_small_account().functions()
    shown = {name: each["Environment"]["Variables"]["PYTHON_CPU_COUNT"] for name, each in functions.items()}

    for memory_mib, n_threads in ((1769, 1), (2048, 1), (3008, 2), (3538, 2)):
        assert sizing(memory_mib=memory_mib).n_threads == n_threads
    assert shown["gather_shard"] == "6"
    assert shown["plan_gather"] == shown["status"] == "1"


def test_environment_tells_the_deployment(stack: Synthesized) -> None:
    """All functions have the same variables. Only those that use executions have the state machine's ARN."""
    for module, function in stack.functions().items():
        variables = {name: stack.show(value) for name, value in function["Environment"]["Variables"].items()}
        machine = variables.pop("PIXEL_GATHER_STATE_MACHINE_ARN", None)
        machines = dict.fromkeys(("submit", "status", "tick", "watch"), "<machine>") | {
            "rank": "<tables>",
            "answer_tables": "<tables>",
        }
        assert machine == machines.get(module)
        of_tables = variables.pop("PIXEL_GATHER_TABLE_STATE_MACHINE_ARN", None)
        assert of_tables == ("<tables>" if module in ("tick", "watch") else None)
        assert json.loads(variables.pop("PIXEL_GATHER_SOURCE_BUCKETS")) == SOURCES
        assert json.loads(variables.pop("PIXEL_GATHER_HTTPS_HOSTS")) == []
        assert json.loads(variables.pop("PIXEL_GATHER_LIMITS")) == {
            "usd": 10,
            "files": 1_000_000,
            "pixels": None,
            "fetched_bytes": None,
            "workers": 500,
            "failed_shards": 0.1,
            "requests_per_s": None,
        }
        assert variables == {
            "PIXEL_GATHER_STAGE": "main",
            "PIXEL_GATHER_ARRAY_BUCKET": "<arrays>",
            "PIXEL_GATHER_OUTPUT_PREFIX": "",
            "PIXEL_GATHER_CONTROL_BUCKET": "<control>",
            "PIXEL_GATHER_ALL_WORKERS": "900",
            "PIXEL_GATHER_CONCURRENCY": "128",
            "PIXEL_GATHER_SHARD_MEMORY_MIB": "[1024,1769]",
            "POWERTOOLS_SERVICE_NAME": "pixel-gather",
            "POWERTOOLS_METRICS_NAMESPACE": "PixelGather",
            "POWERTOOLS_LOG_LEVEL": "INFO",
            "PYTHON_CPU_COUNT": "1",
            "MALLOC_ARENA_MAX": "1",
        }


def connected() -> Synthesized:
    """Return a stack with a catalog, with catalogs that may be searched, and with a token."""
    return synthesized(**VARIANTS["of a young account, with a key"])


@pytest.mark.long
def test_functions_are_told_of_the_catalog_where_there_is_one(stack: Synthesized) -> None:
    """Without a catalog the variable is missing."""
    variables = connected().functions()["answer_searches"]["Environment"]["Variables"]

    assert HandlerSettings.from_environment(_settled(variables)).catalog == "s3://catalogs/europe.parquet"
    assert "PIXEL_GATHER_CATALOG" not in stack.functions()["answer_searches"]["Environment"]["Variables"]


def test_functions_are_told_which_catalogs_may_be_searched(stack: Synthesized) -> None:
    """The variable has the form of a request's field. Without the setting it does not exist."""
    functions = connected().functions()
    for module in ("submit", "dry_run", "plan_gather"):
        told = HandlerSettings.from_environment(_settled(functions[module]["Environment"]["Variables"]))
        check = hosts_only(told.catalog_hosts, field="sources.stac.api")
        check("https://stac.example.org/v1")
        check("https://stac.example.org:8443/v1")
        with pytest.raises(RequestError, match="catalog_hosts"):
            check("https://other.example.org/v1")
        assert "PIXEL_GATHER_CATALOG_HOSTS" not in stack.functions()[module]["Environment"]["Variables"]


def test_functions_that_read_sources_may_read_the_earthdata_token() -> None:
    """By its name; the token itself is in no template."""
    stack = connected()
    told = _settled(stack.functions()["gather_shard"]["Environment"]["Variables"])
    settings = HandlerSettings.from_environment(told)

    assert settings.signing == {"earthdata", "planetary-computer"}
    assert settings.earthdata_secret == "earthdata/token"  # noqa: S105 # its name
    granted = json.dumps(stack.of("AWS::IAM::Policy"))
    assert granted.count("secretsmanager:GetSecretValue") == 8
    assert granted.count(":secret:earthdata/token-??????") == 16  # a key of the customer may encrypt it


def test_a_key_decrypts_no_more_than_the_earthdata_token() -> None:
    """A secret may be encrypted with a customer's key. Roles may use each key of the account for it alone."""
    stack = connected()
    statements = [
        statement
        for policy in stack.properties("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "kms:Decrypt" and "ArnLike" in statement["Condition"]
    ]

    assert len(statements) == 8
    for each in statements:
        condition = each["Condition"]
        assert stack.show(each["Resource"]) == "arn:<partition>:kms:<region>:<accountid>:key/*"
        service = stack.show(condition["StringEquals"]["kms:ViaService"])
        assert service == "secretsmanager.<region>.<urlsuffix>"
        assert stack.show(condition["ArnLike"]["kms:EncryptionContext:SecretARN"]).endswith(
            ":secret:earthdata/token-??????"
        )


def _settled(variables: dict[str, Any]) -> dict[str, str]:
    """Return an environment with real bucket names and Lambda's own variables."""
    known = {name: value if isinstance(value, str) else "bucket" for name, value in variables.items()}
    return known | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769"}


@pytest.mark.long
def test_environment_holds_dozens_of_buckets_as_functions_read_them() -> None:
    """Dozens of buckets with long names fit into 4,096 bytes."""
    names = [f"sentinel-scenes-of-the-year-{year}" for year in range(1984, 2034)]
    functions = synthesized(source_buckets=[{"name": each} for each in names]).functions()
    variables = functions["submit"]["Environment"]["Variables"]
    nbytes = sum(
        len(name) + (len(variables[name]) if isinstance(variables[name], str) else 63) for name in variables
    )
    buckets = json.loads(variables["PIXEL_GATHER_SOURCE_BUCKETS"])

    assert nbytes + 142 - 63 <= 4096  # the machine's ARN is longer than a bucket's name
    assert " " not in variables["PIXEL_GATHER_SOURCE_BUCKETS"] + variables["PIXEL_GATHER_LIMITS"]
    assert [HandlerBucket(**each) for each in buckets] == [HandlerBucket(name=each) for each in names]


def environment(**context: Any) -> dict[str, str]:
    """Return the environment of functions, without what the deployment resolves."""
    from infra.functions import environment_of  # noqa: PLC0415 # it imports CDK

    place: Any = SimpleNamespace(
        arrays=SimpleNamespace(bucket_name=""), control=SimpleNamespace(bucket_name="")
    )
    return environment_of(Settings.from_context(context), place)


def test_number_of_buckets_is_that_of_the_docs() -> None:
    """As many as fit, of those whose names have 20 letters."""

    def fits(n: int) -> bool:
        try:
            environment(source_buckets=[{"name": f"{number:020}"} for number in range(n)])
        except SettingsError:
            return False
        return True

    n = next(n for n in range(200) if not fits(n + 1))

    assert f"room for {n} whose" in (ROOT / "infra/settings.py").read_text().replace("\n    ", " ")
    assert f"Room is for {n} buckets whose" in (ROOT / "docs/deploy.md").read_text()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source_buckets", [{"name": f"{number:060}"} for number in range(60)]),
        ("https_hosts", [f"{number:060}.example.org" for number in range(60)]),
        ("catalog_hosts", [f"{number:060}.example.org" for number in range(60)]),
    ],
)
def test_more_buckets_than_an_environment_holds_are_refused(key: str, value: Any) -> None:
    """The error names the key. Otherwise Lambda would fail the deployment."""
    with pytest.raises(SettingsError, match=rf"context key {key}: .*60.* should be .* 4,096 bytes"):
        environment(**{key: value})


def test_caps_are_limits_that_requests_understand(stack: Synthesized) -> None:
    """The caps have the names and bounds of a request's limits."""
    caps = json.loads(stack.functions()["submit"]["Environment"]["Variables"]["PIXEL_GATHER_LIMITS"])

    assert Limits.model_validate(caps).model_dump(exclude_unset=True) == caps


def test_logs_are_the_functions_own_and_end(stack: Synthesized) -> None:
    """Each function has a log group. It expires and is removed with the stack."""
    logs = stack.of("AWS::Logs::LogGroup")
    used = [each["LoggingConfig"]["LogGroup"]["Ref"] for each in stack.functions().values()]

    assert len(set(used)) == len((*API_FUNCTIONS, *STEPS, "tick", "watch"))
    assert {each["Properties"]["RetentionInDays"] for each in logs.values()} == {90}
    other = synthesized(**VARIANTS["of a young account, with a key"])
    assert {each["RetentionInDays"] for each in other.properties("AWS::Logs::LogGroup")} == {14}
    assert {"Key": "cost-centre", "Value": "glaciers"} in other.functions()["plan_gather"]["Tags"]
    assert all(each["DeletionPolicy"] == "Delete" for each in logs.values())
