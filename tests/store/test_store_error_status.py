"""What a store's error is called where a place is named."""

import obstore
import pytest
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError

from pixel_gather.core.model.status import Status
from pixel_gather.io.store.object_store import open_store
from pixel_gather.io.store.store_error_status import classify_store_error, is_of_the_store, said_of_place
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
    ("code", "status", "said", "is_of_all"),
    [
        ("InvalidObjectState", 403, "it is archived, as in S3 Glacier", False),
        ("RequestTimeTooSkewed", 403, "the clock of this machine is wrong", True),
        ("AccessDenied", 403, "the store refused access (403)", False),
        ("PermanentRedirect", 301, "the bucket lies in another Region", True),
        ("AuthorizationHeaderMalformed", 400, "the bucket lies in another Region", True),
        ("IllegalLocationConstraintException", 400, "the bucket lies in another Region", True),
    ],
)
def test_refusals_of_s3_are_told_apart(
    code: str,
    status: int,
    said: str,
    is_of_all: bool,  # noqa: FBT001 # a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their codes tell whether all objects are concerned, or one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    answer = Answer(status=status, body=f"<Error><Code>{code}</Code></Error>".encode())
    with serving(lambda _: answer) as server:
        store = open_store("s3://bucket", StoreSettings(endpoint=server.root))
        with pytest.raises(BaseError) as refused:
            obstore.get(store, "key")

    found, reason, tries = classify_store_error(refused.value)
    assert (found, tries) == (Status.DENIED, 0)
    assert reason.startswith(said)
    assert is_of_the_store(refused.value) == is_of_all
