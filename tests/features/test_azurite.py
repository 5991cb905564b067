"""Sources and cubes on Microsoft's own emulator of Azure: a judge of what our server of blobs answers."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import obstore
import pytest
import xarray as xr

from pixel_gather import RequestError, Settings, StoreError, StoreSettings, ls, verify, versions
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.conditional_put import etag_of, put_if
from pixel_gather.io.store.listed import listed
from pixel_gather.io.store.object_store import open_place
from support.azurite import ACCOUNT, KEY, azurite, create_container
from support.undrawn import gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

FILES = sorted(
    (Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr").glob("heat_content_anomaly_0*.tif")
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Azurite with a public container of sources and a private one for cubes."""
    with azurite() as address:
        create_container(address, "sources", is_public=True)
        create_container(address, "cubes")
        yield address


@pytest.fixture(autouse=True)
def credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account's key."""
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    store = open_place("az://sources", StoreSettings())
    for file in FILES:
        obstore.put(store, f"heat/{file.name}", file)


def test_cube_grows_on_azurite(tmp_path: Path) -> None:
    """Gathered, appended to, verified: as on files."""
    local = gather_undrawn({"sources": [*map(str, FILES)], "window": "centre"}, to=tmp_path / "cube")
    cube = "az://cubes/a/heat.zarr"

    first = [f"az://sources/heat/{file.name}" for file in FILES[:2]]
    gather_undrawn({"sources": first, "window": "centre"}, to=cube)
    prefix = {"prefix": f"abfss://sources@{ACCOUNT}.dfs.core.windows.net/heat/"}
    others = [each.href for each in ls(prefix["prefix"])][2:]
    grown = gather_undrawn({"sources": others, "window": "centre", "output": {"append_to": cube}})

    assert len(others) == len(FILES) - 2
    assert not verify(cube).differences
    assert [each.number for each in versions(cube)] == [1, 2]
    xr.testing.assert_equal(_bare(grown.open()), _bare(local.open()))


def test_conditions_hold_on_azurite() -> None:
    """Only the version that was seen is replaced. ETags of lists are those of answers."""
    store = open_place("az://cubes/conditions", StoreSettings())

    def put(content: bytes, etag: str | None) -> str | None:
        return run(put_if(store, "key", content, etag=etag, failed=lambda error: StoreError(str(error))))

    first = put(b"1", None)
    assert put(b"other", None) is None
    second = put(b"2", first)
    assert put(b"3", first) is None
    assert [meta["e_tag"] for meta in listed(store, "")] == [second] == [run(etag_of(store, "key"))]


def test_public_container_needs_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A private one and one that is not there are refused in words."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    unsigned = StoreSettings(unsigned=True)
    names = [f"az://sources/heat/{file.name}" for file in FILES]

    gathered = gather_undrawn(
        {"sources": names, "window": "centre"}, to=tmp_path / "cube", settings=Settings(stores=unsigned)
    )

    assert gathered.report.status_counts == {"ok": len(FILES)}
    with pytest.raises(RequestError, match="cannot be listed: the store refused"):
        list(ls("az://cubes/", stores=unsigned))


def test_containers_that_are_not_there_are_named() -> None:
    """In lists of a prefix and where a cube is to be written."""
    with pytest.raises(RequestError, match="az://nowhere/x/ cannot be listed: there is no such bucket"):
        list(ls("az://nowhere/x/"))
    with pytest.raises(StoreError, match="there is no such bucket"):
        gather_undrawn({"sources": [str(FILES[0])], "window": "centre"}, to="az://nowhere/cube.zarr")


def test_azurite_ends_with_its_context() -> None:
    """The command starts another process, which must not outlive the tests."""
    with azurite() as address:
        pass

    with pytest.raises(URLError, match="refused"):
        urlopen(address)  # noqa: S310 # our own server


def _bare(cube: xr.Dataset) -> xr.DataArray:
    bare: xr.DataArray = cube.band_1.drop_vars(list(cube.band_1.coords))
    return bare
