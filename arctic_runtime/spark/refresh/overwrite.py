"""Overwrites a table of change events, or a partition of it, by given rows; restores an earlier version of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.columns import ACTION, SEQUENCE, find_column, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary, find_last_run, find_run_at, get_offsets, run_commits
from arctic_runtime.model.shape import DELETE, ChangeSet, Shape, build_shape
from arctic_runtime.model.sources.declared import WHOLE, Declared, Part, describe_part, read_part
from arctic_runtime.model.state import build_not_built_error
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.decide import decide_refresh
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.events.truncate import is_in_part
from arctic_runtime.spark.refresh.images import read_rows_at
from arctic_runtime.spark.refresh.query_inputs import read_seen_places
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    format_examples,
    list_frame_columns,
    match_key,
    read_current_rows,
)
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.spark.tables.versions import find_version


def overwrite_with_source(
    refresh: Refresh, source: TableName, as_of: str, partition: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Replaces the rows of a table of change events by those of `source`, as the state of the table at `as_of`.

    `as_of` is a value of `sequence_by`. If an event after `as_of` was already read for a key, the key keeps its row;
    events up to `as_of` that are read later change nothing. Returns the number of changed rows by action. Only
    differences are published, so a second call with the same rows publishes none. `source` is any table or view that
    Spark can read, with all columns of the table. `partition` has a value for each column that the table is partitioned
    by: rows of other partitions stay, and events of these that are not read yet still apply.

    Raises ConfigError if the model has no order of events, if `partition` is not valid, if columns are missing, and if
    an earlier overwrite of these rows had a higher `as_of`. Raises DataError if a key is null or occurs twice, or a row
    belongs to another partition. Raises CommitConflict if other writers are faster at every attempt.
    """
    _check_model(refresh.model)
    part = read_part(refresh.model, partition or {})
    return retry_on_conflict(
        partial(_overwrite_once, refresh, source, as_of, part), refresh.table.reader.thresholds.commits.attempts
    )


def _overwrite_once(refresh: Refresh, source: TableName, as_of: str, asked: Part) -> dict[str, int]:
    session = refresh.table
    state = session.reconcile_until_done(session.observe_state())
    # Observed after the table, so that they have all events that its newest run has read.
    upstreams = refresh.planner.observe_upstreams()
    last = find_last_run(state.changes)
    if state.changes is None or state.changes.head is None or state.base is None or last is None:
        raise build_not_built_error(session.model.table)
    decide_refresh(session.model, state, upstreams, Request(), session.reader.thresholds)
    context = session.build_context(state)
    shape = build_shape(session.model, state, strip_change_columns(state.changes.columns))
    part, known = _resolve_partition(session, shape, asked), (last.declared or Declared())
    written = _resolve_position(session, shape, as_of, known.list_earlier_positions(part))
    rows = context.spark.table(quote_name(*source.parts))
    _check_columns(session.model, rows, shape)
    _check_rows(session.model, rows, part, shape)
    place = marks.read_latest(written, shape.sequence_type)
    log = read_seen_places(context.spark, session.model, state.changes, upstreams, get_offsets(last))
    later = log.where(F.col(SEQUENCE) > place).select(*as_key(session.model.config.primary_key)).distinct()
    old = read_current_rows(context.spark, session.model, state, context.thresholds.pruning)
    assert old is not None
    declared = _exclude_keys(rows, later, session.model)
    replaced = _exclude_keys(_select_replaced_rows(old, rows, part, shape), later, session.model)
    change_rows = diff_states(declared, replaced, shape)
    # A row that left the partition may be in another one at this position, by an event that is not read yet.
    is_known = F.lit(True) if part == WHOLE else F.col(ACTION) != DELETE
    change_rows = change_rows.withColumn(SEQUENCE, F.when(is_known, place))
    commit = AppendChanges(session.model.table.changes, state.changes.head.snapshot, "full", "OVERWRITTEN")
    summary = RunSummary(
        run=context.token,
        mode=commit.mode,
        reason=commit.reason,
        offsets=last.offsets,
        refresh_state=last.refresh_state,
        query=last.query,
        high_watermark=last.high_watermark,
        truncated=last.truncated,
        frozen_total=last.frozen_total,
        position=last.position,
        position_events=last.position_events,
        restored=last.restored,
        declared=known.add_declaration(part, written),
    )
    appended = publish_changes(ChangeSet(commit, change_rows, shape, summary), context)
    session.reconcile_until_done(session.observe_state())
    return appended.rows


def _select_replaced_rows(old: DataFrame, rows: DataFrame, part: Part, shape: Shape) -> DataFrame:
    """Selects the stored rows that `rows` replace: those in the partition `part`, and those with the same key."""
    if part == WHOLE:
        return old
    elsewhere = old.where(~F.coalesce(is_in_part(part, shape), F.lit(False)))
    moved = elsewhere.join(rows.select(*as_key(shape.key)), match_key(elsewhere, shape.key), "left_semi")
    return old.where(is_in_part(part, shape)).unionByName(moved)


def _resolve_partition(session: TableSession, shape: Shape, asked: Part) -> Part:
    """Returns the partition `asked` with each value as the text of its column's type, such as `2024-01-01` for a date.

    Raises ConfigError for a value that does not fit its column's type.
    """
    if asked == WHOLE:
        return WHOLE
    partition_columns = [find_column(shape.columns, column) for column, _ in asked]
    values = (
        (F.lit(value), column.type) for column, (_, value) in zip(partition_columns, asked, strict=True) if column
    )
    typed = [marks.write_sequence_text(value.try_cast(kind), kind) for value, kind in values]
    (row,) = session.spark().range(1).select(*typed).collect()
    for column, (given_name, value), typed_value in zip(partition_columns, asked, row, strict=True):
        if column is not None and typed_value is None:
            raise ConfigError(
                f"{session.model.table}: {value!r} is not a valid value of `{given_name}`, "
                f"which has the type {column.type}"
            )
    return tuple((given_name, str(typed_value)) for (given_name, _), typed_value in zip(asked, row, strict=True))


def _check_rows(model: Model, rows: DataFrame, part: Part, shape: Shape) -> None:
    strange = [] if part == WHOLE else rows.where(~F.coalesce(is_in_part(part, shape), F.lit(False))).limit(3).collect()
    if strange:
        raise DataError(
            f"{model.table}: the given rows contain rows outside of {describe_part(part)}; nothing was written.\n"
            f"{format_examples(strange)}",
            fix="filter these rows out, or declare all rows of the table",
        )


def _exclude_keys(rows: DataFrame, keys: DataFrame, model: Model) -> DataFrame:
    return rows.join(keys, match_key(rows, model.config.primary_key), "left_anti")


def _check_model(model: Model) -> None:
    config = model.config
    if config.has_history:
        raise ConfigError(
            f"{model.table}: rows of a table with history can't be declared.",
            expected="history: none",
            actual=f"history: {config.history}",
            fix="write events to the model's source that say what the rows are",
        )
    partial = [
        key
        for key, value in (
            ("merge_columns", config.merge_columns),
            ("columns_to_update", config.columns_to_update),
            ("unavailable_value", config.unavailable_value),
        )
        if value
    ]
    if config.input != "changes" or config.sequence_by is None or config.on_match != "replace" or partial:
        raise ConfigError(
            f"{model.table}: `--as-of` is not possible for this model.",
            expected=(
                "input: changes, sequence_by, and on_match: replace, without merge_columns, columns_to_update and "
                "unavailable_value"
            ),
            actual=(
                f"input: {config.input}, sequence_by: {config.sequence_by}, on_match: {config.on_match}"
                f"{''.join(f', {key}' for key in partial)}"
            ),
            fix="change the rows that the query reads; a table with `input: state` always equals its query",
        )


def _resolve_position(session: TableSession, shape: Shape, as_of: str, before: Sequence[str]) -> str:
    """Converts `as_of`, a value of `sequence_by`, to a text as `marks` writes it.

    Raises ConfigError if it is not a valid value, or lower than one of `before`, the values of earlier overwrites.
    """
    kind = shape.sequence_type
    given_position, places = F.lit(as_of).try_cast(kind), [marks.read_latest(position, kind) for position in before]
    newest = F.sort_array(F.array(*places), asc=False)[0] if places else F.lit(None).cast(kind)
    written = marks.write_sequence_text(given_position, kind), marks.write_sequence_text(newest, kind)
    asked = [(given_position < newest).alias("older"), written[0].alias("place"), written[1].alias("newest")]
    row = session.spark().range(1).select(*asked).collect()[0]
    if row["place"] is None:
        raise ConfigError(
            f"{session.model.table}: {as_of!r} is not a valid position in the order of events.",
            expected=f"a value of `{session.model.config.sequence_by}`, which has the type {kind}",
        )
    if row["older"]:
        raise ConfigError(
            f"{session.model.table}: rows were already declared as of a later position; nothing was written.",
            expected=f"{row['newest']} or later",
            actual=str(row["place"]),
            fix=(
                "declare rows as of a later position; or run a full refresh, which rereads all events and drops all "
                "declarations"
            ),
        )
    return str(row["place"])


def _check_columns(model: Model, rows: DataFrame, shape: Shape) -> None:
    row_columns = list_frame_columns(rows)
    missing = [column.name for column in shape.columns if find_column(row_columns, column.name) is None]
    if missing:
        raise ConfigError(
            f"{model.table}: the given rows lack columns of the table; nothing was written.\n"
            f"  missing: {', '.join(missing)}",
            actual=", ".join(column.name for column in row_columns),
            fix="add these columns, with null for unknown values",
        )


def restore_version(session: TableSession, version: int | str, cut: str | None = None) -> dict[str, int]:
    """Restores the rows of `version`, a snapshot id or a savepoint's name; returns numbers of changed rows by action.

    A table with `input: state` also returns to the offsets of that version, so its next run reads the changes of its
    upstreams since then. A table of change events keeps its offsets, so undone events are not read again. If `cut` is
    given, later runs wait for the query of that cut.

    Raises ConfigError if the version is not kept, and CommitConflict if other writers are faster at every attempt.
    """
    restore = partial(_restore_once, session, str(version), cut)
    return retry_on_conflict(restore, session.reader.thresholds.commits.attempts)


def _restore_once(session: TableSession, version: str, cut: str | None) -> dict[str, int]:
    state = session.reconcile_until_done(session.observe_state())
    table = session.model.table
    commit = find_version(session.reader, session.model, run_commits(state.changes), version)
    source = observe_source(session.reader, table)
    assert source is not None
    assert state.changes is not None
    assert state.changes.head is not None
    context = session.build_context(state)
    shape = build_shape(session.model, state, strip_change_columns(state.changes.columns))
    rows = read_rows_at(context.spark, source, commit.version, context.thresholds.pruning)
    old = read_current_rows(context.spark, session.model, state, context.thresholds.pruning)
    change_rows = diff_states(rows, old, shape)
    commit_plan = AppendChanges(table.changes, state.changes.head.snapshot, "full", "RESTORED")
    is_query = session.model.config.input == "state"
    then = find_run_at(state.changes, commit) if is_query else find_last_run(state.changes)
    assert then is not None
    summary = RunSummary(
        run=context.token,
        mode=commit_plan.mode,
        reason=commit_plan.reason,
        restored=str(commit.version.snapshot),
        cut=cut,
    ).with_entries_from(then.select_row_entries())
    appended = publish_changes(ChangeSet(commit_plan, change_rows, shape, summary), context)
    session.reconcile_until_done(session.observe_state())
    return appended.rows
