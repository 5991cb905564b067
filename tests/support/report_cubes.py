"""Finished cubes made without sources, so that every number in them is known."""

import json
from collections.abc import Mapping
from copy import replace
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import obstore
import zarr
from msgspec import to_builtins
from obstore.store import MemoryStore
from zarr.storage import ObjectStore

from pixel_gather.core.results.report import Cause, Report
from pixel_gather.core.results.timings import Spread
from pixel_gather.io.cube.array_chunks import put_array

NODATA = 7
REPORT = Report(
    digest="0123456789abcdef0123456789abcdef",
    measurements=("band_1",),
    shape=(0, 16, 32),
    dtypes=("uint16",),
    bands=(1,),
    tile=(512, 512),
    is_aligned=True,
    nodata_differs=False,
    scaling_differs=False,
    n_sources=0,
    status_counts={},
    causes=(),
    warnings=(),
    concurrency=4,
    fetched_nbytes=4000,
    requests=20,
    retries=0,
    stored_nbytes=1000,
    data_nbytes=3000,
    typical_per_s=100.0,
    bytes_per_source=Spread(median=300, min=100, max=500),
    total_s=Spread(median=0.03, min=0.01, max=0.05),
    open_s=Spread(median=0.01, min=0.01, max=0.01),
    read_s=Spread(median=0.02, min=0.01, max=0.04),
    wait_s=0.3,
    wall_s=0.1,
    write_s=0.0,
    worker_s=0.2,
    n_shards=2,
    n_lost_shards=0,
    peak_rss_mib=100.0,
)


@dataclass(kw_only=True)
class MadeCube:
    """The content of a cube. Each source has one row, unless ``n_abreast`` says otherwise."""

    n_rows: int = 10
    failed: frozenset[int] = frozenset()
    """Rows whose source is missing."""

    hrefs: Mapping[int, str] = field(default_factory=dict)
    """Hrefs of some rows. The others are ``s3://b/NUMBER``."""

    valid: Mapping[int, float] = field(default_factory=dict)
    """Valid share of some rows. The others have 1."""

    has_times: bool = True
    has_quicklooks: bool = True
    """Whether it has quicklooks. Gathers of very small windows have none."""

    bands: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Measurements with a source each, and the rows where it is missing. Without any, there is ``band_1``."""

    said: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Attributes of some measurements."""

    dtype: str = "uint16"
    report: Report = REPORT
    request: Mapping[str, Any] = field(default_factory=lambda: {"sources": "list.csv", "window": "centre"})
    footprints: Any = None
    """As the metadata hold them. None for those of a cube without a place on the Earth."""

    chunk: tuple[int, int, int] = (2, 16, 16)
    shard: tuple[int, int, int] = (4, 16, 32)

    def stored(self) -> Any:
        """Return a store in memory with the cube, as a gather writes it."""
        store = MemoryStore()
        self._put_pixels(store)
        self._put_coordinates(store)
        if self.has_quicklooks:
            self._put_quicklooks(store)
        put_root(store, self._attributes())
        return store

    def quicklook_rows(self) -> list[int]:
        """Return at most 239 rows that were read."""
        read = [row for row in range(self.n_rows) if row not in self.failed]
        return read if len(read) <= 239 else [read[n * (len(read) - 1) // 238] for n in range(239)]

    def pixels(self, rows: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the first rows: a ramp along x, with nodata in the upper left corner."""
        ramp = np.broadcast_to(np.arange(100, 132), (rows, 16, 32)).astype(self.dtype).copy()
        ramp[:, :4, :4] = NODATA
        return ramp

    def _put_pixels(self, store: Any) -> None:
        for name in self.bands or ("band_1",):
            self._put_measurement(store, name)

    def _put_measurement(self, store: Any, name: str) -> None:
        array = zarr.create_array(
            ObjectStore(store),
            name=name,
            shape=(self.n_rows, 16, 32),
            chunks=self.chunk,
            shards=self.shard,
            dtype=self.dtype,
            fill_value=NODATA,
            dimension_names=("time" if self.has_times else "source", "y", "x"),
            attributes={"_FillValue": NODATA, **self.said.get(name, {})},
        )
        if self.n_rows <= 100:
            array[...] = self.pixels(self.n_rows)

    def _put_coordinates(self, store: Any) -> None:
        n = np.arange(self.n_rows)
        status = np.where(np.isin(n, list(self.failed)), 2, 0).astype("uint8")
        valid = np.ones(self.n_rows, dtype="float32")
        for row, share in self.valid.items():
            valid[row] = share
        values: dict[str, Any] = {
            "start": n * 0.01,
            "open": np.full(self.n_rows, 0.01, dtype="float32"),
            "read": (0.01 + n % 50 / 1000).astype("float32"),
            "decode": np.full(self.n_rows, 0.005, dtype="float32"),
            "bytes": 400 + n,
            "status": status,
            "valid_fraction": valid,
            "end": n * 0.01 + 0.1,
            "header_bytes": np.full(self.n_rows, 100),
            "mean": 100.0 + n,
        }
        values["href"] = np.array(
            [self.hrefs.get(row, f"s3://b/{row}") for row in range(self.n_rows)], object
        )
        values["crs"] = np.full(self.n_rows, "", object)
        values["transform"] = np.full((self.n_rows, 6), np.nan)
        if self.bands:
            values = {name: np.stack([each] * len(self.bands), axis=1) for name, each in values.items()}
            for slot, (name, missing) in enumerate(self.bands.items()):
                values["href"][:, slot] = [f"s3://b/{row}-{name}" for row in n]
                values["status"][list(missing), slot] = 2
                values["mean"][:, slot] += 1000 * slot
        if self.has_times:
            values["time"] = 1_577_836_800_000_000 + n * 86_400_000_000
        for name, each in values.items():
            put_array(
                store,
                name,
                each,
                chunks=(min(16_384, self.n_rows), *each.shape[1:]),
                dims=(*("time", "measurement")[: each.ndim - 1], "affine")
                if name == "transform"
                else ("time", "measurement")[: each.ndim],
                attributes={},
            )

    def _put_quicklooks(self, store: Any) -> None:
        content = BytesIO()
        arrays: dict[str, Any] = {"step": np.array(2)}
        for name, missing in (self.bands or {"band_1": frozenset()}).items():
            rows = [row for row in self.quicklook_rows() if row not in missing]
            arrays |= {f"rows/{name}": np.array(rows), f"pixels/{name}": self.pixels(len(rows))[:, ::2, ::2]}
        np.savez(content, **arrays)
        obstore.put(store, "quicklooks.npz", content.getvalue())

    def _attributes(self) -> dict[str, Any]:
        n_read = self.n_rows - len(self.failed)
        report = replace(
            self.report,
            shape=(self.n_rows, 16, 32),
            measurements=tuple(self.bands) or ("band_1",),
            dtypes=(self.dtype,) * max(len(self.bands), 1),
            n_sources=self.n_rows,
            status_counts={"ok": n_read, "missing": len(self.failed)},
            causes=self.report.causes or self._causes(),
        )
        gather = {
            "version": "1.2.3",
            "digest": "d",
            "planned_at": "2026-11-21T12:00:00.000000+00:00",
            "request": dict(self.request),
            "report": {**to_builtins(report), "n_failed": len(self.failed)},
        }
        if self.footprints is not None:
            gather["footprints"] = self.footprints
        return {"complete": 1, "pixel_gather": json.dumps(gather)}

    def _causes(self) -> tuple[Cause, ...]:
        if not self.failed:
            return ()
        hrefs = tuple(self.hrefs.get(row, f"s3://b/{row}") for row in sorted(self.failed)[:20])
        return (Cause(status="missing", reason="no such object", n_sources=len(self.failed), hrefs=hrefs),)


def put_root(store: Any, attributes: Mapping[str, Any]) -> None:
    """Write a group's metadata."""
    content = {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}
    obstore.put(store, "zarr.json", json.dumps(content).encode())
