"""One table forgets rows: they are deleted, their history goes, files are rewritten, and what is left is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.manifests import has_removed_entries
from arctic_runtime.catalog.observe import observe_savepoints, observe_snapshots
from arctic_runtime.effects import retried
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import ACTION, BEFORE, plain_columns
from arctic_runtime.model.expiry import Age, DropTags, ExpireSnapshots, ages_text
from arctic_runtime.model.forgetting import TableForgotten
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX, COMMIT_TIMES
from arctic_runtime.model.run_summary import last_run
from arctic_runtime.model.savepoint import SetTag
from arctic_runtime.model.shape import DELETE, UPDATE, Shape, shape_of
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState, built
from arctic_runtime.model.step import AppendChanges, DropBranches, SetProperties, Step
from arctic_runtime.model.version import Version
from arctic_runtime.plan.changelog_compaction import kept_ages
from arctic_runtime.plan.forgetting import needed_from, outdated
from arctic_runtime.plan.savepoint import dropped
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.refresh.diff import state_changes, struct
from arctic_runtime.spark.refresh.trace import change_rows
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.bounds import EVERYWHERE, lookup_keys
from arctic_runtime.spark.tables.forgotten import drop_with_files
from arctic_runtime.spark.tables.frames import (
    Keys,
    as_key,
    column,
    current_rows,
    newest_changes,
    typed,
)
from arctic_runtime.spark.tables.purge import (
    Purged,
    purge_base,
    purge_changes,
    record_merged,
    record_run,
    rewrite_changes,
    rewrite_manifests,
)
from arctic_runtime.spark.tables.steps import perform
from arctic_runtime.spark.tables.table_session import TableSession

T = TypeVar("T")


@dataclass(frozen=True)
class Restated:
    """A table of which nothing under some keys is to be kept that came before the commit `since`.

    Where `has_rows`, that commit has the rows that are still there, and nothing else; else there were none. `until` is
    the newest commit that brought rows by then: whoever has read it has read all that goes.
    """

    keys: Keys
    since: int
    until: Age
    has_rows: bool


def sought(session: TableSession, state: TableState, keys: DataFrame) -> tuple[Keys, int]:
    """Keys for lookups in a table, under the names of `as_key`, and how many there are."""
    count, key = keys.count(), session.model.config.entity_key
    if not key:
        return Keys(keys, True, EVERYWHERE), count
    rows = state.base.rows if state.base else 0
    return lookup_keys(keys.toDF(*key), count, rows, session.reader.thresholds.pruning), count


def erase(session: TableSession, keys: DataFrame, where: Expression | None = None) -> int:
    """Deletes the rows of some keys, or those of them `where` a condition is true, as a change that readers see.

    Returns the sequence number of the change table as of which there are none.
    """
    return retried(partial(_erase, session, keys, where), session.reader.thresholds.commits.attempts)


def _erase(session: TableSession, keys: DataFrame, where: Expression | None) -> int:
    state = session.reconciled(session.observe())
    changes, _ = built(state, session.model.table)
    old = rows_now(session, state, sought(session, state, keys)[0])
    old = old if where is None else old.where(where)
    if old.isEmpty():
        return changes.commits[-1].version.sequence
    publish_forgotten(session, state, partial(state_changes, old.limit(0), old))
    now, _ = built(session.reconciled(session.observe()), session.model.table)
    return _commit_after(now, changes).version.sequence


def _commit_after(now: ChangeTableState, before: ChangeTableState) -> Commit:
    """The commit that was made on top of an observed state."""
    return next(of for of in now.commits if of.parent == before.commits[-1].version.snapshot)


def rows_now(session: TableSession, state: TableState, keys: Keys) -> DataFrame:
    """The rows that a table has under some keys."""
    rows = current_rows(session.spark(), session.model, state, session.reader.thresholds.pruning, keys)
    assert rows is not None
    return rows


def publish_forgotten(session: TableSession, state: TableState, rows: Callable[[Shape], DataFrame]) -> None:
    """Publishes change rows in a commit that says otherwise what the newest run said."""
    changes, _ = built(state, session.model.table)
    last, table = last_run(changes), session.model.table.changes
    assert changes.head is not None
    assert last is not None
    shape = shape_of(session.model, state, plain_columns(changes.columns))
    commit = AppendChanges(table, changes.head.snapshot, "full", "FORGOTTEN")
    publish(ChangeSet(commit, rows(shape), shape, last.repeated("full", "FORGOTTEN")), session.context(state))


def purge(session: TableSession, restated: Restated, count: int) -> TableForgotten:
    """Takes all that there ever was of `count` keys out of a table's files, but for what was restated and came later.

    All readers of the table have to have read it as it was restated. Raises CommitConflict where others were always
    faster.
    """
    attempts = session.reader.thresholds.commits.attempts
    return retried(partial(_purge, session, restated, count), attempts)


def _purge(session: TableSession, restated: Restated, count: int) -> TableForgotten:
    model = session.model
    state = session.reconciled(session.observe(), fold=True)
    _drop_branches(session, state)
    purge_changes(Purged(restated.keys, restated.since, restated.until), session.context(state))
    state = session.observe()
    rewritten = rewrite_changes(restated.keys.near, session.context(state))
    rewritten += purge_base(restated.keys.near, session.context(state))
    _beside(session, [partial(_drop_entries, session, table) for table in (model.table.changes, model.base)])
    record_run(session.context(session.observe()))
    state = session.observe()
    record_merged(_merged_for_certain(*built(state, model.table)), session.context(state))
    state = session.reconciled(session.observe(), fold=True)
    expired = sum(_beside(session, [partial(_expire, session, state, table) for table in _tables(session, state)]))
    _drop_old_state(session, state)
    return TableForgotten(model.table, count, rewritten.files, rewritten.bytes, expired)


def _beside(session: TableSession, actions: Sequence[Callable[[], T]]) -> list[T]:
    """Does side by side what one table after the other would wait for; returns the results in order."""
    found: dict[int, T] = {}
    with Parallel(session.spark(), session.reader.thresholds.engine) as beside:
        for place, action in enumerate(actions):
            beside.begin(partial(_keep, found, place, action))
    return [found[place] for place in range(len(actions))]


def _keep(found: dict[int, T], place: int, action: Callable[[], T]) -> None:
    found[place] = action()


def _drop_entries(session: TableSession, table: TableName) -> None:
    if has_removed_entries(session.reader, table):
        rewrite_manifests(session.spark(), table)


def _merged_for_certain(changes: ChangeTableState, base: BaseState) -> Version:
    """The newest version that a base is merged to: commits without rows that follow bring nothing to merge."""
    assert base.merged is not None
    pending = changes.after(base.merged)
    known = [of.version for of in changes.commits if not pending or of.version.sequence < pending[0].version.sequence]
    return max([base.merged, *known], key=lambda version: version.sequence)


def restate(session: TableSession, keys: DataFrame) -> Restated:
    """Says once more what the rows under some keys are, as changes that change nothing, where there are any."""
    return retried(partial(_restate, session, keys), session.reader.thresholds.commits.attempts)


def _restate(session: TableSession, keys: DataFrame) -> Restated:
    state = session.reconciled(session.observe(), fold=True)
    changes, _ = built(state, session.model.table)
    shape = shape_of(session.model, state, plain_columns(changes.columns))
    found, _ = sought(session, state, keys)
    there = rows_now(session, state, found).select(*as_key(session.model.config.entity_key))
    if there.isEmpty():
        return nothing_left(session, state, found, changes.commits[-1].version.sequence)
    if not shape.rest:
        # A row that is nothing but its key has nothing to forget while it is there.
        others, _ = sought(session, state, keys.join(there, list(keys.columns), "left_anti"))
        return nothing_left(session, state, others, changes.commits[-1].version.sequence)
    publish_forgotten(session, state, partial(_said_again, session, state, found))
    now, _ = built(session.observe(), session.model.table)
    said = _commit_after(now, changes)
    return Restated(found, said.version.sequence, Age(said.version.sequence, said.at_ms), has_rows=True)


def nothing_left(session: TableSession, state: TableState, keys: Keys, until: int) -> Restated:
    """What is to be kept of keys that have no row as of a sequence number of the change table."""
    changes, _ = built(state, session.model.table)
    known = [of for of in changes.commits if of.rows and of.version.sequence <= until]
    newest = known[-1] if known else changes.commits[0]
    return Restated(keys, until + 1, Age(newest.version.sequence, newest.at_ms), has_rows=False)


def _said_again(session: TableSession, state: TableState, keys: Keys, shape: Shape) -> DataFrame:
    changes, _ = built(state, session.model.table)
    config, log = session.model.config, change_rows(session.spark(), session.model, state)
    alive = newest_changes(keys.select(log, config.entity_key), config.primary_key, 2).where(F.col(ACTION) != DELETE)
    names = [of.name for of in changes.columns if of.name != BEFORE]
    rows = alive.select(*map(column, names)).withColumn(ACTION, F.lit(UPDATE))
    if shape.before_type is None:
        return rows
    image = struct((name(of.name), of.name) for of in shape.rest)
    return rows.selectExpr(*map(name, names), typed(image, shape.before_type, BEFORE))


def _drop_branches(session: TableSession, state: TableState) -> None:
    """Drops the branches of attempts: those that died have rows, and those that go on start over."""
    changes, base = built(state, session.model.table)
    for table, part in ((session.model.table.changes, changes), (session.model.base, base)):
        names = tuple(of for of in part.branches if of.startswith(BRANCH_PREFIX))
        if names:
            perform(DropBranches(table, names), session.context(state))


def _tables(session: TableSession, state: TableState) -> tuple[TableName, ...]:
    table = session.model.table
    return (session.model.base, table.changes, *([table.totals] if state.aggregate_state is not None else []))


def _expire(session: TableSession, state: TableState, table: TableName) -> int:
    """Lets go all snapshots of a table but those that are needed, and tags for views; returns how many went."""
    found = observe_snapshots(session.reader, table)
    assert found is not None
    context = session.context(state)
    pinned = state.view.base_snapshot if state.view else None
    idle = tuple(tag for tag, snapshot in found.view_tags.items() if snapshot != pinned)
    gone, _ = outdated(replace(found, view_tags={}), needed_from(found, state))
    steps: list[Step] = [DropTags(table, idle)] if idle else []
    steps += _ages(session, state, table, gone)
    steps += [ExpireSnapshots(table, gone)] if gone else []
    for step in steps:
        perform(step, context)
    return len(gone)


def _ages(session: TableSession, state: TableState, table: TableName, gone: Sequence[int]) -> list[Step]:
    """When commits were made whose snapshots go, for the age of change rows."""
    if state.changes is None or table != session.model.table.changes:
        return []
    ages = kept_ages(session.model, state, gone, session.reader.thresholds.changelog)
    return [SetProperties("expiry.ages", table, {COMMIT_TIMES: ages_text(ages)})] if ages else []


def _drop_old_state(session: TableSession, state: TableState) -> None:
    """Drops an aggregate state that no run reads any more."""
    totals = session.model.table.totals
    if state.aggregate_state is None and observe_snapshots(session.reader, totals) is not None:
        drop_with_files(session.spark(), totals)


def drop_savepoints(session: TableSession, names: tuple[str, ...]) -> None:
    """Drops savepoints of a table."""
    known = observe_savepoints(session.reader, session.model)
    tags: list[SetTag] = [tag for of in names for tag in dropped(session.model, of, known)]
    for tag in tags:
        perform(tag, session.context(TableState()))
