"""Cubes joined on S3, on moto's server, which counts requests."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from pixel_gather import (
    BusyError,
    RequestError,
    Settings,
    StoreError,
    StoreSettings,
    gather,
    join,
    joined_versions,
    make_virtual,
    open_joined,
    presence,
    rows_where,
    verify,
)
from pixel_gather.features.join.icechunk_repository import Repository
from pixel_gather.features.join.joined_group import write_groups
from pixel_gather.in_process.places import refuse_within_cube_of_bucket
from support.counted_s3 import CountedS3, s3_with
from support.joined_cubes import gather_member

pytestmark = pytest.mark.usefixtures("without_hedges")

ROWS = (4, 5, 6)
PLACES = [f"s3://arrays/tiles/t{n}.zarr" for n in range(len(ROWS))]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedS3]:
    """A bucket with three cubes."""
    with s3_with("arrays") as server:
        settings = Settings(stores=StoreSettings(endpoint=server.endpoint), draws_report=False)
        folder = tmp_path_factory.mktemp("lists")
        for n, (place, n_rows) in enumerate(zip(PLACES, ROWS, strict=True)):
            gather_member(place, n_rows=n_rows, year=2020 + n, folder=folder, settings=settings)
        yield server


@pytest.fixture(scope="module")
def stores(s3: CountedS3) -> StoreSettings:
    """How the server is reached."""
    return StoreSettings(endpoint=s3.endpoint)


def together(s3: CountedS3) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the pixels of the cubes, one after the other."""
    return np.concatenate([opened(s3, f"tiles/t{n}.zarr").band_1.values for n in range(len(ROWS))])


def opened(s3: CountedS3, prefix: str) -> xr.Dataset:
    """Open a plain cube."""
    store = S3Store("arrays", prefix=prefix, endpoint=s3.endpoint, client_options={"allow_http": True})
    found: xr.Dataset = xr.open_zarr(ObjectStore(store, read_only=True))
    return found


@pytest.mark.long
def test_joining_takes_two_gets_a_cube_and_no_pixel(s3: CountedS3, stores: StoreSettings) -> None:
    """The rest are some requests to the repository, however many cubes there are."""
    s3.forget()

    found = join(PLACES, to="s3://arrays/all.icechunk", stores=stores)
    asked = list(s3.asked)

    to_cubes = [(method, path) for method, path in asked if "/tiles/" in path]
    wanted = [f"/arrays/tiles/t{n}.zarr/{key}" for n in range(3) for key in ("rows.parquet", "zarr.json")]
    assert sorted(to_cubes) == [("GET", path) for path in wanted]
    assert (found.n_requests, found.n_rows, found.n_shards) == (6, 15, 5)
    assert not [path for _, path in asked if "/c/" in path]
    assert len(asked) - len(to_cubes) < 40
    whole = open_joined("s3://arrays/all.icechunk", stores=stores)
    np.testing.assert_array_equal(whole.band_1.values, together(s3))
    found_rows = rows_where("s3://arrays/all.icechunk", "sat == 'B'", stores=stores)
    assert found_rows.tolist() == [1, 3, 5, 7, 9, 11, 13]
    assert presence("s3://arrays/all.icechunk", "member", stores=stores).labels[0].tolist() == PLACES


@pytest.mark.long
def test_one_more_cube_costs_as_much_as_one(s3: CountedS3, stores: StoreSettings) -> None:
    """The cubes that are joined already are not asked."""
    join(PLACES[:2], to="s3://arrays/two.icechunk", stores=stores)
    s3.forget()

    join(PLACES[2:], to="s3://arrays/two.icechunk", mode="add", stores=stores)
    asked = list(s3.asked)

    assert sorted(path for _, path in asked if "/tiles/" in path) == [
        f"/arrays/tiles/t2.zarr/{key}" for key in ("rows.parquet", "zarr.json")
    ]
    np.testing.assert_array_equal(
        open_joined("s3://arrays/two.icechunk", stores=stores).band_1.values, together(s3)
    )


@pytest.mark.long
def test_a_shard_that_was_put_again_is_named(s3: CountedS3, stores: StoreSettings) -> None:
    """S3 compares its ETag. A copy is refused before anything is copied."""
    key = "tiles/t1.zarr/band_1/c/1/0/0"
    content = s3.client.get_object(Bucket="arrays", Key=key)["Body"].read()
    join(PLACES, to="s3://arrays/later.icechunk", stores=stores)
    s3.client.put_object(Bucket="arrays", Key=key, Body=content + b" ")
    try:
        with pytest.raises(StoreError, match=rf"s3://arrays/{key}: this shard has changed .* --replace"):
            open_joined("s3://arrays/later.icechunk", stores=stores).band_1.load()
        with pytest.raises(
            StoreError, match=r"t1.zarr: it has changed since it was finished: band_1/c/1/0/0"
        ):
            join(PLACES, to="s3://arrays/copied.zarr", mode="copy", stores=stores)
    finally:
        s3.client.put_object(Bucket="arrays", Key=key, Body=content)
    assert not [each for each in s3.asked if "copied.zarr/band_1/c" in each[1]]


@pytest.mark.long
def test_a_shard_that_was_put_again_while_it_was_copied_is_named(
    s3: CountedS3, stores: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy may have bytes of both. So it is not complete, and goes on when the cube is as it was."""
    key = "tiles/t1.zarr/band_1/c/1/0/0"
    content = s3.client.get_object(Bucket="arrays", Key=key)["Body"].read()
    copy_async = obstore.copy_async

    async def put_and_copy(store: Any, source: str, target: str) -> None:
        if source == key:
            s3.client.put_object(Bucket="arrays", Key=key, Body=content + b" ")
        await copy_async(store, source, target)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(obstore, "copy_async", put_and_copy)
            with pytest.raises(StoreError, match=r"t1.zarr: it has changed .*: band_1/c/1/0/0"):
                join(PLACES, to="s3://arrays/torn.zarr", mode="copy", stores=stores)
    finally:
        s3.client.put_object(Bucket="arrays", Key=key, Body=content)

    join(PLACES, to="s3://arrays/torn.zarr", mode="copy", stores=stores)

    assert verify("s3://arrays/torn.zarr", stores=stores).differences == ()


@pytest.mark.long
def test_the_store_itself_copies_shards(s3: CountedS3, stores: StoreSettings) -> None:
    """No shard is read. The copy is a plain cube."""
    s3.forget()

    join(["s3://arrays/tiles/t?.zarr"], to="s3://arrays/copy.zarr", mode="copy", stores=stores)
    asked = list(s3.asked)

    assert {method for method, path in asked if "/c/" in path and "band_1" in path} == {"PUT"}
    copy = opened(s3, "copy.zarr")
    np.testing.assert_array_equal(copy.band_1.values[copy.presence.values == 1], together(s3))


@pytest.mark.long
def test_of_two_joins_at_once_one_fails_and_changes_nothing(s3: CountedS3, stores: StoreSettings) -> None:
    """The second commit finds that the first one was made meanwhile."""
    place = "s3://arrays/race.icechunk"
    join(PLACES[:1], to=place, stores=stores)
    late = Repository.open(place, place, stores)

    def join_late() -> None:
        with late.transaction("late", {}) as transaction:
            write_groups(transaction.store, ["lost"])
            join(PLACES[1:], to=place, mode="add", stores=stores)

    with pytest.raises(BusyError, match="others have written there meanwhile"):
        join_late()

    assert [each.number for each in joined_versions(place, stores=stores)] == [2, 1]
    np.testing.assert_array_equal(open_joined(place, stores=stores).band_1.values, together(s3))


@pytest.mark.long
def test_every_request_is_signed_as_the_settings_say(
    s3: CountedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By icechunk as by us, for the repository and for shards; not with the keys of the environment."""
    keys = "aws_access_key_id=KEY\naws_secret_access_key=s\naws_session_token=TOKEN\n"
    (tmp_path / "credentials").write_text(f"[there]\n{keys}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    by_profile = StoreSettings(endpoint=s3.endpoint, profile="there")
    place = "s3://arrays/signed.icechunk"
    s3.forget()
    join(PLACES, to=place, stores=by_profile)
    open_joined(place, stores=by_profile).band_1.load()
    signed = set(s3.signed)
    for each in s3.client.list_objects_v2(Bucket="arrays")["Contents"]:
        s3.client.put_object_acl(Bucket="arrays", Key=each["Key"], ACL="public-read")
    s3.forget()
    open_joined(place, stores=StoreSettings(endpoint=s3.endpoint, unsigned=True)).band_1.load()

    assert signed == {("KEY", "TOKEN")}
    assert s3.signed == {("", "")}


@pytest.mark.long
def test_names_with_odd_characters_are_joined(stores: StoreSettings, tmp_path: Path) -> None:
    """On S3 and on this machine, also as the folder that all cubes share."""
    settings = Settings(stores=stores, draws_report=False)
    for place in ("s3://arrays/my tiles é/a %20+b.zarr", str(tmp_path / "my tiles é/a %20+b.zarr")):
        gather_member(place, n_rows=5, folder=tmp_path, settings=settings)
        to = "s3://arrays/odd.icechunk" if place.startswith("s3") else str(tmp_path / "all of it")

        join([place], to=to, stores=stores)

        assert open_joined(to, stores=stores).band_1.load().notnull().any()


_FILE = min((Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr").glob("heat*.tif"))
_REQUEST: Mapping[str, Any] = {"sources": [str(_FILE)], "window": {"tile": [0, 0]}}


@pytest.mark.long
@pytest.mark.parametrize(
    "write",
    [
        lambda to, stores: gather(_REQUEST, to=to, settings=Settings(stores=stores)),
        lambda to, stores: make_virtual(_REQUEST, to=to, settings=Settings(stores=stores)),
        lambda to, stores: join(PLACES, to=to, stores=stores),
        lambda to, stores: join(PLACES, to=to, mode="copy", stores=stores),
    ],
    ids=["gather", "virtual", "join", "copy"],
)
def test_no_cube_is_written_into_another_one(
    write: Callable[[str, StoreSettings], Any], s3: CountedS3, stores: StoreSettings
) -> None:
    """As on this machine. Each folder above takes one GET. Nothing is written."""
    s3.asked.clear()
    for inside in ("new.zarr", "a/b/new.zarr"):
        with pytest.raises(RequestError, match=rf"^to: {PLACES[0]}/{inside} lies in the cube {PLACES[0]}: "):
            write(f"{PLACES[0]}/{inside}", stores)

    assert {method for method, _ in s3.asked} == {"GET"}


def test_a_folder_that_may_not_be_read_is_no_cube(s3: CountedS3, stores: StoreSettings) -> None:
    """Who may write below it may do so. A cube inside another one is a cube."""
    for key, content in (("odd", b'{"attributes": null}'), ("torn", b'{"attri'), ("list", b"[]")):
        s3.client.put_object(Bucket="arrays", Key=f"{key}/zarr.json", Body=content)
        asyncio.run(refuse_within_cube_of_bucket(f"s3://arrays/{key}/new.zarr", stores))
    group = {"Bucket": "arrays", "Key": "tiles/t0.zarr/inner.zarr/zarr.json"}
    s3.client.put_object(**group, Body=b'{"node_type": "group"}')
    asyncio.run(refuse_within_cube_of_bucket(f"{PLACES[0]}/inner.zarr", stores))
    s3.client.delete_object(**group)
    s3.denied = "/zarr.json"
    try:
        asyncio.run(refuse_within_cube_of_bucket(f"{PLACES[0]}/new.zarr", stores))
    finally:
        s3.denied = None


@pytest.mark.long
def test_places_that_others_could_not_read_are_refused(stores: StoreSettings, tmp_path: Path) -> None:
    """A repository on S3 does not refer to files of this machine; a copy stays in its bucket."""
    with pytest.raises(RequestError, match="choose a name of letters"):
        join(PLACES, to="s3://arrays/all of it", stores=stores)
    gather_member(tmp_path / "own.zarr", n_rows=4, folder=tmp_path)

    with pytest.raises(RequestError, match="a place on S3 can only join cubes on S3"):
        join([tmp_path / "own.zarr"], to="s3://arrays/mixed.icechunk", stores=stores)
    with pytest.raises(RequestError, match="copies shards within a bucket"):
        join(PLACES, to="s3://others/copy.zarr", mode="copy", stores=stores)
    join(PLACES, to=tmp_path / "here.icechunk", stores=stores)
    assert open_joined(tmp_path / "here.icechunk", stores=stores).sizes["time"] == sum(ROWS)
