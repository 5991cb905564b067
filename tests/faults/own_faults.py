"""Faults on our side: what fails, what the gather does, and the test that injects it.

`docs/faults.md` is made of these rows.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OwnFault:
    """One fault."""

    injected: str
    expected: str
    shown_by: str
    """Test module below ``tests``, and the test's name."""


_WHOLE_GATHERS: Final = "engine/test_whole_gathers.py"
_COMMIT: Final = "engine/test_commit_shard.py"
_APPEND: Final = "engine/test_append.py"
_CUBE: Final = "cube/test_zarr_cube.py"
_HANDLERS: Final = "handlers/gather/test_gather_functions.py"
_GATHERS: Final = "e2e/test_gathers.py"
_SHARDS: Final = "e2e/test_many_shards.py"
_OWN: Final = "faults/test_own_faults.py"
_SIMULATION: Final = "faults/test_simulation.py::test_finished_cubes_hold_the_pixels_that_they_say_they_hold"


def _fault(injected: str, expected: str, module: str, name: str = "") -> OwnFault:
    return OwnFault(injected, expected, f"{module}::{name}" if name else module)


FAULTS: Final = (
    _fault(
        "a worker has no more time",
        "sources that are not read yet are `timed_out`; what was read is kept",
        _HANDLERS,
        "test_sources_still_unread_when_time_is_up_time_out",
    ),
    _fault(
        "the first try of a shard is late",
        "it ends before the state machine stops waiting, and a fresh worker does the shard",
        _HANDLERS,
        "test_gather_shard_that_is_late_leaves_it_to_a_fresh_worker",
    ),
    _fault(
        "a worker needs more memory than its function has",
        "its process is killed, and the shard is tried again",
        "infra/bundle/test_bootstrap.py",
        "test_bootstrap_kills_a_function_over_its_memory",
    ),
    _fault(
        "a worker is killed while it reads, while it puts, or at any other of its requests",
        "another worker fills the shard",
        _SIMULATION,
    ),
    _fault(
        "a run is killed between two shards",
        "the next run reads only what is not committed, and makes the same pixels",
        "features/test_gather.py",
        "test_a_killed_run_goes_on_and_ends_with_the_same_pixels",
    ),
    _fault(
        "a command is killed at any change of a local table; images are replaced; the table is removed",
        "the next command goes on; what was read before a removal does not come back",
        "faults/test_killed_tables.py",
        "test_a_killed_table_holds_what_was_there_since_it_was_removed",
    ),
    _fault(
        "a worker is killed between the objects of a shard and its sidecar",
        "the objects are replaced; the dead worker's sidecar is refused when it arrives",
        _COMMIT,
        "test_what_a_dead_worker_left_is_replaced_and_can_never_be_committed",
    ),
    _fault(
        "a control file or a sidecar cannot be written",
        "the next run repeats only uncommitted shards",
        _WHOLE_GATHERS,
        "test_gather_goes_on_after_a_crash",
    ),
    _fault(
        "finish is killed between the last coordinate and `complete`",
        "the cube is not complete; the next finish completes it without a worker",
        _OWN,
        "test_finish_that_is_killed_before_complete_is_repeated",
    ),
    _fault(
        "two workers do one task at the same time, and read different versions of its sources",
        "one result counts, with its own pixels",
        _COMMIT,
        "test_a_put_that_arrives_late_changes_nothing",
    ),
    _fault(
        "a task is done again after it has been committed",
        "nothing is read and nothing changes",
        _HANDLERS,
        "test_gather_shard_twice_leaves_the_first_ones_bytes",
    ),
    _fault(
        "a PUT of a shard arrives after the cube is complete",
        "it is refused (412)",
        _SIMULATION,
    ),
    _fault(
        "a shard's PUT succeeds, but its answer is lost",
        "the worker puts it again, and commits it once",
        _OWN,
        "test_shard_whose_answer_is_lost_is_committed_once",
    ),
    _fault(
        "a sidecar's PUT succeeds, but its answer is lost",
        "the worker finds its own sidecar",
        _OWN,
        "test_sidecar_whose_answer_is_lost_is_the_workers_own",
    ),
    _fault(
        "a conditional PUT is answered by 409, because another is under way",
        "it is tried again",
        _CUBE,
        "test_create_tries_again_while_another_put_is_under_way",
    ),
    _fault(
        "every conditional PUT is answered by 409",
        "an error that says to try again",
        _CUBE,
        "test_create_that_always_conflicts_is_worth_another_try",
    ),
    _fault(
        "a process is stopped right before its commit, and goes on when others have appended",
        "it writes nothing",
        "faults/test_stopped.py",
        "test_a_twin_that_goes_on_after_later_appends_writes_nothing",
    ),
    _fault(
        "an append that tried failed rows again is stopped within its commit, and another one takes over and "
        "gets other pixels",
        "the rows count as failed until the second one commits",
        "engine/test_find_failed_rows.py",
        "test_a_try_that_takes_over_withdraws_what_the_former_one_told",
    ),
    _fault(
        "a compaction is stopped, then a try of a reduced row is given up, then a source of the row is lost",
        "the row keeps the pixels of the sources that it had",
        "engine/test_reduced_rows_gain.py",
        "test_a_row_keeps_its_sources_though_sizes_tell_nothing",
    ),
    _fault(
        "a process is stopped while it replaces a file of a local folder",
        "others wait for it, or say why not",
        "faults/test_stopped.py",
        "test_a_commit_that_was_stopped_under_its_lock_replaces_nothing_newer",
    ),
    _fault(
        "two finishes of a gather begin, and one is faster",
        "both succeed; the slower one writes nothing",
        _CUBE,
        "test_second_finish_of_a_complete_cube_writes_nothing",
    ),
    _fault(
        "plan, tasks, list or sidecar are missing or damaged",
        "an error names the file and says what to do; the cube is not complete",
        _OWN,
        "test_damaged_control_file_is_named",
    ),
    _fault(
        "packed headers are damaged",
        "headers are read from the sources",
        _OWN,
        "test_damaged_packed_headers_are_not_used",
    ),
    _fault(
        "the cube's place refuses to be written to",
        "one error that names the place",
        "features/test_gather.py",
        "test_gather_raises_what_it_promises_where_the_cube_cannot_be_written",
    ),
    _fault(
        "the disk is full",
        "one error that names the place; the same run goes on when there is space",
        _OWN,
        "test_full_disk_is_one_error_and_the_gather_goes_on",
    ),
    _fault(
        "credentials of the cube's store expire in the middle of a run",
        "one error that says so; the same run goes on with new ones",
        _OWN,
        "test_credentials_that_expire_amid_a_run_are_one_error",
    ),
    _fault("an execution is stopped", "the same request goes on", _GATHERS, "test_gather_is_stopped"),
    _fault(
        "more shards fail than may, and the execution is redriven",
        "only those shards run again",
        _GATHERS,
        "test_gather_beyond_its_tolerance_fails_and_is_redriven",
    ),
    _fault(
        "finish fails",
        "the next attempt runs no worker",
        _GATHERS,
        "test_gather_whose_finish_failed_goes_on_without_a_worker",
    ),
    _fault(
        "two finishes run at the same time; one gives up a shard that a worker is about to commit",
        "whoever commits it first counts for both: its rows have pixels, or are `lost` and hold none",
        "faults/test_simulation.py",
        "test_finished_cubes_hold_the_pixels_that_they_say_they_hold",
    ),
    _fault(
        "an append is given up, and a shard of the next one at its place is lost",
        "the lost rows hold nodata",
        "engine/test_append.py",
        "test_lost_rows_hold_no_pixels_of_an_append_that_was_given_up",
    ),
    _fault(
        "finish runs twice",
        "the same result",
        _WHOLE_GATHERS,
        "test_finish_gather_of_a_complete_cube_returns_its_report",
    ),
    _fault(
        "the cube was removed, and the old gather is finished",
        "it is refused",
        _WHOLE_GATHERS,
        "test_finish_gather_leaves_a_cube_alone_that_was_planned_anew",
    ),
    _fault(
        "the cube was removed and planned anew while a worker read for the old gather",
        "the worker writes nothing",
        _WHOLE_GATHERS,
        "test_gather_shard_writes_nothing_into_a_cube_that_was_planned_anew_while_it_read",
    ),
    _fault(
        "a shard fails in every try",
        "the gather fails, or its rows are `lost` if the request allows it; no other row is touched",
        _SHARDS,
        "test_lost_shard_costs_its_own_rows",
    ),
    _fault(
        "one try of a shard fails",
        "only this shard is tried again",
        _SHARDS,
        "test_failing_try_costs_its_shard_another_and_no_other_shard",
    ),
    _fault(
        "invocations are throttled",
        "the state machine waits for most of a gather's time",
        "infra/test_state_machine.py",
        "test_tasks_wait_out_throttling_for_most_of_a_gathers_time",
    ),
    _fault(
        "all sources fail",
        "the cube is complete, and each row says why it is empty",
        _WHOLE_GATHERS,
        "test_gather_of_nothing_but_failures_still_finishes",
    ),
    _fault("no source", "the request is refused", _OWN, "test_no_source_is_refused"),
    _fault("one source", "a cube of one row", _OWN, "test_one_source_is_a_cube_of_one_row"),
    _fault(
        "a source is named twice",
        "two rows, and a warning",
        "plan/test_plan.py",
        "test_plan_cube_warns_of_sources_that_are_named_twice",
    ),
    _fault(
        "a source is replaced between plan and read, or after its header was indexed",
        "the new version is read, and named by its ETag",
        "features/test_index.py",
        "test_an_object_that_was_replaced_is_read_anew",
    ),
    _fault(
        "two planners begin at the same time",
        "the first claim wins; the other goes on with its plan",
        _WHOLE_GATHERS,
        "test_plan_gather_beside_another_leaves_what_that_has_made",
    ),
    _fault(
        "an append is killed before any of its requests",
        "the former version stays; the same append goes on",
        _APPEND,
        "test_an_append_that_was_killed_anywhere_leaves_the_old_version_and_goes_on",
    ),
    _fault(
        "a PUT of an append arrives after the append is committed",
        "it is refused",
        _APPEND,
        "test_a_late_worker_of_an_append_changes_no_committed_rows",
    ),
    _fault(
        "two appends at the same time", "both are added", _APPEND, "test_two_appends_at_once_lose_nothing"
    ),
    _fault(
        "an append that was given up goes on after another has taken over",
        "it is refused, and changes nothing",
        _APPEND,
        "test_another_append_takes_over_what_was_abandoned",
    ),
    _fault(
        "a cube is removed and gathered anew while an append is at work",
        "the append is refused, and writes nothing",
        "engine/test_committed_stays.py",
        "test_an_append_of_a_cube_that_was_gathered_anew_writes_nothing",
    ),
    _fault(
        "two joins at the same time",
        "one fails and changes nothing",
        "features/test_join_s3.py",
        "test_of_two_joins_at_once_one_fails_and_changes_nothing",
    ),
    _fault(
        "a copy of a join is stopped",
        "it is continued",
        "features/test_join.py",
        "test_a_copy_that_was_stopped_is_continued",
    ),
    _fault(
        "a member of a join changes later",
        "reading names it",
        "features/test_join.py",
        "test_a_member_that_changes_later_is_named_when_it_is_read",
    ),
    _fault(
        "a scene kills each worker of a ranking",
        "only this scene is listed as lost",
        "handlers/rank/test_rankings.py",
        "test_scene_that_kills_its_worker_is_listed_as_lost_and_no_other",
    ),
    _fault(
        "no worker of a ranking can read",
        "the ranking fails",
        "rank/test_map_rounds.py",
        "test_round_in_which_no_worker_can_read_fails",
    ),
    _fault(
        "an image kills each worker of a table of points",
        "only this image is listed as lost",
        "handlers/tables/test_feature_tables.py",
        "test_an_image_that_kills_its_worker_is_lost_and_no_other",
    ),
    _fault(
        "tasks and finishes of a table run twice, late and in any order",
        "the table is the same",
        "handlers/tables/test_feature_tables.py",
        "test_tasks_and_finish_may_run_in_any_order_and_again",
    ),
    _fault(
        "a round of a table is cut into tasks by two calls at once, and each cuts differently",
        "all workers have the tasks of the call that was first",
        "faults/test_table_simulation.py",
        "test_tables_hold_what_their_images_held",
    ),
    _fault(
        "a table is removed, and asked for again",
        "all of its images are read anew",
        "handlers/tables/test_appended_tables.py",
        "test_a_table_that_was_removed_is_made_again",
    ),
    _fault(
        "a step of a ranking runs again after the ranking was removed",
        "it answers with the former result, and writes nothing",
        "handlers/rank/test_rankings.py",
        "test_a_ranking_that_was_removed_is_made_again",
    ),
    _fault(
        "a scene is replaced while it is ranked, and statistics of its old version are stored late",
        "all levels that count are of the new version",
        "faults/test_ranking_simulation.py",
        "test_rankings_are_of_scenes_as_they_were",
    ),
    _fault(
        "a catalog is replaced twice while it is searched",
        "the search finds the right scenes",
        "handlers/search/test_search.py",
        "test_a_catalog_replaced_twice_is_searched_all_the_same",
    ),
)


def own_faults_text() -> str:
    """Return the table of the documentation."""
    lines = [f"| {each.injected} | {each.expected} | `{each.shown_by}` |" for each in FAULTS]
    return "\n".join(["| injected | what happens | shown by |", "| --- | --- | --- |", *lines])
