"""Whether a table is what its model says, and its history what it claims: recomputed, not believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observe import columns_added_later
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node, scans
from arctic_runtime.model.columns import ACTION, plain_columns, same_name
from arctic_runtime.model.declared import Declared
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN
from arctic_runtime.model.run_summary import RunSummary, last_run, offsets_of
from arctic_runtime.model.shape import is_named, shape_of
from arctic_runtime.model.state import ChangeTableState, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.decide import Request, decide
from arctic_runtime.plan.fingerprint import changed_event_rules
from arctic_runtime.plan.increment import Upstreams
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import beliefs, events, increments, row_versions, truncations
from arctic_runtime.spark.refresh.integrity import (
    Finding,
    changes_fold_to_the_table,
    compared,
    finding,
    history,
    keys_are_unique,
)
from arctic_runtime.spark.refresh.planning import with_day_texts
from arctic_runtime.spark.refresh.query_inputs import QueryInputs
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.frames import column, columns_of, conformed, current_rows, read_table
from arctic_runtime.spark.tables.sameness import compare_bags
from arctic_runtime.spark.tables.table_session import TableSession


def verify(refresh: Refresh) -> tuple[Finding, ...]:
    """Checks one model's table against its query, its change table, and the change table against itself."""
    table = refresh.table
    state, upstreams = table.observe(), refresh.planner.observe_upstreams()
    if state.appended is not None and table.model.ingested_from is not None:
        reason = f"events of {table.model.ingested_from} are appended to it, and no key or history tells what they were"
        return (Finding("table", left_out=reason),)
    if state.appended is not None:
        return (_events_are_all_there(table, state.appended, upstreams),)
    if state.changes is None or state.base is None:
        return (Finding("table", left_out="it was not built yet"),)
    spark, model, thresholds = table.spark(), table.model, table.reader.thresholds
    shape = shape_of(model, state, plain_columns(state.changes.columns))
    return (
        _query_gives_the_table(table, state, upstreams),
        changes_fold_to_the_table(spark, model, state, shape, thresholds),
        keys_are_unique(spark, model, state, thresholds),
        *_versions_follow_each_other(table, state),
        *_totals_are_right(table, state, upstreams),
        *history(spark, table.reader, model, state, shape),
    )


def _events_are_all_there(table: TableSession, appended: ChangeTableState, upstreams: Upstreams) -> Finding:
    """A table without a key has each row that the query makes of the events that were read, as often as it does."""
    check, last = "the table has each row of its events once", last_run(appended) or RunSummary()
    read = offsets_of(last)
    gone = [of for of, version in read.items() if not _is_kept(upstreams.states.get(of), version)]
    if gone:
        return Finding(check, left_out=f"the versions that were read are gone ({', '.join(gone)})")
    if any(source and source.may_have_deleted_rows for source in upstreams.states.values()):
        return Finding(check, left_out="events that it has read may have been deleted")
    assert appended.head is not None
    windows = {name: Window(name, None, end) for name, end in read.items()}
    rows = read_table(table.spark(), table.model.table, appended.head.snapshot)
    query = QueryInputs(table.model, upstreams).query(table.spark(), windows)
    found = _as_bags(table, query, rows, check)
    added = _added_later(table, table.model.table, query) if found.broken else []
    if added and not _as_bags(table, query.drop(*added), rows, check).broken:
        return Finding(check, left_out=_null_before(added))
    return found


def _as_bags(table: TableSession, query: DataFrame, rows: DataFrame, check: str) -> Finding:
    """Rows of the query that a table lacks, and those that it has too many, in the columns of both."""
    wanted = conformed(query, [of for of in columns_of(rows) if of.name in query.columns])
    kept = rows.select(*[column(of) for of in wanted.columns])
    found = compare_bags(wanted, kept, MULTIPLICITY)
    side = F.when(F.col(MULTIPLICITY) > 0, "missing").otherwise("surplus")
    return finding(check, found.withColumn(ACTION, side).drop(MULTIPLICITY), table.reader.thresholds.reports)


def _query_gives_the_table(table: TableSession, state: TableState, upstreams: Upstreams) -> Finding:
    check = "the query gives the table"
    reason = _why_not_recomputed(table, state, upstreams)
    if reason:
        return Finding(check, left_out=reason)
    rows = _recomputed(table, state, upstreams)
    found = _compared(table, state, rows, check)
    if found.broken and table.model.config.input == "changes":
        added = _added_later(table, table.model.table.changes, rows)
        if added and not _compared(table, state, rows.drop(*added), check).broken:
            return Finding(check, left_out=_null_before(added))
    gone = [of for of, source in upstreams.states.items() if source and source.may_have_deleted_rows]
    if found.broken and gone and table.model.config.input == "changes":
        return Finding(check, left_out=f"events that it has read may have been deleted from {', '.join(gone)}")
    if found.broken and table.model.config.input == "changes" and _was_forgotten(state):
        return Finding(check, left_out="rows were forgotten that the events which it has read may still tell")
    return found


def _added_later(table: TableSession, log: TableName, rows: DataFrame) -> list[str]:
    """The columns of rows that a table got after its first ones."""
    added = columns_added_later(table.reader, log)
    return [of for of in rows.columns if any(same_name(of, other) for other in added)]


def _null_before(added: list[str]) -> str:
    return f"{', '.join(added)} came later, and may be null in rows of earlier events; a --full-refresh fills them"


def _compared(table: TableSession, state: TableState, rows: DataFrame, check: str) -> Finding:
    """The query's rows and the table's, of versions of a query's rows those that are valid now."""
    spark, model, thresholds = table.spark(), table.model, table.reader.thresholds
    shape = shape_of(model, state, columns_of(rows))
    is_of_query = model.config.has_history and model.config.input == "state"
    if not is_of_query and not model.config.valid_time:
        return compared(spark, model, state, rows, shape, check, thresholds)
    differing = row_versions.differing if is_of_query else beliefs.differing
    found = differing(rows, current_rows(spark, model, state, thresholds.pruning), shape, model.config)
    return finding(check, found, thresholds.reports)


def _versions_follow_each_other(table: TableSession, state: TableState) -> Iterable[Finding]:
    model, thresholds = table.model, table.reader.thresholds
    rows = current_rows(table.spark(), model, state, thresholds.pruning)
    if model.config.has_history and rows is not None:
        broken = row_versions.overlapping(rows, model.config)
        yield finding("versions of a row do not overlap, and the last one alone is current", broken, thresholds.reports)
        if model.config.valid_time:
            broken = beliefs.overlapping(rows, model.config)
            yield finding("each version is recorded once at a time", broken, thresholds.reports)


def _was_forgotten(state: TableState) -> bool:
    return state.changes is not None and FORGOTTEN in state.changes.properties


def _why_not_recomputed(table: TableSession, state: TableState, upstreams: Upstreams) -> str:
    if table.model.ingested_from is not None:
        return f"its rows are ingested from {table.model.ingested_from}"
    if table.model.config.input == "changes":
        return _why_not_its_events(table.model, state, upstreams)
    upstreams = with_day_texts(upstreams, last_run(state.changes))
    decision = decide(table.model, state, upstreams, Request(), table.reader.thresholds)
    if upstreams.reads.unstable:
        return f"its answer changes by itself ({', '.join(upstreams.reads.unstable)})"
    if decision.reason == "SOURCE_UNKNOWN":
        return f"it reads what has no versions: {decision.because}"
    return "" if decision.mode == "unchanged" else "it is behind its upstreams; run it first"


def _why_not_its_events(model: Model, state: TableState, upstreams: Upstreams) -> str:
    """Why a table is something else than what its events say, where it was not computed anew since."""
    last = last_run(state.changes) or RunSummary()
    if changed := changed_event_rules(last.query, model):
        return f"{', '.join(changed)} changed since the last run; run it first"
    gone = [of for of, read in offsets_of(last).items() if not _is_kept(upstreams.states.get(of), read)]
    if gone:
        return f"the versions that were read are gone ({', '.join(gone)})"
    declared = last.declared or Declared()
    if declared.places:
        return f"rows were declared: {declared.describe()}"
    trimmed = [of for of, source in upstreams.states.items() if source and source.is_compacted]
    if trimmed and model.config.has_history:
        return f"events that it has read may have been deleted from {', '.join(trimmed)}"
    return "" if last.restored is None else f"it was restored to version {last.restored}"


def _recomputed(table: TableSession, state: TableState, upstreams: Upstreams) -> DataFrame:
    spark = table.spark()
    if table.model.config.input == "state":
        return spark.sql(table.model.sql)
    read = {name: Window(name, None, end) for name, end in offsets_of(last_run(state.changes)).items()}
    query = QueryInputs(table.model, upstreams).query(spark, read)
    shape = shape_of(table.model, state, columns_of(query))
    if table.model.config.has_history:
        stored = row_versions.with_intervals(table.model.config, columns_of(query), columns_of(query))
        return row_versions.rows_of_events(query, shape_of(table.model, state, stored), table.model)
    net = events.net_events(table.model, truncations.spread_over_own_keys(table.model, query), shape)
    given = [(i, of) for i, of in enumerate(shape.columns) if is_named(of.name, shape.given)]
    return net.where("not deleted").select(*[F.col(f"a{i}").alias(kept.name) for i, kept in given])


def _totals_are_right(table: TableSession, state: TableState, upstreams: Upstreams) -> Iterable[Finding]:
    """Of the versions that the newest run read, to which they belong, whatever has come since."""
    check = "the totals are those of the rows that were read"
    last = last_run(state.changes)
    if state.aggregate_state is None or last is None or last.aggregate_state is None:
        return
    plan = totals.plan_of(table.model, upstreams, last.aggregate_state)
    if plan is None:
        yield Finding(check, left_out="they are of another query; run it first")
        return
    read = offsets_of(last)
    gone = _not_kept(plan.state, upstreams, read)
    if gone:
        yield Finding(check, left_out=f"the versions that were read are gone ({', '.join(gone)})")
        return
    windows = {of: Window(of, None, version) for of, version in read.items()}
    increments.register_images(table.spark(), (plan.state,), upstreams, windows, table.reader.thresholds)
    differing = totals.differing(table.spark(), table.model, state.aggregate_state, plan)
    yield finding(check, differing, table.reader.thresholds.reports)


def _not_kept(tree: Node, upstreams: Upstreams, read: Mapping[str, Version]) -> list[str]:
    """The sources of a tree of which the version that was read can't be read again."""
    names = dict.fromkeys(str(scan.source) for scan in scans(tree))
    return [of for of in names if of not in read or not _is_kept(upstreams.states[of], read[of])]


def _is_kept(source: SourceState | None, version: Version) -> bool:
    if source is None or source.version.table != version.table:
        return False
    return source.keeps(version) if source.kind == "changes" else version.snapshot in source.snapshots
