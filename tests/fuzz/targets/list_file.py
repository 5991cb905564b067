"""A list of sources in any of its formats."""

import gzip
import io
from contextlib import suppress
from typing import Any, Final, cast

from arro3.core import Array, DataType, RecordBatch
from arro3.io import write_parquet

from fuzz.mutations import mutated_bytes as mutated
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.href_policy import IN_PROCESS
from pixel_gather.io.lists.parse_list import read_records
from pixel_gather.io.lists.source_list import _sources_of_records
from pixel_gather.io.store.open_list_file import _gunzip

__all__ = ["fuzz_one", "mutated", "seeds"]

_ENDINGS: Final = (".txt", ".csv", ".jsonl", ".parquet", "")
"""The first byte of an input chooses one."""

PARQUET: Final = _ENDINGS.index(".parquet")

_POLICY: Final = IN_PROCESS.within("/data")
_MOST_LINES: Final = 10_000


def seeds() -> list[bytes]:
    """Return a small list of each format."""
    csv = b'href,time,band,scene,cloud\ns3://b/a.tif,2024-03-01,red,x,1.5\n"a, b.tif",20240301,red,,\n'
    jsonl = b'{"href": "s3://b/a.tif", "time": "2024-03", "n": 1}\n{"href": "a.tif", "n": null}\n'
    return [
        b"\x00s3://b/a.tif\n# a note\n'https://h.org/b.tif'\n",
        b"\x01" + csv,
        b"\x02" + jsonl,
        b"\x04" + csv.replace(b",", b"\t"),
        b"\x04" + jsonl,
        b"\x01" + gzip.compress(csv, mtime=0),
        *(bytes([PARQUET]) + parquet(compression) for compression in ("uncompressed", "snappy", "zstd(1)")),
    ]


def parquet(compression: str) -> bytes:
    """Return a list as Parquet."""
    batch = RecordBatch.from_arrays(
        [
            Array(["s3://b/a.tif", "s3://b/b.tif"], DataType.string()),
            Array([1_700_000_000_000_000, None], DataType.int64()).cast(DataType.timestamp("us", tz="UTC")),
            Array([1.5, None], DataType.float64()),
        ],
        names=["href", "time", "cloud"],
    )
    file = io.BytesIO()
    write_parquet(batch, file, compression=cast("Any", compression))
    return file.getvalue()


def fuzz_one(content: bytes) -> None:
    """Read a list to its end. A wrong one is a RequestError that names the line."""
    if not content:
        return
    name = f"list{_ENDINGS[content[0] % len(_ENDINGS)]}"
    raw: Any = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(content[1:])))
    with suppress(RequestError):
        _, file = _gunzip(name, raw)
        records = read_records(file, name=name)
        for number, _ in enumerate(_sources_of_records(records.lines, name, _POLICY)):
            if number > _MOST_LINES:
                return
