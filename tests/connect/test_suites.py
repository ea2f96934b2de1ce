"""What the runtime asks of Spark, over Spark Connect: one telling test for each part of Spark's interface that it uses.

A process speaks either to a Spark of its own or to servers, so these tests are in one of their own. That nothing else
is used than what Connect has is checked without Spark, by the unit tests of the project.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TELLING = (
    "tests/spark/tables/test_commits.py::test_of_racing_runs_one_applies_the_window_and_the_others_end_well[2]",
    "tests/adapter/test_arctic.py::TestLayers::test_a_run_publishes_exactly_what_changed_to_the_next_layer",
    "tests/adapter/test_promises.py::TestConnections",
)
MORE = (
    # Sessions: settings, views, namespaces, threads, catalogs of a profile, versions told by Java.
    "tests/spark/engine/test_session.py::test_settings_of_one_session_are_not_seen_by_another",
    "tests/spark/engine/test_session.py::test_profiles_that_differ_in_their_catalog_share_one_spark",
    "tests/spark/engine/test_session.py::test_a_profile_that_needs_another_spark_is_refused",
    "tests/spark/engine/test_session.py::test_temporary_views_of_one_session_are_not_seen_by_another",
    "tests/spark/engine/test_session.py::test_the_current_namespace_belongs_to_its_session",
    "tests/spark/engine/test_session.py::test_threads_get_sessions_of_their_own",
    "tests/spark/engine/test_session.py::test_versions_name_everything_that_does_the_work",
    "tests/spark/engine/test_session.py::test_the_error_for_an_ended_server_has_its_address_and_not_its_token",
    # Errors of the engine and answers that get lost, two commits in parallel, counts that a server did not tell.
    "tests/spark/tables/test_commits.py::test_a_table_that_moved_on_is_not_overwritten",
    "tests/spark/tables/test_commits.py::test_a_write_that_met_a_lock_is_not_sent_twice_to_one_branch",
    "tests/spark/tables/test_commits.py::test_a_locked_catalog_is_waited_for",
    "tests/spark/tables/test_commits.py::test_a_commit_whose_answer_was_lost_is_found_and_not_done_again",
    "tests/spark/tables/test_commits.py::test_rows_that_come_while_others_are_deleted_stay_whichever_commit_is_first",
    "tests/spark/tables/test_commits.py::test_rows_are_counted_where_a_server_did_not_tell_their_numbers",
    # Plans and types as Spark sees them: queries compared, columns of every type, columns renamed.
    "tests/spark/refresh/test_parser_check.py::test_literals_and_operators_mean_in_an_increment_what_they_mean_in_the_query",
    "tests/spark/refresh/test_parser_check.py::test_the_settings_of_a_session_are_as_before",
    "tests/spark/models/test_state_models.py::test_every_type_is_kept_and_compared[on_write]",
    "tests/spark/models/test_state_models.py::test_every_partition_transform_lays_rows_out_and_moves_them",
    "tests/spark/tables/test_evolution.py::test_a_column_that_is_renamed_keeps_what_it_holds_and_changes_no_row[on_write]",
    # Queries that are followed: local rows, broadcast and semi-joins, caches, aggregate state, windows of changes.
    "tests/spark/models/test_maintained_models.py::test_a_changed_row_is_followed_together_with_what_it_was",
    "tests/spark/models/test_maintained_models.py::"
    "test_a_table_that_several_terms_read_is_read_once_for_all[sums of a join--1]",
    "tests/spark/refresh/test_joins.py::test_a_broadcast_side_that_turns_out_too_large_is_shuffled_instead",
    "tests/spark/models/test_aggregate_state.py::test_aggregate_state_that_is_added_to_stays_that_of_the_query[extremes]",
    "tests/spark/models/test_change_models.py::test_older_events_that_arrive_late_lose[lookup]",
    # Queries that were edited or went back, and parts that are computed anew: the table's own rows, columns that come.
    "tests/spark/refresh/test_edits.py::test_an_edit_publishes_the_differences_alone[column]",
    "tests/spark/refresh/test_edits.py::test_an_edit_publishes_the_differences_alone[narrow]",
    "tests/spark/refresh/test_edits.py::test_an_edit_publishes_the_differences_alone[part]",
    "tests/spark/refresh/test_edits.py::test_an_edit_publishes_the_differences_alone[combination]",
    "tests/spark/refresh/test_edits.py::test_columns_come_and_go_as_the_model_allows[sync_all_columns]",
    "tests/spark/refresh/test_reverts.py::test_a_query_that_goes_back_takes_back_what_the_other_one_did",
    "tests/spark/refresh/test_restate.py::test_the_part_is_of_the_versions_that_the_last_run_read",
    # Rows of a clone that are taken over, rows that stay as they are, edits that go forward.
    "tests/spark/refresh/test_promotions.py::test_a_table_takes_over_the_rows_of_its_clone[column-on_write]",
    "tests/spark/refresh/test_promotions.py::test_a_table_takes_over_the_rows_of_its_clone[narrow-on_write]",
    "tests/spark/refresh/test_promotions.py::test_changes_of_both_since_the_clone_was_made_are_told_apart",
    "tests/spark/refresh/test_frozen.py::test_changes_of_frozen_rows_are_counted_and_not_applied",
    "tests/spark/refresh/test_frozen.py::test_events_of_frozen_rows_are_not_applied",
    "tests/spark/refresh/test_forward.py::test_a_table_says_how_many_rows_are_of_earlier_queries_until_all_are_restated",
    "tests/spark/refresh/test_forward.py::test_groups_go_forward_without_their_aggregate_state",
    "tests/spark/refresh/test_restate_events.py::"
    "test_a_restated_key_keeps_its_place_and_the_predicate_is_in_the_history",
    # Ingestion, whose plans are the deepest: what a client sends has a limit of depth.
    "tests/spark/ingest/test_dead_letters.py::test_events_that_fit_now_are_applied_unless_their_row_is_newer",
    "tests/spark/ingest/test_key_changes.py::test_a_row_whose_origin_is_not_known_is_an_error_and_takes_no_other_rows_values",
    "tests/ingest/test_avro.py::test_dead_letters_are_decoded_again_by_their_schemas",
    # Procedures and statements of maintenance: rewrites, splits, expiry, orphans among listed files, deletes, tags.
    "tests/spark/maintenance/test_compaction.py::"
    "test_a_full_compaction_leaves_one_sorted_file_in_each_node_and_readers_see_no_change[on_write]",
    "tests/spark/maintenance/test_split.py::"
    "test_one_node_splits_alone_and_the_table_is_right_while_two_depths_lie_side_by_side[on_write]",
    "tests/spark/maintenance/test_base_rewrite.py::test_changes_are_merged_in_one_pass_and_readers_see_no_change"
    "[{'sort_key': ['Sort'], 'partition_by': ['`re``gion`']}]",
    "tests/spark/maintenance/test_changelog_compaction.py::test_rows_stay_that_a_reader_has_yet_to_read_and_the_last_of_a_key_that_is_gone",
    "tests/spark/maintenance/test_expiry.py::test_metadata_files_of_views_that_were_replaced_are_orphans_and_the_views_own_is_none",
    "tests/spark/maintenance/test_savepoints.py::test_a_table_is_restored_to_a_savepoint_after_later_versions_expired[on_write]",
    "tests/spark/models/test_overwrite.py::test_a_partition_is_declared_alone",
    "tests/spark/tables/test_restore.py::test_events_that_were_undone_do_not_come_again[on_read]",
    "tests/spark/refresh/test_verify.py::test_every_kind_of_corruption_is_found_and_named_with_examples",
    # The adapter: Python models, seeds, snapshots, hooks that maintain, errors with rows in them, `dbt debug`.
    "tests/adapter/python_model/test_python_model.py::TestPythonKinds",
    "tests/adapter/simple_seed/test_seed.py::TestSeedsAreExact",
    "tests/adapter/simple_snapshot/test_snapshot.py::TestSimpleSnapshot",
    "tests/adapter/test_upkeep.py::TestUpkeep",
    "tests/adapter/test_arctic.py::TestBadRows::test_the_error_names_column_and_rows",
    "tests/adapter/test_promises.py::TestTypeSwitches",
    "tests/adapter/dbt_debug/test_dbt_debug.py::TestDebug",
)


def passes_over_connect(*tests: str) -> None:
    """Slow ones as well: what is given here is chosen."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        cwd=ROOT,
        env={**environment, "ARCTIC_TEST_METHOD": "connect"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " skipped" not in done.stdout.splitlines()[-1]


@pytest.mark.in_turn
def test_a_telling_part_of_the_suites_passes_over_connect() -> None:
    passes_over_connect(*TELLING)


@pytest.mark.slow
def test_every_part_of_sparks_interface_that_is_used_works_over_connect() -> None:
    passes_over_connect(*MORE)
