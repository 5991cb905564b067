"""The STAC API as others see it: stac-api-validator, and pystac-client.

Of the dependency group ``stac-tools``, which ``scripts/test`` installs:
``uv run --group stac-tools pytest tests/handlers/search/test_stac_clients.py``.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import LocalStore

from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item
from support.api_bridge import serving_api
from support.dependency_groups import module_of_group
from support.lambda_functions import cold_start

pytestmark = pytest.mark.slow

SQUARE = {
    "type": "Polygon",
    "coordinates": [[[100.0, 0.0], [101.0, 0.0], [101.0, 1.0], [100.0, 1.0], [100.0, 0.0]]],
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve 300 scenes of two collections. A tenth of them meet the square."""
    scenes = (
        item(
            f"scene-{n}",
            box=(100.0 + n % 10, n // 100, 101.5 + n % 10, 2.0 + n // 100),
            time=f"2024-{1 + n % 12:02}-{1 + n % 27:02}T0{n % 9}:00:00Z",
            collection="landsat" if n % 3 == 0 else "sentinel-2-l2a",
            eo__cloud_cover=n % 101,
        )
        for n in range(300)
    )
    with SpooledItems() as spooled:
        spooled.add(scenes, name="items")
        write_search_files(spooled, LocalStore(tmp_path), "catalog.parquet")
    href = f"file://{tmp_path}/catalog.parquet"
    with (
        cold_start(monkeypatch, "answer_searches", PIXEL_GATHER_CATALOG=href) as module,
        serving_api(module.handler) as address,
    ):
        yield address
        module.catalog.close()


@pytest.mark.long
def test_validator_finds_no_error_in_core_and_item_search(root: str) -> None:
    """stac-api-validator checks each rule of the specification."""
    validator = shutil.which("stac-api-validator")
    if validator is None:
        pytest.skip("the dependency group stac-tools is not installed")

    done = subprocess.run(  # noqa: S603 # as above
        [
            *(validator, "--root-url", root, "--conformance", "core", "--conformance", "item-search"),
            *("--collection", "sentinel-2-l2a", "--geometry", json.dumps(SQUARE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Errors: none" in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pystac_client_pages_through_everything(root: str, method: str) -> None:
    """Each scene comes once, and pystac accepts it."""
    client = module_of_group("pystac_client", "stac-tools").Client.open(root)

    found = list(client.search(limit=17, method=method).items())
    few = list(
        client.search(
            intersects=SQUARE,
            datetime="2024-03/2024-09",
            query={"eo:cloud_cover": {"lt": 50}},
            limit=3,
            method=method,
        ).items()
    )

    assert len({each.id for each in found}) == len(found) == 300
    assert 0 < len(few) < 30
    assert all(each.properties["eo:cloud_cover"] < 50 and 3 <= each.datetime.month <= 9 for each in few)
    assert {each.id for each in client.get_collections()} == {"landsat", "sentinel-2-l2a"}
    there = client.collection_search(bbox=(100, 0, 101, 1), datetime="2024", q="sentinel")
    assert [each.id for each in there.collections()] == ["sentinel-2-l2a"]
    assert client.get_collection("landsat").get_item("scene-3").id == "scene-3"
    assert len(list(client.get_collection("landsat").get_items())) == 100
    newest = client.search(sortby="-properties.datetime", fields=["id"], max_items=5, method=method)
    assert [each.id for each in newest.items()] == [each.id for each in found[:5]]
    assert found[0].validate()
    assert client.get_collection("landsat").validate()
