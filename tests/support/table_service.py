"""The API's function of tables over S3, and a state machine that runs at once."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from handlers.deployment.stores import Deployment
from pixel_gather import Settings, points, zones
from support.table_machine import TableClient

N: Final = 6
HREFS: Final = [f"s3://sources/scenes/{n}.tif" for n in range(N)]
PLOTS: Final = "s3://sources/plots.csv"
FIELDS: Final = "s3://sources/fields.geojson"


@dataclass
class Service(TableClient):
    """The function of the API over a state machine that runs at once."""

    deployment: Deployment
    crs: str

    def made(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a table, and return its document."""
        _, line = self.do("POST", "/tables", body)
        document: dict[str, Any] = self.do("GET", f"/tables/{line['id']}")[1]
        return document

    def table(self, document: dict[str, Any], name: str = "table") -> pa.Table:
        """Return a file of a table."""
        bucket, _, key = document["links"][name].removeprefix("s3://").partition("/")
        content = self.machine.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return pq.read_table(io.BytesIO(content))

    def here(self, body: dict[str, Any], folder: Path) -> pa.Table:
        """Return the same table, made in this process."""
        kind = "points" if "points" in body else "zones"
        more = {name: value for name, value in body.items() if name not in (kind, "sources")}
        make = points if kind == "points" else zones
        to = folder / "here.parquet"
        make(body[kind], body["sources"], to=to, settings=Settings(stores=self.stores), **more)
        return pq.read_table(to)
