"""Searches of STAC APIs as they are: with their ways of paging, their faults and their malice."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pixel_gather.core.area import Area
from pixel_gather.core.errors import (
    BudgetError,
    DeniedError,
    GatherError,
    RequestError,
    StoreError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.request.web_address import hosts_only, same_host_only
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.core.scenes.search_criteria import SearchCriteria
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import parse_time_range
from pixel_gather.features.catalog.catalog import make_catalog
from pixel_gather.io.scenes.search_stac_api import search_items
from pixel_gather.io.store import json_http
from pixel_gather.io.store.json_http import JsonClient
from scenes.scenes import item
from scenes.stac_server import Answer, Asked, Server, landing, page, serving, serving_api

SCENES = [item(f"s{number}") for number in range(7)]


def items_of(
    server: Server,
    *,
    sleep: Callable[[float], None] = lambda _: None,
    skipped: SkippedItems | None = None,
    query: str = "",
    **search: Any,
) -> list[dict[str, Any]]:
    """Return what a search finds. Its address may have a query."""
    client = JsonClient(same_host_only(server.url, field="stac"), sleep=sleep)
    criteria = SearchCriteria(**search)
    return list(search_items(criteria, f"{server.url}{query}", client, skipped=skipped or SkippedItems()))


def found(server: Server, **search: Any) -> list[str]:
    """Return the ids that a search finds."""
    return [each["id"] for each in items_of(server, **search)]


def slice_of(start: int) -> list[dict[str, Any]]:
    """Return three scenes of seven."""
    return SCENES[start : start + 3]


def by_get(asked: Asked, url: str) -> Answer:
    """Page by a token in the address. That of an API without one is relative to the page."""
    start = int(asked.parameters.get("token", 0))
    beginning = f"{url}/" if url else ""
    links = [{"rel": "next", "href": f"{beginning}search?token={start + 3}"}] if start + 3 < 7 else []
    return page(slice_of(start), *links)


def by_post(asked: Asked, url: str) -> Answer:
    """Page by a whole new body."""
    start = int(asked.body.get("token", 0))
    body = asked.body | {"token": start + 3}
    links = [{"rel": "next", "href": f"{url}/search", "method": "POST", "body": body}] if start < 6 else []
    return page(slice_of(start), *links)


def by_merge(asked: Asked, url: str) -> Answer:
    """Page by a token that is merged into the body; the rest of the body has to come again."""
    assert asked.body["collections"] == ["sentinel-2-l2a"]
    start = int(asked.body.get("token", 0))
    link = {"rel": "next", "href": f"{url}/search", "method": "POST", "merge": True}
    return page(slice_of(start), *([link | {"body": {"token": start + 3}}] if start < 6 else []))


def by_headers(asked: Asked, url: str) -> Answer:
    """Page by a header, beside others that a server has no business to set."""
    assert asked.headers["host"] == url.removeprefix("http://")
    start = int(asked.headers.get("x-token", 0))
    headers = {"X-Token": start + 3, "Host": "evil.example", "Content-Length": "1", "X-Bad": "a\r\nb: c"}
    link = {"rel": "next", "href": f"{url}/search", "method": asked.method, "headers": headers, "body": {}}
    return page(slice_of(start), *([link] if start < 6 else []))


def by_post_after_get(asked: Asked, url: str, **more: Any) -> Answer:
    """Page by a token in the address. Next pages want a POST, and name no body."""
    assert asked.method == ("POST" if "token" in asked.parameters else "GET")
    start = int(asked.parameters.get("token", 0))
    link = {"rel": "next", "href": f"{url}/search?token={start + 3}", "method": "POST"}
    return page(slice_of(start), *([link | more] if start + 3 < 7 else []))


@pytest.mark.parametrize(
    ("search", "method"),
    [
        (by_get, "GET"),
        (lambda asked, _url: by_get(asked, ""), "GET"),
        (by_post, "POST"),
        (by_merge, "POST"),
        (by_headers, "GET"),
        (by_headers, "POST"),
        (by_post_after_get, "GET"),
        (partial(by_post_after_get, merge=True), "GET"),
    ],
    ids=[
        "get",
        "relative get",
        "post",
        "post with merge",
        "get with headers",
        "post with headers",
        "post after get",
        "post after get with merge",
    ],
)
def test_every_item_comes_once_in_order(search: Any, method: str) -> None:
    """All ways of paging end with the last page."""
    with serving_api(search, method=method) as server:
        assert found(server, collections=("sentinel-2-l2a",)) == [f"s{number}" for number in range(7)]
        assert len(server.asked) == 4


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_looked_for_is_sent(method: str) -> None:
    """A box, times, collections and ids go along; conditions only where the API says that it knows them."""
    search: dict[str, Any] = {
        "area": Area((11.0, 46.0, 12.0, 47.0)),
        "times": parse_time_range("2024-06"),
        "collections": ("sentinel-2-l2a",),
        "where": parse_where("eo:cloud_cover<40"),
    }
    with serving_api(lambda _asked, _url: page([]), method=method, can_query=True) as server:
        assert found(server, **search) == []
        sent = server.asked[-1]
        if method == "GET":
            assert sent.parameters["bbox"] == "11.0,46.0,12.0,47.0"
            assert sent.parameters["datetime"].startswith("2024-06-01T00:00:00Z/2024-06-30T23:59:59")
            assert sent.parameters["query"] == '{"eo:cloud_cover": {"lt": 40}}'
        else:
            assert sent.body["bbox"] == [11.0, 46.0, 12.0, 47.0]
            assert sent.body["collections"] == ["sentinel-2-l2a"]
            assert sent.body["query"] == {"eo:cloud_cover": {"lt": 40}}
    with serving_api(lambda _asked, _url: page([])) as server:
        assert found(server, **search) == []
        assert "query" not in server.asked[-1].body


def test_what_a_server_ignores_is_filtered_here() -> None:
    """A server that sends everything, whatever is asked, gives the same answer as one that does not."""
    triangle = {"type": "Polygon", "coordinates": [[[11, 46], [12, 46], [11, 47], [11, 46]]]}
    scenes = [
        item("right", eo__cloud_cover=10),
        item("cloudy", eo__cloud_cover=90),
        item("cloud unknown"),
        item("elsewhere", box=(20.0, 46.0, 21.0, 47.0), eo__cloud_cover=10),
        item("too late", time="2025-01-01T00:00:00Z", eo__cloud_cover=10),
        item("other collection", collection="landsat", eo__cloud_cover=10),
        item("only its box meets", geometry=triangle, eo__cloud_cover=10),
    ]
    corner = {"type": "Point", "coordinates": [11.9, 46.9]}
    with serving_api(lambda _asked, _url: page(scenes)) as server:
        assert found(
            server,
            area=Area.of_geojson(corner, field="geojson"),
            times=parse_time_range("2024"),
            collections=("sentinel-2-l2a",),
            where=parse_where("eo:cloud_cover<40"),
        ) == ["right"]


def test_relative_addresses_of_assets_start_from_the_item() -> None:
    """An API on this machine may name whole paths of files."""
    scene = item(assets={"a": {"href": "./a.tif"}, "b": {"href": "/b.tif"}, "c": {"href": "s3://b/c.tif"}})
    scene["links"] = [{"rel": "self", "href": "https://host/items/s0"}]
    with serving_api(lambda _asked, _url: page([scene])) as server:
        (found,) = items_of(server)

    hrefs = [asset["href"] for asset in found["assets"].values()]
    assert hrefs == ["https://host/items/a.tif", "/b.tif", "s3://b/c.tif"]


def test_an_item_that_comes_twice_counts_once() -> None:
    """Some servers repeat the last items of a page on the next one."""

    def search(asked: Asked, url: str) -> Answer:
        if "token" in asked.parameters:
            return page(SCENES[2:5])
        return page(SCENES[:3], {"rel": "next", "href": f"{url}/search?token=1"})

    with serving_api(search, method="GET") as server:
        assert found(server) == ["s0", "s1", "s2", "s3", "s4"]


@pytest.mark.parametrize("link", [{}, {"href": 7}, {"method": "POST", "body": {"token": "3"}}])
def test_a_next_page_without_an_address_ends_the_search(link: dict[str, Any]) -> None:
    """Otherwise the scenes of later pages would be missing, and nobody would know."""
    with (
        serving_api(lambda _asked, _url: page(SCENES, {"rel": "next"} | link)) as server,
        pytest.raises(StoreError, match="a next page that is no address"),
    ):
        found(server)


def same_token(_asked: Asked, url: str) -> Answer:
    """Send every page with the same next link."""
    return page([item(f"n{time.monotonic_ns()}")], {"rel": "next", "href": f"{url}/search?token=1"})


def same_page(_asked: Asked, url: str) -> Answer:
    """Send one page again and again, under new tokens."""
    return page(SCENES, {"rel": "next", "href": f"{url}/search?token={time.monotonic_ns()}"})


def two_pages(asked: Asked, url: str) -> Answer:
    """Send two pages in turn, under new tokens."""
    n = int(asked.parameters.get("token", 0))
    return page(slice_of(n % 2), {"rel": "next", "href": f"{url}/search?token={n + 1}"})


def empty_pages(_asked: Asked, url: str) -> Answer:
    """Send empty pages without end."""
    return page([], {"rel": "next", "href": f"{url}/search?token={time.monotonic_ns()}"})


@pytest.mark.parametrize("search", [same_token, same_page, two_pages, empty_pages])
def test_a_search_that_never_ends_is_ended(search: Any) -> None:
    """The message says that it is the server."""
    with (
        serving_api(search, method="GET") as server,
        pytest.raises(StoreError, match=r"127\.0\.0\.1.*(again|repeats|end)"),
    ):
        found(server)


def test_a_few_empty_pages_are_passed_over() -> None:
    """Some servers filter after they have cut the pages."""

    def search(asked: Asked, url: str) -> Answer:
        n = int(asked.parameters.get("token", 0))
        link = {"rel": "next", "href": f"{url}/search?token={n + 1}"}
        return page(SCENES) if n == 9 else page([], link)

    with serving_api(search, method="GET") as server:
        assert len(found(server)) == 7


def test_items_without_end_that_nobody_asked_for_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ignores conditions cannot keep a search busy for ever."""
    monkeypatch.setattr("pixel_gather.io.scenes.search_stac_api._MOST_LOOKED_AT", 50)

    def search(asked: Asked, url: str) -> Answer:
        n = int(asked.parameters.get("token", 0))
        return page([item(f"n{n}")], {"rel": "next", "href": f"{url}/search?token={n + 1}"})

    with (
        serving_api(search, method="GET") as server,
        pytest.raises(StoreError, match="over 50 items, wanted or not: narrow"),
    ):
        found(server, where=parse_where("eo:cloud_cover<1"), most=10)


def test_more_scenes_than_allowed_are_refused() -> None:
    """The search says how many there may be."""
    with serving_api(by_get, method="GET") as server, pytest.raises(BudgetError, match="more than 5 scenes"):
        found(server, most=5)


@pytest.mark.parametrize(
    "href",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest",
        "https://127.0.0.1/search",
        "http://127.0.0.1:1/search",
        "http://localhost/search",
        "file:///etc/passwd",
        "//evil.example/search",
        "gopher://127.0.0.1/",
        "http://[::1",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1@evil.example/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_next_page_on_another_host_is_not_asked_for(href: str, method: str) -> None:
    """Neither the address of credentials nor any other host; there is an error, and no request."""

    def search(_asked: Asked, _url: str) -> Answer:
        return page(SCENES, {"rel": "next", "href": href, "method": method})

    with serving_api(search) as server:
        with pytest.raises((RequestError, StoreError), match=r"another host|no web address|no address"):
            found(server)
        assert len(server.asked) == 2


def test_a_search_on_another_host_is_not_asked_for() -> None:
    """The landing page names where to search, which is checked like every address."""
    with serving(lambda _: Answer(body=landing("http://169.254.169.254"))) as server:
        with pytest.raises(RequestError, match="another host"):
            found(server)
        assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """It could lead anywhere."""
    to = {"location": "http://169.254.169.254/"}
    with serving_api(lambda _asked, _url: Answer(body={}, status=status, headers=to)) as server:
        with pytest.raises(RequestError, match="redirects"):
            found(server)
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [("3", [3.0, 3.0]), ("900", [30.0, 30.0]), ("soon", [0.5, 1.0]), ("-4", [0.0, 0.0]), ("nan", [0.5, 1.0])],
)
def test_a_busy_server_is_asked_again_when_it_wants(retry_after: str, waited: list[float]) -> None:
    """Retry-After counts, up to half a minute; without one, pauses double."""
    waits: list[float] = []

    def search(_asked: Asked, _url: str) -> Answer:
        is_busy = len(waits) < 2
        return Answer(body={}, status=429, headers={"retry-after": retry_after}) if is_busy else page(SCENES)

    with serving_api(search) as server:
        assert len(found(server, sleep=waits.append)) == 7
    assert waits == waited


def test_retry_after_may_be_a_date() -> None:
    """A date that has passed means at once."""
    waits: list[float] = []

    def search(_asked: Asked, _url: str) -> Answer:
        date = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}
        return page(SCENES) if waits else Answer(body={}, status=503, headers=date)

    with serving_api(search) as server:
        assert len(found(server, sleep=waits.append)) == 7
    assert waits == [0.0]


def test_a_server_that_stays_busy_is_given_up() -> None:
    """The error says when to come again."""
    busy = Answer(body={}, status=429, headers={"retry-after": "60"})
    with (
        serving_api(lambda _asked, _url: busy) as server,
        pytest.raises(ThrottledError, match="busy") as raised,
    ):
        found(server)
    assert raised.value.retry_after_s == 60
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (Answer(status=401, body={}), DeniedError, "credentials"),
        (Answer(status=400, body={"description": "no such collection"}), RequestError, "no such collection"),
        (Answer(body=b"<html>"), StoreError, "not answer with JSON"),
        (Answer(body=b"[" * 100_000), StoreError, "not answer with JSON"),
        (Answer(body=[1, 2]), StoreError, "not answer with a JSON object"),
        (Answer(body={"features": 7}), StoreError, "not answer with a page"),
        (Answer(body={"features": [7]}), StoreError, "not answer with a page"),
        (Answer(body={"features": SCENES, "links": {"next": "x"}}), StoreError, "not answer with a page"),
        (
            Answer(body=b'{"features": [{"id": "a", "bbox": [NaN, 0, 1, 1]}]}'),
            StoreError,
            "not answer with JSON",
        ),
    ],
)
def test_a_wrong_answer_is_said_in_words(answer: Answer, error: type[GatherError], said: str) -> None:
    """Each kind of error has a sentence of its own."""
    with serving_api(lambda _asked, _url: answer) as server, pytest.raises(error, match=said):
        found(server)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": None},
        {"id": "x" * 2000},
        {"properties": None},
        {"properties": {"datetime": "yesterday"}},
        {"assets": None},
        {"bbox": [0, 0, 1e9, 1]},
        {"bbox": [0, 0, "1", 1]},
        {"bbox": None, "geometry": {"type": "Polygon", "coordinates": "x"}},
        {"geometry": {"type": "Polygon", "coordinates": [[[1]]]}},
        {"geometry": 7},
    ],
)
def test_a_hostile_item_is_left_out_with_a_sentence(wrong: dict[str, Any]) -> None:
    """It is never left out in silence, and never an error of Python's."""
    area = Area.of_geojson({"type": "Point", "coordinates": [11.5, 46.5]}, field="geojson")
    skipped = SkippedItems()
    with serving_api(lambda _asked, _url: page([item() | wrong])) as server:
        assert found(server, skipped=skipped, area=area) == []

    ((name, reason),) = skipped.first
    assert "item" in name
    assert reason


@pytest.mark.long
def test_an_answer_of_50_mb_is_read_and_a_longer_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds for bytes that come, whatever the server says of their number."""
    filler = "x" * (50 << 20)
    with serving_api(
        lambda _asked, _url: page([item(assets={"a": {"href": "h", "title": filler}})])
    ) as server:
        assert found(server) == ["scene-1"]

    monkeypatch.setattr(json_http, "_LARGEST_ANSWER_NBYTES", 1 << 20)

    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 65536

    with (
        serving_api(lambda _asked, _url: Answer(body=endless())) as server,
        pytest.raises(StoreError, match="more than 1 MiB"),
    ):
        found(server)


@pytest.mark.parametrize("n_over", [0, 1])
def test_an_answer_may_be_just_as_long_as_the_bound(monkeypatch: pytest.MonkeyPatch, n_over: int) -> None:
    """And not a byte longer."""
    most = 1 << 20
    monkeypatch.setattr(json_http, "_LARGEST_ANSWER_NBYTES", most)
    body = b'{"type":"FeatureCollection","features":[]}'.ljust(most + n_over)
    refused = pytest.raises(StoreError, match="more than 1 MiB") if n_over else nullcontext()

    with serving_api(lambda _asked, _url: Answer(body=iter([body]))) as server, refused:
        assert found(server) == []


def test_a_server_that_sends_byte_after_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, the answer does not."""
    monkeypatch.setattr(json_http, "_ANSWER_S", 0.3)
    monkeypatch.setattr(json_http, "_TRIES", 1)

    has_sent_all = False

    def slowly() -> Iterator[bytes]:
        nonlocal has_sent_all
        for _ in range(1000):
            time.sleep(0.05)
            yield b" "
        has_sent_all = True

    with (
        serving_api(lambda _asked, _url: Answer(body=slowly())) as server,
        pytest.raises(UnreachableError, match="takes longer"),
    ):
        found(server)
    assert not has_sent_all


def test_a_landing_page_may_name_no_classes() -> None:
    """Nor is a null among its links a link."""
    of_landing = {"conformsTo": None, "links": [None, {"rel": "search", "href": "search"}]}
    with serving(lambda asked: Answer(body=of_landing) if asked.path == "/" else page(SCENES)) as server:
        assert len(found(server)) == 7


def test_no_stac_api_is_said_to_be_none() -> None:
    """The message says what to give."""
    with (
        serving(lambda _: Answer(body={"links": []})) as server,
        pytest.raises(RequestError, match="landing page"),
    ):
        found(server)


def test_no_server_is_said_to_be_none() -> None:
    """Nobody listens at the port."""
    with serving(lambda _: Answer()) as server:
        pass
    with pytest.raises(UnreachableError, match="does not answer"):
        found(server)


@pytest.mark.parametrize(
    "url",
    [
        "http://stac.example.org/v1",
        "https://other.example.org/v1",
        "https://stac.example.org:8443/v1",
        "https://user:secret@stac.example.org/v1",
        "https://169.254.169.254/v1",
        "https://stac.example.org:99999/",
    ],
)
def test_a_deployment_asks_only_the_hosts_that_it_names(url: str) -> None:
    """It asks them by https, without credentials in the address."""
    check = hosts_only(frozenset({"stac.example.org"}), field="stac")
    check("https://stac.example.org/v1/search")
    with pytest.raises(RequestError):
        check(url)


def test_the_usual_port_may_be_written() -> None:
    """https://host and https://host:443 are one server."""
    check = same_host_only("https://host.example/v1", field="stac")
    check("https://host.example:443/v1/search")
    with pytest.raises(RequestError, match="another host"):
        check("https://host.example:8443/v1/search")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_key_in_the_address_goes_along_with_every_request(method: str) -> None:
    """Servers name the search and the next page without it."""
    with serving_api({"GET": by_get, "POST": by_post}[method], method=method) as server:
        assert len(found(server, query="/?key=secret", collections=("sentinel-2-l2a",))) == 7
        assert [each.parameters["key"] for each in server.asked] == ["secret"] * 4


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, body={}),
        Answer(status=503, body={}),
        Answer(body=b"<html>"),
        Answer(body=[1]),
        Answer(body={"features": 7}),
        Answer(status=302, body={}, headers={"location": "https://x/?key=secret"}),
    ],
)
def test_a_key_is_in_no_message(answer: Answer) -> None:
    """Errors name the address without its query."""
    with serving_api(lambda _asked, _url: answer) as server, pytest.raises(GatherError) as raised:
        found(server, query="/?key=secret")

    assert "secret" not in str(raised.value)


def test_a_key_is_not_kept(tmp_path: Path) -> None:
    """Neither in a catalog nor in a cube's request, nor does it change the gather's digest."""
    with serving_api(lambda _asked, _url: page(SCENES), method="GET") as server:
        make_catalog(f"{server.url}/?key=secret", kind="stac", to=tmp_path / "catalog.parquet")
        assert all(b"secret" not in file.read_bytes() for file in tmp_path.iterdir())

    def request(address: str) -> GatherRequest:
        return parse_request(
            {"sources": {"stac": {"api": address, "assets": ["red"]}}, "window": {"point": [11, 46]}}
        )

    with_key, plain = request("https://h/v1?key=secret"), request("https://h/v1")
    assert with_key.digest() == plain.digest()
    assert with_key.without_key() == plain
