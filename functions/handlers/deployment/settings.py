"""Reads a function's environment variables once, at the cold start, and checks them."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta, Struct

_PREFIX: Final = "PIXEL_GATHER_"
_OWN_MEMORY: Final = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")

type _Count = Annotated[int, Meta(ge=1)]
type _Limit = Literal[
    "usd",
    "files",
    "pixels",
    "fetched_bytes",
    "workers",
    "failed_shards",
    "requests_per_s",
    "times_source",
    "transfer_usd",
]


class SettingsError(Exception):
    """An environment variable is missing or wrong. Deploy again to mend it."""


class SourceBucket(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

        def text(name: str) -> str | None:
            return environment.get(_PREFIX + name) or None

        def read(name: str, type_: Any) -> Any:
            return _decode(_PREFIX + name, text(name), type_)

        return cls(
            stage=_needed("STAGE", text("STAGE")),
            array_bucket=_needed("ARRAY_BUCKET", text("ARRAY_BUCKET")),
            output_prefix=_check_prefix(environment.get(f"{_PREFIX}OUTPUT_PREFIX")),
            control_bucket=_needed("CONTROL_BUCKET", text("CONTROL_BUCKET")),
            source_buckets=read("SOURCE_BUCKETS", tuple[SourceBucket, ...]),
            https_hosts=read("HTTPS_HOSTS", frozenset[str]),
            limits=read("LIMITS", dict[_Limit, Any]),
            all_workers=read("ALL_WORKERS", _Count),
            concurrency=read("CONCURRENCY", _Count),
            shard_memories_mib=_check_sizes(read("SHARD_MEMORY_MIB", tuple[_Count, ...])),
            memory_mib=_decode(_OWN_MEMORY, environment.get(_OWN_MEMORY), _Count),
            endpoint=next((environment[name] for name in _ENDPOINTS if environment.get(name)), None),
            state_machine_arn=text("STATE_MACHINE_ARN"),
            table_state_machine_arn=text("TABLE_STATE_MACHINE_ARN"),
            region=environment.get("AWS_REGION") or None,
            catalog=text("CATALOG"),
            catalog_hosts=read("CATALOG_HOSTS", frozenset[str]) if text("CATALOG_HOSTS") else frozenset(),
            signing=read("SIGNING", frozenset[str]) if text("SIGNING") else frozenset(),
            measured=read("MEASURED", dict[str, float]) if text("MEASURED") else {},
            earthdata_secret=text("EARTHDATA_SECRET"),
        )

    @property
    def state_machine(self) -> str:
        """ARN of the state machine."""
        return _needed("STATE_MACHINE_ARN", self.state_machine_arn)

    @property
    def table_state_machine(self) -> str:
        """ARN of the state machine of tables."""
        return _needed("TABLE_STATE_MACHINE_ARN", self.table_state_machine_arn)

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


def _needed(name: str, text: str | None) -> str:
    if not text:
        raise _missing(_PREFIX + name)
    return text


def _missing(name: str) -> SettingsError:
    return SettingsError(f"{name} is not set: the stack gives it to every function that needs it")


def _decode(name: str, text: str | None, type_: Any) -> Any:
    """Return what a variable holds as JSON."""
    if not text:
        raise _missing(name)
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{name} is {text!r}: {error}") from error


def _check_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise SettingsError(
            f"{_PREFIX}SHARD_MEMORY_MIB is {sizes!r}; it has to be an array of sizes, the smallest first"
        )
    return sizes


def _check_prefix(prefix: str | None) -> str:
    if prefix is None:
        raise _missing(f"{_PREFIX}OUTPUT_PREFIX")
    if prefix and not prefix.endswith("/"):
        raise SettingsError(f"{_PREFIX}OUTPUT_PREFIX is {prefix!r}; it has to be empty or end in a slash")
    return prefix
