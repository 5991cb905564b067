"""The commands for gathers on AWS: by an API on loopback that checks signatures, and directly on moto."""

import gzip
import hashlib
import hmac
import io
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from moto import mock_aws

from infra.settings import Settings
from pixel_gather.core.request.request import parse_request
from pixel_gather.features.rank.table import COLUMNS
from pixel_gather.io.aws.gather_document import SeenExecution, gather_line, status_document
from pixel_gather.io.aws.table_document import table_document
from pixel_gather_cli.deployment.remote import DEFAULT_STACK
from pixel_gather_cli.deployment.watching import WatchLines
from pixel_gather_emulator.certificates import write_certificates
from support import local_server
from support.command_line import run, succeed

SECRET = "fake-secret"  # noqa: S105 # of nobody
ID = "0123456789abcdef"
BEGAN = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
SUMMARY = {
    "cube": "s3://arrays/a.zarr",
    "n_sources": 1000,
    "n_shards": 10,
    "n_missing": 10,
    "tasks_per_child": 1,
    "n_workers": 10,
    "usd": 0.5,
    "warnings": ["far away"],
}
RESULT = {
    "cube": "s3://arrays/a.zarr",
    "report": "s3://arrays/a.zarr/report.json",
    "report_page": "s3://arrays/a.zarr/report.html",
    "n_sources": 1000,
    "n_failed": 0,
    "n_shards": 10,
    "usd": 0.4,
    "warnings": ["2 of 9 chips lie on no image"],
}


def document(status: str = "RUNNING", *, done: int = 0, running: int = 0, **more: Any) -> dict[str, Any]:
    """Return the status document of a gather."""
    found = {"name": ID, "status": status, "startDate": BEGAN, "input": "{}"} | more
    found["executionArn"] = f"arn:aws:states:eu-central-1:123456789012:execution:Gather:{ID}"
    if status != "RUNNING":
        found["stopDate"] = BEGAN + timedelta(seconds=95)
    counts = {"total": 10, "running": running, "succeeded": done, "failed": 0, "timedOut": 0}
    now = BEGAN + timedelta(seconds=30)
    seen = SeenExecution(found=found, counts=counts, summary=SUMMARY)
    return status_document(seen, now=now, links_from="")


def succeeded(**result: Any) -> dict[str, Any]:
    """Return the status document of a gather that succeeded."""
    return document("SUCCEEDED", output=json.dumps(RESULT | result))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as the API received it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Message
    body: bytes
    is_signed: bool
    """Whether it is signed with the secret, in this Region, for this request."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer. A body that is not bytes is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeApi:
    """An API with configured answers by method and path. The last answer repeats."""

    root: str = ""
    asked: list[Asked] = field(default_factory=list)
    replies: dict[str, list[Reply]] = field(default_factory=dict)

    def on(self, route: str, *replies: Reply | dict[str, Any]) -> None:
        """Configure the answers of a route, such as ``GET /gathers``."""
        self.replies[route] = [each if isinstance(each, Reply) else Reply(each) for each in replies]

    def answer(self, asked: Asked) -> Reply:
        """Return the next answer."""
        self.asked.append(asked)
        replies = self.replies.get(f"{asked.method} {asked.path}")
        if not replies:
            return Reply({"message": "Missing Authentication Token"}, 403)
        return replies.pop(0) if len(replies) > 1 else replies[0]


def is_signed(
    method: str, target: str, headers: Message, body: bytes, *, region: str = "eu-central-1"
) -> bool:
    """Check a signature of version 4 by its specification."""
    scheme, _, rest = headers.get("Authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    if scheme != "AWS4-HMAC-SHA256":
        return False
    names = parts["SignedHeaders"].split(";")
    url = urlsplit(target)
    canonical = "\n".join(
        [
            method,
            url.path,
            "&".join(sorted(url.query.split("&"))),
            *(f"{name}:{headers[name].strip()}" for name in names),
            "",
            parts["SignedHeaders"],
            hashlib.sha256(body).hexdigest(),
        ]
    )
    moment = headers["X-Amz-Date"]
    scope = (moment[:8], region, "execute-api", "aws4_request")
    signed = "\n".join(
        ["AWS4-HMAC-SHA256", moment, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = f"AWS4{SECRET}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return "host" in names and hmac.new(key, signed.encode(), "sha256").hexdigest() == parts["Signature"]


@contextmanager
def serving(fake: FakeApi, *, tls: ssl.SSLContext | None = None) -> Iterator[FakeApi]:
    """Serve on loopback until the context ends."""

    def script(asked: local_server.Asked) -> local_server.Answer:
        url = urlsplit(asked.path)
        reply = fake.answer(
            Asked(
                method=asked.method,
                path=url.path,
                query=parse_qs(url.query),
                headers=asked.headers,
                body=asked.body,
                is_signed=is_signed(asked.method, asked.path, asked.headers, asked.body),
            )
        )
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return local_server.Answer(status=reply.status, body=content, headers=reply.headers)

    with local_server.serving(script, tls=tls) as server:
        fake.root = server.root
        yield fake


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with made-up credentials, and nothing of the user who runs the tests."""
    for name in (
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_CA_BUNDLE",
        "AWS_SESSION_TOKEN",
        "PIXEL_GATHER_API",
        "PIXEL_GATHER_STACK",
        "PIXEL_GATHER_STATE_MACHINE",
        "PIXEL_GATHER_CONTROL_BUCKET",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """An API that the environment names."""
    with serving(FakeApi()) as fake:
        monkeypatch.setenv("PIXEL_GATHER_API", f"{fake.root}/v1/")
        yield fake


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The durations of sleeps, which do not take place."""
    slept: list[float] = []
    monkeypatch.setattr("pixel_gather_cli.deployment.watching.sleep", slept.append)
    monkeypatch.setattr("pixel_gather_cli.deployment.api_deployment.sleep", slept.append)
    return slept


STARTED = Reply({"id": ID, "is_new": True, "state": "running", "links": {}}, 202)
BY_S3 = ("--sources", "s3://lists/a.txt", "--tile", "centre")


def test_submit_sends_the_plain_request_signed(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The gather's id goes to standard output, and the next steps go to standard error."""
    api.on("POST /v1/gathers", STARTED)

    code = run("submit", *BY_S3, "--name", "alps", "--max-usd", "3")

    (asked,) = api.asked
    printed = capsys.readouterr()
    assert code == 0
    assert asked.is_signed
    assert asked.query == {}
    assert asked.json == {
        "sources": {"list": "s3://lists/a.txt"},
        "window": {"tile": "centre"},
        "output": {"name": "alps"},
        "limits": {"usd": 3.0},
    }
    assert printed.out == f"gather        {ID}\nstate         running\n"
    assert f"pixel-gather watch {ID}" in printed.err


def test_submit_force_goes_along_and_json_prints_the_answer(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """``force`` is in the signed query. ``--json`` prints the API's answer."""
    api.on("POST /v1/gathers", STARTED)

    succeed("submit", *BY_S3, "--force", "--json")

    assert api.asked[0].is_signed
    assert api.asked[0].query == {"force": ["true"]}
    assert json.loads(capsys.readouterr().out) == STARTED.body


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("running", f"under the limits that it was started with: pixel-gather watch {ID}"),
        ("succeeded", f"or its cube was deleted, submit with --force: pixel-gather status {ID}"),
    ],
)
def test_submit_says_that_there_is_such_a_gather_already(
    state: str, said: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second submit of the same request says that the gather exists."""
    api.on("POST /v1/gathers", {"id": ID, "is_new": False, "state": state, "links": {}})

    assert run("submit", *BY_S3) == 0
    assert said in capsys.readouterr().err


@dataclass(frozen=True)
class ListCase:
    """A list file of this machine, and the expected name of its upload."""

    id: str
    name: str
    content: bytes
    suffix: str


LISTS = (
    ListCase("csv", "list.CSV", b"href,time\ns3://b/a.tif,2020-01-01\n", "csv"),
    ListCase("gzip", "list.jsonl.gz", gzip.compress(b'{"href": "s3://b/a.tif"}\n'), "jsonl"),
    ListCase("no format's ending", "scenes.2020", b"s3://b/a.tif\n", "list"),
)


@pytest.mark.parametrize("case", LISTS, ids=lambda case: case.id)
def test_submit_uploads_a_list_of_this_machine(case: ListCase, api: FakeApi, tmp_path: Path) -> None:
    """The upload is named by its digest, so that the same list makes the same request."""
    file = tmp_path / case.name
    file.write_bytes(case.content)
    digest = hashlib.sha256(case.content).hexdigest()
    href = f"s3://control/lists/{digest}.{case.suffix}"
    place = {"href": href, "upload": f"{api.root}/s3/put?X-Amz-Signature=1", "headers": {"X-Amz-Meta": "m"}}
    api.on("POST /v1/lists", place)
    api.on("PUT /s3/put", Reply())
    api.on("POST /v1/gathers", STARTED)

    code = run("submit", "--sources", file, "--tile", "centre")

    asked, put, submitted = api.asked
    assert code == 0
    assert asked.is_signed
    assert asked.json == {"sha256": digest, "suffix": case.suffix, "nbytes": len(case.content)}
    assert put.body == case.content
    assert put.headers["X-Amz-Meta"] == "m"
    assert put.headers["Authorization"] is None
    assert put.headers["Transfer-Encoding"] is None
    assert submitted.json["sources"] == {"list": href}


ON_THIS_MACHINE = {
    "/data/b.tif": "local files are not read here: workers cannot reach the disk of '/data/b.tif",
    "file:///data/b.tif": "file:// is not read here: workers cannot reach the disk of 'file:///data/b.tif",
    "../b.tif": "local files are not read here: workers cannot reach the disk of '../b.tif",
}
"""Spellings of a local file, and what is said of them."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "place", "field"),
    [
        (("--sources", "l.csv"), "/data/b.tif", "l.csv line 3"),
        (("--sources", "./sources.csv"), "../b.tif", "sources.csv line 3"),
        (("--sources", "-", "--direct"), "file:///data/b.tif", "stdin line 3"),
        (("r.json", "--direct"), "../b.tif", "sources.hrefs.1"),
        (("--prefix", "{place}"), "/data/b.tif", "--prefix"),
        (("--catalog", "{place}", "--assets", "red"), "../b.tif", "--catalog"),
        (("--items", "{place}", "--assets", "red"), "file:///data/b.tif", "--items"),
    ],
)
def test_submit_refuses_files_of_this_machine(
    options: tuple[str, ...], place: str, field: str, refused: "RefusedSubmit"
) -> None:
    """No worker can read them. Before anything is sent, the error names the source and what to write."""
    error = refused(place, *(option.format(place=place) for option in options))

    assert error.startswith(f"pixel-gather: {field}: {ON_THIS_MACHINE[place]}")
    assert "write s3://bucket/key" in error


type RefusedSubmit = Callable[..., str]


@pytest.fixture
def refused(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RefusedSubmit:
    """Submit in a folder with lists that name a place; return the error. Nothing may be sent."""

    def submit(place: str, *options: str) -> str:
        content = f"href\ns3://data/a.tif\n{place}\n"
        (tmp_path / "l.csv").write_text(content)
        (tmp_path / "sources.csv").write_text(content)
        (tmp_path / "r.json").write_text(json.dumps({"sources": ["s3://data/a.tif", place]}))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        monkeypatch.setenv("PIXEL_GATHER_STATE_MACHINE", "arn:aws:states:eu-central-1:1:stateMachine:a")
        monkeypatch.setenv("PIXEL_GATHER_CONTROL_BUCKET", "control")
        assert run("submit", *options, "--tile", "centre") == 2
        assert api.asked == []
        return capsys.readouterr().err

    return submit


@pytest.mark.parametrize(
    ("name", "said"),
    [("empty.txt", "the list names no source"), ("no-such-list.txt", "the list cannot be read")],
)
def test_submit_of_a_list_without_sources_asks_nobody(
    name: str, said: str, api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file, as in process. Nothing is uploaded or submitted."""
    (tmp_path / "empty.txt").touch()

    assert run("submit", "--sources", tmp_path / name, "--tile", "centre") == 2
    assert f"{name}: {said}" in capsys.readouterr().err
    assert api.asked == []


def test_submit_of_rows_says_how_they_are_given(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stored request would keep only their number."""
    request = {"sources": [{"href": "s3://b/a.tif"}], "window": "centre"}
    (tmp_path / "request.json").write_text(json.dumps(request))

    assert run("submit", tmp_path / "request.json") == 2
    assert "a deployment takes no rows: write them to a list" in capsys.readouterr().err
    assert api.asked == []


def test_submit_uploads_no_list_that_is_there(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that the deployment has is not uploaded again, also from standard input."""
    api.on("POST /v1/lists", {"href": "s3://control/lists/x.list", "upload": None})
    api.on("POST /v1/gathers", STARTED)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"s3://b/a.tif\n")))

    succeed("submit", "--sources", "-", "--tile", "centre")

    assert [each.path for each in api.asked] == ["/v1/lists", "/v1/gathers"]
    assert api.asked[0].json["sha256"] == hashlib.sha256(b"s3://b/a.tif\n").hexdigest()
    assert api.asked[1].json["sources"] == {"list": "s3://control/lists/x.list"}


@pytest.mark.parametrize("more", [{"sign": "earthdata"}, {"time": "_%Y%m%d_"}, {"band": "auto"}])
def test_submit_of_an_uploaded_list_keeps_what_is_said_of_it(
    api: FakeApi, tmp_path: Path, more: dict[str, str]
) -> None:
    """How its files are signed, and what their names tell, as for a list that lies on S3."""
    (tmp_path / "a.txt").write_text("s3://b/a.tif\n")
    api.on("POST /v1/lists", {"href": "s3://control/lists/x.txt", "upload": None})
    api.on("POST /v1/gathers", STARTED)
    options = [f"--{name}={value}" for name, value in more.items()]

    code = run("submit", "--sources", tmp_path / "a.txt", "--tile", "centre", *options)

    assert code == 0
    assert api.asked[-1].json["sources"] == {"list": "s3://control/lists/x.txt"} | more


def test_submit_says_why_an_upload_was_refused(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has S3's message, and nothing is submitted."""
    (tmp_path / "a.txt").write_text("s3://b/a.tif\n")
    api.on("POST /v1/lists", {"href": "s3://control/lists/x.txt", "upload": f"{api.root}/s3/put"})
    api.on("PUT /s3/put", Reply(b"<Error><Message>Request has expired</Message></Error>", 403))

    code = run("submit", "--sources", tmp_path / "a.txt", "--tile", "centre")

    assert code == 2
    assert "could not be uploaded (403): Request has expired" in capsys.readouterr().err
    assert len(api.asked) == 2


def test_submit_uploads_again_what_s3_did_not_take(api: FakeApi, tmp_path: Path, pauses: list[float]) -> None:
    """The whole file is sent again. The address is good for some minutes."""
    (tmp_path / "a.txt").write_text("s3://b/a.tif\n")
    api.on("POST /v1/lists", {"href": "s3://control/lists/x.txt", "upload": f"{api.root}/s3/put"})
    slow = Reply(b"<Error><Message>Please reduce your request rate.</Message></Error>", 503)
    api.on("PUT /s3/put", slow, Reply(b"", 500), Reply(b"", 200))
    api.on("POST /v1/gathers", STARTED)

    code = run("submit", "--sources", tmp_path / "a.txt", "--tile", "centre")

    assert code == 0
    assert [each.body for each in api.asked if each.method == "PUT"] == [b"s3://b/a.tif\n"] * 3
    assert len(pauses) == 2


def test_submit_gives_up_an_upload_that_nobody_answers(
    api: FakeApi, tmp_path: Path, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """After four tries. Nothing is submitted."""
    (tmp_path / "a.txt").write_text("s3://b/a.tif\n")
    with socket.socket() as deaf:  # it is bound, and does not listen
        deaf.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{deaf.getsockname()[1]}/put"
        api.on("POST /v1/lists", {"href": "s3://control/lists/x.txt", "upload": nowhere})

        code = run("submit", "--sources", tmp_path / "a.txt", "--tile", "centre")

    assert code == 2
    assert "there was no answer" in capsys.readouterr().err
    assert len(pauses) == 3
    assert len(api.asked) == 1


def test_submit_uploads_an_index_of_this_machine(api: FakeApi, tmp_path: Path) -> None:
    """An index is uploaded as a list is."""
    (tmp_path / "i.parquet").write_bytes(b"PAR1")
    api.on("POST /v1/lists", {"href": "s3://control/lists/x.parquet", "upload": f"{api.root}/s3/put"})
    api.on("PUT /s3/put", Reply())
    api.on("POST /v1/gathers", document() | {"is_new": True})

    code = run("submit", "--prefix", "s3://b/", "--tile", "centre", "--index", tmp_path / "i.parquet")

    assert code == 0
    assert json.loads(api.asked[-1].body)["index"] == "s3://control/lists/x.parquet"


@pytest.mark.long
@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            {"n_appended": 0},
            "appended      nothing: the cube has all of these sources or chips already",
        ),
        ({"n_appended": 1}, "appended      1 row"),
        (
            {"n_appended": 0, "n_retried": 3, "n_read_again": 2},
            "appended      0 rows; of 3 failed sources, 2 were read now",
        ),
        ({"n_appended": None}, None),
        ({}, None),
    ],
    ids=["nothing", "a row", "rows again", "a new cube", "a ranking"],
)
def test_status_says_how_many_rows_an_append_has_added(
    result: dict[str, Any], said: str | None, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """An append whose sources are all in the cube succeeds, but adds nothing."""
    api.on(f"GET /v1/gathers/{ID}", succeeded(**result))

    assert (run("status", ID), run("watch", ID, "--quiet")) == (0, 0)

    appended = [line for line in capsys.readouterr().out.splitlines() if line.startswith("appended")]
    assert appended == ([] if said is None else [said, said])


@pytest.mark.parametrize(
    ("result", "said"),
    [({}, RESULT["warnings"]), ({"n_appended": 1}, RESULT["warnings"]), ({"n_appended": 0}, [])],
    ids=["a new cube", "a row", "nothing"],
)
def test_status_of_a_complete_gather_says_its_warnings(
    result: dict[str, Any], said: list[str], api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are those of the result. An append of nothing has none, as those of the cube are known."""
    api.on(f"GET /v1/gathers/{ID}", succeeded(**result))

    assert run("status", ID) == 0

    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert warnings == [f"warning       {each}" for each in said]


def test_status_prints_one_fact_a_line(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are aligned, and estimates are marked."""
    api.on(f"GET /v1/gathers/{ID}", document(done=4, running=3))

    code = run("status", ID)

    assert code == 0
    assert api.asked[0].is_signed
    basis = "the plan's estimate, times the share of shards that are done; not a bill"
    assert capsys.readouterr().out.splitlines() == [
        f"gather        {ID}",
        "state         running for 30 s",
        "submitted     2026-11-20 10:00:00 UTC",
        "cube          s3://arrays/a.zarr",
        "shards        4 of 10 done, 3 running, 3 pending",
        "files         about 400 of 1,000",
        f"cost          about $0.2000 of $0.5000 planned ({basis})",
        "warning       far away",
    ]


@pytest.mark.usefixtures("pauses")
def test_images_of_chips_are_not_called_files(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is read once for every chip."""
    chips = '{"windows": {"table": "s3://b/c.csv", "size": [9, 9]}}'
    api.on(f"GET /v1/gathers/{ID}", document(done=4, input=chips), succeeded() | {"request": {"windows": {}}})

    succeed("watch", ID)

    printed = capsys.readouterr()
    assert "chip images about 400 of 1,000" in printed.err
    assert "chip images   1,000 of 1,000" in printed.out


def test_status_of_a_gather_that_is_over_says_where_its_page_lies(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status prints the page's location on S3 and in the console, or else that of the report's files."""
    api.on(f"GET /v1/gathers/{ID}", succeeded())
    succeed("status", ID)
    drawn = capsys.readouterr().out
    api.on(f"GET /v1/gathers/{ID}", succeeded(report_page=None, usd=0.6))
    succeed("status", ID)
    not_drawn = capsys.readouterr().out

    assert "\nreport        s3://arrays/a.zarr/report.html\n" in drawn
    assert "\nin a browser  https://eu-central-1.console.aws.amazon.com/s3/object/arrays?" in drawn
    assert "\nreport        s3://arrays/a.zarr/report.json" in not_drawn
    assert "in a browser" not in not_drawn
    assert "cost          about $0.6000, $0.5000 planned (" in not_drawn  # it may be more


def test_status_of_a_failure_names_it_and_the_way_on(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status suggests a redrive if one is possible."""
    failed = document(
        "FAILED", done=9, error="StoreError", cause=f"{'3c' * 32}.csv line 2: the bucket is gone"
    )
    api.on(f"GET /v1/gathers/{ID}", failed)

    succeed("status", ID)

    printed = capsys.readouterr()
    assert "state         failed after 1 min 35 s" in printed.out
    assert "error         StoreError: the uploaded list, line 2: the bucket is gone" in printed.out
    assert f"pixel-gather redrive {ID}" in printed.err


def test_status_names_the_option_of_a_limit(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads it may not know the request's fields."""
    api.on(f"GET /v1/gathers/{ID}", document("FAILED", error="BudgetError", cause="limits.usd: too dear"))

    succeed("status", ID)

    assert "error         BudgetError: limits.usd (--max-usd): too dear\n" in capsys.readouterr().out


def test_status_as_json_is_the_document(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints the whole document unchanged."""
    api.on(f"GET /v1/gathers/{ID}", succeeded())

    succeed("status", ID, "--json")

    assert json.loads(capsys.readouterr().out) == succeeded()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(succeeded(), 0, id="all"),
        pytest.param(succeeded(n_failed=2), 1, id="some"),
        pytest.param(document("FAILED", error="BudgetError", cause="too dear"), 2, id="refused"),
        pytest.param(document("ABORTED"), 2, id="stopped"),
        pytest.param(document("TIMED_OUT"), 2, id="time"),
    ],
)
def test_watch_ends_with_the_gather_and_its_code(
    end: dict[str, Any], code: int, api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """``watch`` looks every five seconds and prints only the last document."""
    api.on(f"GET /v1/gathers/{ID}", document(), document(done=4, running=3), document(done=9), end)

    assert run("watch", ID, "--json") == code

    printed = capsys.readouterr()
    assert json.loads(printed.out) == end
    assert pauses == [5.0, 5.0, 5.0]
    assert "4 of 10 done, 3 running, 3 pending" in printed.err


def test_watch_says_nothing_twice_in_a_log(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """A log gets one line for every change."""
    api.on(f"GET /v1/gathers/{ID}", *[document(done=1)] * 5, succeeded())

    succeed("watch", ID, "--every", "1")

    assert len(pauses) == 5
    assert capsys.readouterr().err.count("1 of 10 done") == 1


def test_watch_on_a_terminal_shows_a_bar(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output has only the final text."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    api.on(f"GET /v1/gathers/{ID}", document(done=4, running=3), Reply({}, 429), succeeded())

    assert run("watch", ID) == 0

    printed = capsys.readouterr()
    assert "━" in printed.err
    assert "4 of 10 done, 3 running, 3 pending" in printed.err
    assert "about $0.2000 of $0.5000 planned" in printed.err
    assert "too many requests" in printed.err
    assert "━" not in printed.out
    assert "files         1,000 of 1,000" in printed.out
    assert len(pauses) == 2


@pytest.mark.usefixtures("pauses")
def test_watch_on_a_narrow_terminal_keeps_to_its_lines(
    api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards are on one line, files and dollars on the next. No line is wrapped."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "70")
    api.on(f"GET /v1/gathers/{ID}", document(done=4, running=3), succeeded())

    succeed("watch", ID)

    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).splitlines()
    assert any(line.strip() == "shards 4 of 10 done, 3 running, 3 pending" for line in shown)
    assert any(line.strip() == "files about 400 of 1,000; about $0.2000 of $0.5000 planned" for line in shown)


@pytest.mark.usefixtures("pauses")
def test_watch_says_when_it_is_before_and_after_the_shards(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output says when the gather plans and when it makes the report."""
    planning = document() | {"shards": None, "sources": None, "usd": {"planned": None, "so_far": None}}
    planning["warnings"] = []
    waiting = planning | {"warnings": ["another append"]}
    api.on(
        f"GET /v1/gathers/{ID}",
        planning,
        waiting,
        document(done=4, running=3),
        document(done=10),
        succeeded(),
    )

    succeed("watch", ID)

    said = [line.partition(" (")[0].partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["planning", "waiting for another append", "running", "finishing", "succeeded"]


def test_watch_quietly_shows_the_end_only(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """``--quiet`` shows only the end, as for ``run``."""
    api.on(f"GET /v1/gathers/{ID}", document(), succeeded())

    succeed("watch", ID, "--quiet")

    assert capsys.readouterr().err == ""
    assert len(pauses) == 1


def test_watch_backs_off_while_the_deployment_is_busy(api: FakeApi, pauses: list[float]) -> None:
    """Pauses double up to a minute, and are at least as long as the server asked. Then they are as before."""
    busy = Reply({"type": "urn:pixel-gather:problem:throttled", "detail": "slowly, please"}, 429)
    told = Reply({"message": "Too Many Requests"}, 429, {"Retry-After": "90"})
    gone = Reply({"message": "Endpoint request timed out"}, 504)
    api.on(f"GET /v1/gathers/{ID}", document(), busy, busy, gone, told, *[busy] * 3, document(), succeeded())

    assert run("watch", ID) == 0

    first, *backed_off, last = pauses
    longest = [10, 20, 40, 60, 60, 60, 60]
    assert (first, last) == (5.0, 5.0)
    assert backed_off[3] == 90
    del backed_off[3], longest[3]
    assert all(most / 2 <= pause <= most for pause, most in zip(backed_off, longest, strict=True))


def test_watch_gives_up_on_a_deployment_that_stays_busy(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """After many tries the command ends with the deployment's message."""
    api.on(f"GET /v1/gathers/{ID}", document(), Reply({"detail": "slowly, please"}, 429))

    assert run("watch", ID) == 2

    assert len(pauses) == 21
    assert "slowly, please" in capsys.readouterr().err


def test_watch_interrupted_leaves_the_gather_running(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says that the gather continues, and how to watch it again."""

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pixel_gather_cli.deployment.watching.sleep", interrupt)
    api.on(f"GET /v1/gathers/{ID}", document())

    assert run("watch", ID) == 130

    printed = capsys.readouterr()
    assert f"the gather continues: pixel-gather watch {ID}" in printed.err
    assert printed.out == ""
    assert {each.method for each in api.asked} == {"GET"}


def test_throttled_submission_is_sent_again(api: FakeApi, pauses: list[float]) -> None:
    """It has started nothing. The pauses grow, and are no shorter than the API asks for."""
    busy = Reply({"type": "urn:pixel-gather:problem:throttled", "detail": "slowly, please"}, 429)
    asks_for = Reply({"message": "Too Many Requests"}, 429, {"Retry-After": "7"})
    not_started = Reply({"type": "urn:pixel-gather:problem:failed", "detail": "Try again"}, 500)
    api.on("POST /v1/gathers", busy, asks_for, not_started, STARTED)

    assert run("submit", *BY_S3) == 0

    assert len(api.asked) == 4
    first, second, third = pauses
    assert (0.5 <= first <= 1, second, 2 <= third <= 4) == (True, 7, True)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_submission_that_may_have_started_is_not_sent_again(
    status: int, api: FakeApi, pauses: list[float]
) -> None:
    """A function that failed or took too long may have done its work. With --force, a second would start."""
    api.on("POST /v1/gathers", Reply({"type": "urn:pixel-gather:problem:internal_error"}, status))

    assert run("submit", *BY_S3, "--force") == 2
    assert len(api.asked) == 1
    assert pauses == []


def test_submission_that_stays_throttled_says_so(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """After half a minute the command gives up."""
    api.on("POST /v1/gathers", Reply({"detail": "slowly, please"}, 429))

    assert run("submit", *BY_S3) == 2

    assert len(api.asked) == 6
    assert 15.5 <= sum(pauses) <= 31
    assert "too many requests to the API: slowly, please" in capsys.readouterr().err


def test_submit_and_watch_waits_until_the_gather_is_known(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Step Functions may need a moment until it finds an execution that it has started."""
    unknown = Reply({"type": "urn:pixel-gather:problem:gather_not_found", "detail": "there is none"}, 404)
    api.on("POST /v1/gathers", STARTED)
    api.on(f"GET /v1/gathers/{ID}", unknown, document(), succeeded(n_failed=1))

    code = run("submit", *BY_S3, "--watch")

    assert code == 1
    assert len(pauses) == 3
    assert "files         999 of 1,000, 1 failed" in capsys.readouterr().out


def test_list_goes_page_by_page_up_to_its_limit(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is a table of the latest gathers."""
    found = {"name": ID, "status": "TIMED_OUT", "startDate": BEGAN, "stopDate": BEGAN + timedelta(hours=2)}
    line = gather_line(found, now=BEGAN, links_from="")
    api.on(
        "GET /v1/gathers",
        {"gathers": [line] * 100, "next": "a/b+c="},
        {"gathers": [line] * 50, "next": "more"},
    )

    assert run("list", "--state", "timed_out", "--limit", "150") == 0

    first, second = api.asked
    lines = capsys.readouterr().out.splitlines()
    assert first.is_signed
    assert second.is_signed
    assert first.query == {"limit": ["100"], "state": ["timed_out"]}
    assert second.query == {"limit": ["50"], "state": ["timed_out"], "token": ["a/b+c="]}
    assert lines[0].split() == ["gather", "state", "submitted", "took"]
    assert lines[1] == f"{ID}  timed out  2026-11-20 10:00:00 UTC  2 h 00 min"
    assert len(lines) == 151


def test_list_of_nothing_prints_nothing(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """Without gathers standard output is empty."""
    api.on("GET /v1/gathers", {"gathers": [], "next": None})

    assert run("list") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("reply", "state", "said"),
    [
        (Reply(status=204), "stopped", ""),
        (Reply({"id": ID, "state": "succeeded"}), "succeeded", "already ended"),
    ],
)
def test_cancel_stops_a_gather_or_says_how_it_has_ended(
    reply: Reply, state: str, said: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty answer of the API is accepted."""
    api.on(f"DELETE /v1/gathers/{ID}", reply)

    assert run("cancel", ID) == 0
    printed = capsys.readouterr()
    assert api.asked[0].is_signed
    assert f"state         {state}" in printed.out
    assert said in printed.err


def test_limit_counts_its_workers(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """One worker is one worker."""
    api.on(f"POST /v1/gathers/{ID}/limit", Reply({"id": ID, "state": "running"}))

    assert run("limit", ID, "--workers", "1") == 0

    assert capsys.readouterr().out == f"{ID} has at most 1 worker from now on\n"


def test_redriven_gather_is_watched_often_at_first(api: FakeApi, pauses: list[float]) -> None:
    """Later it is looked at every five seconds. The first pause is before the first look."""
    api.on(f"POST /v1/gathers/{ID}/redrive", Reply({"id": ID, "state": "running"}, 202))
    running = {**succeeded(), "state": "running", "ended_at": None}
    former = document("FAILED") | {"ended_at": "2026-11-20T09:00:00Z"}
    api.on(f"GET /v1/gathers/{ID}", former, *([running] * 8), succeeded())

    assert run("redrive", ID, "--watch") == 0
    assert api.asked[1].is_signed
    assert len(pauses) == len(api.asked) - 2 == 9
    assert pauses[0] == 1.5
    assert pauses == sorted(pauses)
    assert len([each for each in pauses if each < 5]) == 6
    assert pauses[-1] == 5.0


@pytest.mark.parametrize(
    ("n_former", "code"),
    [(3, 0), (25, 2)],
    ids=["a while", "for good"],
)
def test_the_end_before_a_redrive_is_not_taken_for_its_end(
    n_former: int, code: int, api: FakeApi, pauses: list[float]
) -> None:
    """Step Functions may still describe the failed execution. After 20 looks, it is believed."""
    api.on(f"POST /v1/gathers/{ID}/redrive", Reply({"id": ID, "state": "running"}, 202))
    anew = {**succeeded(), "ended_at": "2026-11-22T09:00:00Z"}
    api.on(f"GET /v1/gathers/{ID}", *([document("FAILED")] * (1 + n_former)), document(), anew)

    assert run("redrive", ID, "--watch") == code
    assert len(pauses) == min(n_former + 2, 21)


@dataclass(frozen=True)
class Refusal:
    """A refusing answer, and the expected line."""

    id: str
    reply: Reply
    line: str


def problem(code: str, status: int, detail: str, **more: Any) -> Reply:
    """Return a problem detail."""
    return Reply({"type": f"urn:pixel-gather:problem:{code}", "title": "T", "detail": detail} | more, status)


REFUSALS = (
    Refusal("not found", problem("gather_not_found", 404, "there is no gather x"), "there is no gather x"),
    Refusal(
        "field",
        problem("request_error", 400, "window: is needed", field="window", reason="is needed"),
        "window: is needed",
    ),
    Refusal("redrive", problem("not_redrivable", 409, "it still runs"), "it still runs"),
    Refusal("unknown code", problem("new_code", 418, "tea only"), "tea only"),
    Refusal("busy", problem("throttled", 429, "slowly"), "too many requests to the API: slowly"),
    Refusal(
        "gateway",
        Reply({"message": "The security token is invalid."}, 403),
        "the API refused (403): The security token is invalid.",
    ),
    Refusal("denied", Reply({"Message": "User: me may not"}, 403), "the API refused (403): User: me may not"),
    Refusal(
        "server", Reply({"message": "Internal server error"}, 500), "refused (500): Internal server error"
    ),
    Refusal("html", Reply(b"<html>", 502), "the API refused (502): <html>"),
    Refusal("nothing", Reply(b"", 502), "the API refused (502): the API answered 502"),
    Refusal(
        "broken json",
        Reply(b'{"detail": "[object has missing\n required properties (["window"])]\x1b[2J"}', 400),
        'refused (400): {"detail": "[object has missing required properties (["window"])][2J"}',
    ),
    Refusal("long", Reply(b"x" * 10_000, 502), f"the API refused (502): {'x' * 500}\n"),
    Refusal("text as json", Reply("out of order", 503), 'the API refused (503): "out of order"'),
    Refusal("not json", Reply(b"hello"), "answered 200 without JSON"),
    Refusal("not an object", Reply([1]), "answered 200 without JSON"),
)


@pytest.mark.long
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_a_refusal_is_one_line(case: Refusal, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the deployment's own message. The exit code is 2, and standard output is empty."""
    api.on(f"GET /v1/gathers/{ID}", case.reply)

    code = run("status", ID)

    printed = capsys.readouterr()
    assert code == 2
    assert case.line in printed.err
    assert printed.err.startswith("pixel-gather: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (
            problem(
                "request_error",
                422,
                "area.bbox: is needed. Also wrong: scenes.datetime (is needed)",
                field="area.bbox",
                reason="is needed",
                is_missing=True,
                also_wrong={"scenes.datetime": "is needed"},
            ),
            "--bbox: is needed. Also wrong: --datetime (is needed)",
        ),
        (
            problem("budget_error", 422, "limits.usd: too dear", field="limits.usd", reason="too dear"),
            "--max-usd: too dear",
        ),
        (problem("budget_error", 422, "too: many scenes"), "too: many scenes"),
    ],
    ids=["missing", "limit", "no field"],
)
def test_a_deployments_refusal_names_the_options(
    refused: Reply, line: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the same line as that of the command on this machine."""
    api.on("POST /v1/rankings", refused)

    assert run("rank", "s3://scenes/a.txt", "--by", "b1", "--max-usd", "2", "--deployed") == 2
    assert capsys.readouterr().err == f"pixel-gather: {line}\n"


@pytest.mark.parametrize("kind", ["points", "zones"])
def test_a_deployments_refusal_of_features_names_the_argument(
    kind: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is called by the kind of the table there."""
    what = problem("request_error", 422, f"{kind}: it is empty", field=kind, reason="it is empty")
    api.on("POST /v1/tables", what)

    assert run(kind, "s3://farms/a.csv", "--sources", "s3://scenes/a.txt", "--by", "b1", "--deployed") == 2
    assert capsys.readouterr().err == "pixel-gather: FEATURES: it is empty\n"


def test_no_credentials_is_one_line(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without credentials nothing is sent."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    assert run("list") == 2
    assert "no AWS credentials were found" in capsys.readouterr().err
    assert api.asked == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--api", "http://a.example", "--direct"), "--api or --direct"),
        (("--api", "http://a.example", "--stack", "A"), "--api or --stack"),
        (("--state-machine", "arn"), "only with --direct"),
        (("--control-bucket", "b"), "only with --direct"),
        (("--api", "a.example"), "'a.example' is not the address of an API"),
        (("--api", "http://127.0.0.1:1"), "there was no answer"),
        (("--profile", "nobody"), "profile (nobody) could not be found"),
    ],
)
def test_a_deployment_that_cannot_be_meant_is_refused(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contradicting options are refused with a sentence. No option is silently ignored."""
    assert run("list", *options) == 2

    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed


def test_the_apis_certificate_is_checked_against_aws_ca_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """AWS_CA_BUNDLE is used, as by the AWS tools."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    written = write_certificates(tmp_path, {})
    tls.load_cert_chain(written.certificate, written.key)
    with serving(FakeApi(), tls=tls) as fake:
        fake.on("GET /v1/gathers", {"gathers": [], "next": None})

        assert run("list", "--api", f"{fake.root}/v1") == 2
        assert "AWS_CA_BUNDLE" in capsys.readouterr().err
        monkeypatch.setenv("AWS_CA_BUNDLE", str(written.bundle))
        assert run("list", "--api", f"{fake.root}/v1") == 0


@dataclass(frozen=True)
class OnMoto:
    """The resources of a deployment's stack, in moto."""

    state_machine: str
    s3: Any
    stepfunctions: Any
    cloudformation: Any

    def make_stack(self, name: str, **outputs: str) -> None:
        """Make a stack with the outputs of a deployment."""
        template = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {output: {"Value": value} for output, value in outputs.items()},
        }
        self.cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))


@pytest.fixture
def moto_aws() -> Iterator[OnMoto]:
    """A state machine that never ends, a control bucket and the stack PixelGather-main."""
    with mock_aws():
        s3, stepfunctions = boto3.client("s3"), boto3.client("stepfunctions")
        s3.create_bucket(Bucket="control", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        machine = stepfunctions.create_state_machine(
            name="Gather",
            definition=json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}}),
            roleArn="arn:aws:iam::123456789012:role/any",
        )
        made = OnMoto(
            state_machine=machine["stateMachineArn"],
            s3=s3,
            stepfunctions=stepfunctions,
            cloudformation=boto3.client("cloudformation"),
        )
        made.make_stack("PixelGather-main", StateMachineArn=made.state_machine, ControlBucket="control")
        yield made


@pytest.mark.long
def test_direct_needs_no_more_than_the_stacks_name(
    moto_aws: OnMoto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Submit with a list of this machine, submit again, cancel, submit again, list, and submit by force."""
    file = tmp_path / "list.txt"
    file.write_text("s3://bucket/a.tif\n")
    href = f"s3://control/lists/{hashlib.sha256(file.read_bytes()).hexdigest()}.txt"
    request = parse_request({"sources": href, "window": "centre"})
    submit = ("submit", "--sources", file, "--tile", "centre", "--direct", "--json")

    succeed(*submit)
    first = json.loads(capsys.readouterr().out)
    succeed(*submit)
    again = json.loads(capsys.readouterr().out)
    succeed("cancel", first["id"], "--direct")
    capsys.readouterr()
    succeed(*submit)
    second = json.loads(capsys.readouterr().out)
    succeed("list", "--direct")
    listed = capsys.readouterr().out
    succeed(*submit, "--force")
    forced = json.loads(capsys.readouterr().out)
    unknown = run("cancel", "nobody", "--direct")

    uploaded, marker = sorted(
        (each["Key"] for each in moto_aws.s3.list_objects_v2(Bucket="control")["Contents"]), reverse=True
    )
    assert marker == f"cancelled/{first['id']}"
    stored = moto_aws.s3.get_object(Bucket="control", Key=uploaded)
    arn = f"{moto_aws.state_machine.replace('stateMachine', 'execution')}:{first['id']}"
    execution = moto_aws.stepfunctions.describe_execution(executionArn=arn)
    assert (first["id"], first["is_new"]) == (request.digest(), True)
    assert json.loads(execution["input"]) == request.to_json()
    assert stored["Body"].read() == file.read_bytes()
    assert (again["id"], again["is_new"]) == (request.digest(), False)
    assert (second["id"], second["is_new"]) == (f"{request.digest()}-2", True)
    assert f"{first['id']}    stopped" in listed
    assert f"{second['id']}  running" in listed
    assert forced["is_new"]
    assert forced["id"] not in (first["id"], second["id"])
    assert unknown == 2
    assert "no gather nobody" in capsys.readouterr().err
    assert run("limit", "points-0123", "--workers", "2", "--direct") == 2
    assert "--direct: points-0123 is a table or a ranking, which needs the API" in capsys.readouterr().err


@pytest.mark.long
def test_direct_takes_the_environment_and_an_option_before_it(
    moto_aws: OnMoto, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option overrides the environment."""
    other = moto_aws.state_machine.replace("Gather", "Other")
    moto_aws.make_stack("Mine", StateMachineArn=moto_aws.state_machine, ControlBucket="control")
    monkeypatch.setenv("PIXEL_GATHER_STATE_MACHINE", other)

    from_environment = run("list", "--direct")
    said = capsys.readouterr().err
    by_option = run("list", "--direct", "--stack", "Mine")

    assert (from_environment, by_option) == (2, 0)
    assert "no such state machine" in said


@pytest.mark.long
def test_the_api_is_looked_up_by_the_stacks_name(
    moto_aws: OnMoto, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name comes from the option, from the environment, or is PixelGather-main."""
    with serving(FakeApi()) as fake:
        fake.on("GET /v1/gathers", {"gathers": [], "next": None})
        moto_aws.make_stack("Mine", ApiUrl=f"{fake.root}/v1/")

        assert run("list", "--stack", "Mine") == 0
        monkeypatch.setenv("PIXEL_GATHER_STACK", "Mine")
        assert run("list") == 0
        monkeypatch.setenv("PIXEL_GATHER_STACK", "PixelGather-main")
        assert run("list") == 2
        assert "the stack PixelGather-main has no output ApiUrl" in capsys.readouterr().err
        assert run("list", "--stack", "Nobodys") == 2
        assert "there is no stack Nobodys in eu-central-1" in capsys.readouterr().err
        assert len(fake.asked) == 2


def test_help_names_the_stack_that_is_asked_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the stack that is deployed by default."""
    succeed("list", "--help")

    assert f"[default: {Settings().stack_name}]" in " ".join(capsys.readouterr().out.split())
    assert Settings().stack_name == DEFAULT_STACK


RANKED: dict[str, Any] = {
    "by": "b1",
    "top": None,
    "scenes": [
        dict.fromkeys(COLUMNS)
        | {"rank": 1, "rank_low": 1, "rank_high": 1, "id": "a", "value": 2.5, "error": 0.5}
        | {"status": "ok", "hrefs": ["s3://scenes/a.tif"], "bytes": 9, "requests": 1}
    ],
    "totals": {"scenes": 1, "failed": 0, "kept": 0, "bytes": 9, "requests": 1, "seconds": 0.1, "usd": 1e-6},
    "notes": ["said"],
}
"""The table of a ranking, as the API answers it."""


def test_rank_by_a_deployment_prints_its_table(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request is the plain one, signed. A list of this machine is uploaded."""
    (tmp_path / "list.txt").write_text("s3://scenes/a.tif\n")
    api.on("POST /v1/lists", {"href": "s3://control/lists/a.txt", "upload": None, "headers": {}})
    api.on("POST /v1/rankings", RANKED)

    code = run(
        *("rank", tmp_path / "list.txt", "--by", "b1", "--bbox=1,2,3,4", "--top", "3", "--max-usd", "2"),
        *("--mask", "scl:3,8", "--deployed", "--quiet"),
    )

    printed = capsys.readouterr()
    assert code == 0
    assert api.asked[-1].is_signed
    assert api.asked[-1].json == {
        "sources": {"list": "s3://control/lists/a.txt"},
        "by": "b1",
        "area": {"bbox": [1, 2, 3, 4]},
        "top": 3,
        "mask": {"band": "scl", "drop": [3, 8]},
        "statistic": "mean",
        "precision": "2%",
        "order": "desc",
        "limits": {"usd": 2.0},
    }
    assert printed.out.splitlines()[1].split() == ["1", "a", "2.5", "0.5", "9", "1", "ok"]
    assert "warning: said\n" in printed.err
    assert "1 scene: 9 B in 1 request" in printed.err


def test_large_ranking_is_watched_until_it_ends(
    api: FakeApi, pauses: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table is printed as that of a small one, and where the whole table is."""
    started = {"id": ID, "state": "running", "links": {"self": "https://there"}, "is_new": True}
    running = {"state": "running", "scenes": {"total": 9, "wanted": 8, "read": 2}, "ranking": None}
    table = RANKED | {"table": "s3://arrays/tables/a/ranking.json"}
    api.on("POST /v1/rankings", Reply(started, 202))
    api.on(f"GET /v1/tables/{ID}", running, {"state": "succeeded", "scenes": None, "ranking": table})

    code = run(
        *("rank", "s3://scenes/list.txt", "--by", "b1", "--api", f"{api.root}/v1", "--deployed"),
        *("--json", "--parquet", tmp_path / "a.parquet"),
    )

    printed = capsys.readouterr()
    assert code == 0
    assert json.loads(printed.out) == table
    assert (tmp_path / "a.parquet").exists()
    assert len(pauses) == 2
    assert f"large ranking {ID}: https://there" in printed.err


def test_large_ranking_that_fails_says_why(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is the error of the document, and the option where it is a limit."""
    api.on("POST /v1/rankings", Reply({"id": ID, "links": {"self": "https://there"}}, 202))
    error = {"type": "BudgetError", "detail": "limits.seconds: 6 scenes would take too long"}
    links = {"self": f"/tables/{ID}", "redrive": f"/tables/{ID}/redrive"}
    failed = {"state": "failed", "scenes": None, "ranking": None, "error": error, "links": links}
    api.on(f"GET /v1/tables/{ID}", failed)

    assert run("rank", "s3://scenes/list.txt", "--by", "b1", "--deployed") != 0
    said = capsys.readouterr().err
    assert "(BudgetError): limits.seconds (--max-seconds): 6 scenes would take too long" in said
    assert f"pixel-gather redrive {ID} goes on with it" in said
    assert pauses


PLACES: dict[str, str] = {
    name: f"s3://arrays/tables/a/{name}.parquet" for name in ("table", "features_table", "images_table")
}


def table_of_points(status: str = "SUCCEEDED") -> dict[str, Any]:
    """Return the document of a table."""
    result = {
        "kind": "points",
        "name": "a",
        "features": 2,
        "scenes": 3,
        "failed": 0,
        "lines": 6,
        "statuses": {"ok": 5, "nodata": 1},
        "usd": 0.001,
        **PLACES,
    }
    return ranking(status, output=json.dumps(result))


def test_status_tells_the_notes_of_a_table(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """As the same command does without a deployment."""
    document = table_of_points()
    document["result"]["notes"] = ["1 feature without coordinates: the table says empty"]
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    api.on(f"GET /v1/tables/{ID}", document)

    assert run("status", ID) == 0

    assert "warning       1 feature without coordinates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"appended": 3, "read": 4}, ["appended      3 images; 4 images read"]),
        ({"appended": 0, "read": 1}, ["appended      0 images; 1 image read"]),
        ({"appended": 0, "read": 0}, ["appended      nothing: no image near a feature is new"]),
        ({"appended": None, "read": 4}, []),
        ({}, []),
    ],
    ids=["images", "read again", "nothing", "made", "made before"],
)
def test_status_says_what_an_append_has_added_to_a_table(
    result: dict[str, Any], said: list[str], api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its other figures are those of the whole table."""
    document = table_of_points()
    document["result"] |= result
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    api.on(f"GET /v1/tables/{ID}", document)

    assert run("status", ID) == 0

    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("appended")] == said


def test_points_by_a_deployment_are_priced_and_made(
    api: FakeApi, pauses: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Features and a list of this machine are uploaded. At the end it says where the table is."""
    (tmp_path / "plots.csv").write_text("plot,lon,lat\na,1,2\n")
    (tmp_path / "list.txt").write_text("s3://scenes/a.tif\n")
    lent: list[dict[str, Any]] = [
        {"href": f"s3://control/lists/{n}", "upload": None, "headers": {}} for n in ("f", "l")
    ]
    api.on("POST /v1/lists", *lent, *lent)
    plan = dict.fromkeys(("features", "images", "not_opened", "sampled", "lines", "tiles", "requests"), 1)
    api.on("POST /v1/tables/plan", plan | {"bytes": 9, "workers": 3, "seconds": 2.0, "usd": 0.5})
    started = {"id": ID, "state": "running", "links": {"self": "https://there"}, "is_new": True}
    api.on("POST /v1/tables", Reply(started, 202))
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    api.on(f"GET /v1/tables/{ID}", table_of_points())
    lists = ("--sources", tmp_path / "list.txt", "--id", "plot", "--deployed")
    asked = ("points", tmp_path / "plots.csv", *lists)

    planned = run(*asked, "--dry-run")
    priced = capsys.readouterr().out
    code = run(*asked, "--square", "3", "--max-usd", "2", "--quiet")

    printed = capsys.readouterr()
    assert (planned, code) == (0, 0)
    assert "about 2.0 s and $0.500000 in 3 workers" in priced
    (body,) = (each.json for each in api.asked if each.path.endswith("/tables") and each.method == "POST")
    assert body == {
        "points": "s3://control/lists/f",
        "id": "plot",
        "sources": {"list": "s3://control/lists/l"},
        "method": "nearest",
        "square": 3,
        "limits": {"usd": 2.0},
    }
    assert "lines         6 of 2 features: 5 ok, 1 nodata" in printed.out
    assert f"table         {PLACES['table']}" in printed.out
    assert f"features      {PLACES['features_table']}" in printed.out
    assert pauses


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--deployed", "--to", "a.parquet"), "--to: a deployment keeps the table on S3"),
        (("--deployed", "--wide", "a.csv"), "--wide: a deployment keeps the table on S3"),
        (("--api", "https://there"), "--api: use it only with --deployed"),
        (("--deployed", "--requester-pays"), "--requester-pays: it is for reading on this machine"),
        (("--deployed", "--header-bytes", "999"), "--header-bytes: it is for reading on this machine"),
    ],
)
def test_options_of_a_table_that_do_not_go_together_are_refused(
    more: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is sent."""
    assert run("points", "plots.csv", "--sources", "list.csv", *more) != 0
    assert says in capsys.readouterr().err


NO_GATHER = Reply({"type": "urn:pixel-gather:problem:gather_not_found", "detail": "there is no gather"}, 404)


def ranking(status: str = "RUNNING", *, done: int = 0, **more: Any) -> dict[str, Any]:
    """Return the document of a large ranking of 1,563 scenes, in its second round of 40."""
    found = {"name": ID, "status": status, "startDate": BEGAN, "input": "{}"} | more
    if status != "RUNNING":
        found["stopDate"] = BEGAN + timedelta(seconds=95)
    summary = {"round": 2, "n_scenes": 1563, "n_wanted": 40, "n_tasks": 4, "usd": 0.0014}
    counts = {"succeeded": done, "failed": 0, "timedOut": 0}
    now = BEGAN + timedelta(seconds=30)
    seen = SeenExecution(found=found, counts=counts, summary=summary)
    return table_document(seen, now=now, links_from="https://there")


def ranked() -> dict[str, Any]:
    """Return the document of a complete ranking of one scene."""
    place = "s3://arrays/tables/a/ranking"
    result = RANKED["totals"] | {
        "kind": "ranking",
        "name": "a",
        "rounds": 2,
        "table": f"{place}.json",
        "parquet": f"{place}.parquet",
    }
    return ranking("SUCCEEDED", output=json.dumps(result)) | {"ranking": RANKED}


@pytest.mark.parametrize("command", ["status", "watch"])
def test_status_and_watch_show_a_ranking(
    api: FakeApi, pauses: list[float], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """An id that is no gather's is a ranking's. At the end its table is printed."""
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    api.on(f"GET /v1/tables/{ID}", ranking(done=1), ranked())

    assert run(command, ID) == 0
    first = capsys.readouterr()
    assert run("status", ID) == 0
    last = capsys.readouterr().out

    assert "1,563; about 10 of 40 in round 2" in (first.out if command == "status" else first.err)
    lines = last.splitlines()
    assert lines[0] == f"table job     {ID}"
    assert lines[1] == "state         succeeded after 1 min 35 s"
    assert "scenes        1" in lines
    assert "table         s3://arrays/tables/a/ranking.json" in lines
    assert lines[-1].split() == ["1", "a", "2.5", "0.5", "9", "1", "ok"]
    assert len(pauses) == (command == "watch")


def test_ranking_is_cancelled_and_redriven(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands are those of a gather. So is limit."""
    api.on(f"DELETE /v1/gathers/{ID}", NO_GATHER)
    api.on(f"POST /v1/gathers/{ID}/redrive", NO_GATHER)
    api.on(f"POST /v1/gathers/{ID}/limit", NO_GATHER)
    links = {"self": f"https://there/tables/{ID}"}
    api.on(f"DELETE /v1/tables/{ID}", {"id": ID, "state": "stopped", "links": links})
    api.on(f"POST /v1/tables/{ID}/redrive", {"id": ID, "state": "running", "links": links})

    api.on(f"POST /v1/tables/{ID}/limit", {"id": ID, "state": "running", "links": links})

    assert (run("cancel", ID), run("redrive", ID), run("limit", ID, "--workers", "5")) == (0, 0, 0)

    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"table job     {ID}", "state         stopped", lines[0], "state         running"]
    assert lines[4:] == [f"{ID} has at most 5 workers until its round ends"]
    assert api.asked[-1].query == {"workers": ["5"]}


def test_removed_table_is_told_to_be_removed(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """And not to be unknown: list still shows it."""
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    said = f"the files of the table {ID} were removed: send its request again to make it anew"
    removed = Reply({"type": "urn:pixel-gather:problem:gather_not_found", "detail": said}, 404)
    api.on(f"GET /v1/tables/{ID}", removed)

    assert run("status", ID) == 2
    assert capsys.readouterr().err == f"pixel-gather: {said}\n"


def test_an_address_is_no_id(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """API Gateway would refuse it as if the credentials were wrong."""
    assert run("status", "s3://bucket/bolzano.zarr") == 2

    said = "pixel-gather: 's3://bucket/bolzano.zarr' is no id of a gather or table: list shows the ids\n"
    assert (capsys.readouterr().err, api.asked) == (said, [])


def test_id_of_neither_says_so(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says both, whatever words the API has. If tables may not be asked about, it says so."""
    api.on(f"GET /v1/gathers/{ID}", NO_GATHER)
    assert run("status", ID) == 2
    denied = capsys.readouterr().err
    no_table = Reply({"type": "urn:pixel-gather:problem:table_not_found", "detail": "unknown"}, 404)
    api.on(f"GET /v1/tables/{ID}", no_table)

    assert run("status", ID) == 2
    assert capsys.readouterr().err.startswith(f"pixel-gather: there is no gather or table {ID}: list shows")
    assert denied == "pixel-gather: there is no gather (access to tables was denied)\n"


def test_list_of_rankings(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    """They are listed by themselves, and by the API alone."""
    found = {"name": ID, "status": "ABORTED", "startDate": BEGAN, "stopDate": BEGAN + timedelta(minutes=2)}
    line = gather_line(found, now=BEGAN, links_from="", kind="table")
    api.on("GET /v1/tables", {"tables": [line], "next": None})

    assert run("list", "--tables", "--state", "stopped") == 0

    lines = capsys.readouterr().out.splitlines()
    assert api.asked[0].query == {"limit": ["20"], "state": ["stopped"]}
    assert lines[0].split() == ["table", "job", "state", "submitted", "took"]
    assert lines[1] == f"{ID}  stopped  2026-11-20 10:00:00 UTC  2 min 00 s"


def test_a_log_of_a_watch_is_never_silent_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    """A line is written when something has changed, and else every few seconds."""
    lines = WatchLines()

    lines.go_on()
    for _ in range(2):
        lines.show(document(done=1))
        lines.go_on()

    first, changed, again = capsys.readouterr().err.splitlines()
    assert first == "starting: goes on"
    assert again == f"{changed.rpartition(' (')[0]}: goes on"
