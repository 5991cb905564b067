"""A deployment for the tests of tables: six scenes of one grid, plots and fields on S3."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rasterio
from aws_lambda_powertools import Logger

from rank.rasters import landscape, make_cog
from support.geojson import collection, feature, polygon
from support.table_machine import opened_machine
from support.table_service import N, Service


@pytest.fixture(scope="module")
def cogs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six scenes of one grid."""
    folder = tmp_path_factory.mktemp("scenes")
    return [make_cog(folder / f"{n}.tif", landscape(n, level=1000 * (n + 1), step=5)) for n in range(N)]


@pytest.fixture(scope="module")
def opened(s3_url: str, cogs: list[Path]) -> Iterator[Service]:
    """Open the functions over S3."""
    with opened_machine(s3_url, "answer_tables") as (machine, executions, (module,)):
        client = machine.s3
        service = module.TableService(module.deployment, lambda: executions)
        for path in cogs:
            client.upload_file(str(path), "sources", f"scenes/{path.name}")
        with rasterio.open(cogs[0]) as file:
            (west, south, east, north), crs = file.bounds, file.crs.to_string()
        rng = np.random.default_rng(1)
        xs, ys = rng.uniform(west, east, 40), rng.uniform(south, north, 40)
        rows = "".join(f"p{n},{x},{y}\n" for n, (x, y) in enumerate(zip(xs, ys, strict=True)))
        client.put_object(Bucket="sources", Key="plots.csv", Body=f"plot,x,y\n{rows}far,0,0\n".encode())
        side = (east - west) / 7
        fields = [
            feature(polygon((x, y), (x + side, y), (x + side / 2, y + side), (x, y)), field=f"f{n}")
            for n, (x, y) in enumerate(zip(xs[:8], ys[:8], strict=True))
        ]
        client.put_object(Bucket="sources", Key="fields.geojson", Body=json.dumps(collection(fields)))
        app = module.app_of(service, Logger(service="test"))
        yield Service(app, machine, s3_url, module.deployment, crs)


@pytest.fixture
def service(opened: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The functions, without anything of earlier tables. Each image is a task of its own."""
    opened.machine.forget()
    monkeypatch.setattr("handlers.tables.feature_steps._LINES_PER_TASK", 1)
    return opened
