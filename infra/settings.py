"""The settings of one deployment, read from the CDK context and checked.

The text at each field names its key of the context. Keys are given as ``-c KEY=VALUE`` on the command line or
under ``context`` in cdk.json. Arrays are JSON in both places.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from infra.cdk_context import Context, Form, SettingsError
from pixel_gather.core.errors import RequestError
from pixel_gather.core.estimate.assumptions import MEASURABLE
from pixel_gather.core.schedule import Schedule

LEAST_WORKER_MIB: Final = 1769
"""One vCPU. The memory holds a shard of 512 MiB decoded, as much compressed, the reader and GDAL's child."""

_STAGE: Final = Form(
    r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?",
    "1 to 20 lower-case letters, digits and hyphens, beginning with a letter",
)
_IS_BUCKET: Final = "the name of an S3 bucket: 3 to 63 lower-case letters, digits, hyphens and dots"
_BUCKET: Final = Form(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", _IS_BUCKET)
_NEW_BUCKET: Final = Form(_BUCKET.pattern, f"{_IS_BUCKET}, and no other bucket's name")
_REGION: Final = Form(r"[a-z]{2}(-[a-z]+)+-\d", "a Region: eu-central-1")
_HOST: Final = Form(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?", "a host: data.example.org")
_BACK_END: Final = Form(rf"(s3|https)://{_HOST.pattern}", "by s3://bucket or https://host")
_PREFIX: Final = Form(r"([A-Za-z0-9][A-Za-z0-9._-]*/)*", "folders, each with a slash")
_CATALOG: Final = Form(
    rf"s3://{_BUCKET.pattern}/([A-Za-z0-9!_.'()-]+/)*[A-Za-z0-9!_.'()-]+\.parquet",
    "where `pixel-gather catalog` wrote it: s3://bucket/key.parquet",
)
_EMAIL: Final = Form(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")
_SIGNER: Final = Form(r"planetary-computer|earthdata", "planetary-computer or earthdata")
_SECRET: Final = Form(r"[A-Za-z0-9/_+=.@-]{1,256}", "the name of a secret, such as earthdata/token")
_KMS_KEY: Final = Form(
    r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+",
    "the ARN of a key, and not of an alias: arn:aws:kms:eu-central-1:111122223333:key/...",
)
_FIGURE: Final = Form("|".join(MEASURABLE), f"by the names {', '.join(MEASURABLE)}")
_TAG: Final = Form(r"(?!aws:)[\w .:/=+@-]{1,128}", "names of tags: letters, digits and _.:/=+-@")
_TAGGED: Final = Form(_TAG.pattern, "a text of letters, digits and _.:/=+-@")
_LOG_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)
"""Days that CloudWatch takes; it takes a few more."""

_MOST_CHILDREN: Final = 10_000
"""A Distributed Map runs no more children at the same time."""

LEAST_CONCURRENCY: Final = 4
"""How many functions an account must be able to run at the same time."""

_UNRESERVED: Final = 100
"""Concurrency that Lambda does not let an account reserve."""

_RESERVED: Final = 10
"""A hundred callers who ask every 5 seconds make 20 calls a second of 0.2 s each."""

_KEPT_FREE: Final = 0.1
"""Share of an account's concurrency that is kept for the API, for plans and for other applications."""

_LEAST_KEPT_FREE: Final = 2
"""Besides what is reserved. For status and submit, in an account that may run only ten functions."""


class SourceBucket(Struct, frozen=True, kw_only=True):
    """A bucket whose objects may be read as sources and as lists of sources."""

    name: str
    region: str | None = None
    """None for the deployment's own Region. Transfer from another Region is charged."""

    requester_pays: bool = False
    expand: bool = False
    """Whether searches may list its folders, for catalogs that name folders instead of images. A listing is
    priced as 12 GETs."""

    unsigned: bool = False
    """Whether it is read without credentials, as public buckets allow. No role then gets a right to it."""

    kms_key: str | None = None
    """ARN of the customer's key that its objects are encrypted with. The roles that read sources may then
    decrypt with it, through S3 only. The key's own policy has to allow this account as well."""

    @property
    def key_region(self) -> str | None:
        """Region of the key, and therefore of the bucket. None without a key."""
        return None if self.kms_key is None else self.kms_key.split(":")[3]


class Caps(Struct, frozen=True, kw_only=True):
    """The highest limits of any request. A request's own ``limits`` can only lower them."""

    usd: float | None = 10.0
    """``max_usd``: dollars, by the plan's estimate; the word none for no cap."""

    files: int | None = 1_000_000
    """``max_files``: sources in a list; none for no cap. The plan's time and disk suffice for a million."""

    pixels: int | None = None
    """``max_pixels``: pixels of all sources together; no cap by default, as ``max_usd`` limits them too."""

    fetched_bytes: int | None = None
    """``max_fetched_bytes``: bytes to read, by the estimate; no cap by default, for the same reason."""

    workers: int = 500
    """``max_workers``: workers at the same time, 1 to 10,000.

    A request without a number gets as many as are useful. The default is half of what most accounts may run
    in a Region, so that the API and other applications keep running. It is at most nine tenths of
    ``account_concurrency``, and no setting may exceed that.
    """

    failed_shards: float = 0.1
    """``max_failed_shards``: the largest share of lost shards, 0 to 1, that a request may allow."""

    requests_per_s: Mapping[str, float] | None = None
    """``requests_per_s``: requests a second that all gathers together may send to a bucket or host, as a JSON
    object by ``s3://bucket`` or ``https://host``; any number by default."""


class Settings(Struct, frozen=True, kw_only=True):
    """One deployment."""

    stage: str = "main"
    """``stage``: distinguishes the deployments of an account. It ends the stack's name and is a dimension of
    every metric. 1 to 20 lower-case letters, digits and hyphens."""

    source_buckets: tuple[SourceBucket, ...] = ()
    """``source_buckets``: the only buckets that sources are read from. A JSON array of objects with ``name``
    and, where needed, ``region``, ``requester_pays``, ``unsigned``, ``expand`` and ``kms_key``. The
    functions' environment has room for 88 whose names have 20 letters, if nothing else is set."""

    https_hosts: tuple[str, ...] = ()
    """``https_hosts``: hosts that sources may be read from by https, as a JSON array; none by default."""

    catalog_hosts: tuple[str, ...] = ()
    """``catalog_hosts``: hosts of the STAC APIs that a gather may search by https, as a JSON array; none by
    default. What a search finds is still read only from ``source_buckets`` and ``https_hosts``."""

    signing: tuple[str, ...] = ()
    """``signing``: which services may sign for sources, as a JSON array of ``planetary-computer`` and
    ``earthdata``; none by default. The hosts or buckets have to be named as all others."""

    earthdata_secret: str | None = None
    """``earthdata_secret``: name of a secret in Secrets Manager, in the stack's account and Region. Its text
    is an Earthdata token. Needed for ``earthdata`` in ``signing``. Functions read it when a gather signs."""

    catalog: str | None = None
    """``catalog``: ``s3://bucket/key.parquet`` of the catalog that the API searches. `pixel-gather catalog`
    writes it; none by default."""

    kms_key: str | None = None
    """``kms_key``: ARN of a customer's key that encrypts both buckets of the stack. The key is in the stack's
    Region, and its policy has to let IAM of the account decide. By default S3's own keys encrypt."""

    array_bucket: str | None = None
    """``array_bucket``: name of the bucket of cubes; chosen by CloudFormation by default. Another name later
    makes another bucket, and leaves the cubes where they are."""

    control_bucket: str | None = None
    """``control_bucket``: name of the bucket of plans and uploaded lists, likewise."""

    output_prefix: str = ""
    """``output_prefix``: where cubes lie in the array bucket; empty, or ending in a slash."""

    retain_arrays: bool = True
    """``retain_arrays``: whether the buckets outlive the stack. The control bucket has the lists that people
    uploaded, and the plans of gathers that can be redriven."""

    log_days: int = 90
    """``log_days``: how many days logs are kept: 1, 3, 5, 7, 14, 30, 60, 90, 180, 365 or more."""

    tags: Mapping[str, str] = {}
    """``tags``: a JSON object of tags for all resources, in addition to ``application`` and ``stage``. AWS's
    bill can be split by tags that are activated there."""

    worker_memory_mib: int = LEAST_WORKER_MIB
    """``worker_memory_mib``: 1,769 to 10,240, of the workers for shards that do not fit those of 1,024 MiB.

    1,769 is one vCPU. A worker's network carries 78 MB/s, about 190 tiles of 400 KB a second. They take 0.6
    seconds of CPU over TLS (measured on x86). More memory only helps from 2,048 on, by a wider network.
    """

    worker_concurrency: int = 128
    """``worker_concurrency``: most requests that one worker has in flight to one bucket or host, 1 to 400.

    The worker finds the best number up to this one. It tries more than 128 only if the first byte takes 50 ms
    or longer. A request may hold two connections, and a worker has 1,024 file descriptors.
    """

    caps: Caps = Caps()
    account_concurrency: int = 1000
    """``account_concurrency``: how many functions may run at the same time in this Region, without what other
    functions of the account have reserved; at least 4.

    ``scripts/deploy`` asks Lambda for it. A new account may run 10. Gathers then have at most 8 workers.
    """

    alarm_email: str | None = None
    """``alarm_email``: the address that gets alarms and the names of failed gathers. AWS asks it to confirm.
    Nobody by default."""

    alarm_usd_per_day: float | None = 25.0
    """``alarm_usd_per_day``: dollars of all gathers of a day, by our model, that raise an alarm; the word
    none for no alarm. ``max_usd`` caps one gather before it starts. This alarm also sees many small
    gathers, and gathers that run longer than planned."""

    max_usd_per_month: float | None = None
    """``max_usd_per_month``: dollars of a month after which nothing begins any more, and what runs has one
    worker each. AWS Budgets counts them by the tag ``pixel-gather``, which has to be active in AWS's billing.
    Dollars of one day by our model count at once. No such budget by default."""

    canary_hours: int | None = None
    """``canary_hours``: every how many hours small files of our own are gathered, 1 to 12. An alarm rings if
    two such gathers in a row fail. None by default."""

    measured: Mapping[str, float] = {}
    """``measured``: figures of the model that were measured in this account, by their names, as ``check
    --save`` of `scripts/deploy` writes them. Plans use them instead of the assumed ones."""

    api_log_role: bool = True
    """``api_log_role``: whether to set the role by which API Gateway writes logs. All APIs of the account
    share it in a Region. Use false where the account has one."""

    schedules: tuple[Schedule, ...] = ()
    """``schedules``: cubes that keep themselves up to date. A JSON array of objects with ``name``, ``every``
    (``rate(1 day)`` or ``cron(0 6 * * ? *)``, in UTC), ``request`` with a search and ``output.append_to``,
    and, where needed, ``overlap_days``. `pixel-gather schedule` adds more without a deployment."""

    emulated: bool = False
    """``emulated``: whether the functions run on this machine instead of in Lambda."""

    @property
    def stack_name(self) -> str:
        """Name of the stack; each stage has its own."""
        return f"PixelGather-{self.stage}"

    @property
    def all_workers(self) -> int:
        """Most workers of all gathers together."""
        return _most_workers(self.account_concurrency)

    @property
    def reserved_for_api(self) -> int:
        """Concurrency to reserve for each of status and submit. 0 where the account is too small.

        So a gather can be stopped while workers use all of the rest. Lambda keeps 100 of an account
        unreserved.
        """
        return _reserved_for_each(self.account_concurrency)

    @classmethod
    def from_context(cls, given: Mapping[str, object]) -> "Settings":
        """Read all keys.

        Raises:
            SettingsError: A value is wrong, or a key is unknown.
        """
        asked: set[str] = set()

        def get(key: str) -> object:
            asked.add(key)
            return given.get(key)

        # Two of the values decide which others are allowed.
        context, default = Context(get), cls()
        account_concurrency = context.integer(
            "account_concurrency", default.account_concurrency, lowest=LEAST_CONCURRENCY, highest=1_000_000
        )
        catalog_hosts = context.texts("catalog_hosts", _HOST)
        signing = context.texts("signing", _SIGNER)
        control_bucket = context.text("control_bucket", _NEW_BUCKET, None)
        settings = cls(
            stage=context.text("stage", _STAGE, default.stage),
            source_buckets=_source_buckets(context),
            https_hosts=context.texts("https_hosts", _HOST),
            catalog_hosts=catalog_hosts,
            signing=signing,
            earthdata_secret=context.text("earthdata_secret", _SECRET, None),
            catalog=context.text("catalog", _CATALOG, None),
            kms_key=context.text("kms_key", _KMS_KEY, None),
            array_bucket=context.text("array_bucket", _NEW_BUCKET, None),
            control_bucket=control_bucket,
            output_prefix=context.text("output_prefix", _PREFIX, default.output_prefix),
            retain_arrays=context.truth("retain_arrays", default=default.retain_arrays),
            log_days=_log_days(context, default.log_days),
            tags=_tags(context.object_("tags")),
            worker_memory_mib=context.integer(
                "worker_memory_mib", default.worker_memory_mib, lowest=LEAST_WORKER_MIB, highest=10_240
            ),
            worker_concurrency=context.integer(
                "worker_concurrency", default.worker_concurrency, lowest=1, highest=400
            ),
            caps=_caps(context, default.caps, most_workers=_most_workers(account_concurrency)),
            account_concurrency=account_concurrency,
            alarm_email=context.text("alarm_email", _EMAIL, None),
            alarm_usd_per_day=context.cap("alarm_usd_per_day", default.alarm_usd_per_day),
            max_usd_per_month=context.cap("max_usd_per_month", default.max_usd_per_month),
            canary_hours=_canary_hours(context),
            measured=_measured(context),
            api_log_role=context.truth("api_log_role", default=default.api_log_role),
            schedules=_schedules(
                context.array("schedules"),
                hosts=frozenset(catalog_hosts),
                signing=frozenset(signing),
                uploads=control_bucket,
            ),
            emulated=context.truth("emulated", default=default.emulated),
        )
        # All keys have been asked for by now, so any other one is a mistake.
        _refuse_unknown(given, asked)
        if ("earthdata" in settings.signing) != (settings.earthdata_secret is not None):
            raise SettingsError(
                "earthdata_secret", settings.earthdata_secret, "given with signing earthdata, and only then"
            )
        return settings


def _refuse_unknown(given: Mapping[str, object], known: set[str]) -> None:
    """Refuse unknown keys, as one may be a misspelled cap. The CDK's own keys have punctuation."""
    for key in given:
        if re.fullmatch(r"\w+", key) and key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"; {near[0]} is one" if near else ""
            raise SettingsError(key, given[key], f"the name of a setting{meant}")


def _measured(context: Context) -> dict[str, float]:
    found = context.numbers("measured", _FIGURE, lowest=0.0, highest=1_000_000)
    if found.get("ACCOUNT", 1.0) < 1:  # the functions would not start
        raise SettingsError("measured.ACCOUNT", found["ACCOUNT"], "a number from 1 to 1,000,000")
    return found


def _reserved_for_each(account_concurrency: int) -> int:
    is_enough = account_concurrency >= _UNRESERVED + 2 * _RESERVED
    return _RESERVED if is_enough else 0


def _most_workers(account_concurrency: int) -> int:
    """Return how much of an account's concurrency gathers may use. Workers cannot have what is reserved."""
    least = 2 * _reserved_for_each(account_concurrency) + _LEAST_KEPT_FREE
    kept_free = max(math.ceil(_KEPT_FREE * account_concurrency), least)
    return min(account_concurrency - kept_free, _MOST_CHILDREN)


def _caps(context: Context, default: Caps, *, most_workers: int) -> Caps:
    workers = context.integer(
        "max_workers", min(default.workers, most_workers), lowest=1, highest=_MOST_CHILDREN
    )
    if workers > most_workers:
        raise SettingsError(
            "max_workers",
            workers,
            f"at most {most_workers:,}: the account may run only so many functions at one time "
            "(account_concurrency), and some are left to the API and to other applications",
        )
    return Caps(
        usd=context.cap("max_usd", default.usd),
        files=context.count("max_files", default.files),
        pixels=context.count("max_pixels", default.pixels),
        fetched_bytes=context.count("max_fetched_bytes", default.fetched_bytes),
        workers=workers,
        failed_shards=context.number("max_failed_shards", default.failed_shards, lowest=0, highest=1),
        requests_per_s=context.numbers("requests_per_s", _BACK_END, lowest=0.01, highest=100_000) or None,
    )


def _canary_hours(context: Context) -> int | None:
    """Return a number of hours that the alarm can look at twice, as CloudWatch looks at a day at most."""
    if context.get("canary_hours") is None:
        return None
    return context.integer("canary_hours", 12, lowest=1, highest=12)


def _log_days(context: Context, default: int) -> int:
    days = context.integer("log_days", default, lowest=1, highest=max(_LOG_DAYS))
    if days not in _LOG_DAYS:
        raise SettingsError("log_days", days, f"one of {', '.join(map(str, _LOG_DAYS))}")
    return days


def _tags(given: Mapping[str, object]) -> dict[str, str]:
    return {_TAG.check("tags", key): _TAGGED.check(f"tags.{key}", value) for key, value in given.items()}


def _schedules(
    given: Sequence[object], *, hosts: frozenset[str], signing: frozenset[str], uploads: str | None
) -> tuple[Schedule, ...]:
    found = [
        _schedule(f"schedules[{index}]", each, hosts=hosts, signing=signing, uploads=uploads)
        for index, each in enumerate(given)
    ]
    for what in ("name", "cube"):
        values = [getattr(each, what) for each in found]
        _refuse_repeated("schedules", values, f"the {what} of only one schedule")
    return tuple(found)


def _refuse_repeated(key: str, values: Sequence[str], expected: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise SettingsError(key, value, expected)


def _schedule(
    key: str, value: object, *, hosts: frozenset[str], signing: frozenset[str], uploads: str | None
) -> Schedule:
    needed, known = {"name", "every", "request"}, {"name", "every", "request", "overlap_days"}
    if not isinstance(value, dict) or not needed <= set(value) <= known:
        raise SettingsError(key, value, "an object with name, every, request and, where needed, overlap_days")
    if not isinstance(value["name"], str) or not isinstance(value["every"], str):
        raise SettingsError(key, value, "an object whose name and every are texts")
    if not isinstance(value["request"], dict):
        raise SettingsError(f"{key}.request", value["request"], "an object")
    try:
        schedule = Schedule(**value)
        schedule.check_new(hosts, signing=signing, uploads=uploads)
    except RequestError as error:
        raise SettingsError(key, value["name"], f"a schedule that can run: {error}") from error
    return schedule


def _source_buckets(context: Context) -> tuple[SourceBucket, ...]:
    found = [
        _source_bucket(f"source_buckets[{index}]", each)
        for index, each in enumerate(context.array("source_buckets"))
    ]
    _refuse_repeated("source_buckets", [each.name for each in found], "named once")
    return tuple(found)


def _source_bucket(key: str, value: object) -> SourceBucket:
    known = ("name", "region", "requester_pays", "unsigned", "expand", "kms_key")
    if not isinstance(value, dict) or not set(value) <= set(known) or "name" not in value:
        raise SettingsError(key, value, f"an object with a name and, where needed, {', '.join(known[1:])}")
    fields = Context(lambda name: value.get(name.rpartition(".")[2]))
    bucket = SourceBucket(
        name=_BUCKET.check(f"{key}.name", value["name"]),
        region=fields.text(f"{key}.region", _REGION, None),
        requester_pays=fields.truth(f"{key}.requester_pays", default=False),
        unsigned=fields.truth(f"{key}.unsigned", default=False),
        expand=fields.truth(f"{key}.expand", default=False),
        kms_key=fields.text(f"{key}.kms_key", _KMS_KEY, None),
    )
    if bucket.requester_pays and bucket.unsigned:
        raise SettingsError(
            key, value, "requester_pays or unsigned, not both: a requester who pays has to sign"
        )
    if bucket.kms_key is not None and bucket.unsigned:
        raise SettingsError(key, value, "signed: AWS decrypts only for signed requests")
    if bucket.kms_key is not None and bucket.region not in (None, bucket.key_region):
        raise SettingsError(
            f"{key}.kms_key", bucket.kms_key, f"a key of the bucket's Region, {bucket.region}"
        )
    return bucket
