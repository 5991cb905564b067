"""Check hrefs against a policy and give each its canonical spelling. Pure: no I/O.

``s3://bucket/key`` holds the key as it is, because S3 keys may contain any character. So do ``gs://bucket/key``
of Google, and ``az://container/key`` and ``abfs://container@account.dfs.core.windows.net/key`` of Azure.
``https://`` and ``file://`` paths are percent-encoded. ``object_store.split_href`` undoes both.
"""

import os
import posixpath
import re
from collections.abc import Callable
from copy import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from pixel_gather.core.errors import RequestError

_LONGEST: Final = 2048
_LONGEST_KEY_NBYTES: Final = 1024
_LEFT_AS_THEY_ARE: Final = "/~!$&'()*+,;=:@"
"""Characters that RFC 3986 allows in a path. They are not encoded, so hrefs stay readable."""

_DEFAULT_PORTS: Final = {"https": "443", "http": "80"}
BUCKET_SCHEMES: Final = frozenset({"s3", "gs", "az", "abfs"})
"""Their keys are as they are, never percent-encoded."""

_KNOWN_SCHEMES: Final = BUCKET_SCHEMES | {"https", "http", "file"}
_OTHER_SPELLINGS: Final = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "azure": "az",
    "wasb": "abfs",
    "wasbs": "abfs",
}
_STORE_NAMES: Final = {"s3": "an S3 bucket", "gs": "a bucket of Google's"}
_GOOGLE: Final = "storage.googleapis.com"
_AMAZON: Final = re.compile(r"(?:(.+)\.)?s3(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?")
_BLOB_HOST: Final = ".blob.core.windows.net"

_WRITE: Final = "write s3://bucket/key, gs://bucket/key, az://container/key or https://host/path"
_SAS: Final = (
    "a query string cannot be sent, so URLs with a SAS token do not work. Write the plain URL. For data of "
    "Planetary Computer, have reads signed by planetary-computer. With a token of your own, set "
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_SAS_TOKEN and write az://container/key"
)
_WITH_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEME_WITHOUT_SLASHES = re.compile(r"(s3|gs|az|abfss?|https?|file|vrt):", re.IGNORECASE)
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ODD_SEGMENT = re.compile(r"(?:^|/)(\.{0,2})(?:/|$)")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_GOOGLE_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_CONTAINER = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9-]{1,61}[a-z0-9]|\$web|\$root)"
    r"(?:@(?P<account>[a-z0-9]{3,24})\.(?:dfs|blob)\.core\.windows\.net)?"
)
_HOST = re.compile(r"(?P<name>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_GDAL_PREFIX = re.compile(r"/vsi\w*", re.IGNORECASE)
_GDAL_IMAGE = re.compile(r"GTIFF_DIR:", re.IGNORECASE)


class HrefPolicy(Struct, frozen=True, kw_only=True):
    """Which hrefs a deployment or a run in process may read."""

    schemes: frozenset[str]
    """Some of ``s3``, ``gs``, ``az``, ``abfs``, ``https``, ``http``, ``file``.

    With ``file``, plain local paths are hrefs, too.
    """

    buckets: frozenset[str] | None = None
    """The allowed S3 buckets; None for any."""

    folder: str | None = None
    """An allowed ``s3://bucket/folder/`` of another bucket."""

    hosts: frozenset[str] | None = None
    """The allowed ``host`` or ``host:port`` of http and https, in lower case; None for any."""

    base: str | None = None
    """Folder for relative hrefs: an absolute local path, or a checked href of a folder.

    None to refuse relative hrefs.
    """

    def __post_init__(self) -> None:
        """Refuse unknown schemes and a relative base."""
        if unknown := self.schemes - _KNOWN_SCHEMES:
            raise ValueError(f"no store serves the scheme {min(unknown)}; known are {_list(_KNOWN_SCHEMES)}")
        if self.base is not None and not (self.base.startswith("/") or "://" in self.base):
            raise ValueError(f"the base folder {self.base!r} is relative; write the whole path")

    def within(self, base: str) -> "HrefPolicy":
        """Return this policy with another base folder."""
        return replace(self, base=base)


_DOTS_AT_END: Final = re.compile(r"(^|/)\.\.?/*$")

IN_PROCESS: Final = HrefPolicy(schemes=_KNOWN_SCHEMES)
"""Policy in process: everything that the machine may read. Add a ``base`` for relative paths."""


def check_href(text: str, *, policy: HrefPolicy) -> str:
    """Return the canonical spelling of an href that the policy allows.

    A checked href stays unchanged. ``.`` and ``..`` are removed from local paths as text, without looking at
    symbolic links.

    Raises:
        ValueError: The message says what is wrong and what to write instead.
    """
    if not text:
        raise ValueError("the href is empty; write s3://bucket/key")
    if len(text) > _LONGEST:
        raise ValueError(f"the href has {len(text)} characters; no more than {_LONGEST} can be read")
    if match := _UNSENDABLE.search(text):
        raise ValueError(f"the href contains the control character {match[0]!r}; remove it")
    href = _canonical(text, policy)
    if len(href) > _LONGEST:
        raise ValueError(f"the href has {len(href)} characters when encoded; at most {_LONGEST} can be read")
    return href


def check_folder(text: str, *, policy: HrefPolicy) -> str:
    """Return the canonical spelling of a folder, without a closing slash. The last slash is optional.

    Raises:
        ValueError: As `check_href`.
    """
    folder = text.rstrip("/")
    try:
        return check_href(f"{folder}/x", policy=policy).removesuffix("/x")  # by an object in it
    except ValueError as error:
        raise ValueError(str(error).replace(f"{folder}/x'", f"{folder}/'")) from error


def checked_href(text: str, field: str, *, policy: HrefPolicy, check: Callable[..., str] = check_href) -> str:
    """Return what `check_href` or `check_folder` returns for a field of a request.

    Raises:
        RequestError: As they do. It names the field.
    """
    try:
        return check(text, policy=policy)
    except ValueError as error:
        raise RequestError(str(error), field=field) from error


def place_text(given: object, field: str) -> str:
    """Return a place that a program gives, as text.

    Raises:
        RequestError: It is neither text nor a path. The error names the field.
    """
    if isinstance(given, str | os.PathLike) and isinstance(text := os.fspath(given), str):
        return text
    raise RequestError(f"it is of type {type(given).__name__}; write text or a path", field=field)


def path_here(given: object, field: str, *, said: str) -> Path:
    """Return the path of what is written to this machine. ``~/`` is the user's home.

    Args:
        given: From a program.
        field: What an error names.
        said: What is written, with its verb: ``the files are``.

    Raises:
        RequestError: It is an address, such as one on S3, or neither text nor a path.
    """
    text = place_text(given, field)
    if "://" in text:
        raise RequestError(f"{said} written to this machine: give a path", field=field)
    return Path(with_home(text))


def with_home(text: str) -> str:
    """Return a place, whose ``~/`` is the user's home. Shells do not expand it in ``--to=~/x``."""
    return str(Path(text).expanduser()) if text.startswith("~/") else text


def without_dots(folder: str) -> str:
    """Return the whole path of a local folder that is named ``.`` or ``..``, or so at its end."""
    is_local = "://" not in folder
    return posixpath.abspath(folder) if is_local and _DOTS_AT_END.search(folder) else folder


def parent_of(href: str) -> str:
    """Return the folder of a checked href, without a closing slash."""
    return href.rpartition("/")[0]


def _canonical(text: str, policy: HrefPolicy) -> str:
    match = _WITH_SCHEME.fullmatch(text)
    if match is None:
        return _from_path(text, policy)
    scheme, rest = match[1].lower(), match[2]
    if scheme in _OTHER_SPELLINGS:
        raise ValueError(f"{scheme}:// is another spelling; write {_OTHER_SPELLINGS[scheme]}://{rest[:200]}")
    if scheme == "vrt":
        raise ValueError("vrt:// is not read; name the source itself, such as s3://bucket/key")
    if scheme == "file" and scheme not in policy.schemes:
        raise ValueError(f"file:// is not read here: {_on_a_disk(text)}")
    if scheme == "abfss":
        scheme = "abfs"
    if scheme not in policy.schemes:
        if scheme in BUCKET_SCHEMES and "file" not in policy.schemes:
            raise ValueError(_not_on_aws(_from_bucket(scheme, rest, IN_PROCESS)))
        is_of_web = scheme in _DEFAULT_PORTS and policy.hosts is not None
        web = "; https:// is read of the hosts that the deployment's setting https_hosts names"
        raise ValueError(
            f"{scheme}:// is not read here; write one of {_list(policy.schemes)}{web if is_of_web else ''}"
        )
    if scheme in BUCKET_SCHEMES:
        return _from_bucket(scheme, rest, policy)
    if scheme == "file":
        return _from_file_uri(rest)
    return _from_http(scheme, rest, policy)


def _from_bucket(scheme: str, rest: str, policy: HrefPolicy) -> str:
    bucket, _, key = rest.partition("/")
    root = _root_of(scheme, bucket)
    is_below = policy.folder is not None and f"{scheme}://{rest}".startswith(policy.folder)
    if scheme == "s3" and policy.buckets is not None and bucket not in policy.buckets and not is_below:
        raise ValueError(
            f"the bucket {bucket} is not allowed here; "
            f"the setting source_buckets allows {_list(policy.buckets)}"
        )
    if not key:
        raise ValueError(f"the key is empty; write {root}/key")
    _refuse_odd_segments(key)
    if (nbytes := len(key.encode())) > _LONGEST_KEY_NBYTES:
        raise ValueError(f"the key has {nbytes} bytes; stores allow {_LONGEST_KEY_NBYTES}")
    return f"{root}/{key}"


def _root_of(scheme: str, name: str) -> str:
    """Return the canonical address of a bucket, or of a container with or without its account."""
    if scheme == "s3" and _BUCKET.fullmatch(name):
        return f"s3://{name}"
    if scheme == "gs" and _GOOGLE_BUCKET.fullmatch(name):
        return f"gs://{name}"
    if scheme in ("az", "abfs"):
        if (match := _CONTAINER.fullmatch(name)) is None:
            raise ValueError(
                f"{name[:100]!r} cannot be the name of a container of Azure's; write az://container/key or "
                "abfs://container@account.dfs.core.windows.net/key"
            )
        account = match["account"]
        return (
            f"abfs://{match['name']}@{account}.dfs.core.windows.net" if account else f"az://{match['name']}"
        )
    raise ValueError(
        f"{name[:100]!r} cannot be the name of {_STORE_NAMES[scheme]}; write {scheme}://bucket/key"
    )


def bucket_address(href: str) -> str:
    """Return the address by which a store lists what a checked web address names.

    ``s3://bucket/folder/`` if the web server is that of no known store.
    """
    host, _, path = href.partition("://")[2].partition("/")
    bucket, _, key = path.partition("/")
    if host == _GOOGLE and bucket:
        return f"gs://{bucket}/{key}"
    if host.endswith(_BLOB_HOST) and bucket:
        return f"abfs://{bucket}@{host.removesuffix(_BLOB_HOST)}.dfs.core.windows.net/{key}"
    if match := _AMAZON.fullmatch(host):
        return f"s3://{match[1]}/{path}" if match[1] else f"s3://{path}"
    return "s3://bucket/folder/"


def _not_on_aws(href: str) -> str:
    """Say why workers on AWS do not read from another cloud, and what they do read."""
    scheme, _, rest = href.partition("://")
    bucket, _, key = rest.partition("/")
    container, _, account = bucket.partition("@")
    host = f"{account.partition('.')[0] or 'ACCOUNT'}{_BLOB_HOST}"
    web = f"{_GOOGLE}/{bucket}" if scheme == "gs" else f"{host}/{container}"
    return (
        f"{scheme}:// is not read by workers on AWS: they have no credentials for that cloud. If the object "
        f"is public, write https://{web}/{key[:200]}; its host has to be in the deployment's setting "
        "https_hosts"
    )


def _from_http(scheme: str, rest: str, policy: HrefPolicy) -> str:
    authority, _, path = rest.partition("/")
    if "?" in rest and authority.lower().endswith(_BLOB_HOST):
        raise ValueError(_SAS)
    if "?" in rest:
        raise ValueError(
            "a query string cannot be sent, so signed URLs do not work. Write the plain URL, or "
            "s3://bucket/key and give credentials. If a ? belongs to the name, write %3F for it"
        )
    if "#" in rest:
        raise ValueError("a fragment cannot be sent; write %23 for a # that belongs to the name")
    if "@" in authority:
        raise ValueError("a user or password in the address is not sent; write https://host/path")
    host = _HOST.fullmatch(authority.lower())
    if host is None or int(host["port"] or 1) not in range(1, 65536):
        raise ValueError(f"{authority!r} is not a host; write https://host/path, in ASCII letters")
    is_default_port = host["port"] is None or host["port"] == _DEFAULT_PORTS[scheme]
    server = host["name"] if is_default_port else host[0]
    if policy.hosts is not None and server not in policy.hosts:
        raise ValueError(
            f"the host {server} is not allowed here; the setting https_hosts allows {_list(policy.hosts)}"
        )
    if not path:
        raise ValueError(f"the path is empty; write {scheme}://{server}/path")
    if "%2f" in path.lower():
        raise ValueError("an encoded slash (%2F) cannot be sent; write a plain one")
    decoded = _decode_path(path)
    _refuse_odd_segments(decoded)
    return f"{scheme}://{server}/{_encode_path(decoded)}"


def _from_file_uri(rest: str) -> str:
    if not rest.startswith("/"):
        raise ValueError("a file is named by its whole path, without a host; write file:///path")
    if "?" in rest or "#" in rest:
        raise ValueError("in a file:// address write %3F for ? and %23 for #, or write the plain path")
    return _from_local(_decode_path(rest))


def _from_path(text: str, policy: HrefPolicy) -> str:
    if _SCHEME_WITHOUT_SLASHES.match(text):
        raise ValueError(f"{text[:40]!r} is not an address; {_WRITE}")
    if _GDAL_PREFIX.match(text):
        raise ValueError(f"GDAL's /vsi... paths are not read; {_WRITE}")
    if _GDAL_IMAGE.match(text):
        raise ValueError("of a file with several images only the first is read; make a file of each of them")
    if text.startswith("/"):
        if "file" not in policy.schemes:
            raise ValueError(f"local files are not read here: {_on_a_disk(text)}")
        return _from_local(text)
    if policy.base is None:
        raise ValueError(
            f"{text[:80]!r} has no folder to start from; write the whole address, s3://bucket/key"
        )
    if "://" in policy.base and not policy.base.startswith("file://"):
        return _canonical(f"{policy.base.rstrip('/')}/{text}", policy)
    if "file" not in policy.schemes:
        raise ValueError(f"local files are not read here: {_on_a_disk(text)}")
    is_uri = policy.base.startswith("file://")
    folder = _decode_path(policy.base.removeprefix("file://")) if is_uri else policy.base
    return _from_local(f"{folder}/{text}")


def _on_a_disk(text: str) -> str:
    return f"workers cannot reach the disk of {text[:200]!r}; copy it to S3 and write s3://bucket/key"


def _from_local(path: str) -> str:
    if path.endswith(("/", "/.", "/..")):
        raise ValueError("the path names a folder; name a file in it")
    whole = "/" + posixpath.normpath(path).lstrip("/")
    if _GDAL_PREFIX.match(whole):
        raise ValueError(f"GDAL's /vsi... paths are not read; {_WRITE}")
    return "file://" + _encode_path(whole)


def _refuse_odd_segments(path: str) -> None:
    """Refuse ``.``, ``..`` and empty names between slashes: no store can serve them."""
    if path.endswith("/"):
        raise ValueError("the address ends in a slash, so it names a folder; name an object in it")
    if match := _ODD_SEGMENT.search(path):
        odd = f"the segment {match[1]}" if match[1] else "an empty segment (//)"
        raise ValueError(f"{odd} cannot be sent to a store; write the path without it")


def _decode_path(path: str) -> str:
    if _BAD_PERCENT.search(path):
        raise ValueError("a % stands without two hexadecimal digits; write %25 for a % of the name")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise ValueError("the percent-encoded bytes are not UTF-8; encode the name as UTF-8") from None
    if match := _UNSENDABLE.search(decoded):
        raise ValueError(f"the href contains the control character {match[0]!r}; remove it")
    return decoded


def _encode_path(path: str) -> str:
    return quote(path, safe=_LEFT_AS_THEY_ARE)


def _list(names: frozenset[str]) -> str:
    shown = sorted(names)[:8]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "none"
