"""The requests, bytes and tasks that a gather takes, and the bytes that a worker holds. Pure."""

import math
from collections.abc import Mapping, Sequence
from copy import replace
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from pixel_gather.core.errors import BudgetError
from pixel_gather.core.estimate.pricing import n_puts
from pixel_gather.core.estimate.range_parts import HERE, LAMBDA, Parts, choose_parts
from pixel_gather.core.estimate.worker_limits import MOST_PARTS
from pixel_gather.core.estimate.workload import WorkerPool, Workload
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.core.plan.cube_plan import Append, Measurement, Reduction, SourceSlot, pixel_nbytes
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.slot_draft import Draft
from pixel_gather.core.ports import OpenedSource, SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest


_S3: Final = "s3://"


def pool_of(
    request: "GatherRequest", workers: WorkerPool, *, n_by_bucket: Mapping[str, int], n_sources: int
) -> WorkerPool:
    """Return the workers for the estimate, within the request's limits.

    Args:
        request: The request.
        workers: All that there may be.
        n_by_bucket: Sources in each S3 bucket.
        n_sources: All sources.
    """
    return replace(
        workers,
        asked_workers=request.limits.workers,
        max_usd=request.limits.usd,
        gets_per_s=_allowed_per_s(request.limits.requests_per_s or {}, n_by_bucket, n_sources=n_sources),
        # if shards may be lost, the map counts the lost ones: so each shard is a child
        tasks_per_child=1 if request.limits.failed_shards else None,
        may_be_inline=not (request.limits.workers or request.limits.failed_shards),
    )


def _allowed_per_s(per_s: Mapping[str, float], n_by_bucket: Mapping[str, int], *, n_sources: int) -> float:
    """Return how many sources' requests a second the limits allow. The host with the least to give decides.

    The list does not tell the hosts of sources outside of S3. Each may have all of them.
    """
    elsewhere = n_sources - sum(n_by_bucket.values())
    of_hosts = {
        root: n_by_bucket.get(root.removeprefix(_S3), 0) if root.startswith(_S3) else elsewhere
        for root in per_s
    }
    return min((per_s[root] * n_sources / n for root, n in of_hosts.items() if n), default=inf)


def parts_of(work: Workload, workers: WorkerPool) -> Parts:
    """Choose whether sources are fetched in parts. It depends on the network of the reading machine."""
    link = LAMBDA if workers.is_deployed else HERE
    return choose_parts(work.window_nbytes, link=link, n_in_flight=work.n_side_by_side)


def plan_workload(
    drafts: Sequence[Draft],
    table: SourceTable,
    chosen: CubeTemplate,
    reduction: Reduction | None,
    *,
    append: Append,
    in_flight: int,
) -> Workload:
    """Return what a gather takes.

    Args:
        drafts: What was learned of each band's sources.
        table: The list.
        chosen: What the cube prescribes.
        reduction: How scenes become the rows of the cube, if they do.
        append: Where the rows go, and which rows are tried again.
        in_flight: The most requests that a worker has at one time.
    """
    # How many requests and bytes do the sources of each band take?
    layout, measurements = chosen.layout, chosen.measurements
    n_sources = table.n_sources + append.n_again + append.n_beside
    per_slot = n_sources / len(drafts)
    to_open = 1 - table.n_known / table.n_sources
    if isinstance(table, ChipTable):  # a task opens each image once for all of its chips
        to_open = table.axis.n_images / layout.shard[0]
    gets, fetched, window_nbytes, most_gets = 0.0, 0.0, 0.0, 1.0
    for draft in drafts:
        ranges, mean_nbytes = draft.mean_gets, draft.mean_nbytes
        if isinstance(table, ChipTable):  # all chips of a task take at most one whole image
            n_rows, share = touched(draft.slot)
            ranges = n_rows * _n_planes(draft.header, draft.slot.bands)
            mean_nbytes *= min(share, table.axis.n_images / layout.shard[0])
        gets += per_slot * (to_open + ranges)
        fetched += per_slot * (to_open * draft.mean_open_nbytes + mean_nbytes)
        window_nbytes = max(window_nbytes, mean_nbytes)
        most_gets = max(most_gets, min(ranges, MOST_PARTS))
    # How many tasks are there, and how large is one in memory?
    height, width = drafts[0].slot.window.height, drafts[0].slot.window.width
    shape = (table.n_rows, height, width)
    n_strips = layout.n_shards(shape)[1]
    n_tasks = (layout.n_shards(shape)[0] + append.n_places_again(layout.shard[0])) * n_strips
    n_scenes, most_scenes = table.n_rows, min(layout.shard[0], max(table.n_rows, 1))
    scene_nbytes = pixel_nbytes(measurements)
    task_nbytes: float = math.prod(layout.shard) * scene_nbytes
    if reduction is not None:  # a worker measures and holds the scenes, and stores little
        n_scenes, most_scenes = reduction.n_scenes, reduction.most_scenes
        task_nbytes = reduced_task_nbytes(layout, measurements, reduction)
        scene_nbytes = pixel_nbytes(reduction.measurements)
    # All that the estimate needs to know.
    n_of_task = most_scenes * len(drafts)
    search = table.search_cost
    return Workload(
        n_sources=n_sources,
        n_search_pages=0 if search is None else search.n_pages,
        n_search_gets=0 if search is None else search.n_gets,
        n_indexed=table.n_known,
        n_gets=round(gets),
        fetched_nbytes=round(fetched),
        window_nbytes=window_nbytes / max(n_strips, 1),
        n_side_by_side=max(min(n_of_task, int(in_flight / most_gets)), 1),
        decoded_nbytes=n_scenes * height * width * scene_nbytes,
        n_tasks=n_tasks,
        task_nbytes=round(task_nbytes),
        nbytes_by_bucket={
            bucket: round(fetched * n / table.n_sources) for bucket, n in table.n_by_bucket.items()
        },
        n_puts=n_puts(
            n_tasks=n_tasks,
            n_arrays=1 if chosen.bands_are_axis else len(measurements),
            n_rows=table.n_rows,
            n_columns=len(table.columns),
        ),
    )


def reads_of_window(opened: OpenedSource, window: Window, bands: Sequence[int]) -> tuple[int, float]:
    """Return how many requests and bytes a read of a window takes.

    If the source does not know, both are estimated. The estimated bytes are those of all its bands.

    Args:
        opened: The source, at the level that is read.
        window: It lies on the raster.
        bands: Which bands, from 1.
    """
    known = opened.known_reads(window, bands)
    if known is not None:
        return known
    header = opened.header
    n_rows, share = _count_touched(Grid.of(header), window)
    return n_rows * _n_planes(header, bands), share * level_share(header) * header.nbytes


def _n_planes(header: Header, bands: Sequence[int]) -> int:
    """Return how many tiles hold the same pixels of some bands."""
    return len(bands) if header.coding is not None and not header.coding.is_interleaved else 1


def level_share(header: Header) -> float:
    """Return which share of all pixels in a file those of its header's level are.

    It is 1 if overviews were not looked for. The header of an overview does not tell the size of the image,
    which is taken to be twice as wide and high as the largest overview.
    """
    size, reduced = (header.width, header.height), header.overviews
    if not reduced:
        return 1.0
    n_pixels = [width * height for width, height in reduced]
    own = size[0] * size[1]
    return own / (sum(n_pixels) + (4 * n_pixels[0] if size in reduced else own))


def touched(slot: SourceSlot) -> tuple[int, float]:
    """Return the likely number of ranges of a window, and its share of the file's bytes."""
    return _count_touched(*slot.read_from)


def _count_touched(grid: Grid, wanted: Window) -> tuple[int, float]:
    window = wanted.clipped(width=grid.width, height=grid.height) or wanted
    rows = -(-window.row_stop // grid.tile_height) - window.row_off // grid.tile_height
    cols = -(-window.col_stop // grid.tile_width) - window.col_off // grid.tile_width
    all_tiles = -(-grid.height // grid.tile_height) * -(-grid.width // grid.tile_width)
    return rows, rows * cols / all_tiles


def held_share(slots: Sequence[SourceSlot], measurements: Sequence[Measurement]) -> float:
    """Return the bytes that a worker holds for each byte of a shard: sources' own pixels are held, too."""
    return held_nbytes(slots, measurements) / pixel_nbytes(measurements)


def held_nbytes(slots: Sequence[SourceSlot], measurements: Sequence[Measurement]) -> float:
    """Return the bytes that a worker holds for each pixel of a scene."""
    nbytes = [len(each.bands) * np.dtype(each.dtype).itemsize for each in slots]
    own = sum(n * each.own_share for n, each in zip(nbytes, slots, strict=True))
    own += sum(np.dtype(slots[each.slot].dtype).itemsize for each in measurements if each.stored is not None)
    return own + pixel_nbytes(measurements)


def reduced_task_nbytes(layout: Layout, measurements: Sequence[Measurement], reduction: Reduction) -> float:
    """Return what a worker holds for one shard of reduced rows, in bytes."""
    row_nbytes = layout.shard[0] * pixel_nbytes(measurements)
    scenes_nbytes = reduction.most_scenes * held_nbytes(reduction.slots, reduction.measurements)
    return math.prod(layout.shard[1:]) * (row_nbytes + scenes_nbytes)


def check_task_fits(
    template: CubeTemplate, max_task_nbytes: int, *, reduction: Reduction | None = None
) -> None:
    """Refuse a cube whose shards do not fit the workers.

    Args:
        template: That of the cube.
        max_task_nbytes: What a worker holds.
        reduction: How scenes become the rows that are read, if they do. All scenes of a shard are held.

    Raises:
        BudgetError: They are too large.
    """
    if reduction is None:
        held = held_nbytes(template.slots, template.measurements)
        task_nbytes = math.prod(template.layout.shard) * held
    else:
        task_nbytes = reduced_task_nbytes(template.layout, template.measurements, reduction)
    if task_nbytes > max_task_nbytes:
        raise BudgetError(
            f"a shard of the cube takes {task_nbytes / 2**20:,.0f} MiB, and workers hold "
            f"{max_task_nbytes / 2**20:,.0f} MiB: use workers with more memory"
        )
