"""Sources and cubes on Google Cloud Storage and on Azure, against servers on loopback."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import xarray as xr

from pixel_gather import index, join, ls, make_catalog, make_plan, make_virtual, verify, versions
from pixel_gather.core.errors import RequestError
from pixel_gather.features.view.view import serving_cube
from support.cloud_store import Cloud, CloudStore, serving, variables
from support.command_line import run
from support.local_server import in_thread
from support.undrawn import bare, gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))


@dataclass(frozen=True)
class There:
    """A store of one kind, with sources in a bucket of that name and an empty bucket for cubes."""

    scheme: Cloud
    store: CloudStore

    def at(self, path: str) -> str:
        """Return the address of ``bucket/key``."""
        return f"{self.scheme}://{path}"


@pytest.fixture(params=["gs", "az"])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    """A store that answers well, found by the variables of its cloud."""
    objects = {f"sources/heat/{file.name}": file.read_bytes() for file in FILES}
    store = CloudStore(objects)
    with serving(store, request.param) as endpoint:
        for name, value in variables(request.param, endpoint).items():
            monkeypatch.setenv(name, value)
        yield There(request.param, store)


def test_ls_names_what_lies_below_a_prefix(there: There, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern chooses, and the addresses have the scheme of the prefix."""
    there.store.objects["sources/heat/notes 1%20.txt"] = b"x"

    code = run("ls", there.at("sources/heat/"), "--glob", "*.tif")

    assert code == 0
    assert capsys.readouterr().out.split() == [there.at(f"sources/heat/{file.name}") for file in FILES]
    assert [each.href for each in ls(there.at("sources/"), glob="**/*.txt")] == [
        there.at("sources/heat/notes 1%20.txt")
    ]


@pytest.mark.long
def test_cube_grows_there_and_equals_that_of_local_files(there: There, tmp_path: Path) -> None:
    """Gathered from a list, appended from a prefix, compacted, verified and served: all in the same store."""
    hrefs = [there.at(f"sources/heat/{file.name}") for file in FILES]
    there.store.objects["sources/lists/some.txt"] = "\n".join(hrefs[:3]).encode()
    cube = there.at("cubes/a/heat.zarr")
    local = gather_undrawn({"sources": [*map(str, FILES)], "window": "centre"}, to=tmp_path / "cube")

    gather_undrawn({"sources": {"list": there.at("sources/lists/some.txt")}, "window": "centre"}, to=cube)
    appended = gather_undrawn(
        {
            "sources": {"prefix": there.at("sources/heat"), "glob": "*.tif"},
            "window": "centre",
            "output": {"append_to": cube},
        }
    )
    found = verify(cube)

    assert not found.differences
    opened = appended.open()
    xr.testing.assert_equal(bare(opened), bare(local.open()))
    assert opened.href.values.tolist() == hrefs
    assert [each.number for each in versions(cube)] == [1, 2]
    with serving_cube(cube) as server, in_thread(server):
        address = server.url.replace("view.html", "zarr.json")
        with urlopen(address) as answer:  # noqa: S310 # our own server
            assert answer.read() == there.store.objects["cubes/a/heat.zarr/zarr.json"]


def test_plan_says_that_prices_of_that_cloud_are_not_known(there: There) -> None:
    """The dollars are those of AWS, whose workers do not read there."""
    sources = {"prefix": there.at("sources/heat"), "glob": "*.tif"}

    (warning,) = [
        each for each in make_plan({"sources": sources, "window": "centre"}).warnings if "cloud" in each
    ]

    assert warning.startswith(f"sources such as {there.at('sources/heat/')}")
    assert "What that cloud charges for requests and transfer is not known here" in warning


def test_places_on_web_servers_are_refused_by_the_address_to_write() -> None:
    """A browser's address of a container says which one is meant."""
    with pytest.raises(RequestError, match=r"^to: nothing is written to web servers; write abfs://c@acc.dfs"):
        gather_undrawn({"sources": ["a.tif"], "window": "centre"}, to="https://acc.blob.core.windows.net/c/x")


@pytest.mark.long
def test_headers_and_scenes_are_kept_there_and_used(there: There, tmp_path: Path) -> None:
    """A header index and a catalog, made from a prefix, written beside it and read again."""
    prefix = {"prefix": there.at("sources/heat"), "glob": "*.tif"}
    headers, scenes = there.at("cubes/headers.parquet"), there.at("cubes/scenes.parquet")

    indexed = index(prefix, to=headers)
    lines = [f"{there.at(f'sources/heat/{file.name}')},2021-01-0{n}" for n, file in enumerate(FILES, 1)]
    there.store.objects["sources/times.csv"] = "\n".join(["href,time", *lines]).encode()
    made = make_catalog({"list": there.at("sources/times.csv")}, kind="sources", to=scenes)
    added = make_catalog(scenes, kind="items_file", to=scenes, add=True)
    by_index = gather_undrawn({"sources": prefix, "window": "centre", "index": headers}, to=tmp_path / "a")
    catalog = {"file": scenes, "assets": ["data"], "area": "all"}
    by_catalog = gather_undrawn({"sources": {"catalog": catalog}, "window": "centre"}, to=tmp_path / "b")

    assert indexed.n_indexed == made.n_scenes == added.n_scenes == len(FILES)
    assert by_index.report.requests == len(FILES)
    assert by_catalog.report.status_counts == {"ok": len(FILES)}


def test_joined_cubes_are_not_written_there(there: There) -> None:
    """The field of the request is named, and nothing is written."""
    with pytest.raises(RequestError, match=r"^to: .*joined and virtual cubes lie on S3 or in local folders"):
        make_virtual(
            {"sources": {"prefix": there.at("sources/heat")}, "window": "centre"}, to=there.at("cubes/v")
        )
    with pytest.raises(RequestError, match=r"^cubes: .*:// is not read here; write one of file, s3"):
        join([there.at("cubes/a.zarr"), there.at("cubes/b.zarr")], to=there.at("cubes/joined"))
