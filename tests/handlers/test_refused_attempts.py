"""Requests that try to reach what only the account can, or to run code: refused before any network call."""

import socket
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pytest
from aws_lambda_powertools import Logger

from handlers.api.control_plane import ControlPlane
from handlers.deployment.settings import Settings
from handlers.rank import rank_request
from pixel_gather.core.errors import RequestError
from support.api_bridge import told
from support.lambda_functions import ENVIRONMENT, cold_start

SETTINGS: Final = Settings.from_environment(
    {
        **ENVIRONMENT,
        "PIXEL_GATHER_HTTPS_HOSTS": '["data.example.org"]',
        "PIXEL_GATHER_CATALOG": "s3://sources/catalog.parquet",
    }
)

ADDRESSES: Final = (
    # instance metadata and other credentials of the account
    "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    "https://169.254.169.254/latest/meta-data/x.tif",
    "https://[fd00:ec2::254]/latest/x.tif",
    "https://[::ffff:169.254.169.254]/x.tif",
    "https://2852039166/x.tif",
    "https://0xa9fea9fe/x.tif",
    "https://0251.0376.0251.0376/x.tif",
    "http://169.254.170.2/v2/credentials/x",
    "https://metadata.google.internal/x.tif",
    # this machine and its network
    "https://localhost/x.tif",
    "https://127.0.0.1/x.tif",
    "https://127.1/x.tif",
    "https://[::1]/x.tif",
    "https://0.0.0.0/x.tif",
    "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next",
    "https://10.0.0.1/x.tif",
    "https://192.168.0.1/x.tif",
    # an allowed name in another's address
    "https://data.example.org@evil.org/x.tif",
    "https://data.example.org:x@evil.org/x.tif",
    "https://data.example.org.evil.org/x.tif",
    "https://evil.org/data.example.org/x.tif",
    "https://evil.org#data.example.org/x.tif",
    "https://evil.org\\@data.example.org/x.tif",
    "https://data.example.org%2eevil.org/x.tif",
    "https://data.example.org%00.evil.org/x.tif",
    "https://data.example.org\u3002evil.org/x.tif",
    "https://data.example.or\uff47/x.tif",
    "https://data.example.org:22/x.tif",
    "https://data.example.org:443@evil.org/x.tif",
    "https://data.example.org./x.tif",
    "http://data.example.org/x.tif",
    "//data.example.org/x.tif",
    "https:data.example.org/x.tif",
    "https:///data.example.org/x.tif",
    "https://data.example.org/x.tif?url=http://169.254.169.254/",
    "https://data.example.org/x.tif\r\nHost: evil.org",
    "https://data.example.org/a/../../x.tif",
    "https://data.example.org/%2e%2e/x.tif",
    # other buckets and other spellings of them
    "s3://other/x.tif",
    "s3://sources.evil/x.tif",
    "s3://sources@evil/x.tif",
    "s3://sources:80/x.tif",
    "s3://SOURCES/x.tif",
    "s3://arn:aws:s3:us-east-1:123456789012:accesspoint/x/y.tif",
    "s3://control/plan.msgpack",
    "s3://control/lists/../plan.msgpack",
    "s3://cubes/out/other.zarr/zarr.json",
    "s3a://sources/x.tif",
    "s3://sources/a/../../other/x.tif",
    "https://sources.s3.amazonaws.com/x.tif",
    # files of this machine
    "/etc/passwd",
    "/proc/self/environ",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "../../etc/passwd",
    "~/.aws/credentials",
    "C:\\Windows\\win.ini",
    "-",
    # GDAL's own paths, and formats that name other files
    "/vsicurl/http://169.254.169.254/",
    "/vsis3/other/x.tif",
    "/vsizip//vsicurl/https://evil.org/x.zip/x.tif",
    "/vsistdin/",
    "/vsimem/x.tif",
    "vrt:///vsicurl/http://169.254.169.254/",
    "<VRTDataset><SourceFilename>/etc/passwd</SourceFilename></VRTDataset>",
    "WMS:http://169.254.169.254/",
    "HDF5:/etc/passwd",
    'NETCDF:"/etc/passwd":x',
    "GTIFF_DIR:1:/etc/passwd",
    "PG:host=169.254.169.254",
    # other schemes
    "ftp://data.example.org/x.tif",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:11211/stats",
    "gs://bucket/x.tif",
    "data:image/tiff;base64,SUkqAA==",
    "jar:https://evil.org/x.jar!/x.tif",
    "javascript:alert(1)",
)
"""Each is tried as a source, as a list, as a catalog and as a header index."""

APIS: Final = (
    "http://169.254.169.254/stac",
    "https://evil.org/stac",
    "https://localhost/stac",
    "https://planetarycomputer.microsoft.com.evil.org/api/stac/v1",
    "https://planetarycomputer.microsoft.com@evil.org/api/stac/v1",
    "file:///etc/passwd",
    "https://evil.org/stac?token=x",
)
"""The deployment of these tests asks no STAC API at all."""

CODE: Final = (
    "__import__('os').system('id')",
    "red.__class__.__mro__[1].__subclasses__()",
    "(lambda: red)()",
    "red if nir else red",
    "red; import os",
    "red\nimport os",
    "[red for _ in ()]",
    "f'{red}'",
    "red := 1",
    "red ** 9 ** 9 ** 9",
    "eval('red')",
    "red`id`",
    "${red}",
    "{{red}}",
    "red' OR '1'='1",
    "(" * 200 + "red" + ")" * 200,
)
"""Each is tried as the expression of a ranking."""

NAMES: Final = (
    "../other",
    "a/b",
    "/etc",
    "..",
    "a\x00b",
    "a b",
    "s3://other/cube",
    "x" * 61,
    "a;b",
    "$(id)",
    "",
)
"""Each is tried as the name of a cube, and as the cube that is appended to."""


class Reached(AssertionError):  # noqa: N818 # what a test must not see
    """The network was asked."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no socket connect, and no name be looked up."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise Reached

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@dataclass
class NoExecutions:
    """Starts nothing."""

    links_from: str = ""

    def submit(self, *_: Any, **__: Any) -> NoReturn:
        """Tell that a gather would have been started."""
        raise Reached


@pytest.fixture(scope="module")
def submit() -> Any:
    """The function behind POST /gathers, started once."""
    with pytest.MonkeyPatch.context() as patched, cold_start(patched, "submit") as module:
        executions: Any = NoExecutions()
        plane = ControlPlane(settings=SETTINGS, executions=executions, s3=None)
        yield module.app_of(plane, Logger(service="attempts"))


def _is_refused(app: Any, request: Any) -> bool:
    code, problem = told(app, "POST", "/gathers", request)
    return (code, problem["type"]) == (422, "urn:pixel-gather:problem:request_error")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_another_is_refused_wherever_it_stands(submit: Any, address: str) -> None:
    """It is refused as a source, a list, a catalog, items, a table of chips and a header index."""
    scenes = {"assets": ["red"], "area": "all"}
    window = {"window": "centre"}
    sound = {"sources": ["s3://sources/a.tif"], **window}

    assert _is_refused(submit, {"sources": [address], **window})
    assert _is_refused(submit, {"sources": {"list": address}, **window})
    assert _is_refused(submit, {"sources": {"catalog": {"file": address, **scenes}}, **window})
    assert _is_refused(submit, {"sources": {"stac": {"items": address, **scenes}}, **window})
    chips = {"sources": ["s3://sources/a.tif"], "windows": {"table": address, "size": [8, 8]}}
    assert _is_refused(submit, chips)
    if address != "s3://cubes/out/other.zarr/zarr.json":
        assert _is_refused(submit, sound | {"index": address})
    with pytest.raises(RequestError):
        rank_request.admit_ranking({"scenes": {"catalog": address}, "by": "red"}, SETTINGS)


@pytest.mark.parametrize("address", APIS)
def test_a_catalog_that_is_not_of_the_settings_is_refused(submit: Any, address: str) -> None:
    """The settings name the hosts of STAC APIs."""
    scenes = {"assets": ["red"], "area": "all"}

    assert _is_refused(submit, {"sources": {"stac": {"api": address, **scenes}}, "window": "centre"})


@pytest.mark.parametrize("text", CODE)
def test_an_expression_runs_no_code(text: str) -> None:
    """Expressions have a grammar of their own, in which none of these can be written."""
    with pytest.raises(RequestError):
        rank_request.admit_ranking({"scenes": {"catalog": "s3://sources/c.parquet"}, "by": text}, SETTINGS)


@pytest.mark.parametrize("name", NAMES)
def test_a_cube_is_named_and_not_placed(submit: Any, name: str) -> None:
    """No name leads out of the folder of cubes."""
    sound = {"sources": ["s3://sources/a.tif"], "window": "centre"}

    assert _is_refused(submit, sound | {"output": {"name": name}})
    assert _is_refused(submit, sound | {"output": {"append_to": name}})


def test_a_sound_request_gets_as_far_as_its_start(submit: Any) -> None:
    """So the refusals above are due to what they try."""
    sources = {"sources": ["s3://sources/a.tif"]}
    chips = {"windows": {"table": "s3://sources/chips.csv", "size": [8, 8]}}

    for window in ({"window": "centre"}, chips):
        code, problem = told(submit, "POST", "/gathers", sources | window)
        assert code == 500
    assert problem["type"].endswith("internal_error")
