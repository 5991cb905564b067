"""Which web addresses of requests and servers are asked."""

import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.web_address import (
    hosts_only,
    same_host_only,
    shown_url,
    with_query_of,
    without_query,
)


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        ("https://a.org/x", "https://a.org/y?page=2"),
        ("https://a.org/x", "https://a.org:443/y"),
        ("https://A.org:443/x", "https://a.org/y"),
        ("http://a.org/x", "http://a.org:80/y"),
        ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000"),
    ],
)
def test_the_same_server_is_asked(first: str, asked: str) -> None:
    """A port that goes without saying may be written."""
    same_host_only(first, field="stac")(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "https://b.org/x",
        "https://a.org.evil.org/x",
        "https://evil.org/a.org",
        "http://a.org/x",
        "https://a.org:8443/x",
        "https://a.org:80/x",
        "ftp://a.org/x",
        "/x",
        "",
        "https://a.org:port/x",
        "https://[a.org/x",
        "https://user@a.org/x",
        "https://:secret@a.org/x",
        "https://a.org@evil.org/x",
    ],
)
def test_no_other_server_is_asked(asked: str) -> None:
    """Nor is one with a user or a password. The error names the field."""
    check = same_host_only("https://a.org/x", field="stac")

    with pytest.raises(RequestError) as raised:
        check(asked)

    assert raised.value.field == "stac"


@pytest.mark.parametrize(
    "url", ["", "x", "/x", "https:///x", "https://", "ftp://a.org/x", "file:///etc/passwd", "s3://b/k"]
)
def test_only_web_addresses_are_taken(url: str) -> None:
    """Everything else is refused, with what to write."""
    with pytest.raises(RequestError, match="is no web address; write https://host/path"):
        same_host_only(url, field="stac")


@pytest.mark.parametrize("url", ["https://user@a.org/x", "https://user:secret@a.org/x"])
def test_the_first_address_has_no_password(url: str) -> None:
    """It would be sent along, and it would stand in messages."""
    with pytest.raises(RequestError, match="a user or a password is not asked"):
        same_host_only(url, field="stac")


@pytest.mark.parametrize("asked", ["https://a.org/x", "https://A.org:443/x", "https://b.org:8443/x"])
def test_hosts_of_the_settings_are_asked(asked: str) -> None:
    """Upper case and the usual port make no difference."""
    hosts_only(frozenset({"a.org", "b.org:8443"}), field="catalog")(asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("http://a.org/x", "no plain https address"),
        ("https://user@a.org/x", "no plain https address"),
        ("https://:secret@a.org/x", "no plain https address"),
        ("https://c.org/x", "c.org is not allowed here"),
        ("https://b.org/x", "b.org is not allowed here"),
        ("https://a.org:8443/x", "a.org:8443 is not allowed here"),
        ("https://a.org:port/x", "no web address"),
    ],
)
def test_other_hosts_are_not_asked(asked: str, says: str) -> None:
    """The message says which setting names those that are."""
    with pytest.raises(RequestError, match=says) as raised:
        hosts_only(frozenset({"a.org", "b.org:8443"}), field="catalog")(asked)

    assert raised.value.field == "catalog"


def test_messages_show_no_keys() -> None:
    """A query may hold one. Long addresses are cut."""
    assert shown_url("https://a.org/x?key=1") == "https://a.org/x?…"
    assert shown_url("https://a.org/x") == without_query("https://a.org/x?key=1") == "https://a.org/x"
    assert shown_url("https://a.org/" + "x" * 300) == "https://a.org/" + "x" * 186


@pytest.mark.parametrize(
    ("url", "first", "asked"),
    [
        ("https://a.org/y", "https://a.org/x?key=1", "https://a.org/y?key=1"),
        ("https://a.org/y?page=2", "https://a.org/x?key=1&b=", "https://a.org/y?page=2&key=1&b="),
        ("https://a.org/y?key=2", "https://a.org/x?key=1", "https://a.org/y?key=2"),
        ("https://a.org/y?key=", "https://a.org/x?key=1", "https://a.org/y?key="),
        ("https://b.org/y", "https://a.org/x?key=1", "https://b.org/y"),
        ("http://a.org/y", "https://a.org/x?key=1", "http://a.org/y"),
        ("https://a.org:1/y", "https://a.org/x?key=1", "https://a.org:1/y"),
        ("https://a.org/y", "https://a.org/x", "https://a.org/y"),
    ],
)
def test_a_key_is_sent_along_to_its_own_server_alone(url: str, first: str, asked: str) -> None:
    """What the address already has is left as it is."""
    assert with_query_of(url, first) == asked
