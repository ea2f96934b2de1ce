"""Publishes change rows: appends them to the change table in one commit, if none of them is flawed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import ACTION, BEFORE, TIMESTAMP, find_column
from arctic_runtime.model.files.bounds import is_bounded
from arctic_runtime.model.run_summary import to_micros
from arctic_runtime.model.shape import DELETE, FLAWS, INSERT, UPDATE, UPSERT, ChangeSet, Shape
from arctic_runtime.model.step import (
    AppendChanges,
    Mode,
)
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables.commit import (
    build_summary_options,
    read_tips,
    swap_in,
)
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.rows.bounds import Ranges, count_where, is_scanned, list_location_columns
from arctic_runtime.spark.tables.rows.frames import format_examples, hide_constant, to_column

_ACTIONS = (INSERT, UPDATE, DELETE, UPSERT)


_ROWS, _NOTHING = "rows", "deletions of nothing"
"""Names of further counts of written rows, besides one count for each action: all rows, and deletes of missing rows."""


def publish_changes(
    changes: ChangeSet, context: Context, overtaken: Callable[[DataFrame], Appended | None] = lambda _: None
) -> Appended:
    """Appends change rows in one commit, if the change table is unchanged since it was observed; returns their counts.

    Readers see all of the rows or none. Rows are sorted by key, except in a first run, whose rows are later read as a
    whole. If rows have a value of `FLAWS`, such as a null key, as their action, raises DataError with some of them. If
    another writer committed first, calls `overtaken` with the written change rows: it may publish others and return
    their counts, or return None, which raises CommitConflict. Also raises the errors of `changes.confirm`.
    """
    step, shape = changes.commit, changes.shape
    seen = Observation()
    kinds = _build_kind_conditions(_list_usual_actions(step.mode, context.model), step.mode, context.model, shape)
    ranges = _collect_ranges(context, shape)
    aggregates = [*_build_counts(kinds), *(ranges.build_aggregates() if ranges else ())]
    timed = changes.rows.withColumn(TIMESTAMP, F.expr(_build_time_expression(context.now)))
    parts = timed if changes.is_gathered else timed.hint("rebalance")
    key = shape.key if step.mode != "create" else ()
    ordered = parts.sortWithinPartitions(*[to_column(part) for part in key]) if key else parts
    # Observed last, since an empty stage is dropped together with its counts. Each counted kind costs much, so only the
    # usual kinds of rows are counted.
    written = ordered.observe(seen, F.count(F.lit(1)).alias(_ROWS), *map(F.expr, aggregates))

    def write_attempt(branch: tuple[str, ...]) -> Appended:
        writer = written.writeTo(quote_name(*branch)).options(
            **{"isolation-level": "serializable", **build_summary_options(changes.summary.encode())}
        )
        perform_effect("commit.append", writer.append, f"append changes to {step.table}", SPARK)
        observed = read_observed_counts(seen)
        counts = {kind: int(observed.get(kind) or 0) for kind in kinds}
        is_whole = sum(counts.values()) == observed.get(_ROWS)
        if not is_whole:
            counts = count_again(context, step, branch, shape)
        counts_by_kind = dict.fromkeys((*_ACTIONS, *FLAWS), 0) | counts
        if any(counts_by_kind[flaw] for flaw in FLAWS):
            raise _build_flaw_error(context, branch, shape, counts_by_kind)
        changes.confirm()
        replaced = ranges.read_bounds(observed) if ranges is not None and is_whole else None
        applied = {action: counts_by_kind[action] for action in _ACTIONS}
        return Appended(step.expected, applied, replaced, changes.summary.count_frozen())

    def retry_on_top(tip: int) -> Appended | None:
        return overtaken(_read_written_rows(context, step, tip))

    return swap_in(context.attempt, step.table, step.expected, write_attempt, retry_on_top)


def _read_written_rows(context: Context, step: AppendChanges, tip: int) -> DataFrame:
    """Reads the change rows that the attempt has appended to its branch, whose head is the snapshot `tip`."""
    table = quote_name(*step.table.parts)
    if tip == step.expected:
        return context.spark.table(table).limit(0)
    reader = context.spark.read.option("start-snapshot-id", str(step.expected)).option("end-snapshot-id", str(tip))
    return reader.table(table)


def read_observed_counts(seen: Observation) -> dict[str, Any]:
    """Returns the values of aggregates that Spark observed while it wrote rows; empty if a busy server sent none."""
    return dict(seen.get)


def _collect_ranges(context: Context, shape: Shape) -> Ranges | None:
    """Builds aggregates over change rows that locate the base table's rows to replace: ranges of keys and partitions.

    Returns None if no merge follows that looks up rows in the base table: since there is no base table, since it is
    merged on read, or since it is so small that a merge reads all of it.
    """
    base = context.state.base
    if base is None or context.model.config.merge == "on_read" or is_scanned(base.rows, context.thresholds.pruning):
        return None
    values = {
        part: (value, column.type)
        for part, value in list_location_columns(context.model).items()
        if (column := find_column(shape.columns, part)) and is_bounded(column.type)
    }
    return Ranges(values, fill_statement("{action} <> {kind}", action=quote_name(ACTION), kind=quote_text(INSERT)))


def count_again(context: Context, step: AppendChanges, branch: Sequence[str], shape: Shape) -> dict[str, int]:
    """Counts the rows of each kind that the attempt has appended to `branch`; empty if it has appended none."""
    (tip,) = read_tips(context.spark, step.table, branch[-1].removeprefix("branch_")).values()
    if tip == step.expected:
        return {}
    rows = _read_written_rows(context, step, tip)
    counts = _build_counts(_build_kind_conditions((*_ACTIONS, *FLAWS), step.mode, context.model, shape))
    return {str(kind): int(count) for kind, count in rows.agg(*map(F.expr, counts)).collect()[0].asDict().items()}


def _list_usual_actions(mode: Mode, model: Model) -> tuple[str, ...]:
    """Returns the actions that change rows can have in a run of the given mode, if no row is flawed.

    Only these actions are counted while rows are written, since each count takes time.
    """
    if mode == "create":
        return (INSERT,)
    return (UPSERT, DELETE) if mode == "incremental" and model.config.changelog == "input" else (INSERT, UPDATE, DELETE)


def _build_kind_conditions(actions: Sequence[str], mode: Mode, model: Model, shape: Shape) -> dict[str, Sql]:
    """Builds for each of `actions` the condition of the change rows that are counted for it.

    If stored rows are looked up, deletes of missing rows have a condition of their own, and do not count as deletes.
    """
    is_one = "{action} = {kind}"
    kinds = {kind: fill_statement(is_one, action=quote_name(ACTION), kind=quote_text(kind)) for kind in actions}
    is_looked_up = model.config.changelog == "lookup" or mode != "incremental"
    if DELETE in kinds and is_looked_up and shape.before_type is not None:
        parts = {"is_one": kinds[DELETE], "before": quote_name(BEFORE)}
        kinds[_NOTHING] = fill_statement("{is_one} AND {before} IS NULL", **parts)
        kinds[DELETE] = fill_statement("{is_one} AND {before} IS NOT NULL", **parts)
    return kinds


def _build_counts(kinds: Mapping[str, Sql]) -> list[Sql]:
    return [count_where(is_one, kind) for kind, is_one in kinds.items()]


def _build_time_expression(now: datetime.datetime) -> Sql:
    """Builds the expression of a change row's time: its own `_ts`, or if that is null, `now`, the time of the run."""
    micros = quote_number(to_micros(now))
    run = hide_constant(fill_statement("timestamp_micros({micros})", micros=micros), quote_name(ACTION))
    return fill_statement("coalesce({own}, {run})", own=quote_name(TIMESTAMP), run=run)


def _build_flaw_error(context: Context, branch: Sequence[str], shape: Shape, counts: Mapping[str, int]) -> DataError:
    flaw = next(flaw for flaw in FLAWS if counts[flaw])
    rows = context.spark.table(quote_name(*branch)).where(F.col(ACTION) == flaw)
    key = context.model.config.entity_key
    shown = [*key, *shape.not_null] if flaw == "!null column" else key
    example = rows.select(*[to_column(part) for part in dict.fromkeys(shown)]).distinct().limit(3).collect()
    named = ", ".join(dict.fromkeys(shown)) or "(none: the query must give one row)"
    checks = "".join(f"  check: {check}\n" for check in shape.checks) if flaw == "!broken check" else ""
    return DataError(
        f"{context.model.table}: {counts[flaw]} row(s) of the query have a {flaw[1:]}; nothing was written.\n"
        f"  column: {named}\n"
        f"{checks}{format_examples(example)}",
        expected="a unique primary key without nulls, and rows that satisfy the contract",
        fix="repair or filter the rows in the query, or add columns to `primary_key` until it is unique",
    )
