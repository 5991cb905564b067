"""Tables of a deployment that are appended to: the version that is there, and the commit of the next one.

Each version has a folder of its own, whose name has the digest of what is in it. So nothing that was written
is ever written over. ``result.json`` names the files of the last version. Its conditional PUT is the commit.
Who comes second reads the version that was first, and puts its own lines among those.
"""

import asyncio
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from handlers.deployment.stores import Deployment
from pixel_gather.core.errors import GatherNotFoundError, RequestError
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.tables.base_table import BaseTable
from pixel_gather.tables.table_receipt import RESULT_KEY, TABLE_KEY, digest_of_path, key_in_folder, side_path

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?")
_PART_NBYTES: Final = 8 << 20
_PLACES: Final = {
    "table": None,
    "features_table": "features",
    "images_table": "images",
    "pieces_table": "pieces",
}
"""Fields of a result that are addresses, and what the name of each file says. There may be no pieces."""


class Committed(Struct, frozen=True, kw_only=True):
    """The last version of a table."""

    result: Mapping[str, Any]
    etag: str
    """Of ``result.json``."""

    @property
    def version(self) -> int:
        """Its number, from 1."""
        return int(self.result.get("version", 1))


class CommittedTables(Struct, frozen=True):
    """The tables of a deployment."""

    deployment: Deployment

    async def find(self, name: str) -> Committed | None:
        """Return the last version of a table; None if there is none."""
        found = await self.deployment.find_result(name, type=dict[str, Any])
        return None if found is None else Committed(result=found[0], etag=found[1])

    async def check_there(self, result: Mapping[str, Any], *, job: str) -> None:
        """Raise an error if the files that a job wrote were removed.

        Raises:
            GatherNotFoundError: They were. The message names the last version, or says how to make the table.
        """
        name = result["name"]
        if await self.deployment.results.below(name).exists(key_in_folder(result["table"])):
            return
        last = await self.find(name)
        if last is None:
            raise removed_error("table", job)
        version = f"version {result['version']} of the table {name}, which {job} wrote, was removed"
        raise GatherNotFoundError(
            f"{version}: the last one is version {last.version}, by {last.result['job']}"
        )

    async def load(self, committed: Committed, folder: Path, *, with_lines: bool) -> BaseTable:
        """Copy a version to the disk, and open it.

        The folder is empty. Without lines, the images alone are copied.
        """
        path = folder / TABLE_KEY
        for name, beside in _PLACES.items():
            if name in committed.result and (with_lines or beside == "images"):
                to = path if beside is None else side_path(path, beside)
                await asyncio.to_thread(self._copy, committed.result[name], to)
        return BaseTable.open_(path) if with_lines else BaseTable.of_images(path)

    def _copy(self, href: str, to: Path) -> None:
        _, file = open_list_file(href, objects=self.deployment.objects, what="table")
        with closing(file), to.open("wb") as out:
            shutil.copyfileobj(file, out, _PART_NBYTES)

    async def copy_features(self, name: str, to: Path) -> None:
        """Copy the features that a job has written, to the disk."""
        href = f"{self.deployment.settings.table_href(name)}/{side_path(Path(TABLE_KEY), 'features')}"
        await asyncio.to_thread(self._copy, href, to)

    async def upload(self, name: str, path: Path, *, version: int) -> dict[str, str]:
        """Write the files of a version to a folder of their own. Return their addresses.

        Two other files lie beside the table.
        """
        folder = f"v{version}-{digest_of_path(side_path(path, 'images'))['xxh3'][:16]}"
        place = f"{self.deployment.settings.table_href(name)}/{folder}"
        files = self.deployment.results.below(name).below(folder)
        addresses = {}
        for field, beside in _PLACES.items():
            each = path if beside is None else side_path(path, beside)
            if beside == "pieces" and not each.exists():
                continue
            await files.put_stream(each.name, chunks(each))
            addresses[field] = f"{place}/{each.name}"
        return addresses

    async def commit(self, name: str, result: Mapping[str, Any], *, over: Committed | None) -> bool:
        """Make a version the last one. Return False if another one was committed meanwhile.

        ``over`` is the version that it was made of, if there was one.
        """
        etag = None if over is None else over.etag
        return await self.deployment.results.below(name).put_if(
            RESULT_KEY, json.dumps(result).encode(), etag=etag
        )


def removed_error(what: str, job: str) -> GatherNotFoundError:
    """Return the error of a table, or a ranking, whose files were removed."""
    return GatherNotFoundError(
        f"the files of the {what} {job} were removed: send its request again to make it anew"
    )


def table_name(append_to: object, kind: str) -> str:
    """Return the name of the table that a request appends to; it begins with its kind."""
    if not isinstance(append_to, str) or not _NAME.fullmatch(append_to):
        raise RequestError("write 1 to 60 letters, digits and hyphens", field="append_to")
    return append_to if append_to.startswith(f"{kind}-") else f"{kind}-{append_to}"


def chunks(path: Path) -> Iterator[bytes]:
    """Yield a file in parts."""
    with path.open("rb") as file:
        while content := file.read(_PART_NBYTES):
            yield content
