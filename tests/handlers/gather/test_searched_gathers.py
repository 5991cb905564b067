"""Gathers by a catalog, by the functions of a deployment."""

import io
from pathlib import Path
from typing import Any

import arro3.io
import pytest

from pixel_gather.features.catalog.catalog import make_catalog
from scenes.scenes import item
from support.lambda_functions import StateMachine

REQUEST: dict[str, Any] = {
    "sources": {"catalog": {"file": "s3://sources/catalogs/all.parquet", "assets": ["B2"], "area": "all"}},
    "window": {"pixels": [10, 20, 100, 90]},
    "output": {"layout": {"chunk": [1, 64, 64], "shard_rows": 3}, "name": "searched"},
}


def put_catalog(
    machine: StateMachine,
    folder: Path,
    *,
    without: str = "",
    place: tuple[str, str] = ("sources", "catalogs"),
) -> None:
    """Make a catalog of the Landsat scenes, all but one, and put it where lists may lie."""
    listed = machine.s3.list_objects_v2(Bucket="sources", Prefix="landsat/")["Contents"]
    keys = sorted(each["Key"] for each in listed)
    items = [
        item(f"s{n}", time=f"2024-06-{n + 1:02}T00:00:00Z", assets={"B2": {"href": f"s3://sources/{key}"}})
        for n, key in enumerate(keys)
        if f"s{n}" != without
    ]
    folder.mkdir()
    make_catalog(items, to=folder / "all.parquet")
    for file in folder.iterdir():
        machine.s3.upload_file(str(file), place[0], f"{place[1]}/{file.name}")


@pytest.mark.long
def test_a_gather_is_gone_on_with_by_the_list_that_it_found(machine: StateMachine, tmp_path: Path) -> None:
    """Meanwhile the catalog names one scene less; the cube and the file beside it are of the first search."""
    put_catalog(machine, tmp_path / "first")
    verdict = machine.planned(REQUEST)
    machine.fill(verdict, [machine.manifest(verdict)[0]])
    put_catalog(machine, tmp_path / "second", without="s3")

    again = machine.planned(REQUEST)
    result = machine.run(REQUEST)

    assert (again["verdict"], again["n_missing"]) == ("planned", 2)
    assert result["status"] == {"ok": 8}
    content = machine.s3.get_object(Bucket="cubes", Key="out/searched.zarr/sources.parquet")["Body"].read()
    found = arro3.io.read_parquet(io.BytesIO(content)).read_all()
    assert found["scene"].to_pylist() == [f"s{n}" for n in range(7, -1, -1)]
    assert set(found["status"].to_pylist()) == {"kept"}
    refused = machine.planned(REQUEST)
    assert refused["verdict"] == "refused"
    assert "a cube of this request and another list is there" in refused["cause"]


def test_an_uploaded_catalog_is_searched(machine: StateMachine, tmp_path: Path) -> None:
    """It lies in the control bucket, as uploaded lists do."""
    put_catalog(machine, tmp_path / "first", place=("control", "lists"))
    catalog = REQUEST["sources"]["catalog"] | {"file": "s3://control/lists/all.parquet"}

    assert machine.planned(REQUEST | {"sources": {"catalog": catalog}})["verdict"] == "planned"
