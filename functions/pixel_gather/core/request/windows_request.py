"""The many windows that a request wants: chips, which a table lists."""

from pydantic import Field

from pixel_gather.core.request.request_part import RequestPart, Size, may_be_path


class WindowsRequest(RequestPart):
    """Many windows of one size, one for each line of a table: chips. The cube has an axis of them."""

    table: str = Field(
        min_length=1,
        description="CSV, Parquet, GeoParquet or GeoJSON: a path or an href. Each line is the middle of a "
        "chip: columns lon and lat, x and y, or a geometry, whose box's middle counts. Further columns "
        "become coordinates.",
    )
    size: tuple[Size, Size] = Field(description="[width, height] of every chip in pixels.")
    id: str | None = Field(
        None,
        min_length=1,
        description="Column of the chips' ids; id if there is one. Else lines are numbered.",
    )
    x: str | None = Field(
        None, min_length=1, description="Column of longitude or x, if its name does not say."
    )
    y: str | None = Field(None, min_length=1, description="Column of latitude or y.")
    crs: str | None = Field(
        None, min_length=1, description="CRS of x and y. EPSG:4326 if neither this nor the table says one."
    )

    _table = may_be_path("table")
