"""The rights of each function to data: which objects its role may read, write and list."""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam

from infra.buckets import Buckets
from infra.functions import Functions
from infra.settings import SourceBucket
from infra.source_access import grant_sources


def grant_data(functions: Functions, buckets: Buckets, sources: Sequence[SourceBucket]) -> None:
    """Grant each function what it reads and writes, and nothing else."""
    buckets.lists.grant_get(functions.submit.role)  # to see whether the list is there
    buckets.lists.grant_put(functions.submit.role)  # callers use it by presigned URLs
    buckets.summaries.grant_get(functions.status.role)
    buckets.cancelled.grant_put(functions.status.role)
    buckets.halted.grant_get(functions.status.role)  # a redrive passes no plan

    for planner in (functions.dry_run, functions.plan):
        _grant_reading(planner.role, buckets, sources, may_list=True)
        buckets.lists.grant_get(planner.role)
        buckets.indexes.grant_get(planner.role)
        buckets.samples.grant_get(planner.role)
    _grant_tables(functions, buckets, sources)
    # to see when the last row of a cube or a table was taken
    for area in (buckets.roots, buckets.times, buckets.table_results):
        area.grant_get(functions.tick.role)
    buckets.cubes.grant_list(functions.tick.role)  # else S3 answers 403 where there is no cube
    for area in (buckets.roots, buckets.reports, buckets.gathers):  # to find an earlier gather
        area.grant_get(functions.plan.role)
    for area in (buckets.metadata, buckets.archives, buckets.claims, buckets.statuses, buckets.gathers):
        area.grant_put(functions.plan.role)
    # of a cube that an append adds rows to
    of_cube = (buckets.rows, buckets.contributors, buckets.receipts)
    for area in (buckets.roots, buckets.archives, *of_cube):
        area.grant_get(functions.dry_run.role)
    buckets.cubes.grant_list(functions.dry_run.role)  # else S3 answers 403 where there is no cube or archive
    for area in (buckets.archives, *of_cube, buckets.claims, buckets.statuses):
        area.grant_get(functions.plan.role)
    for area in (buckets.cubes, buckets.gathers):
        area.grant_list(functions.plan.role)  # to see whether the place is empty and which shards are there
    buckets.summaries.grant_put(functions.plan.role)

    for shard in functions.shards:
        _grant_reading(shard.role, buckets, sources, may_list=False)
        buckets.samples.grant_get(shard.role)
        buckets.gathers.grant_get(shard.role)
        buckets.cubes.grant_put(shard.role)
        buckets.cubes.grant_get(shard.role)  # to see which shard is there; an append continues the last one
        buckets.sidecars.grant_put(shard.role)
        buckets.cancelled.grant_get(shard.role)

    buckets.gathers.grant_get(functions.finish.role)
    buckets.gathers.grant_list(functions.finish.role)
    buckets.cancelled.grant_get(functions.finish.role)
    buckets.pace.grant_get(functions.finish.role)  # to leave the register of the gathers that run
    buckets.pace.grant_put(functions.finish.role)
    buckets.lost.grant_put(functions.finish.role)  # which shards have been given up
    buckets.cubes.grant_get(functions.finish.role)
    buckets.cubes.grant_put(functions.finish.role)
    buckets.cubes.grant_list(functions.finish.role)


def _grant_tables(functions: Functions, buckets: Buckets, sources: Sequence[SourceBucket]) -> None:
    for planner in (functions.rank, functions.answer_tables, functions.plan_table):
        _grant_reading(planner.role, buckets, sources, may_list=True)
        buckets.lists.grant_get(planner.role)
        buckets.tables.grant_get(planner.role)
    for ranker in (functions.rank, functions.plan_table):
        buckets.statistics.grant_get(ranker.role)
        buckets.statistics.grant_put(ranker.role)
    for answering in (functions.rank, functions.answer_tables):
        buckets.summaries.grant_get(answering.role)

    buckets.tables.grant_put(functions.plan_table.role)
    buckets.table_files.grant_get(functions.plan_table.role)
    buckets.table_files.grant_put(functions.plan_table.role)
    buckets.table_files.grant_list(functions.plan_table.role)
    buckets.summaries.grant_put(functions.plan_table.role)

    _grant_reading(functions.read_images.role, buckets, sources, may_list=False)
    buckets.table_files.grant_get(functions.read_images.role)
    buckets.table_sidecars.grant_put(functions.read_images.role)


def _grant_reading(
    role: iam.Role, buckets: Buckets, sources: Sequence[SourceBucket], *, may_list: bool
) -> None:
    """Allow reading sources, and sharing the requests that their hosts allow."""
    grant_sources(role, sources, may_list=may_list)
    buckets.pace.grant_get(role)
    buckets.pace.grant_put(role)
