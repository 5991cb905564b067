"""The search function: links, scenes, and a STAC API over a small catalog."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from obstore.store import LocalStore

from handlers.api.route import JSON
from handlers.deployment.settings import Settings
from handlers.search import answer_area
from handlers.search.open_catalog import OpenCatalog
from handlers.search.scene_answers import GEOJSON
from handlers.search.search_parameters import parse_limit
from pixel_gather.core.errors import StoreError
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather_bench.area import slow_store
from scenes.scenes import item
from support.api_bridge import body_of, event, header_of
from support.lambda_functions import ENVIRONMENT, Context, cold_start

ROOT = "https://api.example.org/v1"
LARGEST_NBYTES = 6 * 1024 * 1024
"""Lambda's limit for an answer."""

COPENHAGEN = item("copenhagen", box=(12.0, 55.0, 13.0, 56.0), time="2024-06-03T10:00:00Z", eo__cloud_cover=7)
MALMO = item(
    "malmo",
    box=(12.9, 55.4, 14.0, 56.0),
    time="2024-06-02T10:00:00Z",
    assets={
        "red": {"href": "s3://bucket/malmo/red.tif", "eo:bands": [{"name": "B04", "common_name": "red"}]},
        "B8": {"href": "s3://bucket/malmo/b8.tif", "eo:bands": [{"name": "B8", "common_name": "nir"}]},
    },
    eo__cloud_cover=60,
)
FIJI = item("fiji", box=(179.0, -18.0, -179.0, -17.0), collection="landsat", time="2023-01-01T00:00:00Z")
NOWHERE = item("no collection", box=(-10.0, 0.0, -9.0, 1.0), collection=None, time="2022-01-01T00:00:00Z")


def write(folder: Path, *items: dict[str, Any]) -> None:
    """Write a catalog, or another version of it."""
    with SpooledItems() as spooled:
        spooled.add(items, name="items")
        write_search_files(spooled, LocalStore(folder), "catalog.parquet")


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Start the function over four scenes."""
    write(tmp_path, COPENHAGEN, MALMO, FIJI, NOWHERE)
    href = f"file://{tmp_path}/catalog.parquet"
    with cold_start(monkeypatch, "answer_searches", PIXEL_GATHER_CATALOG=href) as module:
        yield module
        module.catalog.close()


def rewrite(function: ModuleType, folder: Path, *items: dict[str, Any]) -> None:
    """Replace the catalog of a function, which reads it anew."""
    write(folder, *items)
    function.catalog._catalog = None


def ask(function: ModuleType, target: str, *, body: Any = None, **more: str) -> dict[str, Any]:
    """Send a GET, or a POST if there is a body. Return the function's answer."""
    text = None if body is None else json.dumps(body)
    asked = event("GET" if body is None else "POST", target, body=text, **more)
    answer: dict[str, Any] = function.handler(asked, Context(left_s=29))
    return answer


def found(function: ModuleType, target: str, *, body: Any = None) -> list[str]:
    """Return the ids on one page of a search."""
    answer = ask(function, target, body=body)
    assert answer["statusCode"] == 200, answer["body"]
    return [each["id"] for each in body_of(answer)["features"]]


@pytest.mark.parametrize(
    "where",
    [
        "lat1=55.1&lng1=12.1&lat2=55.2&lng2=12.2",
        "lat1=55.2&lng1=12.2&lat2=55.1&lng2=12.1",
        "lat1=55.1&lng1=12.2&lat2=55.2&lng2=12.1",
        "lat1=55.2&lng1=12.1&lat2=55.1&lng2=12.2",
        "lat1=55.5&lng1=12.5&lat2=55.5&lng2=12.5",
        "lat=55.5&lng=12.5",
    ],
)
def test_area_takes_corners_in_any_order_or_a_point(function: ModuleType, where: str) -> None:
    """The answer is an array of links, as in the published interface."""
    assert body_of(ask(function, f"/area?{where}")) == ["s3://bucket/copenhagen/red.tif"]


def test_area_crosses_180_degrees(function: ModuleType) -> None:
    """The corners of a box around Fiji lie at both sides."""
    for west, east in ((179.5, -179.5), (-179.5, 179.5), (-179.4, -179.3)):
        target = f"/area?lat1=-18&lng1={west}&lat2=-17&lng2={east}"

        assert body_of(ask(function, target)) == ["s3://bucket/fiji/red.tif"]
    assert body_of(ask(function, "/area?lat1=-18&lng1=-90&lat2=-17&lng2=90")) == []


def test_area_takes_times_clouds_and_assets(function: ModuleType) -> None:
    """Links are of the requested assets, by key or by common name, newest scenes first."""
    both = "/area?lat1=55.5&lng1=12.95&lat2=55.6&lng2=12.96"

    assert body_of(ask(function, f"{both}&assets=nir,red")) == [
        "s3://bucket/copenhagen/red.tif",
        "s3://bucket/malmo/b8.tif",
        "s3://bucket/malmo/red.tif",
    ]
    assert body_of(ask(function, f"{both}&datetime=2024-06-02&assets=nir")) == ["s3://bucket/malmo/b8.tif"]
    assert body_of(ask(function, f"{both}&cloud_below=20&assets=nir")) == []


def test_scenes_says_a_few_fields(function: ModuleType) -> None:
    """Scenes have their time, box, clouds and links."""
    answer = body_of(ask(function, "/scenes?point=12.5,55.5"))

    assert answer == {
        "scenes": [
            {
                "id": "copenhagen",
                "collection": "sentinel-2-l2a",
                "datetime": "2024-06-03T10:00:00Z",
                "bbox": [12.0, 55.0, 13.0, 56.0],
                "cloud_cover": 7,
                "links": {"red": "s3://bucket/copenhagen/red.tif"},
            }
        ],
        "next": None,
        "warnings": [],
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "field"),
    [
        ("/area?lat1=55&lng1=12&lat2=56", "lng2"),
        ("/area?lat1=95&lng1=12&lat2=56&lng2=13", "lat1"),
        ("/area?lat1=nan&lng1=12&lat2=56&lng2=13", "lat1"),
        ("/area?lat1=north&lng1=12&lat2=56&lng2=13", "lat1"),
        ("/area?lat=91&lng=12", "point"),
        ("/area?lat=55.5", "lng"),
        ("/area?lat=55.5&lng=12.5&lng2=13", "lat"),
        ("/area?lat1=55&lng1=12&lat2=56&lng2=13&lng=12", "lng"),
        ("/scenes?bbox=1,2,3", "bbox"),
        ("/scenes?bbox=1,2,3,inf", "bbox"),
        ("/scenes?cloud_below=few", "cloud_below"),
        ("/scenes?token=zzz", "token"),
        ("/scenes?limit=0", "limit"),
        ("/scenes?expand=yes", "expand"),
        ("/scenes?dateime=2022", "dateime"),
        ("/collections?page=2", "page"),
        ("/scenes?collections=sentinel-2-l2a&collections=landsat", "collections"),
        ("/search?sortby=datetime", "sortby"),
        ("/search?limit=-1", "limit"),
        ("/search?limit=ten", "limit"),
        ("/search?datetime=yesterday", "datetime"),
        ("/search?datetime=2024-06-02", "datetime"),
        ("/search?datetime=2024-06-02T00:00:00", "datetime"),
        ("/search?datetime=2024-06-02T00:00:00,5Z", "datetime"),
        ("/search?datetime=../..", "datetime"),
        ("/search?datetime=2024-06-02T00:00:00Z/2024-07", "datetime"),
        ("/search?datetime=2024-06-03T00:00:00Z/2024-06-02T00:00:00Z", "datetime"),
        ("/search?bbox=1,2,3,4&intersects=%7B%7D", "bbox"),
        ("/scenes?bbox=1,2,3,4&point=1,2", "bbox"),
        ("/search?intersects=%7B", "intersects"),
        ("/search?intersects=%7B%22type%22:%22Point%22%7D", "intersects"),
        ("/search?query=%5B%5D", "query"),
    ],
)
def test_wrong_parameters_are_problems_that_name_them(function: ModuleType, target: str, field: str) -> None:
    """The status is 400, as STAC API requires."""
    answer = ask(function, target)

    assert answer["statusCode"] == 400
    assert header_of(answer, "Content-Type") == "application/problem+json"
    assert body_of(answer)["field"] == field
    assert body_of(answer)["detail"].startswith(field)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([1], "body"),
        ({"bbox": "12,55,13,56"}, "bbox"),
        ({"ids": "fiji"}, "ids"),
        ({"bbox": ["a", 1, 2, 3]}, "bbox"),
        ({"bbox": [True, 1, 2, 3]}, "bbox"),
        ({"ids": 3}, "ids"),
        ({"collections": [1]}, "collections"),
        ({"datetime": 2024}, "datetime"),
        ({"foo": 1}, "foo"),
        ({"sortby": [{"field": "datetime"}]}, "sortby"),
        ({"limit": "0"}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"intersects": [1]}, "intersects"),
        ({"query": {"eo:cloud_cover": {"about": 3}}}, "query"),
    ],
)
def test_wrong_bodies_are_problems_that_name_the_field(function: ModuleType, body: Any, field: str) -> None:
    """The sentence says what to write instead."""
    answer = ask(function, "/search", body=body)

    assert answer["statusCode"] == 400
    assert body_of(answer)["field"].startswith(field)


def test_a_body_that_is_no_json_is_a_problem(function: ModuleType) -> None:
    """The body is refused, and the function keeps running."""
    answer = function.handler(event("POST", "/search", body="{"), Context(left_s=29))

    assert answer["statusCode"] == 400
    assert body_of(answer)["type"].endswith(":body_error")


def test_item_search_finds_by_each_parameter(function: ModuleType) -> None:
    """GET and POST give the same answer."""
    polygon = {"type": "Polygon", "coordinates": [[[12.1, 55.1], [12.2, 55.1], [12.2, 55.2], [12.1, 55.1]]]}
    for body, ids in (
        ({}, ["copenhagen", "malmo", "fiji", "no collection"]),
        ({"bbox": [13.5, 55.5, 13.6, 55.6]}, ["malmo"]),
        ({"bbox": [179.5, -17.5, -179.5, -17.4]}, ["fiji"]),
        ({"bbox": [13.5, 55.5, 0, 13.6, 55.6, 9]}, ["malmo"]),
        ({"intersects": polygon}, ["copenhagen"]),
        ({"ids": ["fiji", "malmo"]}, ["malmo", "fiji"]),
        ({"collections": ["landsat"]}, ["fiji"]),
        ({"collections": ["none"]}, ["no collection"]),
        ({"collections": ["none", "landsat"]}, ["fiji", "no collection"]),
        ({"cloud_below": 10}, ["copenhagen"]),
        ({"datetime": "2023-12-31t23:59:59z/2024-06-02t23:59:59z"}, ["malmo"]),
        ({"datetime": "2024-06-02T00:00:00Z/2024-06-02T23:59:59Z"}, ["malmo"]),
        ({"query": {"eo:cloud_cover": {"lt": 10}}}, ["copenhagen"]),
        ({"ids": ["nosuch"]}, []),
    ):
        parameters = {
            name: ",".join(map(str, value)) if isinstance(value, list) else value
            for name, value in body.items()
        }
        query = urlencode(
            {
                name: json.dumps(value) if isinstance(value, dict) else value
                for name, value in parameters.items()
            }
        )

        assert found(function, "/search", body=body) == ids, body
        assert found(function, f"/search?{query}") == ids, query


def test_fields_of_a_body_that_are_null_are_not_given(function: ModuleType) -> None:
    """As clients write what nobody has set."""
    assert found(function, "/search", body={"ids": ["fiji"], "limit": None, "bbox": None}) == ["fiji"]


def test_a_page_has_no_more_scenes_than_the_most() -> None:
    """More are not refused, as STAC API asks."""
    assert [parse_limit({"limit": n}) for n in (9_999, 10_000, 10_001)] == [9_999, 10_000, 10_000]


def test_area_may_name_scenes_and_collections(function: ModuleType) -> None:
    """As the other searches."""
    both = "/area?lat=55.5&lng=12.95"

    assert body_of(ask(function, f"{both}&ids=copenhagen")) == ["s3://bucket/copenhagen/red.tif"]
    assert body_of(ask(function, f"{both}&collections=landsat")) == []


def test_names_are_quoted_in_links(function: ModuleType, tmp_path: Path) -> None:
    """A slash in a name begins no other part of the address."""
    rewrite(function, tmp_path, item("a/b c", collection="x/y z"), item("d", collection="y z"), FIJI)
    folder = f"{ROOT}/collections/x%2Fy%20z"

    page = body_of(ask(function, "/search?ids=a/b%20c"))
    (scene,) = page["features"]

    children = [link["href"] for link in body_of(ask(function, "/"))["links"] if link["rel"] == "child"]
    assert sorted(children) == [f"{ROOT}/collections/{name}" for name in ("landsat", "x%2Fy%20z", "y%20z")]
    assert [link["href"] for link in scene["links"]] == [
        f"{folder}/items/a%2Fb%20c",
        folder,
        folder,
        f"{ROOT}/",
    ]


def test_items_of_a_collection_are_its_own_whatever_the_query_says(function: ModuleType) -> None:
    """Its address says which ones."""
    target = "/collections/landsat/items?collections=sentinel-2-l2a"

    assert found(function, target) == ["fiji"]
    links = body_of(ask(function, target))["links"]
    assert [link["href"] for link in links if link["rel"] == "self"] == [f"{ROOT}{target}"]


def test_number_of_scenes_is_that_of_the_page_and_a_posted_search_has_no_query(function: ModuleType) -> None:
    """Its body is not in its address."""
    page = body_of(ask(function, "/search", body={"limit": 3}))

    assert page["numberReturned"] == len(page["features"]) == 3
    assert [link["href"] for link in page["links"] if link["rel"] == "self"] == [f"{ROOT}/search"]


def test_a_scene_keeps_its_footprint_or_gets_its_box(function: ModuleType, tmp_path: Path) -> None:
    """In two halves across 180 degrees."""
    shape = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [0, 1], [0, 0]]]}
    boxed = {"box": item("boxed", box=(5.0, 6.0, 7.0, 8.0)), "point": item("point", box=(5.0, 6.0, 5.0, 6.0))}
    scenes = [each | {"geometry": None} for each in boxed.values()]
    rewrite(function, tmp_path, FIJI, item("shaped", box=(0.0, 0.0, 2.0, 1.0), geometry=shape), *scenes)

    by_id = {each["id"]: each["geometry"] for each in body_of(ask(function, "/search"))["features"]}

    def ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
        return [[west, south], [east, south], [east, north], [west, north], [west, south]]

    halves = [[ring(179.0, -18.0, 180.0, -17.0)], [ring(-180.0, -18.0, -179.0, -17.0)]]
    assert by_id == {
        "fiji": {"type": "MultiPolygon", "coordinates": halves},
        "shaped": shape,
        "boxed": {"type": "Polygon", "coordinates": [ring(5.0, 6.0, 7.0, 8.0)]},
        "point": {"type": "Polygon", "coordinates": [ring(5.0, 6.0, 5.0, 6.0)]},
    }


def test_items_link_to_themselves(function: ModuleType) -> None:
    """A scene's own link returns the same scene."""
    scene = body_of(ask(function, "/search?ids=no%20collection"))["features"][0]
    own = next(link["href"] for link in scene["links"] if link["rel"] == "self")

    assert own == f"{ROOT}/collections/none/items/no%20collection"
    assert body_of(ask(function, own.removeprefix(ROOT))) == scene
    assert scene["collection"] == "none"


def test_collections_say_where_and_when(function: ModuleType) -> None:
    """Each collection has an extent. Across the antimeridian, west > east."""
    answer = body_of(ask(function, "/collections"))
    by_id = {each["id"]: each for each in answer["collections"]}

    assert set(by_id) == {"sentinel-2-l2a", "landsat", "none"}
    west, _, east, _ = by_id["landsat"]["extent"]["spatial"]["bbox"][0]
    assert (west, east) == (179.0, -179.0)
    assert by_id["sentinel-2-l2a"]["extent"]["temporal"]["interval"] == [
        ["2024-06-02T10:00:00Z", "2024-06-03T10:00:00Z"]
    ]
    assert body_of(ask(function, "/collections/landsat")) == by_id["landsat"]
    assert found(function, "/collections/landsat/items") == ["fiji"]
    types = {link["rel"]: link["type"] for link in by_id["landsat"]["links"]}
    assert types == dict.fromkeys(("self", "root", "parent"), JSON) | {"items": GEOJSON}
    assert body_of(ask(function, "/scenes?ids=no%20collection"))["scenes"][0]["collection"] is None


def test_a_collection_may_end_at_180_degrees_and_at_no_time(function: ModuleType, tmp_path: Path) -> None:
    """So may its scenes."""
    open_end: dict[str, Any] = {"start_datetime": "2024-01-01T00:00:00Z", "end_datetime": None}
    rewrite(function, tmp_path, item("a", box=(170.0, 1.0, 180.0, 2.0), time=None, **open_end))

    (extent,) = (each["extent"] for each in body_of(ask(function, "/collections"))["collections"])

    assert extent["spatial"]["bbox"] == [[170.0, 1.0, 180.0, 2.0]]
    assert extent["temporal"]["interval"] == [["2024-01-01T00:00:00Z", None]]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/collections/nosuch", "there is no collection nosuch"),
        ("/collections/nosuch/items", "there is no collection nosuch"),
        ("/collections/nosuch/items/malmo", "there is no collection nosuch"),
        ("/collections/landsat/items/malmo", "there is no scene malmo in landsat"),
        ("/nosuch", "nothing answers GET /nosuch"),
    ],
)
def test_what_is_not_there_is_a_problem(function: ModuleType, target: str, says: str) -> None:
    """The 404 names what was not found."""
    answer = ask(function, target)

    assert answer["statusCode"] == 404
    assert header_of(answer, "Content-Type") == "application/problem+json"
    assert body_of(answer)["detail"].startswith(says)


def test_landing_page_leads_to_everything(function: ModuleType) -> None:
    """The function answers each of its links on the landing page."""
    page = body_of(ask(function, "/"))

    assert page["conformsTo"] == body_of(ask(function, "/conformance"))["conformsTo"]
    rels = [link["rel"] for link in page["links"]]
    assert {"self", "root", "conformance", "data", "search", "service-desc", "child"} <= set(rels)
    for link in page["links"]:
        path = urlsplit(link["href"]).path.removeprefix("/v1")
        if path != "/openapi.json":
            assert ask(function, path)["statusCode"] == 200, link


@pytest.mark.parametrize("target", ["/", "/search", "/collections/landsat"])
def test_a_domain_of_ones_own_has_links_of_its_own(function: ModuleType, target: str) -> None:
    """Behind a base path, routes are found and links begin with it."""
    answer = ask(function, target, base="/gather")

    assert answer["statusCode"] == 200
    hrefs = [link["href"] for link in body_of(answer)["links"]]
    assert all(href.startswith("https://api.example.org/gather/") for href in hrefs), hrefs


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_follow_one_another(function: ModuleType, tmp_path: Path, method: str) -> None:
    """Each scene comes once, although the catalog is replaced between pages."""
    scenes = [item(f"s{n:03}", time=f"2024-01-{1 + n % 28:02}T00:00:00Z") for n in range(100)]
    rewrite(function, tmp_path, *scenes)
    asked = {"bbox": [11.0, 46.0, 12.0, 47.0], "limit": 7}
    target = "/search?bbox=11,46,12,47&limit=7" if method == "GET" else "/search"
    body: Any = None if method == "GET" else asked
    ids: list[str] = []

    for n in range(100):
        page = body_of(ask(function, target, body=body))
        ids += [each["id"] for each in page["features"]]
        assert len(page["features"]) <= 7
        following = [link for link in page["links"] if link["rel"] == "next"]
        if not following:
            break
        target = following[0]["href"].removeprefix(ROOT)
        body = following[0].get("body")
        if n == 3:
            rewrite(function, tmp_path, *scenes[::-1], item("new", time="2025-01-01T00:00:00Z"))

    assert sorted(ids) == [each["id"] for each in scenes]


def test_pages_of_links_and_scenes_follow_one_another(
    function: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page is named by a header in /area, and by a token in /scenes."""
    monkeypatch.setattr(answer_area, "MOST_SCENES", 4)
    write(tmp_path, *(item(f"s{n}") for n in range(10)))
    expected = sorted(f"s3://bucket/s{n}/red.tif" for n in range(10))
    target: str | None = "/area?lat=46.5&lng=11.5"
    hrefs: list[str] = []
    while target:
        answer = ask(function, target)
        hrefs += body_of(answer)
        link = header_of(answer, "Link")
        assert link is None or link.endswith('>; rel="next"')
        target = link and link.removeprefix(f"<{ROOT}").partition(">")[0]
    assert sorted(hrefs) == expected

    token, hrefs = "", []
    while token is not None:
        answer = body_of(ask(function, f"/scenes?limit=3&point=11.5,46.5&token={token}"))
        hrefs += [scene["links"]["red"] for scene in answer["scenes"]]
        token = answer["next"]
    assert sorted(hrefs) == expected


def test_links_can_be_signed(function: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SigV4 wants spaces as %20. A link has no signature of the request that it came from."""
    monkeypatch.setattr(answer_area, "MOST_SCENES", 1)
    write(tmp_path, *(item(f"s{n}", time=f"2024-06-0{n}T00:00:00Z") for n in (1, 2, 3)))
    asked = "ids=s1%2C%20s2%2C%20s3&X-Amz-Signature=ab12"

    page = body_of(ask(function, f"/search?limit=1&{asked}"))
    answer = ask(function, f"/area?lat=46.5&lng=11.5&{asked}")

    hrefs = [link["href"] for link in page["links"] if link["rel"] in ("self", "next")]
    for href in (*hrefs, header_of(answer, "Link") or ""):
        assert "ids=s1%2C%20s2%2C%20s3" in href
        assert "Signature" not in href


@pytest.mark.long
@pytest.mark.parametrize("filler", ["a", '"', "\\", "é", "\U0001f30d"])
@pytest.mark.parametrize("path", ["/search?limit=10000", "/scenes?limit=10000", "/area?lat=46.5&lng=11.5"])
def test_no_answer_is_larger_than_lambda_allows(
    function: ModuleType, tmp_path: Path, filler: str, path: str
) -> None:
    """A page ends before 6 MB, and no scene is left out."""
    scenes = [
        item(f"s{n}", assets={"red": {"href": f"s3://bucket/{n}/{filler * 100_000}"}}) for n in range(40)
    ]
    write(tmp_path, *scenes)
    n_found, following = 0, ""
    for _ in range(40):
        answer = ask(function, path + following)
        assert answer["statusCode"] == 200
        assert len(json.dumps(answer).encode()) < LARGEST_NBYTES
        page = body_of(answer)
        n_found += len(page if isinstance(page, list) else page.get("features", page.get("scenes")))
        token = _token(answer, page)
        if token is None:
            break
        following = f"&token={token}"

    assert n_found == 40


def _token(answer: dict[str, Any], page: Any) -> str | None:
    if isinstance(page, list):
        link = header_of(answer, "Link")
        return link and link.partition("token=")[2].partition(">")[0]
    if "scenes" in page:
        token: str | None = page["next"]
        return token
    hrefs = [link["href"] for link in page["links"] if link["rel"] == "next"]
    return hrefs[0].partition("token=")[2] if hrefs else None


def test_a_scene_larger_than_an_answer_is_said_to_be_one(function: ModuleType, tmp_path: Path) -> None:
    """A scene that is too large is an error, not left out silently."""
    write(tmp_path, item("large", assets={"red": {"href": "s3://bucket/" + "a" * 5_100_000}}))

    answer = ask(function, "/search")

    assert answer["statusCode"] == 400
    assert "large" in body_of(answer)["detail"]


def test_a_large_geometry_is_not_repeated_in_the_next_link(function: ModuleType, tmp_path: Path) -> None:
    """The caller merges the token into its own body."""
    write(tmp_path, *(item(f"s{n}") for n in range(3)))
    ring = [[11 + n / 10_000, 46.0] for n in range(10_000)]
    shape = {"type": "Polygon", "coordinates": [[*ring, [12.0, 47.0], ring[0]]]}
    body = {"intersects": shape, "limit": 2}

    page = body_of(ask(function, "/search", body=body))

    link = next(link for link in page["links"] if link["rel"] == "next")
    assert link["merge"] is True
    assert set(link["body"]) == {"token"}
    assert len(found(function, "/search", body={**body, **link["body"]})) == 1


@pytest.fixture
def lister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Start the function over scenes that name folders, of which it may list those of one bucket."""
    folders = {
        "listed": "s3://folders/granule/",
        "elsewhere": "s3://elsewhere/granule/",
        "here": f"file://{tmp_path}/",
    }
    scenes = [
        item(name, time=f"2024-06-0{n}T00:00:00Z", assets={"images": {"href": href}})
        for n, (name, href) in enumerate(folders.items(), 1)
    ]
    write(tmp_path, *scenes)
    buckets = [{"name": "folders", "expand": True}, {"name": "elsewhere"}]
    with (
        slow_store(0.0) as opened,
        cold_start(
            monkeypatch,
            "answer_searches",
            PIXEL_GATHER_CATALOG=f"file://{tmp_path}/catalog.parquet",
            PIXEL_GATHER_SOURCE_BUCKETS=json.dumps(buckets),
            AWS_ENDPOINT_URL_S3=opened.settings_of("").endpoint,
        ) as module,
    ):
        yield module
        module.catalog.close()


def test_scenes_are_expanded_where_the_deployment_allows_it(lister: ModuleType) -> None:
    """Other folders say that they may not be listed, and are not."""
    answer = ask(lister, "/scenes?expand=true&assets=images,B04.jp2")
    by_id = {each["id"]: each for each in body_of(answer)["scenes"]}

    assert by_id["listed"]["links"] == {"B04.jp2": "s3://folders/granule/B04.jp2"}
    assert "not_listed" not in by_id["listed"]
    for name, href in (("elsewhere", "s3://elsewhere/granule/"), ("here", f"file://{Path('/')}")):
        (told,) = by_id[name]["not_listed"]
        assert told["status"] == "denied"
        assert told["href"].startswith(href)
    assert "the bucket elsewhere is not allowed" in by_id["elsewhere"]["not_listed"][0]["reason"]
    assert header_of(answer, "ETag")


def test_area_answers_images_and_counts_folders_that_were_not_listed(lister: ModuleType) -> None:
    """The link of such a folder stays, and ends in a slash."""
    answer = ask(lister, "/area?lat=46.5&lng=11.5&expand=true")
    links = body_of(answer)

    assert len(links) == 13 + 2
    assert [link for link in links if link.endswith("/")] == [links[0], "s3://elsewhere/granule/"]
    assert header_of(answer, "Pixel-Gather-Not-Listed") == "2"
    plain = ask(lister, "/area?lat=46.5&lng=11.5")
    assert (len(body_of(plain)), header_of(plain, "Pixel-Gather-Not-Listed")) == (3, None)
    some = ask(lister, "/area?lat=46.5&lng=11.5&expand=true&assets=B04.jp2")
    assert body_of(some) == [links[0], "s3://elsewhere/granule/", "s3://folders/granule/B04.jp2"]
    all_listed = ask(lister, "/area?lat=46.5&lng=11.5&expand=true&ids=listed")
    assert (len(body_of(all_listed)), header_of(all_listed, "Pixel-Gather-Not-Listed")) == (13, "0")


def geojson(*corners: tuple[int, int]) -> str:
    """Return a polygon as GeoJSON."""
    return json.dumps({"type": "Polygon", "coordinates": [corners]})


@pytest.mark.parametrize(
    ("place", "n_warnings"),
    [
        ({"intersects": geojson((-100, 10), (0, 10), (100, 10), (0, 20), (-100, 10))}, 1),
        ({"intersects": geojson((10, 10), (20, 10), (20, 20), (10, 10))}, 0),
        ({"bbox": "-100,10,100,20"}, 0),
        ({}, 0),
    ],
    ids=["wide polygon", "polygon", "wide box", "everywhere"],
)
def test_scenes_warn_of_a_polygon_that_is_taken_wide(
    function: ModuleType, place: dict[str, str], n_warnings: int
) -> None:
    """As the command does. A box says itself which way it goes, so ``/area`` has nothing to warn of."""
    warnings = body_of(ask(function, f"/scenes?{urlencode(place)}"))["warnings"]

    assert len(warnings) == n_warnings
    assert all("more than 180 degrees wide, taken as drawn" in each for each in warnings)


@pytest.mark.parametrize("most", [2, 500])
def test_pages_of_expanded_scenes_follow_one_another(
    lister: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A page lists the folders of its own scenes, and has no more than can be listed in time."""
    monkeypatch.setattr(answer_area, "MOST_EXPANDED", most)
    images = {"images": {"href": "s3://folders/granule/"}}
    write(tmp_path, *(item(f"s{n}", assets=images) for n in range(7)))
    token, ids = "", []
    while token is not None:
        page = body_of(ask(lister, f"/scenes?expand=true&limit=3&token={token}"))
        assert all(len(scene["links"]) == 13 for scene in page["scenes"])
        assert 0 < len(page["scenes"]) <= min(most, 3)
        ids += [scene["id"] for scene in page["scenes"]]
        token = page["next"]

    assert sorted(ids) == [f"s{n}" for n in range(7)]
    links = body_of(ask(lister, "/area?lat=46.5&lng=11.5&expand=true"))
    assert len(links) == 13 * min(most, 7)


@pytest.mark.parametrize("target", ["/scenes?expand=true", "/area?lat=46.5&lng=11.5&expand=true"])
def test_a_deployment_that_lists_nothing_says_so(function: ModuleType, target: str) -> None:
    """It names the setting."""
    answer = ask(function, target)

    assert answer["statusCode"] == 400
    assert body_of(answer)["field"] == "expand"
    assert "source_buckets" in body_of(answer)["detail"]
    assert ask(function, target.replace("true", "false"))["statusCode"] == 200


def test_every_answer_has_the_catalogs_etag(function: ModuleType, tmp_path: Path) -> None:
    """It changes when the catalog does."""
    targets = ("/area?lat=1&lng=1", "/scenes", "/search", "/collections", "/collections/landsat", "/")
    before = {header_of(ask(function, each), "ETag") for each in targets}
    write(tmp_path, item("another"), FIJI)
    function.catalog._looked_at = -100.0
    after = {header_of(ask(function, each), "ETag") for each in targets}

    assert len(before) == len(after) == 1
    assert before != after
    assert None not in before | after


def test_a_warm_function_looks_for_a_new_version_now_and_then(tmp_path: Path) -> None:
    """The columns are read again only if they have changed."""
    write(tmp_path, COPENHAGEN)
    now = 0.0
    environment = {**ENVIRONMENT, "PIXEL_GATHER_CATALOG": f"file://{tmp_path}/catalog.parquet"}
    opened = OpenCatalog(Settings.from_environment(environment), clock=lambda: now)
    first = opened.newest()
    now = 40.0
    assert opened.newest() is first

    write(tmp_path, MALMO)
    now = 50.0
    assert opened.newest() is first
    now = 80.0
    assert opened.newest() is not first
    assert opened.search(SceneQuery(), most=9, take=lambda each: each["id"]).parts == ["malmo"]

    for file in tmp_path.iterdir():
        file.unlink()
    now = 111.0
    with pytest.raises(StoreError, match=r"catalog\.columns could not be read"):
        opened.newest()
    opened.close()


def test_buckets_are_reached_as_the_deployment_says() -> None:
    """Within the time of one answer. Others are reached as its own."""
    buckets = [
        {"name": "paid", "region": "us-west-2", "requester_pays": True},
        {"name": "open", "region": "eu-north-1", "unsigned": True},
    ]
    environment = dict(ENVIRONMENT) | {
        "PIXEL_GATHER_CATALOG": "s3://paid/catalog.parquet",
        "PIXEL_GATHER_SOURCE_BUCKETS": json.dumps(buckets),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }
    opened = OpenCatalog(Settings.from_environment(environment))

    found = [opened._settings_of(f"s3://{name}/folder") for name in ("paid", "open", "own")]

    assert [(each.region, each.requester_pays, each.unsigned) for each in found] == [
        ("us-west-2", True, False),
        ("eu-north-1", False, True),
        (None, False, False),
    ]
    assert {(each.endpoint, each.stays_on_host) for each in found} == {("http://127.0.0.1:9", True)}
    assert all(each.write_timeout_s < 29 for each in found)
    opened.close()


def test_a_catalog_replaced_twice_is_searched_all_the_same(tmp_path: Path) -> None:
    """If the items of the open version are gone, the function opens the newest one."""
    environment = {**ENVIRONMENT, "PIXEL_GATHER_CATALOG": f"file://{tmp_path}/catalog.parquet"}
    opened = OpenCatalog(Settings.from_environment(environment), clock=lambda: 0.0)
    write(tmp_path, COPENHAGEN)
    opened.newest()
    for scene in (MALMO, FIJI, NOWHERE):
        write(tmp_path, scene)

    assert opened.search(SceneQuery(), most=9, take=lambda each: each["id"]).parts == ["no collection"]
    opened.close()


def test_a_search_that_s3_answers_late_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API Gateway waits 29 s. The caller is told by then."""
    environment = {**ENVIRONMENT, "PIXEL_GATHER_CATALOG": f"file://{tmp_path}/catalog.parquet"}
    now, n_tries = 0.0, 0
    opened = OpenCatalog(Settings.from_environment(environment), clock=lambda: now)

    async def silent(*_: object) -> None:
        nonlocal now, n_tries
        now, n_tries = now + 20, n_tries + 1
        raise StoreError("no answer in time")

    monkeypatch.setattr("handlers.search.open_catalog.open_catalog", silent)
    with pytest.raises(StoreError, match="no answer in time"):
        opened.search(SceneQuery(), most=9, take=lambda each: each["id"])
    opened.close()

    assert n_tries == 1


@pytest.mark.parametrize("target", ["/", "/search", "/area?lat=1&lng=1", "/collections"])
def test_a_deployment_without_a_catalog_says_so(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """The sentence names the setting."""
    with cold_start(monkeypatch, "answer_searches", PIXEL_GATHER_CATALOG=None) as module:
        answer = ask(module, target)
        module.catalog.close()

    assert answer["statusCode"] == 404
    assert "`catalog`" in body_of(answer)["detail"]


def test_a_catalog_that_is_not_there_is_told_to_the_log_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the log has the catalog's location."""
    href = f"file://{tmp_path}/{quote('nosuch.parquet')}"
    with cold_start(monkeypatch, "answer_searches", PIXEL_GATHER_CATALOG=href) as module:
        answer = ask(module, "/search")
        module.catalog.close()

    assert answer["statusCode"] == 503
    assert "nosuch" not in answer["body"]


def processings() -> list[dict[str, Any]]:
    """Return three passes over one cell, each processed twice, and two variables of a model."""
    box = (0.0, 0.0, 1.0, 1.0)
    cell: dict[str, Any] = {"platform": "sentinel-2a", "grid__code": "MGRS-33UUB", "box": box}
    passes = [
        item(
            f"p{day}v{version}", time=f"2024-06-0{day}T10:00:0{second}Z", processing__version=version, **cell
        )
        for day in (1, 2, 3)
        for version, second in (("1", "0.6"), ("2", "0.0" if day == 2 else "0.9"))
    ]
    return [*passes, *(item(name, box=box, time="2024-06-04T00:00:00Z") for name in ("t2m", "u10"))]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_scenes_are_the_latest_processings_on_whichever_page(
    function: ModuleType, tmp_path: Path, limit: int
) -> None:
    """What a page before this one ended with still decides which processing is the latest."""
    write(tmp_path, *processings())
    function.catalog._looked_at = -1e9  # the catalog is looked at again
    pages, token = [], ""
    while token is not None:
        answer = body_of(ask(function, f"/scenes?bbox=0,0,1,1&limit={limit}" + (token and f"&token={token}")))
        pages.append([each["id"] for each in answer["scenes"]])
        token = answer["next"]

    assert [name for page in pages for name in page if name[0] == "p"] == ["p3v2", "p2v2", "p1v2"]
    assert sorted(name for page in pages for name in page) == ["p1v2", "p2v2", "p3v2", "t2m", "u10"]
    everything = body_of(ask(function, "/scenes?bbox=0,0,1,1&duplicates=all"))["scenes"]
    assert len(everything) == 8
    assert len(body_of(ask(function, "/area?lat=0.5&lng=0.5"))) == 5
    assert len(body_of(ask(function, "/area?lat=0.5&lng=0.5&duplicates=all"))) == 8
    assert ask(function, "/area?lat=0.5&lng=0.5&duplicates=fail")["statusCode"] == 400
