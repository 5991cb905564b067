"""What a schedule reads of a cube."""

import json

import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.array_chunks import put_array
from pixel_gather.io.cube.last_row import CubeState, cube_state
from pixel_gather.io.store.object_store import open_store
from pixel_gather.io.store.store_settings import StoreSettings
from support.local_server import Answer, serving


def test_the_last_time_is_the_latest_of_all_rows() -> None:
    """Appends may put earlier scenes behind. One that was stopped has put rows that do not count."""
    store = MemoryStore()
    times = np.array([1_000, 3_000, 2_000, NO_TIME, 9_000], dtype="int64")
    put_array(store, "time", times, chunks=(8,), dims=("time",), attributes={})  # type: ignore[arg-type] # as others
    root = {
        "attributes": {"pixel_gather": json.dumps({"request": {"window": "centre"}}), "complete": 1},
        "consolidated_metadata": {"metadata": {"time": {"shape": [4]}}},
    }
    obstore.put(store, ROOT_KEY, json.dumps(root).encode())

    found = cube_state(store, place="here")  # type: ignore[arg-type] # as above

    assert found == CubeState(request={"window": "centre"}, last_us=3_000)


def test_a_bucket_that_is_missing_is_no_missing_cube(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a schedule would begin a new cube at every tick."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    code = "NoSuchKey"

    with serving(lambda _: Answer(status=404, body=f"<Error><Code>{code}</Code></Error>".encode())) as server:
        store = open_store("s3://bucket", StoreSettings(endpoint=server.root))
        assert cube_state(store, place="here") is None
        code = "NoSuchBucket"
        with pytest.raises(StoreError, match="here: the cube cannot be read: there is no such bucket"):
            cube_state(store, place="here")
