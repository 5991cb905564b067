"""The functions: what each runs, its size, and its rights to data.

Roles have only the rights that are granted here, in `infra.lambda_function` and in `infra.state_machine`.
"""

import json
import platform
from collections.abc import Callable, Mapping
from copy import replace
from functools import partial
from typing import Final

from aws_cdk import Duration, Size, Token
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from msgspec.structs import asdict

from infra.buckets import Buckets
from infra.cdk_context import SettingsError
from infra.lambda_function import ONE_VCPU_MIB, GatherFunction, Platform, Sizing
from infra.settings import Settings, SourceBucket
from infra.source_access import grant_catalog, grant_listing, grant_secret
from pixel_gather.core.metric_names import NAMESPACE, SERVICE

type PackageCode = Callable[[str], lambda_.Code]
"""Returns the code of the package of this name."""

_API_TIMEOUT: Final = Duration.seconds(29)
"""API Gateway waits no longer."""

_LONGEST: Final = Duration.minutes(15)
"""Lambda allows no more."""

SMALL_WORKER_MIB: Final = 1024
"""For shards that fit. The network limits a worker and is the same in all sizes up to 1,769 MiB. A second
costs 0.6 as much."""

_ENVIRONMENT_NBYTES: Final = 4096
"""Lambda's limit for the environment of a function."""

_RESERVED_NBYTES: Final = 330
"""Room for values that only the deployment resolves, or that only some functions have. They are the names of
two buckets (63 letters each), the state machine's ARN and the number of vCPUs."""

_status = partial(Sizing, package="status")
_plan = partial(Sizing, package="plan", memory_mib=ONE_VCPU_MIB)
"""For functions with these packages."""

_SUBMIT: Final = Sizing(
    package="submit",
    module="gather.submit",
    memory_mib=1024,  # over half a vCPU: callers wait for the imports of a cold start
    timeout=_API_TIMEOUT,
)
_STATUS: Final = _status(module="gather.status", memory_mib=1024, timeout=_API_TIMEOUT)
_SEARCH: Final = Sizing(
    package="search",
    module="search.answer_searches",
    memory_mib=ONE_VCPU_MIB,  # a catalog of 4,000,000 scenes takes 190 MB; one thread searches
    timeout=_API_TIMEOUT,
)
_DRY_RUN: Final = _plan(
    module="gather.dry_run",
    timeout=_API_TIMEOUT,  # too short for a million lines; the function plan has the time
    disk=Size.gibibytes(4),
)
_RANK: Final = _plan(
    module="rank.rank",
    timeout=_API_TIMEOUT,  # what would take longer goes to the state machine
    disk=Size.gibibytes(4),
)
_ANSWER_TABLES: Final = _plan(module="tables.answer_tables", timeout=_API_TIMEOUT, disk=Size.gibibytes(4))
_PLAN_TABLE: Final = _plan(  # holds up to 100,000 scenes, or 1,000,000 features
    module="tables.plan_table",
    timeout=_LONGEST,  # reads lists as plan does
    disk=Size.gibibytes(10),  # the lines of a table, 100,000,000 of 40 bytes, and the table
)
_READ_IMAGES: Final = _plan(  # one thread computes; 16,000,000 pixels are held at one time
    module="tables.read_images",
    timeout=_LONGEST,  # a task takes seconds, but a slow source may take 180 s
    disk=Size.gibibytes(4),  # where the pixels of zones lie on each grid
)
_TICK: Final = _plan(
    module="gather.tick",
    memory_mib=1024,  # Zarr's imports; the times of a million rows take 8 MB
    timeout=Duration.minutes(1),
)
_WATCH: Final = _status(
    module="gather.watch",
    memory_mib=256,  # boto3 and a page of 1,000 executions
    timeout=Duration.minutes(2),
)
_CANARY: Final = _status(
    module="gather.canary",
    memory_mib=256,  # boto3; it waits for a gather
    timeout=_LONGEST,
)
_HALT: Final = _status(
    module="gather.halt",
    memory_mib=256,  # boto3 and pages of 1,000 executions
    timeout=_LONGEST,  # it waits for the workers of what has been planned
)
_PLAN: Final = _plan(  # one thread sorts, in 112 MiB for a million lines (measured)
    module="gather.plan_gather",
    timeout=_LONGEST,  # a million lines take half a minute; listing a million keys takes 1,000 calls
    disk=Size.gibibytes(4),  # a million lines take 300 MB, three times that while sorted, more with columns
)
_FINISH: Final = Sizing(
    package="finish",
    module="gather.finish_gather",
    memory_mib=ONE_VCPU_MIB,  # one vCPU; 100,000 sources take 254 MiB, the report included (measured)
    timeout=_LONGEST,  # up to 10,000 sidecars, 32 at a time; the report takes 3.5 s (measured)
    disk=Size.gibibytes(2),  # all files but pixels lie there until they are published
)


def _shard(memory_mib: int) -> Sizing:
    return Sizing(
        package="shard",
        module="gather.gather_shard",
        memory_mib=memory_mib,
        timeout=_LONGEST,  # a shard takes seconds, but a slow source may take 180 s
    )


class Functions(Construct):
    """The functions and their rights to data."""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: Settings, buckets: Buckets, code: PackageCode
    ) -> None:
        super().__init__(scope, construct_id)
        runs_on = _platform(is_emulated=settings.emulated)
        environment = environment_of(settings, buckets)

        def function(name: str, sizing: Sizing) -> GatherFunction:
            package = code(sizing.package)
            return GatherFunction(
                self, name, sizing=sizing, platform=runs_on, code=package, environment=environment
            )

        # Those that every deployment has.
        reserved = settings.reserved_for_api
        self.submit = function("Submit", replace(_SUBMIT, reserved_concurrency=reserved))
        self.status = function("Status", replace(_STATUS, reserved_concurrency=reserved))
        self.search = function("Search", _SEARCH)
        self.dry_run = function("DryRun", _DRY_RUN)
        self.rank = function("Rank", _RANK)
        self.answer_tables = function("AnswerTables", _ANSWER_TABLES)
        self.plan_table = function("PlanTable", _PLAN_TABLE)
        self.read_images = function("ReadImages", _READ_IMAGES)
        self.tick = function("Tick", _TICK)
        self.watch = function("Watch", _WATCH)
        self.plan = function("Plan", _PLAN)
        self.shard = function("Shard", _shard(settings.worker_memory_mib))
        self.small_shard = function("SmallShard", _shard(SMALL_WORKER_MIB))
        self.shards = (self.small_shard, self.shard)
        self.finish = function("Finish", _FINISH)
        # Groups of them that get the same rights or alarms.
        self.in_api = (self.submit, self.status, self.search, self.dry_run, self.rank, self.answer_tables)
        of_tables = (self.plan_table, self.read_images)
        self.every = (*self.in_api, self.tick, self.watch, self.plan, *self.shards, self.finish, *of_tables)
        # Functions and rights that only some settings ask for.
        self.canary = None if settings.canary_hours is None else function("Canary", _CANARY)
        if self.canary is not None:
            buckets.samples.grant_put(self.canary.role)
        self.halt = None if settings.max_usd_per_month is None else function("Halt", _HALT)
        if self.halt is not None:
            buckets.halted.grant_get(self.halt.role)
            buckets.halted.grant_put(self.halt.role)
        if settings.earthdata_secret is not None:
            for reader in (self.dry_run, self.plan, self.rank, self.answer_tables, *of_tables, *self.shards):
                grant_secret(reader.role, settings.earthdata_secret)
        if settings.catalog is not None:
            grant_catalog(self.search.role, settings.catalog, settings.source_buckets)
            grant_listing(self.search.role, settings.source_buckets)


def environment_of(settings: Settings, buckets: Buckets) -> dict[str, str]:
    """Return the environment of all functions."""
    environment = {
        "PIXEL_GATHER_STAGE": settings.stage,
        "PIXEL_GATHER_ARRAY_BUCKET": buckets.arrays.bucket_name,
        "PIXEL_GATHER_OUTPUT_PREFIX": settings.output_prefix,
        "PIXEL_GATHER_CONTROL_BUCKET": buckets.control.bucket_name,
        "PIXEL_GATHER_SOURCE_BUCKETS": _compact([_bucket_fields(each) for each in settings.source_buckets]),
        "PIXEL_GATHER_HTTPS_HOSTS": _compact(settings.https_hosts),
        "PIXEL_GATHER_LIMITS": _compact(asdict(settings.caps)),
        "PIXEL_GATHER_ALL_WORKERS": str(settings.all_workers),
        "PIXEL_GATHER_CONCURRENCY": str(settings.worker_concurrency),
        "PIXEL_GATHER_SHARD_MEMORY_MIB": _compact([SMALL_WORKER_MIB, settings.worker_memory_mib]),
        "POWERTOOLS_SERVICE_NAME": SERVICE,
        "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
    for name in ("catalog", "earthdata_secret", "measured", "catalog_hosts", "signing"):
        if value := getattr(settings, name):
            text = value if isinstance(value, str) else _compact(value)
            environment[f"PIXEL_GATHER_{name.upper()}"] = text
    _check_size(environment, settings)
    return environment


def _check_size(environment: Mapping[str, str], settings: Settings) -> None:
    """Refuse an environment that Lambda would refuse in the middle of a deployment.

    Lambda measures names and values as one JSON object, in which each quote in a value takes two bytes.
    """
    resolved = {name: "" if Token.is_unresolved(text) else text for name, text in environment.items()}
    nbytes = len(_compact(resolved)) + _RESERVED_NBYTES
    if nbytes <= _ENVIRONMENT_NBYTES:
        return
    key, values = max(
        (
            ("source_buckets", settings.source_buckets),
            ("https_hosts", settings.https_hosts),
            ("catalog_hosts", settings.catalog_hosts),
        ),
        key=lambda each: len(environment.get(f"PIXEL_GATHER_{each[0].upper()}", "")),
    )
    raise SettingsError(
        key,
        f"{len(values)} of them",
        f"fewer, or have shorter names: the functions' environment would take {nbytes:,} bytes, and Lambda "
        f"holds {_ENVIRONMENT_NBYTES:,} bytes",
    )


def _bucket_fields(bucket: SourceBucket) -> dict[str, str | bool]:
    """Return a bucket's fields without defaults. The key is left out: only IAM needs it."""
    return {name: value for name, value in asdict(bucket).items() if value and name != "kms_key"}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _platform(*, is_emulated: bool) -> Platform:
    if not is_emulated:
        return Platform(runtime=lambda_.Runtime.PYTHON_3_13, architecture=lambda_.Architecture.ARM_64)
    is_arm = platform.machine() in ("aarch64", "arm64")
    return Platform(
        runtime=lambda_.Runtime.PROVIDED_AL2023,
        architecture=lambda_.Architecture.ARM_64 if is_arm else lambda_.Architecture.X86_64,
    )
