"""Reads that Planetary Computer or Earthdata sign for; their services are on loopback here."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import rasterio

from pixel_gather import gather, make_plan
from pixel_gather.core.errors import DeniedError, RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.signing import Sign, Signing, _FreshTokens
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.io.store.token_session import SigningError, TokenSession
from scenes.scenes import item
from scenes.stac_server import Answer, Asked, Server, serving
from support.command_line import run

BLOBS = ("https://account.blob.core.windows.net/one/a.tif", "https://account.blob.core.windows.net/one/b.tif")
BUCKET = ("s3://lp-prod-protected/a.tif", "s3://lp-prod-protected/b.tif")
FILE = next((Path(__file__).parents[1] / "data/series/files").glob("gdalcubes/*_B2.TIF"))


def token(minutes: float = 45) -> Answer:
    """Answer as both services do."""
    until = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    of_blobs = {"msft:expiry": until, "token": "sv=1&sig=SECRET"}
    of_bucket = {"accessKeyId": "KEY", "secretAccessKey": "SECRET", "sessionToken": "SESSION"}
    return Answer(body={**of_blobs, **of_bucket, "expiration": until})


@dataclass
class Services:
    """A token service and a store on one server."""

    server: Server
    content: bytes
    tokens: list[Asked] = field(default_factory=list)
    reads: list[Asked] = field(default_factory=list)

    def signing(self, kind: Sign) -> Signing:
        """Return signing that asks here."""
        url = self.server.url
        return Signing(kind=kind, read_token=lambda: "EDL", token_url=f"{url}/token", blob_endpoint=url)

    def objects(self, kind: Sign) -> Objects:
        """Return a reader that signs."""
        return Objects(StoreSettings(endpoint=self.server.url, max_retries=1)).signed(self.signing(kind))

    def read(self, *hrefs: str, kind: Sign) -> list[Any]:
        """Read the first bytes of each, all at one time; return the errors, too."""
        objects = self.objects(kind)

        async def all_of_them() -> list[Any]:
            reads = (objects.get_range(href, 0, 10, etag=None, cost=Cost()) for href in hrefs)
            return await asyncio.gather(*reads, return_exceptions=True)

        return asyncio.run(all_of_them())


@contextmanager
def services(answer: Callable[[int], Answer], *, content: bytes = b"0123456789" * 10) -> Iterator[Services]:
    """Serve tokens by the number of the request, and one object's ranges."""
    found: list[Services] = []

    def respond(asked: Asked) -> Answer:
        if asked.path.startswith("/token"):
            found[0].tokens.append(asked)
            return answer(len(found[0].tokens))
        found[0].reads.append(asked)
        start, _, last = asked.headers["range"].removeprefix("bytes=").partition("-")
        part = content[int(start) : int(last) + 1]
        headers = {
            "content-range": f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}",
            "content-length": str(len(part)),
            "etag": '"1"',
            "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT",
        }
        return Answer(status=206, body=part, headers=headers)

    with serving(respond) as server:
        found.append(Services(server, content))
        yield found[0]


def test_blobs_are_signed_with_one_token_of_a_container() -> None:
    """It is asked for once, by whichever of many reads is first, and is in the query of each."""
    with services(lambda _: token()) as served:
        answers = served.read(*BLOBS * 3, kind="planetary-computer")

    assert [bytes(each.content) for each in answers] == [b"0123456789"] * 6
    assert [each.path for each in served.tokens] == ["/token/account/one"]
    assert {each.path for each in served.reads} == {"/one/a.tif", "/one/b.tif"}
    assert all(each.parameters["sig"] == "SECRET" for each in served.reads)


def test_a_bucket_is_signed_with_credentials_of_its_archive() -> None:
    """The user's token goes to the token service and nowhere else."""
    with services(lambda _: token()) as served:
        answers = served.read(*BUCKET * 3, kind="earthdata")

    assert [bytes(each.content) for each in answers] == [b"0123456789"] * 6
    assert [each.headers["authorization"] for each in served.tokens] == ["Bearer EDL"]
    for each in served.reads:
        assert each.headers["x-amz-security-token"] == "SESSION"
        assert "Credential=KEY/" in each.headers["authorization"]
        assert "/us-west-2/s3/" in each.headers["authorization"]
        assert "EDL" not in str(each)


def test_others_objects_are_not_signed(tmp_path: Path) -> None:
    """A token is sent to whom it is for."""
    signing = Signing(kind="planetary-computer")
    assert not signing.is_for("https://blob.core.windows.net.evil.example")
    assert not signing.is_for("http://account.blob.core.windows.net")
    assert not signing.is_for("s3://lp-prod-protected")
    assert not Signing(kind="earthdata").is_for("s3://someone-elses")
    (tmp_path / "a").write_bytes(b"0123456789")
    with services(lambda _: token()) as served:
        served.read(f"file://{tmp_path}/a", kind="earthdata")
    assert not served.tokens


@pytest.mark.long
@pytest.mark.parametrize("kind", ["planetary-computer", "earthdata"])
@pytest.mark.parametrize(
    ("answer", "status", "said", "most_asked"),
    [
        (Answer(status=429, headers={"retry-after": "0"}), Status.TIMED_OUT, "stays busy", 6),
        (Answer(status=429, headers={"retry-after": "900"}), Status.TIMED_OUT, "stays busy", 1),
        (Answer(status=401), Status.DENIED, "refuses the token", 1),
        (token(minutes=-5), Status.DENIED, "tokens that have expired", 3),
        (Answer(body={"token": "x"}), Status.DENIED, "no token", 1),
        (Answer(body=b"<html>"), Status.DENIED, "no token", 1),
    ],
    ids=["busy", "busy for long", "refused", "expired", "odd", "no JSON"],
)
def test_a_service_that_gives_no_token_costs_its_sources(
    kind: Sign, answer: Answer, status: Status, said: str, most_asked: int
) -> None:
    """With a sentence, and not by as many requests as there are sources."""
    hrefs = (BLOBS if kind == "planetary-computer" else BUCKET) * 4
    with services(lambda _: answer) as served:
        errors = served.read(*hrefs, kind=kind)

    assert all(isinstance(each, SourceError) and each.status is status for each in errors)
    assert all(said in str(each) and "SECRET" not in str(each) for each in errors)
    assert len(served.tokens) <= most_asked
    assert not served.reads


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("planetary-computer", Status.DENIED, "does not know this container"),
        ("earthdata", Status.TIMED_OUT, "stays busy"),
    ],
)
def test_a_container_that_is_not_known_is_told_and_a_bucket_of_nasa_is_none(
    kind: Sign, status: Status, said: str
) -> None:
    """Planetary Computer is asked for a container; Earthdata's address names no bucket."""
    hrefs = BLOBS if kind == "planetary-computer" else BUCKET
    with services(lambda _: Answer(status=404, headers={"retry-after": "0"})) as served:
        (error, *_) = served.read(*hrefs, kind=kind)

    assert isinstance(error, SourceError)
    assert (error.status, said in str(error)) == (status, True)
    assert len(served.tokens) == 6


def test_a_token_that_is_refused_is_read_again_after_a_minute() -> None:
    """The user may have replaced it. A worker may live for hours."""
    given, now_s = ["OLD", "NEW"], [0.0]

    def make() -> Callable[[], Any]:
        auth = given.pop(0)

        def provider() -> Any:
            if auth == "OLD":
                raise SigningError("refused")
            return {"token": auth, "expires_at": datetime.now(UTC) + timedelta(minutes=45)}

        return provider

    tokens = _FreshTokens(make, clock=lambda: now_s[0])
    for now_s[0] in (0.0, 59.0):
        with pytest.raises(SigningError, match="refused"):
            tokens()
    now_s[0] = 61.0

    assert [tokens()["token"] for _ in range(2)] == ["NEW", "NEW"]
    assert not given


def test_a_token_that_cannot_be_read_again_stays() -> None:
    """The service's own answer is told."""
    made = list[str]()

    def make() -> Callable[[], Any]:
        if made:
            raise DeniedError("no right")
        made.append("one")

        def provider() -> Any:
            raise SigningError("refused")

        return provider

    tokens = _FreshTokens(make, clock=iter([0.0, 61.0, 62.0]).__next__)
    for _ in range(2):
        with pytest.raises(SigningError, match="refused"):
            tokens()


def test_a_busy_service_is_asked_again_when_it_wants() -> None:
    """After a random first pause, which not every worker ends at the same moment."""
    waits: list[float] = []
    busy = Answer(status=429, headers={"retry-after": "7"})
    with services(lambda n: busy if n < 3 else token()) as served:
        session = TokenSession(longest_jitter_s=2.0, sleep=waits.append)
        assert session.get(f"{served.server.url}/token").json()["accessKeyId"] == "KEY"

    assert 0 <= waits[0] <= 2
    assert all(7 <= each <= 7 * 1.2 for each in waits[1:])
    assert len(waits) == 3


def test_no_service_is_said_to_be_none() -> None:
    """It counts as busy: it may come back."""
    with services(lambda _: token()) as served:
        url = served.server.url
    answer = TokenSession(sleep=lambda _: None).get(url)

    with pytest.raises(SigningError, match="stays busy"):
        answer.raise_for_status()


@pytest.mark.slow
def test_a_gather_reads_what_is_signed_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reader signs; neither the cube nor the request has a token, and who signs is not in the digest."""
    plain = {"sources": [str(FILE)], "window": {"pixels": [10, 20, 30, 40]}}
    wanted = gather(plain, to=tmp_path / "plain.zarr", settings=Settings(draws_report=False))
    with services(lambda _: token(), content=FILE.read_bytes()) as served:
        monkeypatch.setattr("pixel_gather.in_process.job._signing", served.signing)
        request = {**plain, "sources": {"hrefs": [BLOBS[0]], "sign": "planetary-computer"}}
        found = gather(request, to=tmp_path / "signed.zarr", settings=Settings(draws_report=False))

    assert found.report.digest == wanted.report.digest
    assert len(served.tokens) == 1
    for file in (tmp_path / "signed.zarr").rglob("*"):
        assert not file.is_file() or b"SECRET" not in file.read_bytes()


@pytest.mark.slow
def test_a_grid_is_read_from_what_is_signed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """``grid.like`` may name one of the files."""
    with services(lambda _: token(), content=FILE.read_bytes()) as served:
        monkeypatch.setattr("pixel_gather.in_process.job._signing", served.signing)
        sources = {"hrefs": [str(FILE)], "sign": "planetary-computer"}

        planned = make_plan({"sources": sources, "grid": {"like": BLOBS[0]}, "nodata": 0})

    assert (planned.n_rows, len(served.tokens)) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("named", ["list", "items", "table"])
def test_what_names_the_files_is_signed_for_as_they_are(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """A list, STAC items or a table of chips may lie in the same container."""
    box = (-180.0, -90.0, 180.0, 90.0)
    scene = item("s1", box=box, assets={"red": {"href": FILE.as_uri()}})
    with rasterio.open(FILE) as file:
        place_of_chip = ",".join(map(str, file.lnglat()))
    content = {
        "list": f"href\n{FILE.as_uri()}\n",
        "items": json.dumps({"type": "FeatureCollection", "features": [scene]}),
        "table": f"id,lon,lat\nc,{place_of_chip}\n",
    }[named]
    with services(lambda _: token(), content=content.encode()) as served:
        monkeypatch.setattr("pixel_gather.in_process.job._signing", served.signing)
        place = f"{BLOBS[0].removesuffix('a.tif')}{named}.{'json' if named == 'items' else 'csv'}"
        window: dict[str, Any] = {"window": {"pixels": [10, 20, 30, 40]}}
        sources: dict[str, Any] = {"sign": "planetary-computer"}
        if named == "items":
            sources["stac"] = {"items": place, "assets": ["red"]}
        elif named == "list":
            sources["list"] = place
        else:
            sources["hrefs"] = [str(FILE)]
            window = {"windows": {"table": place, "size": [4, 4]}}
        planned = make_plan({"sources": sources, **window})

    assert (planned.n_sources, len(served.tokens)) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("index",), ("catalog", "--sources")])
def test_commands_that_read_headers_sign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """As a gather does, which reads the same files."""
    (tmp_path / "list.csv").write_text(f"href,time\n{BLOBS[0]},2024-01-01\n")
    with services(lambda _: token(), content=FILE.read_bytes()) as served:
        monkeypatch.setattr("pixel_gather.in_process.job._signing", served.signing)
        to = tmp_path / "to.parquet"
        code = run(*arguments, tmp_path / "list.csv", "--sign", "planetary-computer", "--to", to)

    assert (code, len(served.tokens)) == (0, 1)
    assert to.exists()


def test_addresses_that_were_signed_by_hand_stay_refused() -> None:
    """They would expire in the middle of a gather, and be stored."""
    request = {"sources": {"hrefs": [f"{BLOBS[0]}?sig=1"], "sign": "planetary-computer"}, "window": "centre"}
    with pytest.raises(RequestError, match="query"):
        make_plan(request)


def test_earthdata_without_a_token_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked."""
    from pixel_gather.core.errors import DeniedError  # noqa: PLC0415 # of this test alone

    monkeypatch.delenv("EARTHDATA_TOKEN", raising=False)
    request = {"sources": {"hrefs": [BUCKET[0]], "sign": "earthdata"}, "window": "centre"}
    with pytest.raises(DeniedError, match="EARTHDATA_TOKEN"):
        make_plan(request)


def test_a_file_of_settings_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The provider reads it by a package that need not be installed."""
    (tmp_path / "settings.env").write_text("PC_SDK_SUBSCRIPTION_KEY=x")
    monkeypatch.setattr("obstore.auth.planetary_computer._SETTINGS_ENV_FILE", tmp_path / "settings.env")
    monkeypatch.setitem(sys.modules, "dotenv", None)
    with services(lambda _: token()) as served:
        (error,) = served.read(BLOBS[0], kind="planetary-computer")

    assert isinstance(error, SourceError)
    assert error.status is Status.DENIED
    assert "python-dotenv" in str(error)
