"""Recomputes rows of a table of change events without the events that come from forgotten rows of its upstreams.

Deletes dead letters too, which are events that could not be applied, if they contain keys of forgotten rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_progress, observe_snapshots
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import ACTION, BEFORE, RECORDED_FROM, RECORDED_TO, SEQUENCE, strip_change_columns
from arctic_runtime.model.files.expiry import ExpireSnapshots
from arctic_runtime.model.merge_columns import is_sums_only
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary, find_last_load, find_last_run, get_offsets
from arctic_runtime.model.shape import INSERT, Shape, is_named
from arctic_runtime.model.state import ChangeTableState, SourceState, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.forgetting import split_outdated_snapshots
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.changes.diff import diff_states, refresh_changes
from arctic_runtime.spark.events.newest import is_newest_event
from arctic_runtime.spark.events.order import check_order
from arctic_runtime.spark.events.rules import choose_rules, net_events
from arctic_runtime.spark.events.truncate import spread_truncations
from arctic_runtime.spark.forget.erase_rows import collect_lookup_keys, publish_forgotten, read_rows_now
from arctic_runtime.spark.forget.trace import get_key_columns
from arctic_runtime.spark.history.bitemporal import find_record_time
from arctic_runtime.spark.history.event_versions import fold_to_versions
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.commit import replace_rows
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    combine_all,
    format_examples,
    match_key,
    name_key_column,
    read_table,
)
from arctic_runtime.spark.tables.steps import expire_snapshots
from arctic_runtime.spark.tables.table_session import TableSession

_PLACE = "__arctic_place"


@dataclass(frozen=True)
class ForgottenRows:
    """The forgotten change rows of one upstream: those of `keys` in commits before the sequence number `since`.

    None for `since` means all commits. If `republished`, the commit with the sequence number `since` contains nothing
    but the rows that these keys still have after the forgetting, published again.
    """

    keys: DataFrame
    since: int | None = None
    republished: bool = False

    def skip_rows(self, source: SourceState, rows: DataFrame) -> DataFrame:
        """Returns the part of `rows`, change rows of the upstream, that an ordinary refresh should read.

        These are the change rows of other keys, and all change rows of commits after the forgetting.
        """
        return self._exclude_rows(
            source, rows, self.since + 1 if self.since is not None and self.republished else self.since
        )

    def select_remaining_rows(self, source: SourceState, rows: DataFrame) -> DataFrame:
        """Returns the part of `rows`, change rows of the upstream, from which the table can be recomputed.

        These are the change rows of `skip_rows`, and those of the commit that published the remaining rows of the
        forgotten keys again, as inserts.
        """
        left = self._exclude_rows(source, rows, self.since)
        if self.since is None or not self.republished:
            return left
        is_republished = F.col(COMMIT_ORDER) == self.since
        replacements = {ACTION: F.when(is_republished, F.lit(INSERT)).otherwise(F.col(ACTION))}
        if BEFORE in left.columns:
            replacements[BEFORE] = F.when(~is_republished, F.col(BEFORE))
        return left.withColumns(replacements)

    def _exclude_rows(self, source: SourceState, rows: DataFrame, before: int | None) -> DataFrame:
        gone = self.keys.select(*self.keys.columns)
        if before is None:
            return rows.join(gone, match_key(rows, get_key_columns(source, gone)), "left_anti")
        placed = rows.withColumn(_PLACE, F.col(COMMIT_ORDER))
        on = match_key(placed, get_key_columns(source, gone)) & (placed[_PLACE] < before)
        return placed.join(gone, on, "left_anti").drop(_PLACE)


def list_skips(forgotten: Mapping[TableName, ForgottenRows]) -> Narrowed:
    """Returns for each upstream the filter by which a refresh skips forgotten change rows.

    The refresh does not touch rows that were computed from skipped change rows; `recompute_rows` recomputes these.
    """
    return {source: rows.skip_rows for source, rows in forgotten.items()}


def can_follow_deletion(refresh: Refresh) -> bool:
    """Whether rows of a model are forgotten by an ordinary refresh, which applies the deletes of upstream rows.

    This is so if all columns outside the key are sums, from which a deleted row can be subtracted, and if the rows
    can't be recomputed, since some come from an overwrite or a restore or since not all events can be read.
    """
    model = refresh.model
    changes, _ = require_built(refresh.table.observe_state(), model.table)
    config = model.config
    rest = [
        column.name for column in strip_change_columns(changes.columns) if not is_named(column.name, config.primary_key)
    ]
    if not is_sums_only(config.merge_columns, config.on_match, rest):
        return False
    return bool(
        _explain_other_origin(_require_last_run(changes)) or _list_lossy_upstreams(refresh.planner.observe_upstreams())
    )


def check_recomputable(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, DataFrame]) -> None:
    """Raises DataError if the rows of `keys` can't be recomputed without the `forgotten` rows of upstreams.

    `forgotten` has the forgotten keys by upstream. No row can be recomputed if any row of the table came from an
    overwrite or a restore. A row that was computed from both forgotten and other events can't be recomputed if the
    table is bitemporal, or if upstreams no longer have all events that the row needs.
    """
    session, model = refresh.table, refresh.model
    state = session.reconcile_until_done(session.observe_state(), fold=True)
    last = _require_last_run(require_built(state, model.table)[0])
    if was := _explain_other_origin(last):
        raise DataError(
            f"{model.table}: rows of it were {was}, so they don't follow from events; nothing was done.",
            fix="run it with --full-refresh, then `arctic forget` again",
        )
    lost = _list_lossy_upstreams(refresh.planner.observe_upstreams())
    if model.config.valid_time:
        why = "bitemporal versions can't be recorded once more as of their time"
    elif lost and (model.config.has_history or not is_newest_event(model.config)):
        why = f"{', '.join(lost)} no longer keeps all rows"
    else:
        return
    rows_sought, _ = collect_lookup_keys(session, state, keys)
    left = _query_remaining_rows(refresh, last, {row: ForgottenRows(gone) for row, gone in forgotten.items()})
    rows = rows_sought.select_rows(left, model.config.entity_key).limit(3).collect()
    if rows:
        raise DataError(
            f"{model.table}: rows, or versions of them, were made of forgotten events and of others, and can't be "
            "computed again without the forgotten ones; nothing was done.\n"
            f"{format_examples(rows)}  why: {why}",
            fix=f"run `arctic reset {model.table.name} --yes`, then `arctic forget` again, and rebuild it",
        )


def recompute_rows(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, ForgottenRows]) -> None:
    """Publishes the changes that turn the rows of `keys` into rows computed from all events except `forgotten` ones."""
    attempts = refresh.table.reader.thresholds.commits.attempts
    retry_on_conflict(partial(_recompute_once, refresh, keys, forgotten), attempts)


def _recompute_once(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, ForgottenRows]) -> None:
    session, model = refresh.table, refresh.model
    state = session.reconcile_until_done(session.observe_state(), fold=True)
    changes, _ = require_built(state, model.table)
    rows_sought, _ = collect_lookup_keys(session, state, keys)
    left = _query_remaining_rows(refresh, _require_last_run(changes), forgotten)
    key = model.config.entity_key
    spread = spread_truncations(model, left, rows_sought.rows.toDF(*key) if key else rows_sought.rows)
    query = rows_sought.select_rows(spread, key)
    compute = partial(_diff_versions, session, changes) if model.config.has_history else partial(_diff_rows, model)
    old = read_rows_now(session, state, rows_sought)
    publish_forgotten(session, state, lambda shape: compute(query, old, shape))
    session.reconcile_until_done(session.observe_state())


def _diff_rows(model: Model, query: DataFrame, old: DataFrame, shape: Shape) -> DataFrame:
    """Computes the change rows that turn the rows `old` into the rows computed from the events `query`."""
    rules = choose_rules(model, shape)
    check_order(model, rules.orders, query)
    net = net_events(rules, query)
    moved = refresh_changes(net.where("not deleted"), old, shape)
    return moved.withColumn(SEQUENCE, F.lit(None).cast(shape.sequence_type)) if shape.is_ordered else moved


def _diff_versions(
    session: TableSession, changes: ChangeTableState, query: DataFrame, old: DataFrame, shape: Shape
) -> DataFrame:
    """Computes the change rows that turn the versions `old` of a table with history into those computed from `query`.

    `query` has events, as the query returns them.
    """
    versions = fold_to_versions(query, shape, session.model)
    if session.model.config.valid_time:
        time = find_record_time(session.now, find_last_load(changes))
        recorded = {RECORDED_FROM: F.lit(time), RECORDED_TO: F.lit(None).cast("timestamp")}
        versions = versions.withColumns(recorded)
    return diff_states(versions, old, shape, keyed=True)


def _require_last_run(changes: ChangeTableState) -> RunSummary:
    last = find_last_run(changes)
    assert last is not None
    return last


def _explain_other_origin(last: RunSummary) -> str:
    """Returns `restored` if rows come from a restore, `declared` if they come from an overwrite, else an empty text."""
    if last.restored is not None:
        return "restored"
    return "declared" if last.declared and last.declared.points else ""


def _list_lossy_upstreams(upstreams: Upstreams) -> Sequence[str]:
    """Lists the upstreams of which some change rows were deleted."""
    return [upstream for upstream, state in upstreams.states.items() if state and state.has_lost_rows]


def _query_remaining_rows(
    refresh: Refresh, last: RunSummary, forgotten: Mapping[TableName, ForgottenRows]
) -> DataFrame:
    """Runs the query over all change rows of the upstreams that the `last` run has read, except `forgotten` ones."""
    upstreams, read = refresh.planner.observe_upstreams(), get_offsets(last)
    windows = {source: Window(source, None, version) for source, version in read.items()}
    narrowed = {source: rows.select_remaining_rows for source, rows in forgotten.items()}
    return QueryInputs(refresh.model, upstreams, narrowed).run_query(refresh.table.spark(), windows)


@dataclass(frozen=True)
class ErasedDeadLetters:
    """Number of deleted dead letters, and descriptions for people of data that may be left."""

    dropped: int = 0
    left: tuple[str, ...] = ()


def count_dead_letters(session: TableSession, keys: DataFrame | None) -> int:
    """Counts the dead letters of an ingested table that contain one of `keys` in their payload; 0 if `keys` is None."""
    table = _find_dead_letter_table(session)
    return (
        0
        if table is None or keys is None
        else _select_by_keys(session, _read_dead_letters(session, table), keys).count()
    )


def drop_dead_letters(session: TableSession, keys: DataFrame | None) -> ErasedDeadLetters:
    """Deletes the dead letters of an ingested table that contain one of `keys` in their payload.

    Also expires all older snapshots of the dead letter table, which all tables of a source share. Does nothing if
    `keys` is None.
    """
    return retry_on_conflict(partial(_drop_once, session, keys), session.reader.thresholds.commits.attempts)


def _drop_once(session: TableSession, keys: DataFrame | None) -> ErasedDeadLetters:
    table = _find_dead_letter_table(session)
    if table is None or keys is None:
        return ErasedDeadLetters()
    before = observe_snapshots(session.reader, table)
    if before is None or not before.lineage:
        return ErasedDeadLetters()
    rows = _read_dead_letters(session, table)
    matches = _select_by_keys(session, rows, keys)
    dropped = matches.count()
    if dropped:
        remaining = rows.join(matches.select("__arctic_row"), "__arctic_row", "left_anti").drop("__arctic_row")
        replace_rows("forget.dead_letters", remaining, table, before.lineage[-1].id, f"rewrite {table}")
    now = observe_snapshots(session.reader, table)
    assert now is not None
    gone, protected = split_outdated_snapshots(now, now.lineage[-1].sequence)
    if gone:
        expire_snapshots(ExpireSnapshots(table, gone), session.spark())
    unread = _count_unreadable(session, table)
    left = [f"{unread} dead letter(s) of {table} are not JSON, so they were not searched"] if unread else []
    left += [f"snapshot {snapshot} of {table} is kept by a tag or a branch" for snapshot in protected]
    return ErasedDeadLetters(dropped, tuple(left))


def _find_dead_letter_table(session: TableSession) -> TableName | None:
    source = session.model.source
    if source is None or observe_progress(session.reader, source.dead_letters) is None:
        return None
    return source.dead_letters


def _read_dead_letters(session: TableSession, table: TableName) -> DataFrame:
    """Reads the rows of a dead letter table, with the row id of each in the column `__arctic_row`."""
    snapshots = observe_snapshots(session.reader, table)
    assert snapshots is not None
    return read_table(session.spark(), table, snapshots.lineage[-1].id).select(
        "*", F.col("_row_id").alias("__arctic_row")
    )


def _select_own(session: TableSession, rows: DataFrame) -> DataFrame:
    return rows.where(F.col("table") == F.lit(session.model.ingested_from))


def _select_by_keys(session: TableSession, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Selects the dead letters of the session's table whose JSON payload contains one of `keys`.

    The payload contains a key if it has, for each key column, a field with the column's name and the key's value.
    """
    payload = F.col("payload").cast("string")
    values = [F.col(name_key_column(place)).cast("string") for place in range(len(session.model.config.entity_key))]
    parts = [
        _build_field_condition(payload, part, value)
        for part, value in zip(session.model.config.entity_key, values, strict=True)
    ]
    return _select_own(session, rows).join(keys.hint("broadcast"), combine_all(parts), "left_semi")


def _build_field_condition(payload: Expression, part: str, value: Expression) -> Expression:
    """Builds the condition that the JSON text `payload` has a field `part` with `value`, as a text or a number."""
    quoted = F.concat(F.lit("\\Q"), value, F.lit("\\E"))
    plain = F.lit('(?i)"' + "".join(sign if sign.isalnum() else f"\\{sign}" for sign in part) + '"\\s*:\\s*"?')
    return F.rlike(payload, F.concat(plain, quoted, F.lit('["\\s,}\\]]')))


def _count_unreadable(session: TableSession, table: TableName) -> int:
    """Counts the table's dead letters whose payload is not JSON, so that they can't be searched."""
    payload = F.col("payload").cast("string")
    is_json: Sequence[Expression] = [F.startswith(F.ltrim(payload), F.lit(sign)) for sign in ("{", "[")]
    return (
        _select_own(session, _read_dead_letters(session, table))
        .where(~F.coalesce(reduce(or_, is_json), F.lit(False)))
        .count()
    )
