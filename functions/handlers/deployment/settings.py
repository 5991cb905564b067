"""Reads a function's environment variables once, at the cold start, and checks them."""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, Self

from msgspec import Struct

_PREFIX: Final = "PIXEL_GATHER_"
_OWN_MEMORY: Final = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_BUCKET_FIELDS: Final = frozenset({"name", "region", "requester_pays", "unsigned", "expand"})
_LIMITS: Final = frozenset(
    {
        "usd",
        "files",
        "pixels",
        "fetched_bytes",
        "workers",
        "failed_shards",
        "requests_per_s",
        "times_source",
        "transfer_usd",
    }
)


class SettingsError(Exception):
    """An environment variable is missing or wrong. Deploy again to mend it."""


class SourceBucket(Struct, frozen=True, kw_only=True):
    """A bucket that sources and lists may be read from."""

    name: str
    region: str | None = None
    """None for the function's own Region."""

    requester_pays: bool = False
    unsigned: bool = False
    expand: bool = False
    """Whether searches may list its folders."""


class Settings(Struct, frozen=True, kw_only=True):
    """One deployment, as all of its functions see it."""

    stage: str
    array_bucket: str
    output_prefix: str
    """Where cubes lie in the bucket. Empty, or ends in a slash."""

    control_bucket: str
    source_buckets: tuple[SourceBucket, ...]
    https_hosts: frozenset[str]
    limits: Mapping[str, Any]
    """The highest limits of any request, by the names of the request's ``limits``."""

    all_workers: int
    """Most workers of all gathers together."""

    concurrency: int
    """How many sources a worker reads at the same time from one bucket or host, at most."""

    shard_memories_mib: tuple[int, ...]
    """Memory of each function that fills shards, the smallest first."""

    memory_mib: int
    """Memory of this function."""

    endpoint: str | None
    """Address of S3, where it is not AWS's own."""

    state_machine_arn: str | None
    """Only the functions that start and watch gathers have it."""

    table_state_machine_arn: str | None = None
    """Only the functions of schedules have it, besides that of gathers."""

    region: str | None = None
    """The Region that this function runs in."""

    catalog: str | None = None
    """``s3://bucket/key`` of the catalog to search, where the deployment has one."""

    catalog_hosts: frozenset[str] = frozenset()
    """Hosts of STAC APIs that a request may search; none unless the deployment names them."""

    signing: frozenset[str] = frozenset()
    """Values of a request's ``sources.sign`` that are allowed besides ``none``."""

    measured: Mapping[str, float] = {}
    """Figures of the model that were measured in this account."""

    earthdata_secret: str | None = None
    """Name of the secret that holds the Earthdata token."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read all variables.

        Raises:
            SettingsError: A variable is missing or wrong. The message names it.
        """
        variables = _Variables(environment)
        return cls(
            stage=variables.text("STAGE"),
            array_bucket=variables.text("ARRAY_BUCKET"),
            output_prefix=_check_prefix(variables.text("OUTPUT_PREFIX", may_be_empty=True)),
            control_bucket=variables.text("CONTROL_BUCKET"),
            source_buckets=tuple(_source_bucket(each) for each in variables.array("SOURCE_BUCKETS")),
            https_hosts=frozenset(str(each) for each in variables.array("HTTPS_HOSTS")),
            limits=_check_limits(variables.json("LIMITS")),
            all_workers=variables.count("ALL_WORKERS"),
            concurrency=variables.count("CONCURRENCY"),
            shard_memories_mib=_parse_sizes(variables.array("SHARD_MEMORY_MIB")),
            memory_mib=_count(_OWN_MEMORY, environment.get(_OWN_MEMORY, "")),
            endpoint=next((environment[name] for name in _ENDPOINTS if environment.get(name)), None),
            state_machine_arn=environment.get(f"{_PREFIX}STATE_MACHINE_ARN") or None,
            table_state_machine_arn=environment.get(f"{_PREFIX}TABLE_STATE_MACHINE_ARN") or None,
            region=environment.get("AWS_REGION") or None,
            catalog=environment.get(f"{_PREFIX}CATALOG") or None,
            catalog_hosts=frozenset(
                str(each) for each in variables.array("CATALOG_HOSTS", may_be_missing=True)
            ),
            signing=frozenset(str(each) for each in variables.array("SIGNING", may_be_missing=True)),
            measured=json.loads(environment.get(f"{_PREFIX}MEASURED") or "{}"),
            earthdata_secret=environment.get(f"{_PREFIX}EARTHDATA_SECRET") or None,
        )

    @property
    def state_machine(self) -> str:
        """ARN of the state machine."""
        if self.state_machine_arn is None:
            raise _missing(f"{_PREFIX}STATE_MACHINE_ARN")
        return self.state_machine_arn

    @property
    def table_state_machine(self) -> str:
        """ARN of the state machine of tables."""
        if self.table_state_machine_arn is None:
            raise _missing(f"{_PREFIX}TABLE_STATE_MACHINE_ARN")
        return self.table_state_machine_arn

    @property
    def requests_per_s(self) -> Mapping[str, float]:
        """Requests a second that all workers may send, by ``s3://bucket`` or ``https://host``."""
        return self.limits.get("requests_per_s") or {}

    @property
    def tables_prefix(self) -> str:
        """Where tables and kept statistics of rankings lie in the bucket of cubes."""
        return f"{self.output_prefix}tables/"

    def table_href(self, name: str) -> str:
        """Return the address of the folder of a table, without a closing slash."""
        return f"s3://{self.array_bucket}/{self.tables_prefix}{name}"

    def cube_href(self, gather: str) -> str:
        """Return the address of the cube of this name, without a closing slash."""
        return f"s3://{self.array_bucket}/{self.output_prefix}{gather}.zarr"


class _Variables(Struct, frozen=True):
    environment: Mapping[str, str]

    def text(self, name: str, *, may_be_empty: bool = False) -> str:
        found = self.environment.get(_PREFIX + name)
        if found is None or not (found or may_be_empty):
            raise _missing(_PREFIX + name)
        return found

    def count(self, name: str) -> int:
        return _count(_PREFIX + name, self.text(name))

    def json(self, name: str) -> Any:
        text = self.text(name)
        try:
            return json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{_PREFIX}{name} is {text!r}; it has to be JSON") from error

    def array(self, name: str, *, may_be_missing: bool = False) -> list[Any]:
        if may_be_missing and f"{_PREFIX}{name}" not in self.environment:
            return []
        found = self.json(name)
        if not isinstance(found, list):
            raise SettingsError(f"{_PREFIX}{name} is {found!r}; it has to be a JSON array")
        return found


def _missing(name: str) -> SettingsError:
    return SettingsError(f"{name} is not set: the stack gives it to every function that needs it")


def _count(name: str, text: str) -> int:
    if not text:
        raise _missing(name)
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(f"{name} is {text!r}; it has to be a whole number above 0")
    return int(text)


def _parse_sizes(given: list[Any]) -> tuple[int, ...]:
    sizes = tuple(_count(f"{_PREFIX}SHARD_MEMORY_MIB", str(each)) for each in given)
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise SettingsError(
            f"{_PREFIX}SHARD_MEMORY_MIB is {given!r}; it has to be an array of sizes, the smallest first"
        )
    return sizes


def _check_prefix(prefix: str) -> str:
    if prefix and not prefix.endswith("/"):
        raise SettingsError(f"{_PREFIX}OUTPUT_PREFIX is {prefix!r}; it has to be empty or end in a slash")
    return prefix


def _source_bucket(value: Any) -> SourceBucket:
    if not isinstance(value, dict) or "name" not in value or not set(value) <= _BUCKET_FIELDS:
        raise SettingsError(
            f"{_PREFIX}SOURCE_BUCKETS has {value!r}; each has a name and may have region, requester_pays, "
            "unsigned and expand"
        )
    return SourceBucket(**value)


def _check_limits(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not set(value) <= _LIMITS:
        raise SettingsError(
            f"{_PREFIX}LIMITS is {value!r}; it is a JSON object of {', '.join(sorted(_LIMITS))}"
        )
    return value
