"""How a request wants its cube written."""

from typing import Literal, Self

from pydantic import Field, model_validator

from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.request.request_part import RequestPart, Size, may_be_path

type LayoutName = Literal["balanced", "slice", "series"]
type CodecName = Literal["blosc-lz4", "blosc-zstd", "zstd", "none", "zfp", "source"]


class ExplicitLayout(RequestPart):
    """Explicit sizes of chunks and shards, if you know how the cube will be read."""

    chunk: tuple[Size, Size, Size] = Field(description="[rows, y, x] of the unit of reading.")
    shard_rows: Size | None = Field(
        None, description="Rows in one object, rounded up to whole chunks. Planned if not given."
    )


class Output(RequestPart):
    """How the cube is stored, and under what name a deployment keeps it."""

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$",
        description="The cube's name in a deployment's bucket; made from the request if not given. "
        "Not used in process.",
    )
    append_to: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="Add rows to this cube: its name in a deployment; in process a folder or "
        "s3://bucket/prefix. Grid, dtype, codec, chunks, bands and columns are the cube's.",
    )
    archive: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$",
        description="Make cubes that can be joined. The first gather of this archive stores its dtype, "
        "codec, chunks, shards, bands and columns as NAME.archive.json beside its cube. Later gathers "
        "have the same, or are refused. With grid: same, they have the same place, too.",
    )
    expected_rows: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Rows that the cube is expected to have after later appends. Chunks and shards, which "
        "never change, are planned for them.",
    )
    layout: LayoutName | ExplicitLayout = Field(
        "balanced",
        description="balanced: a time slice and one pixel's series both read few bytes. "
        "slice, series: that one reads the fewest bytes.",
    )
    codec: CodecName = Field(
        "blosc-lz4",
        description="blosc-lz4 and blosc-zstd shuffle bits first. zfp is for floats only and is lossy "
        "unless zfp_tolerance is 0. Readers need imagecodecs for it. source keeps the sources' compressed "
        "tiles, if they are alike and the window begins at a corner of tiles. The plan says who reads them.",
    )
    zfp_tolerance: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Largest error of a value with codec zfp. 0 is lossless."
    )
    bands: Literal["arrays", "axis"] = Field(
        "arrays",
        description="arrays: one array for each band. axis: one array, bands, with the axes time, band, y "
        "and x, and one object in a shard instead of one for each band. All bands then have one dtype, "
        "nodata, scale and offset.",
    )
    sharding: bool = Field(
        default=True,
        description="false: each object is one chunk, so GDAL 3.12 reads the cube. A gather "
        "then writes more objects, and readers fetch whole ones.",
    )
    report: bool = Field(
        default=True,
        description="false: draw no report, which takes seconds. The receipt, rows.parquet and view.html are "
        "still written. pixel-gather report CUBE --to DIR draws the report later.",
    )

    _append_to = may_be_path("append_to")

    @model_validator(mode="after")
    def _refuse_what_does_not_go_together(self) -> Self:
        if self.name is not None and self.append_to is not None:
            raise ValueError("give name for a new cube, or append_to for an existing one, not both")
        if self.archive is not None and self.append_to is not None:
            raise ValueError(
                "archive is for new cubes; with append_to, the existing cube decides: leave archive out"
            )
        if self.archive is not None and self.codec == AS_STORED:
            raise ValueError(
                "archive and codec source exclude each other: with codec source, the sources decide the "
                "chunks"
            )
        if self.has_band_axis and self.archive is not None:
            raise ValueError(
                "cubes with an axis of bands cannot be joined yet: leave archive or bands (--band-axis) out"
            )
        if self.has_band_axis and self.codec == AS_STORED:
            raise ValueError(
                "codec source keeps each band in an array of its own: leave bands (--band-axis) out"
            )
        self._check_objects_of_one_chunk()
        if (self.zfp_tolerance is not None) != (self.codec == "zfp"):
            raise ValueError("give zfp_tolerance with codec zfp, and with no other codec")
        return self

    def _check_objects_of_one_chunk(self) -> None:
        if self.sharding:
            return
        if self.codec not in ("blosc-lz4", "blosc-zstd", "zstd"):
            raise ValueError(
                "sharding: false goes with the codecs blosc-lz4, blosc-zstd and zstd: choose one"
            )
        if self.has_band_axis:
            raise ValueError(
                "an axis of bands needs shards: leave bands (--band-axis) or sharding (--no-sharding) out"
            )
        if isinstance(self.layout, ExplicitLayout) and self.layout.shard_rows is not None:
            raise ValueError("without shards, an object has the rows of its chunk: leave shard_rows out")

    @property
    def has_band_axis(self) -> bool:
        """Whether one array has all bands."""
        return self.bands == "axis"
