"""Translate a store's error: what it means for a source, and whether a retry may help."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

from obstore.exceptions import (
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.io.aws.sign_in import HOW_TO_SIGN_IN, NO_CREDENTIALS, NO_REASON
from pixel_gather.io.store.no_redirect_http import MANY, PAST_THE_END, HttpRefusedError
from pixel_gather.io.store.open_bucket import (
    AZURE_REFUSED,
    GOOGLE_REFUSED,
    NO_AZURE,
    NO_GOOGLE,
    NOT_PUBLIC,
    WHO_PAYS,
)
from pixel_gather.io.store.token_session import BUSY, EXPIRED, ODD, REFUSED, SETTINGS_FILE, UNKNOWN

_IF_READERS_PAY: Final = "where readers pay if requester_pays is not set"
_REFUSED: Final = (
    "the store refused access (403). S3 also answers so for a missing object if you may not list the bucket, "
    f"and {_IF_READERS_PAY}"
)
_NO_LISTING: Final = f"the store refused to list it (403). S3 also answers so {_IF_READERS_PAY}"
EMPTY: Final = "it is empty: it has no bytes at all"
_QUERY: Final = re.compile(r"\?\S+")
"""May hold a signature."""

_DETAILS: Final = "\n\nDebug source:\n"
_NAMED: Final = re.compile(r'(?:^ *path:|\bPath) "((?:[^"\\]|\\.)*)"', re.MULTILINE)
"""Path of a file or key of an object, as the details of an error quote it."""

_ESCAPED: Final = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))")
_CONTROL: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_OF_XML: Final = re.compile(
    r"<(Key|Resource|Bucket|BucketName|Details)>.*?</\1>|arn:aws[a-z-]*:s3:::[^\"<&]*", re.DOTALL
)
_URL: Final = re.compile(
    r"https://[^\s\"<]*|http://[^/\s\"<]*"
    r"(?P<service>/latest/api/token|/latest/meta-data|/v[12]/credentials|/computeMetadata/|/metadata/identity/)?"
    r"[^\s\"<]*"
)
"""A URL. ``service`` is the path of a service that gives a machine its credentials, by plain HTTP."""

type _Verdict = tuple[Status, str, int]
type _ByText = tuple[tuple[tuple[str, ...], _Verdict], ...]
"""For each verdict, the marks of an error's text; one of them is enough."""

_NO_BUCKET: Final = ("<Code>NoSuchBucket<", "<Code>ContainerNotFound<")
_NO_PUBLIC_CONTAINER: Final = "<Code>ResourceNotFound<"
"""Azure's code for requests without credentials."""

_OF_THE_STORE: Final[_ByText] = (
    # Wrong for every object of the bucket. The stores' own codes; for a redirect, obstore's words.
    (
        _NO_BUCKET,
        (Status.MISSING, "there is no such bucket: check its name", 0),
    ),
    (("<Code>UserProjectMissing<",), (Status.DENIED, WHO_PAYS, 0)),
    (("/computeMetadata/",), (Status.DENIED, NO_GOOGLE, 1)),
    (("Generic GCS error: Error performing token request",), (Status.DENIED, GOOGLE_REFUSED, 0)),
    (("/metadata/identity/",), (Status.DENIED, NO_AZURE, 1)),
    (
        ("<Code>AuthenticationFailed<", "<Code>InvalidAuthenticationInfo<"),
        (Status.DENIED, AZURE_REFUSED, 0),
    ),
    (  # of requests without credentials
        ("<Code>PublicAccessNotPermitted<", "<Code>NoAuthenticationInformation<", _NO_PUBLIC_CONTAINER),
        (Status.DENIED, NOT_PUBLIC, 0),
    ),
    (
        ("<Code>InvalidAccessKeyId<", "<Code>SignatureDoesNotMatch<", "<Code>InvalidToken<"),
        (Status.DENIED, f"AWS does not know these credentials: {HOW_TO_SIGN_IN}", 0),
    ),
    (
        ("<Code>RequestTimeTooSkewed<",),
        (Status.DENIED, "the clock of this machine is wrong, so AWS refuses its signatures: set it", 0),
    ),
    *(((said,), (Status.DENIED, said, 0)) for said in (REFUSED, UNKNOWN, EXPIRED, ODD, SETTINGS_FILE)),
    ((BUSY,), (Status.TIMED_OUT, BUSY, 0)),
    (("<Code>ExpiredToken<",), (Status.DENIED, f"the AWS credentials have expired: {HOW_TO_SIGN_IN}", 0)),
    (
        (
            "<Code>PermanentRedirect<",
            "<Code>AuthorizationHeaderMalformed<",
            "<Code>IllegalLocationConstraintException<",  # a Region that accounts have to enable
            "without LOCATION",
        ),
        (Status.DENIED, "the bucket lies in another Region: give --region or set AWS_REGION", 0),
    ),
    (  # the roles of an instance and of a container
        ("/latest/api/token", "/latest/meta-data", "/v1/credentials", "/v2/credentials"),
        (Status.DENIED, NO_CREDENTIALS, 1),
    ),
)
_OF_THE_OBJECT: Final[_ByText] = (
    (
        ("<Code>InvalidObjectState<",),
        (Status.DENIED, "it is archived, as in S3 Glacier, and cannot be read until it is restored", 0),
    ),
    (
        ("stored using a form of Server Side Encryption",),
        (Status.DENIED, "it is encrypted with a customer's key (SSE-C), which cannot be given here", 0),
    ),
    (
        ("kms:Decrypt", "kms:GenerateDataKey"),
        (Status.DENIED, "the store refused access (403): these credentials may not use its KMS key", 0),
    ),
    (("<Code>KMS.",), (Status.DENIED, "the KMS key that encrypts it is disabled, or does not exist", 0)),
)
_BY_CLASS: Final[tuple[tuple[type[Exception], _Verdict], ...]] = (
    (FileNotFoundError, (Status.MISSING, "no such object", 0)),
    (PermissionError, (Status.DENIED, "this file may not be read", 0)),
    (PermissionDeniedError, (Status.DENIED, _REFUSED, 0)),
    (UnauthenticatedError, (Status.DENIED, "the store wants credentials (401)", 0)),
    (PreconditionError, (Status.CHANGED, "replaced while it was being read", 0)),
    (TimeoutError, (Status.TIMED_OUT, "no answer in time", MANY)),
    (NotSupportedError, (Status.UNSUPPORTED, "the server does not answer byte ranges", 0)),
    (ValueError, (Status.MISSING, "no object can have this path", 0)),
)
_OF_THE_WAY: Final[_ByText] = (
    (("kind: Timeout",), (Status.TIMED_OUT, "no answer in time", MANY)),
    (("kind: Connect",), (Status.TIMED_OUT, "no connection to the server", MANY)),
    (
        ("status code: 503", "status code: 429", "status code: 50", "status code: 408"),
        (Status.TIMED_OUT, "the store stayed busy (5xx)", MANY),
    ),
    (("status code: 400 Bad Request: \n",), (Status.DENIED, f"the store refused it, and {NO_REASON}", 0)),
)
_BY_TEXT: Final[_ByText] = (
    # obstore 0.12 raises GenericError for all of these; only its text differs.
    (("StartTooLarge", "status code: 416"), (Status.CORRUPT, PAST_THE_END, 0)),
    (("Not a directory",), (Status.MISSING, "no such object", 0)),
    (
        ("non-partial response",),  # of S3; other stores raise NotSupportedError
        (Status.UNSUPPORTED, "the server does not answer byte ranges", 0),
    ),
    (("Requested ",), (Status.UNSUPPORTED, "the server answers with another range", 0)),
    (("kind: Interrupted",), (Status.TIMED_OUT, "the connection broke while bytes were arriving", MANY)),
    # Listings have no class of their own for these.
    (("status code: 403",), (Status.DENIED, _NO_LISTING, 0)),
    (("status code: 401",), (Status.DENIED, "the store wants credentials (401)", 0)),
    (("status code: 404",), (Status.MISSING, "the store does not know it (404)", 0)),
    *_OF_THE_WAY,
    (("PermissionDenied", "Permission denied"), (Status.DENIED, "this file may not be read", 0)),
    (("NoCredentials", "credential"), (Status.DENIED, "no credentials for this store were found", 0)),
    (("kind: Request", "kind: Decode", "kind: Unknown"), (Status.TIMED_OUT, "the request failed", MANY)),
)
_THROTTLING: Final = ("status code: 503", "status code: 429", "SlowDown")


def classify_store_error(error: Exception) -> tuple[Status, str, int]:
    """Return the status, a sentence, and how many retries are worthwhile after errors of this kind."""
    if isinstance(error, HttpRefusedError):
        return error.status, error.reason, error.tries
    said = without_addresses(error)
    by_class = (verdict for kind, verdict in _BY_CLASS if isinstance(error, kind))
    known = _by_text(said, _OF_THE_STORE, _OF_THE_OBJECT) or next(by_class, None) or _by_text(said, _BY_TEXT)
    return known or (Status.TIMED_OUT, _QUERY.sub("?…", str(error).partition("\n")[0])[:300], 2)


def without_addresses(error: Exception) -> str:
    """Return an error's text without paths, keys and URLs. They may contain any text that tells errors apart.

    The path of a service that gives credentials stays, unless the error is about an object.
    """
    if isinstance(error, OSError) and error.strerror is not None:  # of this machine's disk
        return error.strerror
    said, _, details = str(error).rpartition(_DETAILS)
    said, details = (said, details) if said else (details, "")
    named = [_ESCAPED.sub(_unescaped, each) for each in _NAMED.findall(details)]
    for each in named:
        said = re.sub(rf"\b(location|path|file|root:) {re.escape(each)}(?=[ :]|$)", r"\1", said)
    said = _OF_XML.sub("", _NAMED.sub("", f"{said}{_DETAILS}{details}"))
    is_of_object = bool(named) or "Generic HTTP error" in said
    return _URL.sub("" if is_of_object else lambda url: url["service"] or "", said)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _CONTROL.get(found[2], found[2])


def _by_text(text: str, *tables: _ByText) -> _Verdict | None:
    """Return the first verdict of which a mark stands in the text of an error."""
    each = chain.from_iterable(tables)
    return next((verdict for marks, verdict in each if any(mark in text for mark in marks)), None)


def said_of_place(error: Exception) -> str:
    """Say what an error means for a place that is written to. A disk's error keeps its own words."""
    said = without_addresses(error)
    if (verdict := _by_text(said, _OF_THE_STORE, _OF_THE_OBJECT, _OF_THE_WAY)) is not None:
        return verdict[1]
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return classify_store_error(error)[1]
    return str(error).partition("\n")[0] or type(error).__name__


@contextmanager
def errors_of_store(what: str) -> Iterator[None]:
    """Turn a store's error into a `StoreError`.

    Args:
        what: What is not done then, such as ``out/cube.zarr could not be written``.
    """
    try:
        yield
    except (BaseError, OSError) as error:
        raise StoreError(f"{what}: {said_of_place(error)}") from error


def says_missing(error: Exception, *, may_list: bool) -> bool:
    """Return whether an error of reading means that there is no such object.

    S3 also refuses to read a missing object to who may not list. A bucket that is missing says nothing of an
    object.
    """
    if isinstance(error, FileNotFoundError):
        said = without_addresses(error)
        return not any(mark in said for mark in (*_NO_BUCKET, _NO_PUBLIC_CONTAINER))
    return isinstance(error, PermissionDeniedError) and not may_list


def is_throttling(error: Exception) -> bool:
    """Tell whether an error says that there were too many requests."""
    if isinstance(error, HttpRefusedError):
        return error.throttles
    if not isinstance(error, BaseError):
        return False
    said = without_addresses(error)
    return any(mark in said for mark in _THROTTLING)
