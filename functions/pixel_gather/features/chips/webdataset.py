"""Write chips as tar files of WebDataset, which other loaders read: https://github.com/webdataset/webdataset."""

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.features.chips.opened_chips import OpenedChips, Values
from pixel_gather.io.atomic_write import replacing


def write_tars(
    opened: OpenedChips, numbers: Values, measurements: Sequence[str], to: Path, *, chips_per_file: int
) -> list[Path]:
    """Write chips to numbered files beside ``to``; see `ChipDataset.to_webdataset`. One file is in memory."""
    if to.suffix != ".tar":
        raise RequestError(f"{to.name}: end the name with .tar", field="to")
    if there := min(to.parent.glob(f"{to.stem}-*.tar"), default=None):
        raise RequestError(f"{there} exists: give another name, or remove it and those like it", field="to")
    if opened.images.dtype.kind == "M":
        images = {"times": np.datetime_as_string(opened.images).tolist()}
    else:
        images = {"hrefs": opened.images.tolist()}
    files = []
    for number, some in enumerate(batched(numbers.tolist(), chips_per_file, strict=False)):
        file = to.with_name(f"{to.stem}-{number:06}.tar")
        with replacing(file) as partial, tarfile.open(partial, "w") as tar:
            for name, content in _members(opened, np.array(some), measurements, images):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        files.append(file)
    return files


def _members(
    opened: OpenedChips, numbers: Values, measurements: Sequence[str], images: dict[str, Any]
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each chip's two files. Their key has no point, as WebDataset wants it."""
    found = opened.read(numbers, measurements)
    pixels = found.pop("pixels")
    for at, number in enumerate(numbers.tolist()):
        array = io.BytesIO()
        np.save(array, pixels[at], allow_pickle=False)
        told = {name: _plain(values[at]) for name, values in found.items()}
        text = json.dumps({**told, "measurements": list(measurements), **images}, allow_nan=False)
        yield f"{number:09}.npy", array.getvalue()
        yield f"{number:09}.json", text.encode()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it. It has no NaN."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return None if isinstance(plain, float) and plain != plain else plain  # noqa: PLR0124 # NaN
