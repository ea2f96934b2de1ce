"""Forgets rows of one table: deletes them and their change rows, and rewrites the files that contain them.

The keys of the rows are stored in an internal table until all rows are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.manifests import has_removed_entries
from arctic_runtime.catalog.observation.tables import observe_snapshots
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.model.columns import ACTION, BEFORE, strip_change_columns
from arctic_runtime.model.files.expiry import Age, DropTags, ExpireSnapshots, format_ages
from arctic_runtime.model.forgetting import TableForgotten
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX, COMMIT_TIMES, FORGOTTEN_KEYS_KIND, KIND
from arctic_runtime.model.refs import SetTag
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import DELETE, UPDATE, ChangeSet, Shape, build_shape
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState, require_built
from arctic_runtime.model.step import AppendChanges, DropBranches, SetProperties, Step
from arctic_runtime.model.version import Version
from arctic_runtime.plan.forgetting import find_needed_sequence, split_outdated_snapshots
from arctic_runtime.plan.maintenance.expiry import select_ages_to_keep
from arctic_runtime.plan.maintenance.savepoint import drop_savepoint_tags
from arctic_runtime.plan.refresh.increment import pin_query
from arctic_runtime.spark.changes.diff import build_struct, diff_states
from arctic_runtime.spark.engine.jobs import Parallel
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.forget.purge import (
    Purged,
    purge_base,
    purge_changes,
    record_merged,
    record_run,
    rewrite_changes,
    rewrite_manifests,
)
from arctic_runtime.spark.refresh.query_analysis import pin_time
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.adopt import move_baseline
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.commit import perform_statement, replace_rows
from arctic_runtime.spark.tables.internal import InternalTable, create_internal_table
from arctic_runtime.spark.tables.rows.bounds import EVERYWHERE, lookup_keys
from arctic_runtime.spark.tables.rows.frames import (
    Keys,
    as_key,
    cast_as,
    read_all_changes,
    read_current_rows,
    read_table,
    select_newest_changes,
    to_column,
)
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")


@dataclass(frozen=True)
class PurgeableChanges:
    """The change rows of a table that can be purged: those of `keys` in commits before the sequence number `since`.

    If `has_rows`, rows of these keys remain, and the commit with the sequence number `since` has published them again
    (republished) and contains nothing else; otherwise no row of these keys remains. `until` is the newest commit that
    contains change rows to purge: a reader that has read this commit has read all of them.
    """

    keys: Keys
    since: int
    until: Age
    has_rows: bool


def collect_lookup_keys(session: TableSession, state: TableState, keys: DataFrame) -> tuple[Keys, int]:
    """Prepares `keys`, whose columns are named as by `as_key`, for lookups in the session's table.

    Runs a Spark job to count the keys. Returns the prepared keys and their number.
    """
    count, key = keys.count(), session.model.config.entity_key
    if not key:
        return Keys(keys, True, EVERYWHERE), count
    rows = state.base.rows if state.base else 0
    return lookup_keys(keys.toDF(*key), count, rows, session.reader.thresholds.pruning), count


def erase_rows(session: TableSession, keys: DataFrame, where: Expression | None = None) -> int:
    """Deletes the rows of `keys` that meet the condition `where`, by a commit of change rows.

    Without `where` it deletes all rows of these keys. Returns the sequence number of the commit from which on the rows
    do not exist.
    """
    return retry_on_conflict(partial(_erase_once, session, keys, where), session.reader.thresholds.commits.attempts)


def _erase_once(session: TableSession, keys: DataFrame, where: Expression | None) -> int:
    state = session.reconcile_until_done(session.observe_state())
    changes, _ = require_built(state, session.model.table)
    old = read_rows_now(session, state, collect_lookup_keys(session, state, keys)[0])
    old = old if where is None else old.where(where)
    if old.isEmpty():
        return changes.commits[-1].version.sequence
    publish_forgotten(session, state, partial(diff_states, old.limit(0), old))
    now, _ = require_built(session.reconcile_until_done(session.observe_state()), session.model.table)
    return _find_next_commit(now, changes).version.sequence


def _find_next_commit(now: ChangeTableState, before: ChangeTableState) -> Commit:
    """Returns the commit in `now` that directly follows the newest commit of `before`, an earlier state."""
    return next(commit for commit in now.commits if commit.parent == before.commits[-1].version.snapshot)


def read_rows_now(session: TableSession, state: TableState, keys: Keys) -> DataFrame:
    """Reads the table's current rows whose key is in `keys`."""
    rows = read_current_rows(session.spark(), session.model, state, session.reader.thresholds.pruning, keys)
    assert rows is not None
    return rows


def publish_forgotten(session: TableSession, state: TableState, rows: Callable[[Shape], DataFrame]) -> None:
    """Publishes the change rows that `rows` computes, in a commit that repeats the summary of the newest run.

    The offsets, up to which the table has read its upstreams, are part of the summary, so they stay the same.
    """
    changes, _ = require_built(state, session.model.table)
    last, table = find_last_run(changes), session.model.table.changes
    assert changes.head is not None
    assert last is not None
    shape = build_shape(session.model, state, strip_change_columns(changes.columns))
    commit = AppendChanges(table, changes.head.snapshot, "full", "FORGOTTEN")
    publish_changes(
        ChangeSet(commit, rows(shape), shape, last.to_repeat("full", "FORGOTTEN")), session.build_context(state)
    )


def recompute_frozen_rows(refresh: Refresh, keys: DataFrame) -> None:
    """Publishes the changes that turn the rows of `keys` into those of the query, as no run does with frozen rows."""
    attempts = refresh.table.reader.thresholds.commits.attempts
    retry_on_conflict(partial(_recompute_frozen_once, refresh, keys), attempts)


def _recompute_frozen_once(refresh: Refresh, keys: DataFrame) -> None:
    session, planner = refresh.table, refresh.planner
    state = session.reconcile_until_done(session.observe_state())
    upstreams = planner.observe_upstreams(planner.pins)
    if upstreams.reads.clocks:
        pin_time(session.spark(), upstreams.clock, None)
    sought = collect_lookup_keys(session, state, keys)[0]
    query = session.spark().sql(pin_query(session.model, upstreams))
    rows, old = sought.select_rows(query, session.model.config.entity_key), read_rows_now(session, state, sought)
    given = tuple(query.columns)
    publish_forgotten(session, state, lambda shape: diff_states(rows, old, replace(shape, given=given)))
    session.reconcile_until_done(session.observe_state())


def purge_files(session: TableSession, purgeable: PurgeableChanges, count: int) -> TableForgotten:
    """Removes rows of forgotten keys from all files of a table, including those of old snapshots.

    Of these keys only rows of the commit with the sequence number `purgeable.since`, and of later ones, remain. All
    readers of the table must have read that commit. `count` is the number of keys, for the result. Raises
    CommitConflict if other writers are faster at every attempt.
    """
    attempts = session.reader.thresholds.commits.attempts
    return retry_on_conflict(partial(_purge_once, session, purgeable, count), attempts)


def _purge_once(session: TableSession, purgeable: PurgeableChanges, count: int) -> TableForgotten:
    model = session.model
    state = session.reconcile_until_done(session.observe_state(), fold=True)
    _drop_branches(session, state)
    purge_changes(Purged(purgeable.keys, purgeable.since, purgeable.until), session.build_context(state))
    state = session.observe_state()
    rewritten = rewrite_changes(purgeable.keys.near, session.build_context(state))
    rewritten += purge_base(purgeable.keys.near, session.build_context(state))
    _run_side_by_side(session, [partial(_drop_entries, session, table) for table in (model.table.changes, model.base)])
    record_run(session.build_context(session.observe_state()))
    state = session.observe_state()
    record_merged(_find_merged_version(*require_built(state, model.table)), session.build_context(state))
    state = session.reconcile_until_done(session.observe_state(), fold=True)
    move_baseline(session.build_context(state))
    expired = sum(
        _run_side_by_side(
            session, [partial(_expire_snapshots, session, state, table) for table in _list_tables(session, state)]
        )
    )
    _drop_old_state(session, state)
    return TableForgotten(model.table, count, rewritten.files, rewritten.bytes, expired)


def _run_side_by_side(session: TableSession, actions: Sequence[Callable[[], T]]) -> list[T]:
    """Runs `actions` in parallel; returns their results in the order of the actions."""
    results: dict[int, T] = {}
    with Parallel(session.spark(), session.reader.thresholds.engine) as background:
        for place, action in enumerate(actions):
            background.submit_action(partial(_store_result, results, place, action))
    return [results[place] for place in range(len(actions))]


def _store_result(results: dict[int, T], place: int, action: Callable[[], T]) -> None:
    results[place] = action()


def _drop_entries(session: TableSession, table: TableName) -> None:
    if has_removed_entries(session.reader, table):
        rewrite_manifests(session.spark(), table)


def _find_merged_version(changes: ChangeTableState, base: BaseState) -> Version:
    """Returns the newest version whose changes the base table contains.

    It is newer than the recorded version if the commits that directly follow have no rows.
    """
    assert base.merged is not None
    pending = changes.list_commits_after(base.merged)
    known = [
        commit.version
        for commit in changes.commits
        if not pending or commit.version.sequence < pending[0].version.sequence
    ]
    return max([base.merged, *known], key=lambda version: version.sequence)


def republish_rows(session: TableSession, keys: DataFrame) -> PurgeableChanges:
    """Publishes the current rows of `keys` again, as updates without a change, so that older change rows can be purged.

    Publishes nothing if the table has no row of these keys, or if its rows consist of key columns only.
    """
    return retry_on_conflict(partial(_republish_once, session, keys), session.reader.thresholds.commits.attempts)


def _republish_once(session: TableSession, keys: DataFrame) -> PurgeableChanges:
    state = session.reconcile_until_done(session.observe_state(), fold=True)
    changes, _ = require_built(state, session.model.table)
    shape = build_shape(session.model, state, strip_change_columns(changes.columns))
    lookups, _ = collect_lookup_keys(session, state, keys)
    there = read_rows_now(session, state, lookups).select(*as_key(session.model.config.entity_key))
    if there.isEmpty():
        return build_purgeable_without_rows(session, state, lookups, changes.commits[-1].version.sequence)
    if not shape.rest:
        # A row with key columns only has no other values to forget while it exists.
        others, _ = collect_lookup_keys(session, state, keys.join(there, list(keys.columns), "left_anti"))
        return build_purgeable_without_rows(session, state, others, changes.commits[-1].version.sequence)
    publish_forgotten(session, state, partial(_build_republished_changes, session, state, lookups))
    # Models below read the version that the base or the view shows, and must read this commit before rows are purged.
    now, _ = require_built(session.reconcile_until_done(session.observe_state()), session.model.table)
    commit = _find_next_commit(now, changes)
    return PurgeableChanges(lookups, commit.version.sequence, Age(commit.version.sequence, commit.at_ms), has_rows=True)


def build_purgeable_without_rows(session: TableSession, state: TableState, keys: Keys, until: int) -> PurgeableChanges:
    """Returns the `PurgeableChanges` of `keys` that have no row since the commit with the sequence number `until`."""
    changes, _ = require_built(state, session.model.table)
    known = [commit for commit in changes.commits if commit.rows and commit.version.sequence <= until]
    newest = known[-1] if known else changes.commits[0]
    return PurgeableChanges(keys, until + 1, Age(newest.version.sequence, newest.at_ms), has_rows=False)


def _build_republished_changes(session: TableSession, state: TableState, keys: Keys, shape: Shape) -> DataFrame:
    changes, _ = require_built(state, session.model.table)
    config, log = session.model.config, read_all_changes(session.spark(), session.model, state)
    alive = select_newest_changes(keys.select_rows(log, config.entity_key), config.primary_key, 2).where(
        F.col(ACTION) != DELETE
    )
    names = [column.name for column in changes.columns if column.name != BEFORE]
    rows = alive.select(*map(to_column, names)).withColumn(ACTION, F.lit(UPDATE))
    if shape.before_type is None:
        return rows
    image = build_struct((quote_name(column.name), column.name) for column in shape.rest)
    return rows.selectExpr(*map(quote_name, names), cast_as(image, shape.before_type, BEFORE))


def _drop_branches(session: TableSession, state: TableState) -> None:
    """Drops the branches of all attempts to commit to the table, since files of dead attempts may have forgotten rows.

    Attempts that are still running notice this, and start again.
    """
    changes, base = require_built(state, session.model.table)
    for table, part in ((session.model.table.changes, changes), (session.model.base, base)):
        names = tuple(branch for branch in part.branches if branch.startswith(BRANCH_PREFIX))
        if names:
            perform_step(DropBranches(table, names), session.build_context(state))


def _list_tables(session: TableSession, state: TableState) -> tuple[TableName, ...]:
    table = session.model.table
    return (session.model.base, table.changes, *([table.totals] if state.aggregate_state is not None else []))


def _expire_snapshots(session: TableSession, state: TableState, table: TableName) -> int:
    """Expires all snapshots of `table` that nothing needs, and drops tags of snapshots that the view no longer reads.

    Returns the number of expired snapshots.
    """
    snapshots = observe_snapshots(session.reader, table)
    assert snapshots is not None
    context = session.build_context(state)
    pinned = state.view.base_snapshot if state.view else None
    idle = tuple(tag for tag, snapshot in snapshots.view_tags.items() if snapshot != pinned)
    gone, _ = split_outdated_snapshots(replace(snapshots, view_tags={}), find_needed_sequence(snapshots, state))
    steps: list[Step] = [DropTags(table, idle)] if idle else []
    steps += _plan_ages(session, state, table, gone)
    steps += [ExpireSnapshots(table, gone)] if gone else []
    for step in steps:
        perform_step(step, context)
    return len(gone)


def _plan_ages(session: TableSession, state: TableState, table: TableName, gone: Sequence[int]) -> list[Step]:
    """Plans a step that stores commit times in the change table before the snapshots `gone` expire.

    Change rows have no time of their own: their age is the commit time of their snapshot, by which `retention: changes`
    later deletes them. `table` is the table whose snapshots expire. Returns no step if it is not the change table, or
    if no commit times are needed.
    """
    if state.changes is None or table != session.model.table.changes:
        return []
    ages = select_ages_to_keep(session.model, state, gone, session.reader.thresholds.changelog)
    return [SetProperties("expiry.ages", table, {COMMIT_TIMES: format_ages(ages)})] if ages else []


def _drop_old_state(session: TableSession, state: TableState) -> None:
    """Drops the table of the aggregate state if the newest run has stored no state in it."""
    totals = session.model.table.totals
    if state.aggregate_state is None and observe_snapshots(session.reader, totals) is not None:
        drop_with_files(session.spark(), totals)


def drop_savepoints(session: TableSession, names: tuple[str, ...]) -> None:
    """Drops the savepoints with these names from the tables that have them."""
    tags: list[SetTag] = [tag for savepoint in names for tag in drop_savepoint_tags(session.model, savepoint)]
    for tag in tags:
        perform_step(tag, session.build_context(TableState()))


def has_keys(reader: CatalogReader, table: TableName) -> bool:
    """Whether `table` has an internal table with keys of rows that are being forgotten."""
    return _find_keys(reader, table) is not None


def _find_keys(reader: CatalogReader, table: TableName) -> Table | None:
    internal = find_table(reader, table.forget_keys_name)
    return internal if internal is not None and internal.properties.get(KIND) == FORGOTTEN_KEYS_KIND else None


def read_keys(spark: SparkSession, table: TableName) -> DataFrame:
    """Reads the keys to forget that are stored for `table`, without duplicates; columns are named as by `as_key`."""
    return spark.table(quote_name(*table.forget_keys_name.parts))


def keep_keys(spark: SparkSession, reader: CatalogReader, table: TableName, keys: DataFrame) -> None:
    """Adds `keys` to the keys to forget that are stored for `table`, in one commit.

    Creates the internal table if needed. Keys that another request adds at the same time stay.
    """
    retry_on_conflict(lambda: _add_keys(spark, reader, table, keys), reader.thresholds.commits.attempts)


def _add_keys(spark: SparkSession, reader: CatalogReader, table: TableName, keys: DataFrame) -> None:
    stored, place = _find_keys(reader, table), table.forget_keys_name
    head = stored.current_snapshot() if stored is not None else None
    if head is None:
        internal = InternalTable(place, FORGOTTEN_KEYS_KIND)
        create_internal_table("forget.keys", reader, internal, keys.distinct().coalesce(1))
        return
    rows = keys.unionByName(read_table(spark, place, head.snapshot_id)).distinct().coalesce(1)
    replace_rows("forget.keys", rows, place, head.snapshot_id, f"write {place}")


def drop_with_files(spark: SparkSession, table: TableName) -> None:
    """Drops a table and deletes its files; does nothing if there is no such table."""
    perform_statement(
        "forget.drop", spark, fill_statement("DROP TABLE IF EXISTS {of} PURGE", of=quote_name(*table.parts))
    )
