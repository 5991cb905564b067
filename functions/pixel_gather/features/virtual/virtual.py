"""Write references to the tiles of sources, as one cube, and open it. No pixel is read or copied."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import zarr
from msgspec.structs import replace as replace_fields

from pixel_gather.core.errors import ArrayExistsError, RequestError
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.extras import check_extra
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.plan.plan import plan_cube
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.row_coordinates import chunk_rows
from pixel_gather.engine.plan_gather import describe_place
from pixel_gather.features.join.icechunk_repository import Repository, warn_of_payers
from pixel_gather.features.join.join import open_repository
from pixel_gather.features.join.read_members import changed_rows
from pixel_gather.features.virtual.refer_tiles import refer_tiles
from pixel_gather.features.virtual.virtual_cube import VirtualCube
from pixel_gather.in_process.job import opened_job
from pixel_gather.in_process.places import check_new_place, refuse_within_cube_of_bucket, show_place
from pixel_gather.in_process.progress import Progress, SourceCounter
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.bounded_codecs import open_foreign_dataset
from pixel_gather.io.cube.open_group import errors_of_cube
from pixel_gather.io.cube.zarr_metadata import gather_of
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.store_settings import StoreSettings

if TYPE_CHECKING:
    import xarray as xr

_NO_LIMIT: Final = 1 << 50
"""Largest size of a task, in bytes: no pixel is ever in memory."""

_ADVICE: Final = "replace (--replace) writes a new version"
_CHANGED: Final = (
    "this file has changed since its tiles were referred to: refer to them again, "
    "by a new index and --replace"
)

_GATHER: Final = "gather the pixels (pixel-gather run)"
_OR_GATHER: Final = f"leave it out, or {_GATHER}"
_AS_STORED: Final = f"references show pixels as they are stored: {_OR_GATHER}"
_AS_A_WHOLE: Final = "a virtual cube is made as a whole: leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtual:
    """A virtual cube that was written."""

    place: str
    """Location: a local path, or ``s3://bucket/prefix``."""

    report: Report
    """As of a gather. No source was read, so its bytes and requests are those of headers."""

    n_references: int
    """Tiles that are referred to."""

    referred_nbytes: int
    """Bytes of these tiles. None of them was read."""

    version: int
    """Number of the version."""

    stores: StoreSettings = field(default_factory=StoreSettings, repr=False)
    """How to access the location and the sources."""

    def open(self) -> "xr.Dataset":
        """Open the cube; see `open_virtual`."""
        return open_virtual(self.place, self.version, stores=self.stores)


@check_arguments
def make_virtual(
    request: Mapping[str, Any] | GatherRequest,
    *,
    to: str | os.PathLike[str],
    replace: bool = False,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Virtual:
    """Write a cube that refers to the tiles of one window of every source. No pixel is read or copied.

    The cube has the rows, the coordinates and the statuses of a gather with codec ``source``. What such a
    gather refuses is refused here, too. A source that does not fit has a status, and ``failure`` says why.
    Its row holds the fill value. If the request names a header index, no header is read either.

    Args:
        request: See `pixel_gather.core.request.request.GatherRequest`.
            Its window begins at a corner of tiles.
        to: Where to write the Icechunk repository: a folder, or ``s3://bucket/prefix``.
        replace: Write a new version of the cube that is there. Former versions stay.
        settings: How this machine is used.
        on_progress: Called after each source.

    Raises:
        RequestError: The request or its list is wrong, or the tiles do not fit. Nothing was written.
        BudgetError: The plan is over a limit. Nothing was written.
        ArrayExistsError: Something else is at ``to``, or there is a cube and ``replace`` is not set.
        StoreError: The cube could not be written. Nothing was changed.
        BusyError: Others have written there at the same time. Nothing was changed.
        MissingExtraError: icechunk is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    check_extra("join", "virtual cubes")
    href = check_new_place(to)
    settings = settings or Settings()
    run(refuse_within_cube_of_bucket(href, settings.stores))
    if not replace and Repository.is_used(href, show_place(href), settings.stores):
        raise ArrayExistsError(f"{show_place(href)}: references are there already: {_ADVICE}")
    cube, report = run(_refer_to_tiles(_as_stored(parse_request(request)), href, settings, on_progress))
    repository = _repository(href, settings.stores, cube.folders, replace=replace)
    said = f"refer to {counted(cube.n_references, 'tile')} of {counted(report.n_sources, 'source')}"
    with repository.transaction(
        said, {"rows": cube.plan.n_rows, "references": cube.n_references}
    ) as transaction:
        transaction.clear()
        cube.write(transaction)
    warnings = warn_of_payers(cube.folders, settings.stores, instead=_GATHER)
    report = replace_fields(report, warnings=(*warnings, *report.warnings))
    return Virtual(
        place=show_place(href),
        report=report,
        n_references=cube.n_references,
        referred_nbytes=cube.referred_nbytes,
        version=len(repository.history()),
        stores=settings.stores,
    )


@check_arguments
def open_virtual(
    cube: str | os.PathLike[str],
    version: str | int | datetime | None = None,
    *,
    stores: StoreSettings | None = None,
    **decoding: Any,
) -> "xr.Dataset":
    """Open a virtual cube with xarray. Tiles are read from the sources when they are used.

    If a source has changed since, reading its pixels raises a `StoreError` that names it.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        version: A number, an id, or a time: the latest version of that time, or of the end of a date. None
            for the latest.
        stores: How to access S3.
        decoding: Arguments of xarray that say how values are decoded: ``mask_and_scale=False`` gives them as
            they are stored.

    Raises:
        RequestError: There is no such version, or joined cubes are there.
        StoreError: No virtual cube is there, or it cannot be read.
        MissingExtraError: icechunk or xarray is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store = open_repository(cube, stores).at(version, changed=_CHANGED)
    with errors_of_cube(str(cube)):
        found = open_foreign_dataset(store, decoding)
    if "status" not in found.variables:
        raise RequestError("joined cubes are there: open them by open_joined", field="cube")
    with errors_of_cube(str(cube)):
        root = zarr.open_group(store, mode="r", use_consolidated=False)
        store.refuse(changed_rows(root, gather_of(root.attrs)["report"]["measurements"]))
    return found


def _as_stored(request: GatherRequest) -> GatherRequest:
    """Return the request with codec ``source``, or refuse what a virtual cube cannot have."""
    output = request.output
    refused = {
        "output.codec": (
            "codec" in output.model_fields_set and output.codec != AS_STORED,
            "a virtual cube has the sources' own tiles, so it has no other codec: leave it out",
        ),
        "windows": (request.windows is not None, "chips do not begin at corners of tiles: gather them"),
        "masked": (request.masked, _AS_STORED),
        "mask": (request.mask is not None, _AS_STORED),
        "grid": (
            request.common_grid is not None,
            f"references show pixels on the files' own grid: {_OR_GATHER}",
        ),
        "values": (request.values != "raw", _AS_STORED),
        "reduce": (request.reduce is not None, _AS_STORED),
        "output.layout": (output.layout != "balanced", "its chunks are the sources' tiles: leave it out"),
        "output.bands": (output.has_band_axis, "references have an array for each band: leave it out"),
        "output.sharding": (not output.sharding, "a virtual cube has no shards of its own: leave it out"),
        "output.append_to": (output.append_to is not None, _AS_A_WHOLE),
        "output.archive": (output.archive is not None, _AS_A_WHOLE),
        "sources.sign": (
            request.sources.sign != "none",
            "signed addresses expire, so a virtual cube cannot refer to them",
        ),
    }
    for name, (is_asked, why) in refused.items():
        if is_asked:
            raise RequestError(why, field=name)
    no_prices = request.limits.model_copy(update={"usd": None, "fetched_bytes": None})
    return request.model_copy(
        update={"output": output.model_copy(update={"codec": AS_STORED}), "limits": no_prices}
    )


async def _refer_to_tiles(
    request: GatherRequest, href: str, settings: Settings, on_progress: Callable[[Progress], None]
) -> tuple[VirtualCube, Report]:
    async with opened_job(request.sources, settings, request=request) as job:
        plan = await plan_cube(
            request,
            table=job.table,
            sources=job.sources,
            workers=WorkerPool(max_task_nbytes=_NO_LIMIT),
            now=time.time(),
            by_reference=True,
        )
        plan = describe_place(plan, job.projector)
        counter = SourceCounter(
            plan=plan, on_progress=on_progress, progress=Progress(n_sources=plan.n_sources)
        )
        cube = await VirtualCube.begin(plan, show_place(href))
        batches = refer_tiles(
            cube.plan,
            table=job.table,
            sources=job.sources,
            on_source=counter.note,
            n_rows=chunk_rows(plan.n_rows),
        )
        async with aclosing(batches):
            async for batch in batches:
                await cube.add(batch)
        report = await cube.complete()
    if not report.n_read:
        cause = report.causes[0]
        raise RequestError(
            f"no source can be referred to; {shown_href(cause.hrefs[0])}: {cause.reason}", field="sources"
        )
    return cube, report


def _repository(href: str, stores: StoreSettings, folders: tuple[str, ...], *, replace: bool) -> Repository:
    place = show_place(href)
    if replace:
        return Repository.open(
            href,
            place,
            stores,
            more_folders=folders,
            advice="leave out replace (--replace) to make a virtual cube there",
        )
    return Repository.create(href, place, stores, folders=folders, advice=_ADVICE)
