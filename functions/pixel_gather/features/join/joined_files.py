"""Parts of the files of joined cubes or of a virtual cube, as if they were those of one plain cube."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import zarr
from msgspec import Struct
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from pixel_gather.core.stores import ROOT_KEY
from pixel_gather.io.cube.served_files import FilePart, Files, Range
from pixel_gather.io.cube.written_report import PREVIEW_KEY


class JoinedFiles(Struct, frozen=True, dict=True):
    """Files of one group. Its metadata are consolidated here, because Icechunk does not need that."""

    store: ZarrStore
    group: zarr.Group
    measurements: Sequence[str]
    first_member: Files | None = None
    """Files of the cube that the first row comes from. Its first picture is that of all."""

    def __post_init__(self) -> None:
        """Consolidate the metadata at once: if some are damaged, nothing is served."""
        _ = self._root

    def part(self, key: str, wanted: Range | None) -> FilePart:
        """Return a part of a file."""
        if key == PREVIEW_KEY and self.first_member is not None:
            return self.first_member.part(key, wanted)
        is_root = key == ROOT_KEY
        nbytes = len(self._root) if is_root else sync(self.store.getsize(self._path(key)))
        start, stop = _edges(wanted, nbytes)
        content = self._root[start:stop] if is_root else self._read_bytes(key, wanted)
        return FilePart(start=start, stop=stop, file_nbytes=nbytes, content=[content])

    def _path(self, key: str) -> str:
        return f"{self.group.path}/{key}" if self.group.path else key

    def _read_bytes(self, key: str, wanted: Range | None) -> bytes:
        found = sync(self.store.get(self._path(key), default_buffer_prototype(), _request_of(wanted)))
        if found is None:
            raise FileNotFoundError(key)
        return found.to_bytes()

    @cached_property
    def _root(self) -> bytes:
        others = sorted(set(self.group.array_keys()) - set(self.measurements))
        names = (*self.measurements, *others)
        arrays = {name: json.loads(self._read_bytes(f"{name}/{ROOT_KEY}", None)) for name in names}
        content: dict[str, Any] = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": dict(self.group.attrs),
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": arrays},
        }
        return json.dumps(content).encode()


def _request_of(wanted: Range | None) -> ByteRequest | None:
    if wanted is None:
        return None
    if isinstance(wanted, tuple):
        return RangeByteRequest(*wanted)
    return SuffixByteRequest(wanted["suffix"]) if "suffix" in wanted else OffsetByteRequest(wanted["offset"])


def _edges(wanted: Range | None, nbytes: int) -> tuple[int, int]:
    """Return the bytes [start, stop) of a file of so many bytes."""
    if wanted is None:
        return 0, nbytes
    if isinstance(wanted, tuple):
        return wanted[0], min(wanted[1], nbytes)
    return max(nbytes - wanted["suffix"], 0) if "suffix" in wanted else wanted["offset"], nbytes
