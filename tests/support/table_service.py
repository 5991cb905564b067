"""The API's function of tables over S3, and a state machine that runs at once."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from jsonschema import Draft202012Validator

from handlers.deployment.stores import Deployment
from handlers.openapi.document import openapi_document
from pixel_gather import Settings, points, zones
from pixel_gather.io.store.store_settings import StoreSettings
from support.api_bridge import told
from support.lambda_functions import ENVIRONMENT, EXECUTION, Context
from support.table_machine import TableMachine

N: Final = 6
HREFS: Final = [f"s3://sources/scenes/{n}.tif" for n in range(N)]
PLOTS: Final = "s3://sources/plots.csv"
FIELDS: Final = "s3://sources/fields.geojson"


@dataclass
class Service:
    """The function of the API over a state machine that runs at once."""

    app: Any
    deployment: Deployment
    machine: TableMachine
    s3_url: str
    crs: str

    def do(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """Send a request."""
        return told(self.app, method, path, body, query=query)

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
        stores = StoreSettings(endpoint=self.s3_url, region=ENVIRONMENT["AWS_REGION"])
        kind = "points" if "points" in body else "zones"
        more = {name: value for name, value in body.items() if name not in (kind, "sources")}
        make = points if kind == "points" else zones
        to = folder / "here.parquet"
        make(body[kind], body["sources"], to=to, settings=Settings(stores=stores), **more)
        return pq.read_table(to)

    def handle(self, verdict: dict[str, Any], item: int) -> None:
        """Let a worker do one task of a round."""
        event = {"gather": verdict["gather"], "tasks": self.machine.items(verdict)[item], "limit_s": 60}
        self.machine.worker.handler(event, Context())

    def ended(self, gather: str) -> dict[str, Any]:
        """Call the function that ends a round."""
        event = {"gather": gather, "execution": EXECUTION, "failed_shards": 100}
        verdict: dict[str, Any] = self.machine.plan.handler(event, Context())
        return verdict

    def begun(self, body: dict[str, Any], execution: str) -> dict[str, Any]:
        """Begin a table, and return the verdict."""
        event = {"request": body, "execution": execution}
        verdict: dict[str, Any] = self.machine.plan.handler(event, Context())
        return verdict


def check_document(name: str, document: dict[str, Any]) -> None:
    """Assert that a document is as the API's description says."""
    components = openapi_document()["components"]
    whole = {"$ref": f"#/components/schemas/{name}", "components": components}
    assert not list(Draft202012Validator(whole).iter_errors(document))
