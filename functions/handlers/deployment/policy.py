"""Checks what a deployment lets its users read, before any request is sent. Pure."""

import re
from copy import replace
from typing import TYPE_CHECKING, Final

from handlers.deployment.settings import Settings
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import HrefPolicy, check_folder, checked_href
from pixel_gather.core.request.web_address import check_deployed_search
from pixel_gather.core.samples import FOLDER, PREFIX

if TYPE_CHECKING:  # pydantic costs a function 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest
    from pixel_gather.core.request.sources import Sources, StacSources

_STDIN: Final = "-"
_CUBES_INDEX: Final = "headers.parquet"
_CUBE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


def source_policy(settings: Settings) -> HrefPolicy:
    """Return which sources may be read: from S3 and, where the deployment names hosts, by https.

    The samples of the deployment's own check may be read, too.
    """
    return HrefPolicy(
        schemes=frozenset({"s3", "https"} if settings.https_hosts else {"s3"}),
        buckets=_source_buckets(settings),
        folder=f"s3://{settings.control_bucket}/{FOLDER}",
        hosts=settings.https_hosts,
    )


def list_policy(settings: Settings) -> HrefPolicy:
    """Return where lists may lie: with the sources, or uploaded (see `check_list`)."""
    buckets = _source_buckets(settings) | {settings.control_bucket}
    return replace(source_policy(settings), buckets=buckets, folder=None)


def index_policy(settings: Settings) -> HrefPolicy:
    """Return where header indexes may lie: with the sources, uploaded, or in cubes (see `check_index`)."""
    buckets = _source_buckets(settings) | {settings.control_bucket, settings.array_bucket}
    return replace(list_policy(settings), buckets=buckets)


def _source_buckets(settings: Settings) -> frozenset[str]:
    return frozenset(each.name for each in settings.source_buckets)


def check_places(request: "GatherRequest", settings: Settings) -> None:
    """Refuse a request whose sources this deployment does not read, or whose cube it may not make."""
    check_sources(request.sources, settings)
    check_append(request)
    _check_name(request, settings)
    if request.windows is not None:
        check_list(request.windows.table, settings, field="windows.table")
    if request.index is not None:
        check_index(request.index, settings)


def check_sources(sources: "Sources", settings: Settings) -> None:
    """Refuse hrefs, lists and prefixes that this deployment does not read."""
    policy = source_policy(settings)
    if sources.rows is not None:  # a stored request would keep only their number
        raise RequestError(
            "a request to a deployment holds no rows: upload the list with POST /lists and give its address, "
            "or give hrefs as texts",
            field="sources",
        )
    if sources.sign != "none" and sources.sign not in settings.signing:
        raise RequestError(
            f"this deployment does not sign by {sources.sign}; its setting signing names those it signs by",
            field="sources.sign",
        )
    for position, href in enumerate(sources.hrefs or ()):
        checked_href(href, f"sources.hrefs.{position}", policy=policy)
    if sources.list is not None:
        check_list(sources.list, settings)
    if sources.catalog is not None:
        check_list(sources.catalog.file, settings, field="sources.catalog.file")
    if sources.stac is not None:
        _check_items(sources.stac, settings)
    if sources.prefix is not None:
        href = checked_href(sources.prefix, "sources.prefix", policy=policy, check=check_folder)
        if href.startswith("https:"):
            raise RequestError(
                "web servers cannot be listed; write s3://bucket/folder/", field="sources.prefix"
            )


def check_append(request: "GatherRequest") -> None:
    """Refuse an append to anything but a cube of this deployment."""
    if request.output.append_to is not None and not _CUBE_NAME.fullmatch(request.cube_name):
        raise RequestError(
            "write the name of a cube of this deployment, as in output.name: no folder and no address",
            field="output.append_to",
        )


def _check_name(request: "GatherRequest", settings: Settings) -> None:
    """Refuse the name of a cube that expires, unless the samples are gathered."""
    folder = f"s3://{settings.control_bucket}/{FOLDER}"
    are_samples = all(href.startswith(folder) for href in request.sources.hrefs or ("",))
    if request.cube_name.startswith(PREFIX) and not are_samples:
        raise RequestError(
            f"a cube whose name begins with {PREFIX} belongs to the deployment's own checks, and expires: "
            "write another name",
            field="output.name" if request.output.append_to is None else "output.append_to",
        )


def _check_items(asked: "StacSources", settings: Settings) -> None:
    check_deployed_search(
        api=asked.api, cmr=asked.cmr is not None, hosts=settings.catalog_hosts, field="sources.stac"
    )
    if isinstance(asked.items, str):
        check_list(asked.items, settings, field="sources.stac.items")
    elif asked.items is not None:
        raise RequestError(
            "a request holds no items: write them to a file, upload it with POST /lists, "
            "and give its address",
            field="sources.stac.items",
        )


def check_list(place: str, settings: Settings, *, field: str = "sources.list") -> str:
    """Return the href of a list or catalog that may be read. In the control bucket, these are the uploads."""
    if place == _STDIN:
        raise RequestError(
            "a deployment has no standard input: upload the list with POST /lists, or write s3://bucket/key",
            field=field,
        )
    control = f"s3://{settings.control_bucket}/"
    href = checked_href(place, field, policy=list_policy(settings))
    if href.startswith(control) and not href.startswith(f"{control}lists/"):
        checked_href(place, field, policy=source_policy(settings))
    return href


def check_index(place: str, settings: Settings) -> str:
    """Return the href of a header index that may be read. In cubes, this is only ``headers.parquet``."""
    field = "index"
    cubes, control = f"s3://{settings.array_bucket}/{settings.output_prefix}", settings.control_bucket
    href = checked_href(place, field, policy=index_policy(settings))
    is_a_cubes = href.startswith(cubes) and href.endswith(f"/{_CUBES_INDEX}")
    is_uploaded = href.startswith(f"s3://{control}/lists/")
    if is_a_cubes or is_uploaded:
        return href
    is_beside_cubes = href.startswith(f"s3://{settings.array_bucket}/")
    if is_beside_cubes and settings.array_bucket not in _source_buckets(settings):
        raise RequestError(
            f"the only index of a cube is {cubes}NAME.zarr/{_CUBES_INDEX}; name that", field=field
        )
    return checked_href(href, field, policy=source_policy(settings))
