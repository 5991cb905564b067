"""Cubes joined by VirtualiZarr, which nobody here wrote: the same arrays.

It is in the dependency group join-anchors. Without it these tests are skipped. ``scripts/test --all`` runs
them in an environment of their own.
"""

from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import xarray as xr
from obstore.store import LocalStore

from pixel_gather import join, open_joined
from support.dependency_groups import module_of_group
from support.joined_cubes import gather_member

pytestmark = pytest.mark.slow


def test_virtualizarr_joins_the_same_arrays(tmp_path: Path) -> None:
    """Its own open, concat and to_icechunk. It cannot join shards that are not full, so these are full."""
    virtualizarr = module_of_group("virtualizarr", "join-anchors")
    parsers = module_of_group("virtualizarr.parsers", "join-anchors")
    registry = module_of_group("obspec_utils.registry", "join-anchors").ObjectStoreRegistry(
        {"file://": LocalStore()}
    )
    cubes = [tmp_path / f"t{n}.zarr" for n in range(3)]
    for n, (cube, n_rows) in enumerate(zip(cubes, (4, 8, 4), strict=True)):
        gather_member(cube, n_rows=n_rows, year=2020 + n, height=16, folder=tmp_path)
    loaded = ["time", "x", "y", "status", "valid_fraction", "href", "cloud"]
    virtual: list[Any] = [
        virtualizarr.open_virtual_dataset(
            f"file://{cube}", registry=registry, parser=parsers.ZarrParser(), loadable_variables=loaded
        )
        for cube in cubes
    ]
    virtual = [each.drop_vars(set(map(str, each.variables)) - {"band_1", *loaded}) for each in virtual]
    config = icechunk.RepositoryConfig.default()
    folder = f"file://{tmp_path}/"
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(folder, icechunk.local_filesystem_store(f"{tmp_path}/"))
    )
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "theirs")),
        config,
        {folder: icechunk.credentials.LocalFileSystemAccess},
    )
    session = repository.writable_session("main")
    whole = xr.concat(virtual, dim="time", coords="minimal", compat="override", combine_attrs="override")
    whole.virtualize.to_icechunk(session.store)
    session.commit("joined by VirtualiZarr")
    theirs = xr.open_zarr(repository.readonly_session("main").store, consolidated=False)

    join(cubes, to=tmp_path / "ours", keep=["cloud"])
    ours = open_joined(tmp_path / "ours")

    for name in ("band_1", *loaded):
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=name)
        assert ours[name].dims == theirs[name].dims
    assert ours.band_1.encoding["chunks"] == theirs.band_1.encoding["chunks"]
    assert ours.band_1.encoding["shards"] == theirs.band_1.encoding["shards"]
