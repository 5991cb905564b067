"""The rights of each function to data: which objects its role may read, write and list."""

from collections.abc import Iterable, Sequence

from infra.buckets import Area, Buckets
from infra.functions import Functions
from infra.lambda_function import GatherFunction
from infra.settings import SourceBucket
from infra.source_access import grant_sources


def grant_data(functions: Functions, buckets: Buckets, sources: Sequence[SourceBucket]) -> None:
    """Grant each function what it reads and writes, and nothing else."""
    lists, gathers, cubes = buckets.lists, buckets.gathers, buckets.cubes
    of_cube = (buckets.rows, buckets.contributors, buckets.receipts)  # that an append adds rows to

    # Submit sees whether a list is there. Callers put it by presigned URLs.
    _grant(functions.submit, get=[lists], put=[lists])
    # A redrive passes no plan, so status looks whether all is halted.
    _grant(functions.status, get=[buckets.summaries, buckets.halted, buckets.roots], put=[buckets.cancelled])
    _grant(functions.status, list_=[cubes])  # it sees whether a cube was removed
    # Tick sees when the last row was taken. Without the right to list, S3 answers 403 for what is not there.
    _grant(functions.tick, get=[buckets.roots, buckets.times, buckets.table_results], list_=[cubes])

    for planner in (functions.dry_run, functions.plan):
        _grant_reading(planner, buckets, sources, may_list=True)
        _grant(
            planner, get=[lists, buckets.indexes, buckets.samples, buckets.roots, buckets.archives, *of_cube]
        )
        _grant(planner, list_=[cubes])
    # Plan finds an earlier gather, looks whether a place is empty and which shards are there, and claims it.
    _grant(
        functions.plan,
        get=[buckets.reports, gathers, buckets.claims, buckets.statuses],
        put=[
            buckets.metadata,
            buckets.archives,
            buckets.claims,
            buckets.statuses,
            gathers,
            buckets.summaries,
        ],
        list_=[gathers],
    )

    for shard in functions.shards:
        _grant_reading(shard, buckets, sources, may_list=False)
        # It sees which shard is there, and an append continues the last one.
        _grant(shard, get=[buckets.samples, gathers, cubes, buckets.cancelled], put=[cubes, buckets.sidecars])

    # Finish leaves the register of the gathers that run, and gives up shards that no worker has committed.
    _grant(
        functions.finish,
        get=[gathers, buckets.cancelled, buckets.pace, cubes],
        put=[buckets.pace, buckets.sidecars, cubes],
        list_=[gathers, cubes],
    )
    _grant_tables(functions, buckets, sources)


def _grant_tables(functions: Functions, buckets: Buckets, sources: Sequence[SourceBucket]) -> None:
    for planner in (functions.rank, functions.answer_tables, functions.plan_table):
        _grant_reading(planner, buckets, sources, may_list=True)
        _grant(planner, get=[buckets.lists, buckets.tables])
    for ranker in (functions.rank, functions.plan_table):
        _grant(ranker, get=[buckets.statistics], put=[buckets.statistics])
    for answering in (functions.rank, functions.answer_tables):
        _grant(answering, get=[buckets.summaries])
    files = buckets.table_files
    _grant(functions.plan_table, get=[files], put=[buckets.tables, files, buckets.summaries], list_=[files])
    _grant_reading(functions.read_images, buckets, sources, may_list=False)
    _grant(functions.read_images, get=[files], put=[buckets.table_sidecars])


def _grant_reading(
    function: GatherFunction, buckets: Buckets, sources: Sequence[SourceBucket], *, may_list: bool
) -> None:
    """Allow reading sources, and sharing the requests that their hosts allow."""
    grant_sources(function.role, sources, may_list=may_list)
    _grant(function, get=[buckets.pace], put=[buckets.pace])


def _grant(
    function: GatherFunction,
    *,
    get: Iterable[Area] = (),
    put: Iterable[Area] = (),
    list_: Iterable[Area] = (),
) -> None:
    """Allow a function to read, write and list the objects of these areas."""
    for area in get:
        area.grant_get(function.role)
    for area in put:
        area.grant_put(function.role)
    for area in list_:
        area.grant_list(function.role)
