"""Sources on S3 and the cube on S3, against moto's server."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from pixel_gather import Settings, verify
from pixel_gather.features.view.view import serving_cube
from pixel_gather.io.store.store_settings import StoreSettings
from support.command_line import run
from support.counted_s3 import CountedS3, s3_with
from support.local_server import in_thread
from support.undrawn import bare, gather_undrawn

pytestmark = pytest.mark.usefixtures("without_hedges")

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))


@pytest.fixture
def s3() -> Iterator[CountedS3]:
    """An S3 server with a bucket of sources and an empty bucket."""
    with s3_with("sources", "cubes") as server:
        for file in FILES:
            server.client.upload_file(str(file), "sources", f"heat/{file.name}")
        yield server


@pytest.fixture
def endpoint(s3: CountedS3) -> str:
    """The address of the server."""
    return s3.endpoint


def test_cube_on_s3_is_served_by_ranges(s3: CountedS3) -> None:
    """The server of the page reads with the user's credentials: starts, ends, and what is missing."""
    content = bytes(range(200))
    s3.client.put_object(Bucket="cubes", Key="some/where.zarr/zarr.json", Body=b"{}")
    for key in ("some/where.zarr/band_1/c/0", "some/other"):
        s3.client.put_object(Bucket="cubes", Key=key, Body=content)
    stores = StoreSettings(endpoint=s3.endpoint)

    with serving_cube("s3://cubes/some/where.zarr", stores=stores) as server, in_thread(server):
        folder = server.url.removesuffix("view.html")

        def ask(key: str, wanted: str) -> bytes:
            with urlopen(Request(f"{folder}{key}", headers={"Range": wanted})) as answer:  # noqa: S310 # our own server
                return bytes(answer.read())

        assert ask("band_1/c/0", "bytes=-20") == content[-20:]
        assert ask("band_1/c/0", "bytes=5-9") == content[5:10]
        for key in ("band_1/c/1", "../other", "%2e%2e/other"):
            with pytest.raises(HTTPError, match="404"):
                ask(key, "bytes=-20")


@pytest.mark.long
def test_gather_from_s3_to_s3_equals_the_one_on_files(endpoint: str, tmp_path: Path) -> None:
    """Digest and cube do not depend on where they lie. Each shard is one object."""
    settings = Settings(stores=StoreSettings(endpoint=endpoint))
    local = gather_undrawn(
        {"sources": [str(file) for file in FILES], "window": "centre"}, to=tmp_path / "cube"
    )

    remote = gather_undrawn(
        {"sources": {"prefix": "s3://sources/heat", "glob": "*.tif"}, "window": "centre"},
        to="s3://cubes/some/where.zarr",
        settings=settings,
    )

    assert remote.report.digest == local.report.digest
    assert remote.report.requests == 2 * len(FILES)
    store = S3Store("cubes", prefix="some/where.zarr", endpoint=endpoint, client_options={"allow_http": True})
    cube = xr.open_zarr(ObjectStore(store, read_only=True))
    xr.testing.assert_equal(bare(cube), bare(xr.open_zarr(tmp_path / "cube")))
    xr.testing.assert_equal(bare(remote.open()), bare(cube))
    assert cube.href.values.tolist() == [f"s3://sources/heat/{file.name}" for file in FILES]
    keys = [item["path"] for page in store.list() for item in page]
    assert [key for key in keys if key.startswith("band_1/c/")] == ["band_1/c/0/0/0"]
    assert not [key for key in keys if key.startswith(".gather")]
    verified = verify("s3://cubes/some/where.zarr", stores=settings.stores)
    assert (verified.n_compared, verified.differences) == (1, ())


@pytest.mark.long
def test_missing_key_on_s3_is_one_missing_row(endpoint: str, tmp_path: Path) -> None:
    """The other rows are read."""
    hrefs = [*(f"s3://sources/heat/{file.name}" for file in FILES), "s3://sources/heat/gone.tif"]

    gathered = gather_undrawn(
        {"sources": hrefs, "window": "centre"},
        to=tmp_path / "cube",
        settings=Settings(stores=StoreSettings(endpoint=endpoint)),
    )

    assert gathered.report.status_counts == {"ok": len(FILES), "missing": 1}


@pytest.mark.long
def test_the_command_reaches_another_endpoint(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``ls`` and ``run`` use another endpoint by their options."""
    listed = run("ls", "s3://sources/", "--regex", "heat/.*tif$", "--endpoint", endpoint)
    hrefs = tmp_path / "list.txt"
    hrefs.write_text(capsys.readouterr().out)
    options = ["--sources", str(hrefs), "--tile", "0,0", "--to", "s3://cubes/b", "--endpoint", endpoint]
    ran = run("run", *options, "--no-report", "--json")

    assert (listed, ran) == (0, 0)
    assert json.loads(capsys.readouterr().out)["cube"] == "s3://cubes/b"


@pytest.mark.long
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_an_endpoint_in_the_environment_is_as_good_as_the_option(
    endpoint: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more specific variable overrides the others. Plain http works for reading and writing."""
    hrefs = [f"s3://sources/heat/{file.name}" for file in FILES]
    for other in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(other, "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ENDPOINT_URL") if variable == "AWS_ENDPOINT" else None
    monkeypatch.setenv(variable, endpoint)

    gathered = gather_undrawn({"sources": hrefs, "window": {"tile": [0, 0]}}, to="s3://cubes/by-environment")

    assert gathered.report.n_failed == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--sources", "HERE", "--tile", "0,0", "--to", "s3://no-such-bucket/b"],
        ["run", "--sources", "s3://no-such-bucket/list.txt", "--tile", "0,0", "--to", "OUT/cube"],
        ["plan", "--sources", "THERE", "--tile", "0,0"],
        ["plan", "--prefix", "s3://no-such-bucket/", "--tile", "0,0"],
        ["ls", "s3://no-such-bucket/heat/"],
        ["index", "HERE", "--to", "s3://no-such-bucket/headers.parquet"],
        ["report", "s3://no-such-bucket/cube.zarr", "--to", "OUT/report"],
        ["export", "s3://no-such-bucket/cube.zarr", "--to", "OUT/rows.csv"],
        ["presence", "s3://no-such-bucket/cube.zarr", "--by", "day"],
        ["view", "s3://no-such-bucket/cube.zarr"],
        ["verify", "s3://no-such-bucket/cube.zarr"],
        ["replay", "s3://no-such-bucket/cube.zarr"],
        ["versions", "s3://no-such-bucket/cube.zarr"],
        ["compact", "s3://no-such-bucket/cube.zarr"],
        ["retry", "s3://no-such-bucket/cube.zarr"],
        ["search", "--catalog", "s3://no-such-bucket/cat.parquet", "--point", "11,46"],
        ["plan", "--catalog", "s3://no-such-bucket/cat.parquet", "--assets", "red", "--point", "11,46"],
        ["join", "s3://no-such-bucket/cube.zarr", "--to", "OUT/joined"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_a_bucket_that_is_not_there_is_refused_in_one_sentence(
    arguments: list[str], endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and nothing is left to clean up."""
    here, there = tmp_path / "here.txt", tmp_path / "there.txt"
    here.write_text(f"{FILES[0]}\n")
    there.write_text("s3://no-such-bucket/a.tif\n")
    before = sorted(tmp_path.iterdir())
    given = {"HERE": str(here), "THERE": str(there)}
    words = [given.get(word, word.replace("OUT", str(tmp_path))) for word in arguments]

    assert run(*words, "--endpoint", endpoint) == 2
    assert "there is no such bucket: check its name" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
