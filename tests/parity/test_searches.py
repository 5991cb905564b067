"""Searches of one catalog by ours and by others: the same scenes, for boxes and times all over the Earth.

Shapely looks at every scene. DuckDB, GeoPandas and rustac are of the dependency group ``stac-tools``. pgstac
needs PostgreSQL 15 with PostGIS as well:

    apt-get install postgresql-15-postgis-3
    uv run --group stac-tools --with 'pypgstac[psycopg]' pytest tests/parity/test_searches.py
"""

import asyncio
import csv
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import shapely
from shapely.geometry import shape

from pixel_gather.core.time_range import parse_period
from pixel_gather.features.catalog.catalog import make_catalog
from pixel_gather.io.scenes.search_own_catalog import open_catalog
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings
from support.dependency_groups import module_of_group
from support.earth import N_SCENES, Asked, areas, scenes

N_BY_SHAPELY: Final = 300
N_BY_DUCKDB: Final = 10_000
N_BY_PGSTAC: Final = 1_000
_POSTGRESQL: Final = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
_POSTGIS: Final = sorted(Path("/usr/share/postgresql").glob("*/extension/postgis.control"))

type Ids = list[set[str]]


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    """The scenes."""
    return scenes()


@pytest.fixture(scope="module")
def catalog(items: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of them."""
    place = tmp_path_factory.mktemp("earth") / "catalog.parquet"
    make_catalog(items, to=place)
    return place


def ours(catalog: Path, asked: list[Asked], *, most_in_memory: int = N_SCENES) -> Ids:
    """Return the ids that our search finds for each area."""

    async def searched() -> Ids:
        store = open_place(f"file://{catalog.parent}", StoreSettings())
        opened = await open_catalog(store, catalog.name, most_in_memory=most_in_memory)
        found = []
        for each in asked:
            ids = [item["id"] async for _, item in opened.scenes(each.query)]
            assert len(ids) == len(set(ids))
            found.append(set(ids))
        return found

    return asyncio.run(searched())


def compare(found: Ids, expected: Ids, asked: list[Asked]) -> None:
    """Assert that every area has the same scenes, and that most areas have some."""
    differing = [
        (each, mine - theirs, theirs - mine)
        for each, mine, theirs in zip(asked, found, expected, strict=True)
        if mine != theirs
    ]
    assert not differing, f"{len(differing)} of {len(asked)} differ; the first: {differing[0]}"
    assert sum(bool(each) for each in found) > len(found) / 3


@pytest.mark.long
@pytest.mark.parametrize("most_in_memory", [N_SCENES, 0], ids=["in memory", "by ranges"])
def test_a_look_at_every_scene_finds_the_same(
    catalog: Path, items: list[dict[str, Any]], most_in_memory: int
) -> None:
    """Footprints and areas are cut at the antimeridian; shapely compares them on a flat map."""
    asked = list(areas(N_BY_SHAPELY))
    footprints = np.array([shape(each["geometry"]) for each in items])
    times = np.array([parse_period(each["properties"]["datetime"]).start_us for each in items])
    ids = np.array([each["id"] for each in items])
    expected = []
    for each in asked:
        holds = shapely.intersects(footprints, each.shape)
        holds &= (times >= each.start_us) & (times <= each.stop_us)
        expected.append(set(ids[holds].tolist()))

    compare(ours(catalog, asked, most_in_memory=most_in_memory), expected, asked)


@pytest.mark.long
def test_duckdb_finds_the_same(catalog: Path, tmp_path: Path) -> None:
    """Its spatial extension searches the Parquet file for 10,000 boxes and times."""
    duckdb = module_of_group("duckdb", "stac-tools")
    package = find_spec("duckdb_extension_spatial")
    if package is None or package.origin is None:
        pytest.skip("the dependency group stac-tools is not installed")
    asked = list(areas(N_BY_DUCKDB))
    with (tmp_path / "areas.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("n", "wkt", "start_us", "stop_us"))
        for n, each in enumerate(asked):
            writer.writerow(
                (n, shapely.to_wkt(each.shape, rounding_precision=-1), each.start_us, each.stop_us)
            )
    (extension,) = Path(package.origin).parent.glob("extensions/v*/spatial.duckdb_extension")
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    database.load_extension(str(extension))

    rows = database.execute(
        """
        SELECT areas.n, scenes.id
        FROM read_parquet(?) AS scenes
        JOIN (SELECT n, ST_GeomFromText(wkt) AS shape, start_us, stop_us FROM read_csv(?)) AS areas
        ON ST_Intersects(scenes.geometry, areas.shape)
        WHERE epoch_us(scenes.datetime) BETWEEN areas.start_us AND areas.stop_us
        """,
        [str(catalog), str(tmp_path / "areas.csv")],
    ).fetchall()

    expected: Ids = [set() for _ in asked]
    for n, id_ in rows:
        expected[n].add(id_)
    compare(ours(catalog, asked), expected, asked)


@pytest.mark.long
def test_others_open_the_catalogs_file(catalog: Path, items: list[dict[str, Any]]) -> None:
    """DuckDB, GeoPandas and rustac read every scene, its place and its time."""
    duckdb = module_of_group("duckdb", "stac-tools")
    geopandas = module_of_group("geopandas", "stac-tools")
    rustac = module_of_group("rustac", "stac-tools")
    by_id = {each["id"]: each for each in items}

    columns = "SELECT id, bbox.xmin, epoch_us(datetime) FROM read_parquet(?)"
    rows = duckdb.execute(columns, [str(catalog)]).fetchall()
    frame = geopandas.read_parquet(catalog)

    async def by_rustac() -> Any:
        return await rustac.read(str(catalog))

    read = asyncio.run(by_rustac())

    assert {id_: (west, us) for id_, west, us in rows} == {
        id_: (each["bbox"][0], parse_period(each["properties"]["datetime"]).start_us)
        for id_, each in by_id.items()
    }
    assert frame.crs.to_epsg() in (4326, None) or frame.crs.to_string() == "OGC:CRS84"
    assert all(
        shape(by_id[id_]["geometry"]).equals(found)
        for id_, found in zip(frame.id, frame.geometry, strict=True)
    )
    assert {each["id"]: each["assets"]["red"]["href"] for each in read["features"]} == {
        id_: each["assets"]["red"]["href"] for id_, each in by_id.items()
    }


@pytest.fixture
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL of its own, without a network; gives its folder, which is the host to connect to."""
    if not _POSTGRESQL or not _POSTGIS:
        pytest.skip("needs PostgreSQL with PostGIS")
    binaries = _POSTGRESQL[-1]
    folder = Path(tempfile.mkdtemp(prefix="pixel-gather-pg-"))
    # PostgreSQL refuses to run as root
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    shutil.chown(folder, user)

    def run(*command: str | Path) -> None:
        subprocess.run(  # noqa: S603 # our own words
            [str(each) for each in command], user=user, cwd=folder, check=True, capture_output=True
        )

    data = folder / "data"
    run(binaries / "initdb", "-D", data, "-U", "pgstac", "--auth=trust", "-E", "UTF8", "--no-sync")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    run(binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield str(folder)
    finally:
        run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def test_pgstac_finds_the_same(
    catalog: Path, items: list[dict[str, Any]], postgresql: str, tmp_path: Path
) -> None:
    """The reference server's search, for 1,000 boxes and times.

    Areas that cross the antimeridian, points and lines are given as shapes.
    """
    database = pytest.importorskip("pypgstac.db")
    loading = pytest.importorskip("pypgstac.load")
    migrating = pytest.importorskip("pypgstac.migrate")
    asked = list(areas(N_BY_PGSTAC))
    collection = {
        "type": "Collection",
        "stac_version": "1.0.0",
        "id": "sentinel-2-l2a",
        "description": "made up",
        "license": "other",
        "extent": {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}},
        "links": [],
    }
    (tmp_path / "collection.json").write_text(json.dumps(collection))
    (tmp_path / "items.ndjson").write_text("".join(json.dumps(each) + "\n" for each in items))

    with database.PgstacDB(dsn=f"postgresql://pgstac@/postgres?host={postgresql}") as db:
        migrating.Migrate(db).run_migration()
        loader = loading.Loader(db)
        loader.load_collections(str(tmp_path / "collection.json"), loading.Methods.insert)
        loader.load_items(str(tmp_path / "items.ndjson"), loading.Methods.insert)
        expected = [_pgstac_ids(db, each) for each in asked]

    compare(ours(catalog, asked), expected, asked)


def _pgstac_ids(db: Any, asked: Asked) -> set[str]:
    west, south, east, north = asked.box
    place = (
        {"bbox": list(asked.box)}
        if west < east and south < north  # pgstac finds nothing by a bbox that is a point
        else {"intersects": json.loads(shapely.to_geojson(asked.shape))}
    )
    fields = {"include": ["id"], "exclude": ["geometry", "assets", "links", "properties", "bbox"]}
    found = db.search({**place, "datetime": asked.datetime, "limit": N_SCENES, "fields": fields})
    page = json.loads(found) if isinstance(found, str | bytes) else found
    return {each["id"] for each in page["features"]}
