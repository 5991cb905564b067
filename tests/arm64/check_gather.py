"""Gather with the arm64 packages under QEMU, and compare with the library on this machine.

``scripts/check-arm64`` sets QEMU up and runs this: plan, shards and finish, each from its package, against
an S3 on loopback. TIFF takes the fast path, JPEG 2000, LERC and WebP GDAL's processes.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
from rasterio import Affine

from infra.bundle.bundle import bundle, runtime
from pixel_gather import Settings, gather
from support.lambda_functions import ENVIRONMENT, emptied, s3_server

SERIES: Final = Path(__file__).parents[1] / "data/series/files"
CASES: Final = {"landsat": "gdalcubes/*_B2.TIF", "jp2": "mapchete-eo/*.jp2"}
"""Names of gathers, and their sources."""

CODECS: Final = ("none", "packbits", "lzw", "deflate", "zstd", "jpeg", "webp", "lerc")

PACKAGES: Final = {
    "gather.plan_gather": "plan",
    "gather.gather_shard": "shard",
    "gather.finish_gather": "finish",
}
"""The package of each handler."""


class CheckError(Exception):
    """A package does not do on arm64 what it does here."""


def images_of_codecs(folder: Path) -> list[Path]:
    """Write one image with each codec of TIFF: three bands of bytes, in tiles."""
    rows, columns = np.mgrid[:192, :256]
    image = np.stack([127 + 90 * np.sin(columns / period) * np.cos(rows / 19) for period in (7, 11, 30)])
    profile = {"driver": "GTiff", "count": 3, "height": 192, "width": 256, "dtype": "uint8", "tiled": True}
    placed = {"crs": "EPSG:32632", "transform": Affine(10, 0, 600_000, 0, -10, 5_000_000)}
    files = []
    for codec in CODECS:
        how = {"compress": codec, "interleave": "pixel", "blockxsize": 64, "blockysize": 64}
        colours = {"photometric": "ycbcr" if codec == "jpeg" else "rgb"}
        files.append(folder / f"{codec}.tif")
        with rasterio.open(files[-1], "w", **profile, **placed, **how, **colours) as target:
            target.write(image.astype("uint8"))
    return files


def handled(python: str, url: str, module: str, events: Sequence[Any]) -> list[Any]:
    """Return what a handler answers to each event, in one process under QEMU."""
    folder = bundle(PACKAGES[module], machine="aarch64", is_emulated=False)
    words = [python, "-I", "-S", str(Path(__file__).with_name("handle.py"))]
    environment = dict(ENVIRONMENT) | {
        "AWS_ENDPOINT_URL": url,
        "LAMBDA_TASK_ROOT": str(folder),
        "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 # as on Lambda
        "PATH": os.defpath,
    }
    done = subprocess.run(  # noqa: S603 # our own words
        [*words, str(folder), str(runtime("aarch64")), module, python],
        input="".join(f"{json.dumps(event)}\n" for event in events),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [
        json.loads(line.removeprefix("answer:"))
        for line in done.stdout.splitlines()
        if line.startswith("answer:")
    ]
    if done.returncode or len(answers) < len(events):
        raise CheckError(
            f"{module} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return answers


def gathered(python: str, url: str, s3: Any, name: str, files: Sequence[Path]) -> dict[str, Any]:
    """Return what finish answers of a gather of some files, and check that the report is drawn."""
    for file in files:
        s3.upload_file(str(file), "sources", f"{name}/{file.name}")
    hrefs = [f"s3://sources/{name}/{file.name}" for file in files]
    request = {"sources": hrefs, "window": "centre", "output": {"name": name}}
    (plan,) = handled(python, url, "gather.plan_gather", [{"request": request, "execution": name}])
    if plan["verdict"] != "planned":
        raise CheckError(f"{name}: {plan}")
    manifest = s3.get_object(Bucket=plan["manifest"]["bucket"], Key=plan["manifest"]["key"])["Body"].read()
    shards = [
        {"gather": plan["gather"], "execution": name, "tasks": tasks, "limit_s": plan["shard_limit_s"]}
        for tasks in json.loads(manifest)
    ]
    handled(python, url, "gather.gather_shard", shards)
    event = {"gather": plan["gather"], "execution": name, "failed_shards": plan["failed_shards"]}
    (finished,) = handled(python, url, "gather.finish_gather", [event])
    page = s3.get_object(Bucket="cubes", Key=f"out/{name}.zarr/report.html")["Body"].read()
    if b"<svg" not in page:
        raise CheckError(f"{name}: the report has no figure")
    answer: dict[str, Any] = finished
    return answer


def main() -> None:
    """Run all cases; the first that differs ends it."""
    os.environ.update(ENVIRONMENT)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # S3 here tells of each request
    (python,) = sys.argv[1:]
    with s3_server() as url, tempfile.TemporaryDirectory() as made:
        s3 = emptied(url)
        cases = {name: sorted(SERIES.glob(pattern)) for name, pattern in CASES.items()}
        cases["codecs"] = images_of_codecs(Path(made))
        for name, files in cases.items():
            with tempfile.TemporaryDirectory() as folder:
                request = {"sources": [str(file) for file in files], "window": "centre"}
                here = gather(request, to=folder, settings=Settings(draws_report=False)).report
            there = gathered(python, url, s3, name, files)
            if there["digest"] != here.digest or there["n_failed"] != here.n_failed:
                raise CheckError(f"{name}: {there} on arm64, {here.digest} here")
            sys.stdout.write(f"{name}: {len(files)} sources, digest {here.digest} on arm64 and here\n")


if __name__ == "__main__":
    main()
