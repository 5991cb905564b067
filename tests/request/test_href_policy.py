"""Allowed hrefs, their canonical spelling, and the errors of the others."""

from copy import replace
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore

from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.request.href_policy import (
    IN_PROCESS,
    HrefPolicy,
    bucket_address,
    check_folder,
    check_href,
    parent_of,
)
from pixel_gather.io.store.object_store import split_href

HOME = IN_PROCESS.within("/data/my files")
DEPLOYED = HrefPolicy(
    schemes=frozenset({"s3", "https"}),
    buckets=frozenset({"sentinel-cogs"}),
    hosts=frozenset({"data.example.org", "data.example.org:8443"}),
)

# any text that a file or a key could be called
names = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/"), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@dataclass(frozen=True)
class Case:
    """An href as written by a user, and the expected result."""

    id: str
    text: str
    expected: str
    policy: HrefPolicy = HOME


ACCEPTED = [
    Case("s3", "s3://sentinel-cogs/a/B04.tif", "s3://sentinel-cogs/a/B04.tif"),
    Case("s3 keys are kept as they are", "s3://bucket/a b#c?d%20é.tif", "s3://bucket/a b#c?d%20é.tif"),
    Case("google", "gs://gcp-public_data/a b%20.tif", "gs://gcp-public_data/a b%20.tif"),
    Case("azure", "az://cogs/a b%20.tif", "az://cogs/a b%20.tif"),
    Case("azure's web container", "az://$web/a.tif", "az://$web/a.tif"),
    Case("abfs without an account", "abfss://cogs/a.tif", "az://cogs/a.tif"),
    Case("abfs", "abfs://cog@a123.dfs.core.windows.net/a", "abfs://cog@a123.dfs.core.windows.net/a"),
    Case("abfss", "abfss://cog@acc.dfs.core.windows.net/a", "abfs://cog@acc.dfs.core.windows.net/a"),
    Case(
        "az with an account", "az://cog@acc.blob.core.windows.net/a", "abfs://cog@acc.dfs.core.windows.net/a"
    ),
    Case(
        "blobs by https",
        "https://acc.blob.core.windows.net/c/a.tif",
        "https://acc.blob.core.windows.net/c/a.tif",
    ),
    Case("scheme in capitals", "S3://bucket/a.tif", "s3://bucket/a.tif"),
    Case("dots within a name", "s3://bucket/..a/b../...", "s3://bucket/..a/b../..."),
    Case("https", "https://Example.ORG/a/b.tif", "https://example.org/a/b.tif"),
    Case("default port", "https://example.org:443/b.tif", "https://example.org/b.tif"),
    Case("other port", "http://127.0.0.1:9000/b.tif", "http://127.0.0.1:9000/b.tif"),
    Case("the last port", "http://h.org:65535/b.tif", "http://h.org:65535/b.tif"),
    Case("the longest", "https://h.org/" + "a" * 2034, "https://h.org/" + "a" * 2034),
    Case("ipv6", "http://[::1]:9000/b.tif", "http://[::1]:9000/b.tif"),
    Case("https is encoded once", "https://h.org/a b/%7ec%20d.tif", "https://h.org/a%20b/~c%20d.tif"),
    Case("https sub-delimiters stay", "https://h.org/a(1),b=2.tif", "https://h.org/a(1),b=2.tif"),
    Case("file uri", "file:///data/a%20b%23.tif", "file:///data/a%20b%23.tif"),
    Case("absolute path", "/data/a b#?%20ü.tif", "file:///data/a%20b%23%3F%2520%C3%BC.tif"),
    Case("path is normalised", "//data/./x/../a.tif", "file:///data/a.tif"),
    Case("relative path", "sub/a.tif", "file:///data/my%20files/sub/a.tif"),
    Case("relative path upwards", "../a.tif", "file:///data/a.tif"),
    Case("base with a percent sign", "a.tif", "file:///100%25/a.tif", IN_PROCESS.within("/100%")),
    Case("base as uri", "a.tif", "file:///100%25/a.tif", IN_PROCESS.within("file:///100%25")),
    Case("base on s3", "x/a.tif", "s3://bucket/l/x/a.tif", IN_PROCESS.within("s3://bucket/l")),
    Case("base on https", "a b.tif", "https://h.org/l/a%20b.tif", IN_PROCESS.within("https://h.org/l/")),
    Case("allowed bucket", "s3://sentinel-cogs/a.tif", "s3://sentinel-cogs/a.tif", DEPLOYED),
    Case("allowed host", "https://data.example.org/a", "https://data.example.org/a", DEPLOYED),
    Case("allowed port", "https://data.example.org:8443/a", "https://data.example.org:8443/a", DEPLOYED),
    Case("name that begins like vsi", "/data/vsi/a.tif", "file:///data/vsi/a.tif"),
]

REFUSED = [
    Case("empty", "", "is empty; write s3://"),
    Case("too long", "s3://bucket/" + "a" * 2048, "2060 characters"),
    Case("too long when encoded", "/" + "é" * 400, "when encoded"),
    Case("key too long", "s3://bucket/" + "a" * 1025, "1025 bytes"),
    Case("control character", "s3://bucket/a\nb", "control character"),
    Case("encoded control character", "https://h.org/a%00b", "control character"),
    Case("lone surrogate", "/data/\udcff.tif", "control character"),
    Case("no key", "s3://bucket", "key is empty"),
    Case("no key after the slash", "s3://bucket/", "key is empty"),
    Case("no bucket", "s3:///key", "name of an S3 bucket"),
    Case("bucket with a colon", "s3://bucket:80/key", "name of an S3 bucket"),
    Case("s3 parent", "s3://bucket/a/../b", "segment .. cannot"),
    Case("s3 dot", "s3://bucket/./b", "segment . cannot"),
    Case("s3 empty segment", "s3://bucket/a//b", "empty segment"),
    Case("s3 folder", "s3://bucket/a/", "names a folder"),
    Case("hadoop", "s3a://bucket/a", "write s3://bucket/a"),
    Case("gdal path", "/vsis3/bucket/a.tif", "write s3://"),
    Case("gdal's name of a page", "GTIFF_DIR:2:/data/a.tif", "only the first is read"),
    Case("gdal path in capitals", "/VSICURL/https://h.org/a.tif", "write s3://"),
    Case("gdal path behind dots", "/x/../vsis3/b/a.tif", "write s3://"),
    Case("gdal path behind slashes", "//vsis3/b/a.tif", "write s3://"),
    Case("gdal path as uri", "file:///vsi%73%33/b/a.tif", "write s3://"),
    Case("gdal path under a base", "vsis3/b/a.tif", "write s3://", IN_PROCESS.within("/")),
    Case("gdal path in a deployment", "/vsis3/bucket/a.tif", "write s3://", DEPLOYED),
    Case("vrt", "vrt://a.tif?bands=1", "vrt:// is not read"),
    Case("vrt without slashes", "vrt:a.tif", "not an address"),
    Case("another scheme", "ftp://bucket/a.tif", "ftp:// is not read here; write one of abfs, az, file, gs"),
    Case("fsspec's spelling", "gcs://bucket/a", "write gs://bucket/a"),
    Case("another spelling of azure", "wasbs://c@a.blob.core.windows.net/a", "write abfs://c@a.blob.core"),
    Case("google bucket", "gs://Bucket/a", "cannot be the name of a bucket of Google's"),
    Case("container", "az://con_tainer/a", "write az://container/key or abfs://container@account.dfs"),
    Case("container behind an account", "abfss://acc.dfs.core.windows.net/c/a", "write az://container/key"),
    Case("no key on google", "gs://bucket/", "key is empty; write gs://bucket/key"),
    Case(
        "no key on azure",
        "abfss://cog@acc.dfs.core.windows.net",
        "write abfs://cog@acc.dfs.core.windows.net/key",
    ),
    Case("google parent", "gs://bucket/a/../b", "segment .. cannot"),
    Case(
        "google deployed",
        "gs://sentinel-cogs/a.tif",
        "https://storage.googleapis.com/sentinel-cogs/a.tif",
        DEPLOYED,
    ),
    Case("azure deployed", "az://cog/a.tif", "https://ACCOUNT.blob.core.windows.net/cog/a.tif", DEPLOYED),
    Case(
        "abfs deployed",
        "abfss://cog@acc.dfs.core.windows.net/a",
        "https://acc.blob.core.windows.net/cog/a;",
        DEPLOYED,
    ),
    Case(
        "sas", "https://acc.blob.core.windows.net/c/a?sv=1&sig=2", "AZURE_STORAGE_SAS_TOKEN and write az://"
    ),
    Case("one slash too few", "s3:/bucket/a.tif", "write s3://bucket/key"),
    Case("query", "https://h.org/a.tif?X-Amz-Signature=1", "query string cannot be sent"),
    Case("query without a path", "https://h.org?a", "query string cannot be sent"),
    Case("fragment", "https://h.org/a.tif#x", "fragment cannot be sent"),
    Case("password", "https://me:secret@h.org/a.tif", "user or password"),
    Case("host hidden behind a user", "https://data.example.org@evil.org/a", "user or password", DEPLOYED),
    Case("no host", "https:///a.tif", "is not a host"),
    Case("host with a backslash", "https://h.org\\@evil.org/a.tif", "user or password"),
    Case("host not in ascii", "https://bücher.de/a.tif", "is not a host"),
    Case("port out of range", "https://h.org:65536/a.tif", "is not a host"),
    Case("port 0", "https://h.org:0/a.tif", "is not a host"),
    Case("one character too long", "https://h.org/" + "a" * 2035, "2049 characters"),
    Case(
        "one of many buckets",
        "s3://other/a.tif",
        "allows b0, b1, b2, b3, b4, b5, b6, b7, ...",
        replace(DEPLOYED, buckets=frozenset(f"b{n}" for n in range(9))),
    ),
    Case("no path", "https://h.org/", "path is empty"),
    Case("https parent", "https://h.org/a/../b", "segment .. cannot"),
    Case("https encoded parent", "https://h.org/a/%2E%2e/b", "segment .. cannot"),
    Case("encoded slash", "https://h.org/a%2Fb", "encoded slash"),
    Case("half a percent", "https://h.org/100%.tif", "write %25"),
    Case("percent without utf-8", "https://h.org/%ff.tif", "not UTF-8"),
    Case("file with a host", "file://host/a.tif", "write file:///path"),
    Case("file query", "file:///a?b", "write %3F"),
    Case("local folder", "/data/", "names a folder"),
    Case("nothing to start from", "a.tif", "no folder to start from", IN_PROCESS),
    Case("bucket not allowed", "s3://other/a.tif", "source_buckets allows sentinel-cogs", DEPLOYED),
    Case("host not allowed", "https://evil.org/a.tif", "evil.org is not allowed", DEPLOYED),
    Case("port not allowed", "https://data.example.org:22/a", ":22 is not allowed", DEPLOYED),
    Case("http not allowed", "http://data.example.org/a", "http:// is not read here", DEPLOYED),
    Case("file not allowed", "file:///etc/passwd", "file:// is not read here", DEPLOYED),
    Case("path not allowed", "/etc/passwd", "local files are not read here", DEPLOYED),
    Case("relative path not allowed", "passwd", "local files", DEPLOYED.within("/etc")),
    Case("relative to another bucket", "a.tif", "bucket lists is not", DEPLOYED.within("s3://lists/x")),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_check_href_returns_the_one_spelling(case: Case) -> None:
    """Allowed hrefs get their canonical spelling. A second check does not change it."""
    href = check_href(case.text, policy=case.policy)

    assert href == case.expected
    assert check_href(href, policy=case.policy) == href


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_check_href_says_what_to_write_instead(case: Case) -> None:
    """Other hrefs are refused with a clear message."""
    with pytest.raises(ValueError, match=r"[a-z]") as caught:
        check_href(case.text, policy=case.policy)

    assert case.expected in str(caught.value)


def test_href_policy_refuses_what_no_store_serves() -> None:
    """A wrong policy is an error when settings are read, not at the first request."""
    with pytest.raises(ValueError, match="scheme ftp"):
        HrefPolicy(schemes=frozenset({"ftp"}))
    with pytest.raises(ValueError, match="is relative"):
        HrefPolicy(schemes=frozenset({"file"}), base="data")


@pytest.mark.long
@given(path=paths)
def test_check_href_keeps_local_names(path: str) -> None:
    """Any file name reaches the store unchanged."""
    href = check_href(f"/data/{path}", policy=IN_PROCESS)

    assert split_href(href) == ("file://", f"data/{path}")
    assert check_href(href, policy=IN_PROCESS) == href
    assert split_href(parent_of(href))[1] == f"data/{path}".rpartition("/")[0]


@given(root=st.sampled_from(["", "https://host", "s3://bucket"]), path=paths)
def test_href_as_people_read_it_names_the_same_file(root: str, path: str) -> None:
    """Whoever copies it from a page or a message into a list gets the same file."""
    href = check_href(f"{root}/{quote(path) if root.startswith('https') else path}", policy=IN_PROCESS)

    assert check_href(shown_href(href), policy=IN_PROCESS) == href


@pytest.mark.parametrize(
    ("href", "shown"),
    [
        ("file:///a/rain%20f%C3%BCr%20%F0%9F%8C%A7.tif", "file:///a/rain f\u00fcr \U0001f327.tif"),
        ("https://host/a%20b.tif?sig=%20", "https://host/a b.tif?sig=%20"),
        ("file:///a/100%25%2Fb%3F%23.tif", "file:///a/100%25%2Fb%3F%23.tif"),
        ("file:///a/%E2%80%AEfit.exe", "file:///a/%E2%80%AEfit.exe"),  # it would be shown backwards
        ("file:///a/%FF.tif", "file:///a/%FF.tif"),
        ("s3://b/a%20b.tif", "s3://b/a%20b.tif"),  # the key has these letters
    ],
)
def test_href_is_shown_without_percent_encoding(href: str, shown: str) -> None:
    """Unless the letter would mean something else, cannot be seen, or is none."""
    assert shown_href(href) == shown


@pytest.mark.long
@given(
    root=st.sampled_from(["s3://bucket", "gs://bucket", "az://box", "abfs://box@acc.dfs.core.windows.net"]),
    path=paths,
)
def test_check_href_keeps_keys(root: str, path: str) -> None:
    """Any key reaches the store unchanged."""
    href = check_href(f"{root}/{path}", policy=IN_PROCESS)

    assert split_href(href) == (root, path)
    assert check_href(href, policy=IN_PROCESS) == href


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("https://storage.googleapis.com/bucket/a/b", "gs://bucket/a/b"),
        ("https://acc.blob.core.windows.net/box/a/b", "abfs://box@acc.dfs.core.windows.net/a/b"),
        ("https://bucket.s3.eu-central-1.amazonaws.com/a/b", "s3://bucket/a/b"),
        ("https://my.bucket.s3.amazonaws.com/a", "s3://my.bucket/a"),
        ("https://s3-us-west-2.amazonaws.com/bucket/a/b", "s3://bucket/a/b"),
        ("https://bucket.s3.cn-north-1.amazonaws.com.cn/a/b", "s3://bucket/a/b"),
        ("https://example.org/a/b", "s3://bucket/folder/"),
    ],
)
def test_bucket_address_is_what_a_store_lists(href: str, expected: str) -> None:
    """Web addresses cannot be listed. Those of known stores have another address that can."""
    assert bucket_address(href) == expected


@pytest.mark.long
@given(text=st.text(max_size=60) | paths.map("https://h.org/{}".format))
def test_check_href_gives_a_settled_spelling_or_a_sentence(text: str) -> None:
    """Any text is refused with a ValueError or is canonical after one check."""
    try:
        href = check_href(text, policy=HOME)
    except ValueError:
        return

    assert check_href(href, policy=HOME) == href
    assert href.partition("://")[0] in HOME.schemes


def test_check_href_names_files_that_the_store_opens(tmp_path: Path) -> None:
    """Unusual names reach the file system unchanged."""
    odd = tmp_path / "a b#c?d%20é~*.tif"
    odd.write_bytes(b"pixels")

    _, path = split_href(check_href(str(odd), policy=IN_PROCESS))

    assert bytes(obstore.get(LocalStore(), path).bytes()) == b"pixels"


@pytest.mark.parametrize("text", ["s3://bucket/a", "s3://bucket/a/", "s3://bucket/a//"])
def test_a_folder_may_end_with_a_slash(text: str) -> None:
    """It is the same folder."""
    assert check_folder(text, policy=HOME) == "s3://bucket/a"


def test_a_folder_has_the_rules_of_an_object_in_it() -> None:
    """The error is about the folder."""
    with pytest.raises(ValueError, match=r"segment \.\. cannot"):
        check_folder("s3://bucket/../a", policy=HOME)
    with pytest.raises(ValueError, match="source_buckets allows sentinel-cogs"):
        check_folder("s3://other", policy=DEPLOYED)
