"""Verifies a table: compares it with its recomputed query or events, and checks its change rows and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import list_later_columns
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node, list_scans
from arctic_runtime.model.columns import ACTION, is_same_name, strip_change_columns
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN
from arctic_runtime.model.run_summary import RunSummary, find_last_run, get_offsets, to_micros
from arctic_runtime.model.shape import build_shape
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.state import ChangeTableState, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.decide import decide_refresh
from arctic_runtime.plan.refresh.fingerprint import find_changed_event_rules
from arctic_runtime.plan.refresh.increment import Upstreams, pin_query
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import with_day_texts
from arctic_runtime.spark.changes.equality import compare_bags
from arctic_runtime.spark.engine.statement import write_expression
from arctic_runtime.spark.events.rules import choose_rules, net_events
from arctic_runtime.spark.events.truncate import spread_over_own_keys
from arctic_runtime.spark.history import bitemporal, event_versions, versions
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import increments
from arctic_runtime.spark.refresh.from_events import select_live_rows
from arctic_runtime.spark.refresh.frozen import build_frozen_condition, read_model_predicate
from arctic_runtime.spark.refresh.images import SourceWindows
from arctic_runtime.spark.refresh.integrity import (
    Finding,
    build_finding,
    check_changes_fold_to_table,
    check_history,
    check_unique_keys,
    compare_rows,
)
from arctic_runtime.spark.refresh.query_analysis import pin_time
from arctic_runtime.spark.refresh.query_inputs import QueryInputs
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    conform_frame,
    list_frame_columns,
    match_key,
    read_current_rows,
    read_own_changes,
    read_table,
    to_column,
)
from arctic_runtime.spark.tables.table_session import TableSession


def verify_model(refresh: Refresh) -> tuple[Finding, ...]:
    """Checks a model's table against its query and against its change table, and the change rows for consistency.

    Returns a finding for each check, also for checks that were skipped.
    """
    table = refresh.table
    state, upstreams = table.observe_state(), refresh.planner.observe_upstreams()
    upstreams = _return_to_last_time(table, state, upstreams)
    if state.appended is not None and table.model.ingested_from is not None:
        reason = f"events of {table.model.ingested_from} are appended to it, and no key or history tells what they were"
        return (Finding("table", left_out=reason),)
    if state.appended is not None:
        return (_check_appended_rows(table, state.appended, upstreams),)
    if state.changes is None or state.base is None:
        return (Finding("table", left_out="it was not built yet"),)
    spark, model, thresholds = table.spark(), table.model, table.reader.thresholds
    shape = build_shape(model, state, strip_change_columns(state.changes.columns))
    return (
        *_check_query(table, state, upstreams),
        check_changes_fold_to_table(spark, model, state, shape, thresholds),
        check_unique_keys(spark, model, state, thresholds),
        *_check_version_order(table, state),
        *_check_aggregate_state(table, state, upstreams),
        *check_history(spark, table.reader, model, state, shape),
    )


def _return_to_last_time(table: TableSession, state: TableState, upstreams: Upstreams) -> Upstreams:
    """Pins the time of the last run, if the query reads the clock; the table is right as of then."""
    last = find_last_run(state.changes)
    if not upstreams.reads.clocks or last is None or last.clock is None:
        return upstreams
    pin_time(table.spark(), last.clock.micros, last.clock)
    return replace(upstreams, clock=last.clock.micros)


def _check_appended_rows(table: TableSession, appended: ChangeTableState, upstreams: Upstreams) -> Finding:
    """Checks that a table without a key has exactly the rows that its query returns for all events that it has read.

    Equal rows must occur equally often.
    """
    check, last = "the table has each row of its events once", find_last_run(appended) or RunSummary()
    read = get_offsets(last)
    gone = [column for column, version in read.items() if not _is_kept(upstreams.states.get(column), version)]
    if gone:
        return Finding(check, left_out=f"the versions that were read are gone ({', '.join(gone)})")
    if any(source and source.may_have_deleted_rows for source in upstreams.states.values()):
        return Finding(check, left_out="events that it has read may have been deleted")
    assert appended.head is not None
    windows = {name: Window(name, None, end) for name, end in read.items()}
    rows = read_table(table.spark(), table.model.table, appended.head.snapshot)
    query = QueryInputs(table.model, upstreams).run_query(table.spark(), windows)
    finding_made = _compare_as_bags(table, query, rows, check)
    added = _list_later_columns(table, table.model.table, query) if finding_made.broken else []
    if added and not _compare_as_bags(table, query.drop(*added), rows, check).broken:
        return Finding(check, left_out=_explain_null_columns(added))
    return finding_made


def _compare_as_bags(table: TableSession, query: DataFrame, rows: DataFrame, check: str) -> Finding:
    """Compares the rows of `query` and the table's `rows` as multisets, in their common columns.

    Returns the finding of the check with the name `check`; it counts the rows that one side has more often.
    """
    wanted = conform_frame(query, [column for column in list_frame_columns(rows) if column.name in query.columns])
    table_rows = rows.select(*[to_column(column) for column in wanted.columns])
    differences = compare_bags(wanted, table_rows, MULTIPLICITY)
    side = F.when(F.col(MULTIPLICITY) > 0, "missing").otherwise("surplus")
    return build_finding(
        check, differences.withColumn(ACTION, side).drop(MULTIPLICITY), table.reader.thresholds.reports
    )


def _check_query(table: TableSession, state: TableState, upstreams: Upstreams) -> Iterable[Finding]:
    """Checks that the query gives the table, or the part of it that is not of earlier queries."""
    last = find_last_run(state.changes)
    if last is None or last.forward is None:
        yield _check_query_gives_table(table, state, upstreams)
        return
    reason = _explain_not_recomputed(table, state, upstreams)
    if reason:
        yield Finding(_WRITTEN, left_out=reason)
        return
    yield from _check_written_since(table, state, upstreams, last.forward)


_WRITTEN = "the query gives the rows that were written since its edit"


def _check_written_since(
    table: TableSession, state: TableState, upstreams: Upstreams, edit: ForwardEdit
) -> Iterable[Finding]:
    """Compares the rows of keys with change rows since an edit with the query, and counts the other rows."""
    spark, model, changes = table.spark(), table.model, state.changes
    assert changes is not None
    assert changes.head is not None
    if not changes.keeps_version(edit.version) and model.config.format_version < 3:
        yield Finding(_WRITTEN, left_out="the version of the edit is gone, so it is not known which rows these are")
        return
    key = model.config.entity_key
    since = read_own_changes(spark, model.table.changes, changes, edit.version, changes.head)
    written = since.select(*as_key(key)).distinct().persist()
    try:
        yield _compare_with_query(table, state, spark.sql(pin_query(model, upstreams)), _WRITTEN, written)
        own = read_current_rows(spark, model, state, table.reader.thresholds.pruning)
        assert own is not None
        older = own.join(written, match_key(own, key), "left_anti").count()
    finally:
        written.unpersist()
    if older:
        at = time_of(edit.at_ms)
        text = f"{older:,} were not written since the edit of {at:%Y-%m-%d %H:%M} UTC, and may be of earlier queries"
        yield Finding("the query gives the other rows", left_out=text)


def _check_query_gives_table(table: TableSession, state: TableState, upstreams: Upstreams) -> Finding:
    check = "the query gives the table"
    reason = _explain_not_recomputed(table, state, upstreams)
    if reason:
        return Finding(check, left_out=reason)
    rows = _recompute_from_events(table, state, upstreams)
    finding_made = _compare_with_query(table, state, rows, check)
    if finding_made.broken and table.model.config.input == "changes":
        added = _list_later_columns(table, table.model.table.changes, rows)
        if added and not _compare_with_query(table, state, rows.drop(*added), check).broken:
            return Finding(check, left_out=_explain_null_columns(added))
    gone = [upstream for upstream, source in upstreams.states.items() if source and source.may_have_deleted_rows]
    if finding_made.broken and gone and table.model.config.input == "changes":
        return Finding(check, left_out=f"events that it has read may have been deleted from {', '.join(gone)}")
    if (
        finding_made.broken
        and table.model.config.input == "changes"
        and state.changes is not None
        and FORGOTTEN in state.changes.properties
    ):
        return Finding(check, left_out="rows were forgotten that the events which it has read may still tell")
    return finding_made


def _list_later_columns(table: TableSession, log: TableName, rows: DataFrame) -> list[str]:
    """Returns the columns of `rows` that the table `log` got after its creation."""
    added = list_later_columns(table.reader, log)
    return [column for column in rows.columns if any(is_same_name(column, other) for other in added)]


def _explain_null_columns(added: list[str]) -> str:
    return f"{', '.join(added)} came later, and may be null in rows of earlier events; a --full-refresh fills them"


def _compare_with_query(
    table: TableSession, state: TableState, rows: DataFrame, check: str, keys: DataFrame | None = None
) -> Finding:
    """Compares `rows`, recomputed from the query or the events, with the table's rows; only those of `keys` if given.

    Of a table with history and `input: state`, only the current versions are compared; of a bitemporal table, only
    those whose recording has not ended.
    """
    model, thresholds = table.model, table.reader.thresholds
    shape = build_shape(model, state, list_frame_columns(rows))
    is_of_query = model.config.has_history and model.config.input == "state"
    table_rows = read_current_rows(table.spark(), model, state, thresholds.pruning)
    if table_rows is not None and keys is not None:
        key = model.config.entity_key
        rows = rows.join(keys, match_key(rows, key), "left_semi")
        table_rows = table_rows.join(keys, match_key(table_rows, key), "left_semi")
    if not is_of_query and not model.config.valid_time:
        frozen = read_model_predicate(model, shape.columns, to_micros(table.now))
        if frozen is None:
            return compare_rows(rows, table_rows, shape, check, thresholds.reports)
        ignored = build_frozen_condition(shape, frozen)
        finding_made = compare_rows(rows, table_rows, shape, check, thresholds.reports, ignored)
        count = 0 if table_rows is None else table_rows.where(write_expression(frozen.bind_names())).count()
        return replace(finding_made, note=f"frozen rows are not compared: {count:,}")
    differing = versions.find_differences if is_of_query else bitemporal.find_differences
    differences = differing(rows, table_rows, shape, model.config)
    return build_finding(check, differences, thresholds.reports)


def _check_version_order(table: TableSession, state: TableState) -> Iterable[Finding]:
    model, thresholds = table.model, table.reader.thresholds
    rows = read_current_rows(table.spark(), model, state, thresholds.pruning)
    if model.config.has_history and rows is not None:
        broken = versions.find_overlaps(rows, model.config)
        yield build_finding(
            "versions of a row do not overlap, and the last one alone is current", broken, thresholds.reports
        )
        if model.config.valid_time:
            broken = bitemporal.find_overlaps(rows, model.config)
            yield build_finding("each version is recorded once at a time", broken, thresholds.reports)


def _explain_not_recomputed(table: TableSession, state: TableState, upstreams: Upstreams) -> str:
    if table.model.ingested_from is not None:
        return f"its rows are ingested from {table.model.ingested_from}"
    if table.model.config.input == "changes":
        return _explain_other_origin(table.model, state, upstreams)
    upstreams = with_day_texts(upstreams, find_last_run(state.changes))
    decision = decide_refresh(table.model, state, upstreams, Request(), table.reader.thresholds)
    if upstreams.reads.unstable:
        return f"its result depends on {', '.join(upstreams.reads.unstable)}, so it can't be computed again"
    if decision.reason == "SOURCE_UNKNOWN":
        return f"it reads what has no versions: {decision.because}"
    if decision.reason == "WAITS_FOR_RESTORED_QUERY":
        return decision.because
    return "" if decision.mode == "unchanged" else "it is behind its upstreams; run it first"


def _explain_other_origin(model: Model, state: TableState, upstreams: Upstreams) -> str:
    """Explains why the table can't be compared with the events that it has read; returns an empty text if it can."""
    last = find_last_run(state.changes) or RunSummary()
    if changed := find_changed_event_rules(last.query, model):
        return f"{', '.join(changed)} changed since the last run; run it first"
    gone = [
        upstream for upstream, read in get_offsets(last).items() if not _is_kept(upstreams.states.get(upstream), read)
    ]
    if gone:
        return f"the versions that were read are gone ({', '.join(gone)})"
    declared = last.declared or Declared()
    if declared.points:
        return f"rows were declared: {declared.describe_declarations()}"
    trimmed = [upstream for upstream, source in upstreams.states.items() if source and source.is_compacted]
    if trimmed and model.config.has_history:
        return f"events that it has read may have been deleted from {', '.join(trimmed)}"
    return "" if last.restored is None else f"it was restored to version {last.restored}"


def _recompute_from_events(table: TableSession, state: TableState, upstreams: Upstreams) -> DataFrame:
    spark = table.spark()
    if table.model.config.input == "state":
        return spark.sql(pin_query(table.model, upstreams))
    read = {name: Window(name, None, end) for name, end in get_offsets(find_last_run(state.changes)).items()}
    query = QueryInputs(table.model, upstreams).run_query(spark, read)
    shape = build_shape(table.model, state, list_frame_columns(query))
    if table.model.config.has_history:
        stored = versions.add_intervals(table.model.config, list_frame_columns(query), list_frame_columns(query))
        return event_versions.fold_to_versions(query, build_shape(table.model, state, stored), table.model)
    net = net_events(choose_rules(table.model, shape), spread_over_own_keys(table.model, query))
    return select_live_rows(net, shape)


def _check_aggregate_state(table: TableSession, state: TableState, upstreams: Upstreams) -> Iterable[Finding]:
    """Compares the stored aggregate state with one that is recomputed from the upstream versions of the newest run.

    Yields no finding if no state is stored.
    """
    check = "the totals are those of the rows that were read"
    last = find_last_run(state.changes)
    if state.aggregate_state is None or last is None or last.aggregate_state is None:
        return
    plan = totals.find_plan(table.model, upstreams, last.aggregate_state)
    if plan is None:
        yield Finding(check, left_out="they are of another query; run it first")
        return
    read = get_offsets(last)
    gone = _list_expired_sources(plan.state, upstreams, read)
    if gone:
        yield Finding(check, left_out=f"the versions that were read are gone ({', '.join(gone)})")
        return
    windows = {source: Window(source, None, version) for source, version in read.items()}
    sources = SourceWindows(table.spark(), upstreams, windows, table.reader.thresholds)
    increments.register_images(sources, (plan.state,))
    differing = totals.find_differing_groups(table.spark(), table.model, state.aggregate_state, plan)
    yield build_finding(check, differing, table.reader.thresholds.reports)


def _list_expired_sources(tree: Node, upstreams: Upstreams, read: Mapping[str, Version]) -> list[str]:
    """Returns the sources of the operator tree `tree` whose version in `read` is missing or no longer kept."""
    names = dict.fromkeys(str(scan.source) for scan in list_scans(tree))
    return [source for source in names if source not in read or not _is_kept(upstreams.states[source], read[source])]


def _is_kept(source: SourceState | None, version: Version) -> bool:
    if source is None or source.version.table != version.table:
        return False
    return source.keeps_version(version) if source.kind == "changes" else version.snapshot in source.snapshots
