"""Try all failed rows of a cube again, in this process."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import place_text
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.engine.base_cube import find_growing_cube, read_base
from pixel_gather.engine.find_failed_rows import FailedRows, request_of_row
from pixel_gather.features.gather.gather import gather_listed
from pixel_gather.features.gather.gathered import Gathered
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import open_existing
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather.io.cube.stored_table import StoredTable
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.event_loop import run


@check_arguments
def retry_failed(
    cube: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Gathered | None:
    """Read the failed sources of a cube again, whatever their status and however often they were tried.

    Pixels and coordinates of what is read now are put in the rows where they belong, as a new version. If
    rows were added by requests for other windows or other tokens, there is a version for each of these.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        settings: How this machine is used.
        on_progress: Called after each source.

    Returns:
        The cube as it is now. None if it has no failed source that can be read again.

    Raises:
        RequestError: There is no cube, or it cannot grow.
        StoreError: The cube could not be written. Repeat the call to go on.
    """
    return run(retry_failed_async(cube, settings=settings, on_progress=on_progress))


@check_arguments
async def retry_failed_async(
    cube: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Gathered | None:
    """Read the failed sources of a cube again; see `retry_failed`."""
    settings, place = settings or Settings(), place_text(cube, "cube")
    store, name = open_existing(place, settings.stores, to_write=True)
    try:
        requests = await _requests(ZarrCube(store, name), place)
    except RequestError:
        instead = "retry the cubes that are joined. A virtual cube is made again from its list"
        await asyncio.to_thread(refuse_joined, store, name, done="retried", instead=instead)
        raise
    gathered = None
    for request in requests:
        table = _NoNewRows(await asyncio.to_thread(StoredCube, store, place=name), band_numbers={})
        gathered = await gather_listed(
            request, to=None, table=table, settings=settings, on_progress=on_progress
        )
    return gathered


class _NoNewRows(StoredTable):
    """The cube's list, without its rows: what has failed stands in the cube's table of rows."""

    @property
    def n_rows(self) -> int:
        """None of the cube's."""
        return 0


async def _requests(cube: ZarrCube, place: str) -> list[GatherRequest]:
    """Return the requests that have added rows which have failed, each with this cube as its place."""
    found, receipt = await find_growing_cube(cube, field="cube"), await cube.receipt()
    base = await read_base(_request(receipt.request, place), None, cube, found)
    assert base.template is not None  # noqa: S101 # the cube is there
    failed = FailedRows(template=base.template, n_rows=base.append.first_row, asks_for_all=True)
    for _ in failed.watch(base.rows):
        pass
    if not failed.rows:
        return []
    return _own_requests(failed, receipt, place)


def _own_requests(failed: FailedRows, receipt: Receipt, place: str) -> list[GatherRequest]:
    requests: list[GatherRequest] = []
    while failed.rows:
        own = request_of_row(receipt, min(failed.rows))
        requests.append(_request(own, place))
        others = FailedRows(
            template=failed.template, n_rows=failed.n_rows, asks_for_all=True, rows=dict(failed.rows)
        )
        others.leave_to_others(requests[-1].to_json(), receipt, settles=False)
        for row in others.rows:
            del failed.rows[row]
    return requests


def _request(own: Mapping[str, Any], place: str) -> GatherRequest:
    """Return a request that reads the failed sources of a cube as their own request did.

    Of the limits, only ``requests_per_s`` is kept.
    """
    limits = {name: each for name, each in own.get("limits", {}).items() if name == "requests_per_s"}
    given = {name: each for name, each in own.items() if name not in ("index", "limits", "duplicates")}
    report = {name: each for name, each in own.get("output", {}).items() if name == "report"}
    output = report | {"append_to": place}
    return parse_request(given | {"output": output, "limits": limits, "failed_rows": "retry_all"})
