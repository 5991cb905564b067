"""Ranged GETs from servers that fail in many ways."""

import asyncio
from collections.abc import Iterator
from copy import replace
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import HTTPStore, S3Store

from pixel_gather.core.errors import SourceError, StoreError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.href_policy import IN_PROCESS, check_href
from pixel_gather.io.store import object_store
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.object_store import Objects, open_place, open_store, open_to_read, split_href
from pixel_gather.io.store.store_error_status import classify_store_error
from pixel_gather.io.store.store_settings import StoreSettings
from support.fakes import FakePace
from support.local_server import Answer, Asked, LocalServer, Script, ranged, serving

CONTENT = bytes(range(256)) * 4
FAST = StoreSettings(first_backoff_s=0.001, max_retries=4, request_timeout_s=60, connect_timeout_s=60)


def get(
    href: str,
    start: int = 10,
    stop: int = 20,
    *,
    etag: str | None = None,
    cost: Cost | None = None,
    settings: StoreSettings = FAST,
) -> Fetched:
    """Get one range with new clients."""
    return asyncio.run(Objects(settings).get_range(href, start, stop, etag=etag, cost=cost or Cost()))


def good(asked: Asked) -> Answer:
    """Answer with a range of the content."""
    return ranged(CONTENT, asked)


def first(*answers: Answer) -> Script:
    """Answer with these in order, then with the content."""
    left = iter(answers)
    return lambda asked: next(left, None) or good(asked)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """Serve the content."""
    with serving(good) as running:
        yield running


def test_get_range_reads_the_bytes_asked_for(server: LocalServer) -> None:
    """One request is counted with its bytes. Its answer has the version and the size."""
    cost = Cost()

    fetched = get(f"{server.root}/a.tif", cost=cost)

    assert bytes(fetched.content) == CONTENT[10:20]
    assert (fetched.etag, fetched.object_nbytes) == ('"1"', len(CONTENT))
    assert (cost.requests, cost.retries, cost.nbytes) == (1, 0, 10)
    assert server.asked == [Asked(path="/a.tif", range_="bytes=10-19", if_match=None)]


def test_get_range_beyond_the_end_reads_up_to_it(server: LocalServer) -> None:
    """A range that ends after the object gives the bytes up to the object's end."""
    assert bytes(get(f"{server.root}/a.tif", 1000, 99_999).content) == CONTENT[1000:]


def test_get_range_pins_a_strong_etag(server: LocalServer) -> None:
    """Later reads are of the same version, or fail."""
    assert get(f"{server.root}/a.tif", etag='"1"').etag == '"1"'
    assert server.asked[0].if_match == '"1"'


@dataclass(frozen=True)
class Case:
    """Answers of a server, and the status of the source."""

    id: str
    answers: tuple[Answer, ...]
    expected: Status
    n_requests: int
    etag: str | None = None


WHOLE = {"Content-Range": f"bytes 10-19/{len(CONTENT)}", "ETag": '"1"'}
CUT = Answer(body=CONTENT[10:20], n_sent=3, headers=WHOLE)
BUSY = Answer(status=503)
CASES = [
    Case("404", (Answer(status=404),) * 9, Status.MISSING, 1),
    Case("403", (Answer(status=403),) * 9, Status.DENIED, 1),
    Case("401", (Answer(status=401),) * 9, Status.DENIED, 1),
    Case("412", (Answer(status=412),) * 9, Status.CHANGED, 1, etag='"0"'),
    Case("416", (Answer(status=416, headers={"Content-Range": "bytes */5"}),) * 9, Status.CORRUPT, 1),
    Case(
        "no ranges", (Answer(status=200, body=CONTENT, headers={"ETag": '"1"'}),) * 9, Status.UNSUPPORTED, 1
    ),
    Case("503 for ever", (BUSY,) * 9, Status.TIMED_OUT, 5),
    Case("429 for ever", (Answer(status=429),) * 9, Status.TIMED_OUT, 5),
    Case("500 for ever", (Answer(status=500),) * 9, Status.TIMED_OUT, 5),
    Case("cut off for ever", (CUT,) * 9, Status.TIMED_OUT, 5),
    Case("busy, then cut off for ever", (BUSY, BUSY, *(CUT,) * 9), Status.TIMED_OUT, 5),
    Case(
        "other version",
        (Answer(body=b"x" * 10, headers=WHOLE | {"ETag": '"2"'}),),
        Status.CHANGED,
        1,
        etag='"1"',
    ),
    Case(
        "no version",
        (Answer(body=b"x" * 10, headers={"Content-Range": WHOLE["Content-Range"]}),),
        Status.CHANGED,
        1,
        etag='"1"',
    ),
    Case(
        "other range",
        (Answer(body=b"x" * 10, headers={"Content-Range": "bytes 0-9/1024"}),) * 9,
        Status.UNSUPPORTED,
        1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_get_range_gives_each_failure_its_code(case: Case) -> None:
    """Only transient failures are tried again."""
    cost = Cost()
    with serving(first(*case.answers)) as server, pytest.raises(SourceError) as caught:
        get(f"{server.root}/a.tif", etag=case.etag, cost=cost)

    assert caught.value.status is case.expected
    assert caught.value.reason
    assert (cost.requests, cost.retries) == (case.n_requests, case.n_requests - 1)
    assert len(server.asked) == case.n_requests


@pytest.mark.parametrize(
    ("answers", "n_requests"),
    [
        ((BUSY, BUSY), 3),
        ((Answer(status=429),), 2),
        ((CUT, CUT), 3),
        ((Answer(status=500),), 2),
        ((BUSY, BUSY, CUT, CUT), 5),
    ],
    ids=["503", "429", "cut off twice", "500", "busy and cut off"],
)
def test_get_range_tries_again_and_counts_it(answers: tuple[Answer, ...], n_requests: int) -> None:
    """A store that is busy for a moment costs a retry, not a row."""
    cost = Cost()
    with serving(first(*answers)) as server:
        fetched = get(f"{server.root}/a.tif", cost=cost)

    assert bytes(fetched.content) == CONTENT[10:20]
    assert (cost.requests, cost.retries) == (n_requests, n_requests - 1)


def test_errors_that_earn_few_retries_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy store before them costs them none."""

    def judged(error: Exception) -> tuple[Status, str, int]:
        is_busy = "503" in str(error)
        return Status.TIMED_OUT, "busy" if is_busy else "odd", 99 if is_busy else 1

    monkeypatch.setattr(object_store, "classify_store_error", judged)
    with serving(first(BUSY, BUSY, CUT)) as server:
        assert bytes(get(f"{server.root}/a.tif").content) == CONTENT[10:20]
    with serving(first(CUT, CUT)) as server, pytest.raises(SourceError, match="odd"):
        get(f"{server.root}/a.tif")


def test_get_range_never_sends_a_weak_etag_but_compares_it() -> None:
    """RFC 9110 says that If-Match never matches a weak one."""
    with serving(lambda asked: ranged(CONTENT, asked, etag='W/"1"')) as server:
        assert get(f"{server.root}/a.tif", etag='W/"1"').etag == 'W/"1"'
        with pytest.raises(SourceError) as caught:
            get(f"{server.root}/a.tif", etag='W/"2"')

    assert caught.value.status is Status.CHANGED
    assert [asked.if_match for asked in server.asked] == [None, None]


def test_get_range_tells_a_change_from_servers_that_ignore_if_match() -> None:
    """The version of the answer is compared with the requested one."""
    with (
        serving(lambda asked: ranged(CONTENT, asked, etag='"2"', ignores_if_match=True)) as server,
        pytest.raises(SourceError, match="replaced") as caught,
    ):
        get(f"{server.root}/a.tif", etag='"1"')

    assert caught.value.status is Status.CHANGED


def test_get_range_gives_up_a_request_that_hangs_and_tries_again() -> None:
    """One lost answer costs the time-out, then a retry."""
    cost = Cost()
    with serving(first(Answer(delay_s=30))) as server:
        fetched = get(f"{server.root}/a.tif", cost=cost, settings=replace(FAST, request_timeout_s=0.5))

    assert bytes(fetched.content) == CONTENT[10:20]
    assert cost.retries >= 1  # more where this machine stands still


def test_get_range_times_out_on_a_server_that_never_answers() -> None:
    """The last time-out is the source's status."""
    settings = replace(FAST, max_retries=1, request_timeout_s=0.1)
    with serving(lambda _: Answer(delay_s=30)) as server, pytest.raises(SourceError) as caught:
        get(f"{server.root}/a.tif", settings=settings)

    assert caught.value.status is Status.TIMED_OUT


def test_get_range_of_no_server_times_out() -> None:
    """A closed port is tried as often as a busy server."""
    with serving(good) as server:
        pass
    cost = Cost()

    with pytest.raises(SourceError, match="no connection") as caught:
        get(f"{server.root}/a.tif", cost=cost)

    assert caught.value.status is Status.TIMED_OUT
    assert cost.requests == 5


ODD_NAMES = [
    "a b.tif",
    "a%20b.tif",
    "a#b?c.tif",
    "a+b&c=d.tif",
    "ä€𝄞.tif",
    "a~b'(c).tif",
    "a\\b.tif",
    "a:b*|.tif",
    "100%.tif",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_get_range_reads_local_files_of_any_name(tmp_path: Path, name: str) -> None:
    """A path becomes an href and the same path again."""
    (tmp_path / name).write_bytes(CONTENT)
    href = check_href(str(tmp_path / name), policy=IN_PROCESS)

    fetched = get(href)

    assert bytes(fetched.content) == CONTENT[10:20]
    assert fetched.object_nbytes == len(CONTENT)
    assert get(href, etag=fetched.etag).etag == fetched.etag


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if name != "a\\b.tif"])
def test_get_range_asks_servers_for_any_name(server: LocalServer, name: str) -> None:
    """The server decodes the original name."""
    quoted = name.replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    href = check_href(f"{server.root}/{quoted}", policy=IN_PROCESS)

    get(href)

    assert unquote(server.asked[0].path) == f"/{name}"


def test_get_range_of_a_local_file_that_changed_fails(tmp_path: Path) -> None:
    """Local files have versions, too, made of their time and size."""
    path = tmp_path / "a.tif"
    path.write_bytes(CONTENT)
    etag = get(f"file://{path}").etag
    path.write_bytes(CONTENT + b"more")

    with pytest.raises(SourceError) as caught:
        get(f"file://{path}", etag=etag)

    assert caught.value.status is Status.CHANGED


def test_get_range_tells_what_is_wrong_with_a_local_path(tmp_path: Path) -> None:
    """The error says whether the path is missing, a folder or too short."""
    (tmp_path / "a.tif").write_bytes(b"short")

    for name, expected in (
        ("no.tif", Status.MISSING),
        ("a.tif", Status.CORRUPT),
        ("a.tif/b", Status.MISSING),
    ):
        with pytest.raises(SourceError) as caught:
            get(f"file://{tmp_path / name}")

        assert caught.value.status is expected
    with pytest.raises(SourceError, match="it is a folder; only regular files are read"):
        get(f"file://{tmp_path}")


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("s3://bucket/a/b%20c.tif", ("s3://bucket", "a/b%20c.tif")),
        ("https://host:8080/a/b%20c.tif", ("https://host:8080", "a/b c.tif")),
        ("file:///a/b%20c.tif", ("file://", "a/b c.tif")),
        ("s3://bucket", ("s3://bucket", "")),
    ],
)
def test_split_href_undoes_what_its_scheme_encodes(href: str, expected: tuple[str, str]) -> None:
    """S3 keys are used as they are. Paths of other schemes are percent-encoded."""
    assert split_href(href) == expected


def test_open_place_makes_the_folder(tmp_path: Path) -> None:
    """The output may be a new folder."""
    open_place(f"file://{tmp_path}/deep/cube%201", FAST)

    assert (tmp_path / "deep" / "cube 1").is_dir()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="only Linux has /proc")
def test_open_place_refuses_a_folder_that_takes_no_files() -> None:
    """Obstore would try for ever to put a file there."""
    with pytest.raises(StoreError, match="/proc cannot be written to: No such file or directory"):
        open_place("file:///proc", FAST)


def test_open_to_read_gives_up_a_silent_store_earlier_than_a_long_object() -> None:
    """A shard may take minutes to arrive. A store that sends nothing is asked again, for a minute."""
    store = open_to_read("s3://bucket/cube", StoreSettings(write_timeout_s=200, stall_timeout_s=9))

    assert isinstance(store, S3Store)
    assert store.client_options is not None
    assert store.client_options["timeout"] == "200000ms"
    assert store.client_options["read_timeout"] == "9000ms"
    assert (store.retry_config or {})["retry_timeout"] == timedelta(seconds=60)


def test_open_place_gives_a_shard_longer_than_a_range() -> None:
    """A PUT of a whole shard has a longer time-out than the read of a range."""
    settings = StoreSettings(request_timeout_s=7, write_timeout_s=200)
    read, written = open_store("s3://bucket", settings), open_place("s3://bucket/cube", settings)

    assert isinstance(read, S3Store)
    assert isinstance(written, S3Store)
    assert (read.client_options or {})["timeout"] == "7000ms"
    assert (written.client_options or {})["timeout"] == "200000ms"


@pytest.mark.parametrize("root", ["s3://bucket", "https://host"])
def test_open_store_keeps_no_connection_for_long(root: str) -> None:
    """Idle connections are closed, because those of a frozen Lambda environment are dead."""
    store = open_store(root, FAST)

    assert isinstance(store, S3Store | HTTPStore)
    assert (store.client_options or {})["pool_idle_timeout"] == "15s"


@pytest.mark.parametrize("has_keys", [True, False])
def test_open_store_needs_no_home(has_keys: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 # a parameter of the test
    """A user without a home folder has no profiles, and that is no error."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    if has_keys:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    assert isinstance(open_store("s3://bucket", FAST), S3Store)


def test_judge_says_what_else_403_may_mean() -> None:
    """S3 answers 403 for a missing object if the caller may not list, or does not pay where readers pay."""
    status, reason, tries = classify_store_error(PermissionDeniedError("403"))

    assert (status, tries) == (Status.DENIED, 0)
    assert reason.startswith("the store refused access (403). S3 also answers so for a missing object")
    assert "if you may not list the bucket, and where readers pay" in reason


@pytest.mark.parametrize("stays_on_host", [False, True])
@pytest.mark.parametrize("code", [503, 429])
def test_objects_tell_their_pace_of_every_request(code: int, stays_on_host: bool) -> None:  # noqa: FBT001 # a parameter of the test
    """The pace is asked before each request and gets each answer and each 503, by back end."""
    pace = FakePace()
    objects = Objects(replace(FAST, stays_on_host=stays_on_host), pace=pace)
    answers = (
        Answer(status=code),
        replace(good(Asked(path="", range_="bytes=10-19", if_match=None)), delay_s=0.1),
    )

    with serving(first(*answers)) as server:
        asyncio.run(objects.get_range(f"{server.root}/a.tif", 10, 20, etag=None, cost=Cost()))

    root = server.root
    assert pace.calls == [("turn", root), ("throttled", root), ("turn", root), ("answered", root)]
    [first_byte_s] = pace.answers
    assert first_byte_s >= 0.1


def test_objects_take_no_other_failure_for_throttling() -> None:
    """A missing object or a broken server does not slow the pace down."""
    pace = FakePace()

    with serving(first(Answer(status=500), Answer(status=404))) as server, pytest.raises(SourceError):
        asyncio.run(
            Objects(FAST, pace=pace).get_range(f"{server.root}/a.tif", 10, 20, etag=None, cost=Cost())
        )

    assert pace.calls == [("turn", server.root)] * 2
