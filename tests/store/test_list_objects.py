"""Listings that break off."""

from copy import replace
from itertools import chain, repeat
from typing import Any

import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from pixel_gather.io.store import list_objects as listed_module
from pixel_gather.io.store.list_objects import list_objects, root_folders
from support.local_server import Answer, LocalServer, serving

_KEYS = ("a/1.tif", "a/2.tif")
_CONTENTS = "".join(
    f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
    for key in _KEYS
)
_WHOLE = Answer(status=200, body=f"<ListBucketResult>{_CONTENTS}</ListBucketResult>".encode())
_CUT = Answer(status=200, body=_WHOLE.body, n_sent=60)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record pauses instead of waiting."""
    found: list[float] = []
    monkeypatch.setattr(listed_module, "sleep", found.append)
    return found


def _store(server: LocalServer) -> Any:
    return S3Store(
        "bucket",
        endpoint=server.root,
        region="us-east-1",
        skip_signature=True,
        client_options={"allow_http": True},
    )


def _script(*answers: Answer) -> Any:
    following = chain(answers[:-1], repeat(answers[-1]))
    return lambda _: next(following)


@pytest.mark.parametrize("n_cut", [0, 1, 3])
def test_a_listing_that_breaks_off_is_started_again(n_cut: int, pauses: list[float]) -> None:
    """Each object is there once."""
    with serving(_script(*[_CUT] * n_cut, _WHOLE)) as server:
        found = list_objects(_store(server), "a/")

    assert [each["path"] for each in found] == list(_KEYS)
    assert pauses == [0.1, 0.5, 2.0][:n_cut]


def test_folders_are_listed_again_as_well() -> None:
    """Only the root's folders are named."""
    body = b"<ListBucketResult><CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes></ListBucketResult>"
    whole = Answer(status=200, body=body)

    with serving(_script(replace(whole, n_sent=30), whole)) as server:
        assert root_folders(_store(server)) == ["a"]


def test_a_listing_that_always_breaks_off_fails() -> None:
    """There are four tries."""
    with serving(_script(_CUT)) as server, pytest.raises(Exception, match="body"):
        list_objects(_store(server), "a/")

    assert len(server.asked) == 4


def test_a_refused_listing_is_not_tried_again() -> None:
    """It would be refused again."""
    with serving(_script(Answer(status=403))) as server, pytest.raises(BaseError, match="403"):
        list_objects(_store(server), "a/")

    assert len(server.asked) == 1
