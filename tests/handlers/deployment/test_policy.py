"""Which sources and lists a deployment may read, and the address that it answers under."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from handlers.api.resolver import api_address
from handlers.deployment.policy import check_index, check_places, check_sources
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.request import parse_request, parse_sources
from pixel_gather.core.request.sources import Sources
from pixel_gather.core.samples import PREFIX, request_of
from support.lambda_functions import ENVIRONMENT

BUCKETS = [
    {"name": "sources", "region": None, "requester_pays": False, "unsigned": False},
    {"name": "far-away", "region": "us-west-2", "requester_pays": True},
    {"name": "public", "unsigned": True},
]
SETTINGS = Settings.from_environment(
    {
        **ENVIRONMENT,
        "PIXEL_GATHER_SOURCE_BUCKETS": json.dumps(BUCKETS),
        "PIXEL_GATHER_HTTPS_HOSTS": '["data.example.org"]',
    }
)


@pytest.mark.parametrize(
    "sources",
    [
        {"hrefs": ["s3://sources/a.tif", "s3://public/b.tif"]},
        {"hrefs": ["https://data.example.org/a.tif"]},
        {"list": "https://data.example.org/list.csv"},
        {"list": "s3://far-away/list.parquet"},
        {"list": "s3://control/lists/ab.csv"},
        {"hrefs": ["s3://control/samples/07.tif"]},
        {"prefix": "s3://sources"},
        {"prefix": "s3://sources/a/b/"},
    ],
)
def test_sources_within_the_policy_are_read(sources: dict[str, object]) -> None:
    """Allowed are the deployment's buckets and hosts, uploaded lists, and samples."""
    check_sources(Sources.model_validate(sources), SETTINGS)


@pytest.mark.parametrize(
    "place",
    [
        "s3://sources/index.parquet",
        "https://data.example.org/index.parquet",
        "s3://control/lists/ab.parquet",
        "s3://cubes/out/some-gather.zarr/headers.parquet",
    ],
)
def test_indexes_within_the_policy_are_read(place: str) -> None:
    """Allowed are indexes beside sources, uploaded ones, and those inside cubes."""
    assert check_index(place, SETTINGS) == place


@pytest.mark.parametrize(
    "place",
    [
        "s3://elsewhere/index.parquet",
        "s3://control/gathers/a/plan.msgpack",
        "s3://cubes/out/some-gather.zarr/zarr.json",
        "s3://cubes/another-prefix/a.zarr/headers.parquet",
        "https://other.example.org/index.parquet",
        "file:///etc/passwd",
        "index.parquet",
        "-",
    ],
)
def test_other_indexes_are_refused(place: str) -> None:
    """The error names the field. No request is sent before."""
    with pytest.raises(RequestError) as caught:
        check_index(place, SETTINGS)
    assert caught.value.field == "index"


def test_what_else_a_cube_holds_is_refused_with_what_is_read_of_it() -> None:
    """The error names the file of a cube that may be read. The cube's bucket itself is allowed."""
    with pytest.raises(RequestError, match=r"s3://cubes/out/NAME\.zarr/headers\.parquet"):
        check_index("s3://cubes/out/some-gather.zarr", SETTINGS)


@dataclass(frozen=True)
class Case:
    """Sources that may not be read, and the expected refusal."""

    id: str
    sources: dict[str, object]
    field: str
    says: str


REFUSED = (
    Case(
        "host",
        {"hrefs": ["https://other.example.org/a"]},
        "sources.hrefs.0",
        "https_hosts allows data.example.org",
    ),
    Case("loopback", {"hrefs": ["https://127.0.0.1/a"]}, "sources.hrefs.0", "the host 127.0.0.1"),
    Case("port", {"hrefs": ["https://data.example.org:8443/a"]}, "sources.hrefs.0", "data.example.org:8443"),
    Case("user", {"hrefs": ["https://me@data.example.org/a"]}, "sources.hrefs.0", "user or password"),
    Case("query", {"hrefs": ["https://data.example.org/a?x=1"]}, "sources.hrefs.0", "query string"),
    Case("plain-http", {"hrefs": ["http://data.example.org/a"]}, "sources.hrefs.0", "http:// is not read"),
    Case("web-folder", {"prefix": "https://data.example.org/a/"}, "sources.prefix", "cannot be listed"),
    Case("beside-samples", {"hrefs": ["s3://control/samples.tif"]}, "sources.hrefs.0", "the bucket control"),
    Case("above-samples", {"hrefs": ["s3://control/samples/../gathers/a"]}, "sources.hrefs.0", r"\.\."),
    Case("control-folder", {"prefix": "s3://control/lists/"}, "sources.prefix", "the bucket control"),
    Case("no-folder", {"prefix": "/data"}, "sources.prefix", "local files are not read"),
    Case("rows", {"rows": [{"href": "s3://sources/a.tif"}]}, "sources", "POST /lists"),
    Case("arrays", {"list": "s3://cubes/out/x.zarr/zarr.json"}, "sources.list", "the bucket cubes"),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_sources_outside_the_policy_are_refused(case: Case) -> None:
    """The sentence names the field and what is allowed."""
    with pytest.raises(RequestError, match=case.says) as raised:
        check_sources(Sources.model_validate(case.sources), SETTINGS)

    assert raised.value.field == case.field


def test_stores_are_reached_as_the_deployment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bucket has its Region and credentials. No web server may redirect."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    deployment = Deployment(SETTINGS)

    far, public = (deployment.objects.settings_of(f"s3://{name}/a") for name in ("far-away", "public"))
    assert (far.region, far.requester_pays, far.unsigned) == ("us-west-2", True, False)
    assert (public.region, public.requester_pays, public.unsigned) == (None, False, True)
    assert deployment.objects.settings_of("https://data.example.org/a").stays_on_host
    deployment.close()


@dataclass(frozen=True)
class Place:
    """Where a request arrived, and the expected base of links."""

    id: str
    context: dict[str, str]
    expected: str


PLACES = (
    Place(
        "stage", {"domainName": "a.execute-api.aws", "path": "/v1/gathers/x"}, "https://a.execute-api.aws/v1"
    ),
    Place("own-domain", {"domainName": "cubes.org", "path": "/gathers/x"}, "https://cubes.org"),
    Place("base-path", {"domainName": "cubes.org", "path": "/pg/gathers/x"}, "https://cubes.org/pg"),
    Place("odd-path", {"domainName": "cubes.org", "path": "/?", "stage": "v1"}, "https://cubes.org/v1"),
    Place("not-told", {"path": "/v1/gathers/x"}, ""),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.id)
def test_address_is_that_of_the_api(place: Place) -> None:
    """Links begin with the API's address behind any domain."""
    event = {"resource": "/gathers/{id}", "pathParameters": {"id": "x"}, "requestContext": place.context}

    assert api_address(event) == place.expected


@pytest.mark.parametrize(
    ("sources", "named"),
    [
        ({"stac": {"api": "https://stac.example.org/v1", "assets": ["red"]}}, "catalog_hosts"),
        ({"stac": {"api": "https://stac.example.org/v1?key=s", "assets": ["red"]}}, "may hold a key"),
        ({"stac": {"api": "http://169.254.169.254/", "assets": ["red"]}}, "sources.stac.api"),
        ({"stac": {"cmr": {"short_name": "HLSL30"}, "assets": ["red"]}}, "catalog_hosts"),
        ({"stac": {"items": "s3://someone-elses/items.json", "assets": ["red"]}}, "sources.stac.items"),
        ({"stac": {"items": [{"id": "a"}], "assets": ["red"]}}, "a request holds no items"),
        ({"hrefs": ["s3://open/a.tif"], "sign": "earthdata"}, "its setting signing names those"),
        ({"catalog": {"file": "s3://someone-elses/c.parquet", "assets": ["red"]}}, "sources.catalog.file"),
        ({"catalog": {"file": "s3://control/plans/c.parquet", "assets": ["red"]}}, "sources.catalog.file"),
        ({"catalog": {"file": "/etc/passwd", "assets": ["red"]}}, "sources.catalog.file"),
    ],
)
def test_catalogs_are_asked_only_where_the_deployment_says(sources: dict[str, Any], named: str) -> None:
    """Only hosts in the setting are called. A catalog may lie where lists may lie."""
    settings = Settings.from_environment(ENVIRONMENT)
    with pytest.raises(RequestError) as raised:
        check_sources(parse_sources(sources), settings)
    assert named in str(raised.value)

    hosts = {"PIXEL_GATHER_CATALOG_HOSTS": '["stac.example.org"]'}
    allowed = Settings.from_environment(dict(ENVIRONMENT) | hosts)
    check_sources(parse_sources({"stac": {"api": "https://stac.example.org/v1", "assets": ["red"]}}), allowed)


def test_no_cube_is_called_as_those_that_expire() -> None:
    """A lifecycle rule of the bucket removes cubes of such names. Only samples are gathered so."""
    mine = {"sources": ["s3://sources/a.tif"], "window": "centre", "output": {"name": f"{PREFIX}islands"}}
    samples = request_of("control", name=f"{PREFIX}20261130", report=False)

    check_places(parse_request(samples), SETTINGS)
    check_places(parse_request(mine | {"output": {"name": "canary-islands"}}), SETTINGS)
    for output in ("name", "append_to"):
        for sources in (mine["sources"], {"list": "s3://sources/list.csv"}):
            request = {"sources": sources, "window": "centre", "output": {output: f"{PREFIX}islands"}}
            with pytest.raises(RequestError, match=f"output.{output}: a cube whose name begins with"):
                check_places(parse_request(request), SETTINGS)
