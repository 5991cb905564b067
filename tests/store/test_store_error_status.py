"""What a store's error is called where a place is named."""

from pathlib import Path
from xml.sax.saxutils import escape

import obstore
import pytest
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

from pixel_gather.core.model.status import Status
from pixel_gather.io.aws.sign_in import NO_CREDENTIALS
from pixel_gather.io.store.object_store import open_store
from pixel_gather.io.store.store_error_status import (
    classify_store_error,
    is_throttling,
    said_of_place,
    says_missing,
)
from pixel_gather.io.store.store_settings import StoreSettings
from support.local_server import Answer, serving


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionDeniedError("The operation lacked the necessary privileges"),
            "the store refused access (403)",
        ),
        (
            UnauthenticatedError("The operation lacked valid authentication"),
            "the store wants credentials (401)",
        ),
        (PermissionError(13, "Permission denied", "/a"), "[Errno 13] Permission denied: '/a'"),
        (GenericError("Generic S3 error: kind: Connect\nmore"), "no connection to the server"),
        (GenericError("something else\nmore"), "something else"),
    ],
)
def test_an_error_of_a_place_is_said_in_plain_words(error: Exception, said: str) -> None:
    """The store's own words are long, and name methods of a library."""
    assert said_of_place(error).startswith(said)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("InvalidObjectState", 403, "it is archived, as in S3 Glacier"),
        ("RequestTimeTooSkewed", 403, "the clock of this machine is wrong"),
        ("AccessDenied", 403, "the store refused access (403)"),
        ("PermanentRedirect", 301, "the bucket lies in another Region"),
        ("AuthorizationHeaderMalformed", 400, "the bucket lies in another Region"),
        ("IllegalLocationConstraintException", 400, "the bucket lies in another Region"),
    ],
)
def test_refusals_of_s3_are_told_apart(
    code: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their codes."""
    refused = refused_by(f"<Error><Code>{code}</Code></Error>", status, monkeypatch)

    found, reason, tries = classify_store_error(refused)
    assert (found, tries) == (Status.DENIED, 0)
    assert reason.startswith(said)


@pytest.mark.parametrize(
    ("code", "status", "message", "said"),
    [
        (
            "InvalidRequest",
            400,
            "The object was stored using a form of Server Side Encryption. The correct parameters",
            "it is encrypted with a customer's key (SSE-C)",
        ),
        (
            "AccessDenied",
            403,
            "User: a is not authorized to perform: kms:Decrypt on the resource of this ciphertext",
            "the store refused access (403): these credentials may not use its KMS key",
        ),
        ("KMS.DisabledException", 400, "arn:aws:kms:eu:1:key/a is disabled.", "the KMS key that encrypts it"),
    ],
)
def test_an_object_whose_key_cannot_be_used_is_told(
    code: str, status: int, message: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is denied, and not tried again. This holds for places that are written to as well."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    refused = refused_by(body, status, monkeypatch)

    found, reason, tries = classify_store_error(refused)
    assert (found, tries) == (Status.DENIED, 0)
    assert reason.startswith(said)
    assert said_of_place(refused) == reason


def test_a_code_behind_the_address_of_a_name_space_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some stores name that of their XML."""
    name_space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    refused = refused_by(f"<Error {name_space}><Code>NoSuchBucket</Code></Error>", 404, monkeypatch)

    assert classify_store_error(refused)[1] == "there is no such bucket: check its name"


def test_an_answer_of_400_without_a_body_gives_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers a HEAD so, for several reasons."""
    refused = refused_by("", 400, monkeypatch)

    status, reason, _ = classify_store_error(refused)
    assert status == Status.DENIED
    assert "it gave no reason (400): the credentials may have expired" in reason
    assert said_of_place(refused) == reason


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_container_whose_role_gives_no_credentials_is_denied(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service of the credentials refused, not the store: the object was never asked for."""
    (tmp_path / "token").write_text("any")
    with serving(lambda _: Answer(status=status, body=b"")) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.root}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        store = S3Store(
            "bucket",
            region="eu-west-1",
            endpoint=server.root,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

        with pytest.raises(BaseError) as refused:
            obstore.get(store, "key")

    found, reason, _ = classify_store_error(refused.value)
    assert found is Status.DENIED
    assert reason.startswith(NO_CREDENTIALS)


ODD_NAMES = [
    "latest/meta-data",
    "latest/api/token",
    "computeMetadata/v1",
    "metadata/identity/oauth2",
    "kms:Decrypt",
    "SlowDown status code: 503",
    "status code: 503",
    "kind: Timeout",
    'a" kind: Timeout',
    "Not a directory",
    "<Code>NoSuchBucket<",
    "é\u0301 credential",
    "e",
]
"""Names of objects that look like a part of an error's text."""


@pytest.mark.parametrize("folder", ODD_NAMES)
def test_a_local_path_is_no_error_of_the_store(folder: str, tmp_path: Path) -> None:
    """The error of a disk holds the path, which may look as the address of a service that signs."""
    store = LocalStore(tmp_path)

    with pytest.raises(FileNotFoundError) as missing:
        obstore.get(store, f"{folder}/zarr.json")

    assert folder in str(missing.value)
    assert says_missing(missing.value, may_list=True)
    assert classify_store_error(missing.value)[:2] == (Status.MISSING, "no such object")
    assert said_of_place(missing.value) == str(missing.value).partition("\n")[0]


@pytest.mark.parametrize("folder", ODD_NAMES)
def test_a_file_in_place_of_a_folder_is_missing_whatever_the_path_says(folder: str, tmp_path: Path) -> None:
    """This error has no class of its own."""
    (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / folder).write_bytes(b"no folder")

    with pytest.raises(GenericError) as refused:
        obstore.get(LocalStore(tmp_path), f"{folder}/a.tif")

    assert classify_store_error(refused.value)[:2] == (Status.MISSING, "no such object")
    assert said_of_place(refused.value).startswith("Generic LocalFileSystem error: Unable to open file")


@pytest.mark.parametrize("key", ODD_NAMES)
def test_a_path_of_the_operating_system_decides_nothing(key: str) -> None:
    """An error of Python's holds its path as well."""
    found = classify_store_error(PermissionError(13, "Permission denied", f"/{key}"))

    assert found == (Status.DENIED, "this file may not be read", 0)


@pytest.mark.parametrize("key", ODD_NAMES)
@pytest.mark.parametrize(
    ("status", "code", "verdict"),
    [(404, "NoSuchKey", Status.MISSING), (403, "AccessDenied", Status.DENIED)],
)
def test_a_key_decides_nothing(
    key: str, status: int, code: str, verdict: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores' answers hold it as well: as Key, as Resource, in an ARN, and in Google's Details."""
    arn = (
        f"perform: s3:GetObject on resource: &quot;arn:aws:s3:::bucket/{escape(key)}&quot; because no policy"
    )
    body = (
        f"<Error><Code>{code}</Code><Message>not authorized to {arn} allows it</Message>"
        f"<Key>{escape(key)}</Key><Resource>/bucket/{escape(key)}</Resource>"
        f"<Details>No such object: bucket/{escape(key)}</Details></Error>"
    )
    refused, plain = (refused_by(body, status, monkeypatch, key=each) for each in (key, "plain"))

    found = classify_store_error(refused)
    assert found[0] is verdict
    assert found == classify_store_error(plain)
    assert says_missing(refused, may_list=True) is (status == 404)
    assert not is_throttling(refused)
    if status == 403:
        assert said_of_place(refused) == said_of_place(plain)


@pytest.mark.parametrize(
    ("code", "is_missing"),
    [
        ("NoSuchKey", True),
        ("BlobNotFound", True),
        ("NoSuchBucket", False),
        ("ContainerNotFound", False),
        ("ResourceNotFound", False),
    ],
)
def test_a_bucket_that_is_missing_says_nothing_of_an_object(
    code: str,
    is_missing: bool,  # noqa: FBT001 # a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every store answers both by a 404."""
    refused = refused_by(f"<Error><Code>{code}</Code></Error>", 404, monkeypatch)

    assert says_missing(refused, may_list=True) is is_missing


def refused_by(body: str, status: int, monkeypatch: pytest.MonkeyPatch, *, key: str = "key") -> Exception:
    """Return the error of reading from a store that answers so."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with serving(lambda _: Answer(status=status, body=body.encode())) as server:
        store = open_store("s3://bucket", StoreSettings(endpoint=server.root))
        with pytest.raises((BaseError, FileNotFoundError)) as refused:
            obstore.get(store, key)
    return refused.value
