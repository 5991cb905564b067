"""``pixel-gather bench area``: links by many clients, and folders by a pool."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from obstore.store import LocalStore

from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather_bench.area import measure_pool, slow_store
from pixel_gather_cli.commands.bench_area import bench_area_command
from pixel_gather_cli.main import command
from scenes.scenes import item


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog of 30 scenes, 20 of them in the published box."""
    scenes = [item(f"s{n}", box=(12.0, 55.0, 13.0, 56.0) if n < 20 else (0, 0, 1, 1)) for n in range(30)]
    with SpooledItems() as spooled:
        spooled.add(scenes, name="items")
        write_search_files(spooled, LocalStore(tmp_path), "catalog.parquet")
    return tmp_path / "catalog.parquet"


def test_every_client_has_every_link(catalog: Path) -> None:
    """No client is turned away."""
    done = CliRunner().invoke(
        bench_area_command,
        ["--catalog", str(catalog), "--clients", "1,40", "--pool", "120", "--json"],
        standalone_mode=False,
    )

    assert done.exception is None
    found = json.loads(done.stdout)
    assert [(each["n_errors"], each["n_links"]) for each in found["clients"]] == [(0, 20), (0, 800)]
    assert found["area"]["n_links"] == 20
    assert found["pool"][0]["n_links"] == 1560


@pytest.mark.long
def test_published_figures_stand_beside_ours(catalog: Path) -> None:
    """Each of our lines is followed by theirs."""
    done = CliRunner().invoke(
        bench_area_command,
        ["--catalog", str(catalog), "--clients", "10,100", "--pool", "120", "--reference"],
        standalone_mode=False,
    )

    assert "1 m 7.21 s" in done.stdout
    assert "panics, no result" in done.stdout
    assert done.stdout.count("published in 2017") == 6


def test_a_box_without_links_is_refused(catalog: Path) -> None:
    """Answers without links would be no measurement. Nothing is served."""
    done = CliRunner().invoke(command, ["bench", "area", "--catalog", str(catalog), "--bbox", "50,1,51,2"])

    assert str(done.exception) == "--bbox: the catalog has no link in this box, so nothing is measured"


@pytest.mark.long
@pytest.mark.parametrize("n_workers", [1, 7, 200])
def test_a_pool_lists_every_folder_once(n_workers: int) -> None:
    """However many workers there are."""
    with slow_store(0.0) as store:
        assert measure_pool(store, n_workers)[1] == 1560


@pytest.mark.parametrize("clients", ["0", "many", "1,,2", "100000"])
def test_clients_are_numbers(catalog: Path, clients: str) -> None:
    """Anything else is refused with what to write."""
    done = CliRunner().invoke(bench_area_command, ["--catalog", str(catalog), "--clients", clients])

    assert done.exit_code == 2
    assert "write whole numbers from 1" in done.output
