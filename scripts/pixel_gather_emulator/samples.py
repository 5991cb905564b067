"""Fills a bucket of the emulated S3 with sample COGs, a list of them, and a catalog to search."""

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from msgspec import Struct

from pixel_gather_emulator.emulator import Emulator
from pixel_gather_emulator.end_with_caller import RunCommand

_DATA: Final = Path(__file__).parents[2] / "tests" / "data"
_DEMO: Final = _DATA / "demo" / "sources.csv"
_FOLDER_SCENES: Final = _DATA / "demo" / "folders.json"
_FOLDERS: Final = (
    "series/files/stactools-nclimgrid",
    "files/gdal-autotest",
    "files/odc-geo",
    "files/rio-tiler",
)
_UPLOADS: Final = 8


class Samples(Struct, frozen=True, kw_only=True):
    """The bucket of samples and the list in it."""

    bucket: str = "pixel-gather-samples"
    list_key: str = "demo/sources.csv"
    """The list of tests/data/demo, with hrefs in this bucket."""

    @property
    def list_href(self) -> str:
        """The list's address, for a request."""
        return f"s3://{self.bucket}/{self.list_key}"

    @property
    def catalog_href(self) -> str:
        """The address of the catalog of the list's files, which the deployment searches."""
        return f"s3://{self.bucket}/demo/catalog.parquet"


def write_catalog(samples: Samples, run: RunCommand, environment: Mapping[str, str]) -> None:
    """Make the catalog by the command that makes every catalog; some of its scenes name folders."""
    command = [sys.executable, "-m", "pixel_gather_cli", "catalog", "--to", samples.catalog_href]
    run([*command, "--sources", samples.list_href], environment, cwd=_DATA)
    run([*command, "--items", str(_FOLDER_SCENES), "--add"], environment, cwd=_DATA)


def seed(emulator: Emulator) -> Samples:
    """Make the bucket and fill it. The keys are the files' paths below tests/data."""
    samples, s3 = Samples(), emulator.client("s3", max_pool_connections=_UPLOADS)
    s3.create_bucket(Bucket=samples.bucket)

    def put(path: Path) -> None:
        s3.put_object(Bucket=samples.bucket, Key=path.relative_to(_DATA).as_posix(), Body=path.read_bytes())

    with ThreadPoolExecutor(max_workers=_UPLOADS) as pool:
        list(pool.map(put, _files()))
    s3.put_object(Bucket=samples.bucket, Key=samples.list_key, Body=_list_in(samples.bucket).encode())
    return samples


def _files() -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from sorted(path for path in (_DATA / folder).iterdir() if path.is_file())


def _list_in(bucket: str) -> str:
    text = io.StringIO()
    with _DEMO.open(encoding="utf-8", newline="") as opened:
        rows = csv.DictReader(opened)
        writer = csv.DictWriter(text, fieldnames=list(rows.fieldnames or ()), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            key = (_DEMO.parent / row["href"]).resolve().relative_to(_DATA.resolve()).as_posix()
            writer.writerow({**row, "href": f"s3://{bucket}/{key}"})
    return text.getvalue()
