"""Sources and cubes on Microsoft's own emulator of Azure: a judge of what our server of blobs answers."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import obstore
import pytest
import xarray as xr

from pixel_gather import RequestError, Settings, StoreError, StoreSettings, ls, verify, versions
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.conditional_put import etag_of, put_if
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import open_place
from support.azurite import ACCOUNT, KEY, azurite, create_container, sas_token
from support.undrawn import bare, gather_undrawn

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


@pytest.mark.long
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
    xr.testing.assert_equal(bare(grown.open()), bare(local.open()))


@pytest.mark.long
def test_adlfs_reads_a_cube(endpoint: str, tmp_path: Path) -> None:
    """In an environment of its own. It is what xarray and Dask read Azure by."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH: source scripts/setup.sh"
    cube = "az://cubes/by-others/heat.zarr"
    gathered = gather_undrawn({"sources": [*map(str, FILES)], "window": "centre"}, to=cube)
    settings = {"AccountName": ACCOUNT, "AccountKey": KEY, "BlobEndpoint": endpoint}
    named = ";".join(f"{name}={value}" for name, value in settings.items())
    script = f"""
import numpy as np
import xarray as xr

options = {{"connection_string": "DefaultEndpointsProtocol=http;{named}"}}
with xr.open_zarr("abfs://cubes/by-others/heat.zarr", storage_options=options) as cube:
    np.save("pixels.npy", cube.band_1.values)
"""
    packages = ("adlfs==2026.8.0", "xarray==2026.9.0", "zarr==3.4.2")
    options = [part for each in packages for part in ("--with", each)]
    command = [
        uv,
        "run",
        "--quiet",
        "--no-project",
        "--python",
        sys.executable,
        *options,
        "python",
        "-c",
        script,
    ]
    subprocess.run(command, check=True, cwd=tmp_path)  # noqa: S603 # our own words

    np.testing.assert_array_equal(np.load(tmp_path / "pixels.npy"), gathered.open().band_1.values)


@pytest.mark.long
def test_conditions_hold_on_azurite() -> None:
    """Only the version that was seen is replaced. ETags of lists are those of answers."""
    store = open_place("az://cubes/conditions", StoreSettings())

    def put(content: bytes, etag: str | None) -> str | None:
        return run(put_if(store, "key", content, etag=etag, what="not written"))

    first = put(b"1", None)
    assert put(b"other", None) is None
    second = put(b"2", first)
    assert put(b"3", first) is None
    assert [meta["e_tag"] for meta in list_objects(store, "")] == [second] == [run(etag_of(store, "key"))]


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


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources in the private container, which nobody reads without a token."""
    store = open_place("az://cubes", StoreSettings())
    for file in FILES:
        obstore.put(store, f"private/{file.name}", file)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    return [f"az://cubes/private/{file.name}" for file in FILES]


@pytest.mark.long
@pytest.mark.parametrize("begins", ["", "?"], ids=["bare", "as the portal shows it"])
def test_token_that_may_read_reads_and_writes_nothing(
    private: list[str], begins: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A container's service SAS, signed by the account's key. A prefix is listed by it, too."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", begins + sas_token("cubes", "rl"))

    gathered = gather_undrawn({"sources": private, "window": "centre"}, to=tmp_path / "cube")

    assert gathered.report.status_counts == {"ok": len(FILES)}
    assert [each.href for each in ls("az://cubes/private/")] == private
    with pytest.raises(StoreError, match="could not be written: the store refused"):
        gather_undrawn({"sources": private, "window": "centre"}, to="az://cubes/by-reader/cube.zarr")
    store = open_place("az://cubes/by-reader", StoreSettings())
    assert list(list_objects(store, "")) == []


@pytest.mark.long
def test_token_that_may_write_gathers_a_cube_that_grows(
    private: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read, add, create, write, delete and list are what a gather needs."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", sas_token("cubes", "racwdl"))
    cube = "az://cubes/by-writer/cube.zarr"

    gather_undrawn({"sources": private[:2], "window": "centre"}, to=cube)
    grown = gather_undrawn({"sources": private[2:], "window": "centre", "output": {"append_to": cube}})

    assert grown.n_appended == len(FILES) - 2
    assert verify(cube).differences == ()
    assert "sig=" not in repr(open_place(cube, StoreSettings()))


def test_token_that_the_account_has_not_signed_is_refused(
    private: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message does not repeat it."""
    token = sas_token("cubes", "rl").replace("sp=rl", "sp=racwdl")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)

    with pytest.raises(RequestError, match="refused") as refused:
        gather_undrawn({"sources": private, "window": "centre"}, to=tmp_path / "cube")

    assert "sig" not in str(refused.value)


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
