"""What a store's error is called where a place is named."""

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from pixel_gather.io.store.store_error_status import said_of_place


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
