"""Counts how often a table was removed: what was read before a removal must not come back.

Nobody tells a deployment that a table was removed. So each table that is made leaves a note. The note stays
when the table is removed, until it expires as all control files do. If a table has a note and is not there,
it was removed. If it is there, its result says how often it was removed before.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from handlers.deployment.stores import Deployment
from pixel_gather.core.errors import StoreError
from pixel_gather.tables.map_tasks import RoundState, keep_result

_MADE: Final = "made/"
"""Folder of the notes. The name of each is the number of removals before the table was made."""


class _Result(Struct, frozen=True):
    """The field of a table's result that is read here."""

    removals: int = 0
    """How often the table was removed before. Tables of older versions of this program lack it."""


async def count_removals(deployment: Deployment, table: str) -> int:
    """Return how often a table was removed so far.

    Raises:
        StoreError: The table's result is damaged.
    """
    # The notes are read first. If the table is made before its result is read, the result counts.
    notes = await deployment.table_files(table).list_(_MADE)
    found = await deployment.find_result(table, type=_Result)
    if found is not None:
        return found[0].removals
    return max((1 + int(key.removeprefix(_MADE)) for key in notes), default=0)


async def check_not_removed(deployment: Deployment, table: str, state: RoundState) -> None:
    """Raise an error if a table was removed since an attempt at it was begun.

    Raises:
        StoreError: The table was removed: what the attempt has read may be older. Or its result is damaged.
    """
    if await count_removals(deployment, table) != state.removals:
        raise StoreError("the table was removed since this job was begun: send the request again")


async def note_result(
    deployment: Deployment, name: str, state: RoundState, result: Mapping[str, Any]
) -> None:
    """Note that the table of a job was made. Note the job's result, too.

    The name is the job's. It differs from that of the table if the job appends.
    """
    await deployment.table_files(result["name"]).put(f"{_MADE}{result.get('removals', 0)}", b"")
    await keep_result(state, deployment.table_files(name), result)
