"""Withholds changes of frozen rows: the one place that all change rows of a run pass before they are published.

A change is withheld if the table's row of its key is frozen, or if the table has no such row and the new one would be
frozen. So the table may differ from the query in frozen rows, and in rows that came too late for it; `frozen_total` in
the record of a run tells whether it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import get_first_line
from arctic_runtime.ivm.frontend.frozen_predicate import read_frozen_predicate
from arctic_runtime.ivm.frontend.row_predicate import RowPredicate, cast_column
from arctic_runtime.model.columns import ACTION, BEFORE, Column
from arctic_runtime.model.run_summary import UNFROZEN, RunSummary
from arctic_runtime.model.shape import DELETE, INSERT, Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, quote_text, write_expression
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.query_analysis import check_predicate_reading
from arctic_runtime.spark.tables.rows.bounds import count_where
from arctic_runtime.spark.tables.rows.frames import to_column

_FROZEN = "frozen"


def read_model_predicate(model: Model, columns: tuple[Column, ...], micros: int) -> RowPredicate | None:
    """Reads the model's `frozen_where` as of the time `micros`; None if it has none.

    Raises ConfigError if it names a column that is not among `columns`, those of the table.
    """
    text = model.config.frozen_where
    if text is None:
        return None
    try:
        return read_frozen_predicate(text, [column.name for column in columns], micros)
    except ConfigError as error:
        raise ConfigError(f"{model.table}: `frozen_where`: {error}") from error


def check_frozen_where(model: Model, rows: DataFrame, columns: tuple[Column, ...], micros: int) -> None:
    """Raises ConfigError if `frozen_where` is no predicate over `columns` of `rows`, or if Spark reads it otherwise."""
    predicate = read_model_predicate(model, columns, micros)
    if predicate is not None:
        check_row_predicate(model, rows, predicate, str(model.config.frozen_where))


def check_row_predicate(model: Model, rows: DataFrame, predicate: RowPredicate, typed: str) -> None:
    """Raises ConfigError if a predicate is not true or false for a row of `rows`, or Spark reads it differently.

    `typed` is what the user typed.
    """
    try:
        check_predicate_reading(rows, predicate.text)
        rows.where(write_expression(predicate.bind_names())).schema  # noqa: B018 - has Spark read the condition
    except AnalysisException as error:
        raise ConfigError(
            f"{model.table}: {typed!r} can't select rows.",
            expected="a predicate, which is true or false for a row",
            actual=get_first_line(error),
        ) from error


def withhold_frozen(attempt: PreparedAttempt, computed: Computed) -> Computed:
    """Removes the change rows of an attempt that would touch frozen rows, and records their number.

    All rows are taken into an empty table, and if the request is to compute frozen rows too.
    """
    last, is_whole = attempt.last_run, attempt.decision.mode == "full"
    predicate = read_model_predicate(attempt.model, attempt.shape.columns, attempt.upstreams.clock)
    if attempt.has_no_rows or (predicate is None and (last.frozen_total is None or is_whole)):
        return computed
    if attempt.request.with_frozen:
        return _record(computed, RunSummary(frozen=UNFROZEN))
    if last.frozen_total is not None and not computed.has_stored_before:
        computed = replace(computed, rows=_compare_with_table(attempt, computed.rows), is_gathered=False)
    if predicate is None:
        return _record(computed, RunSummary(frozen_total=last.frozen_total))
    rows, count = separate_frozen(attempt.cache(computed.rows), attempt.shape, predicate)
    return _record(replace(computed, rows=rows), build_frozen_entries(last, count))


def build_frozen_entries(last: RunSummary, count: int) -> RunSummary:
    """Builds the record of `count` changes that a run does not apply, after the `last` run."""
    total = int(last.frozen_total or 0) + count
    return RunSummary(frozen=str(count) if count else None, frozen_total=str(total) if total else None)


def separate_frozen(changes: DataFrame, shape: Shape, predicate: RowPredicate) -> tuple[DataFrame, int]:
    """Returns the change rows that are to be applied, and the number of the others; `changes` have to be cached.

    Their `_before` has to be the row of the table.
    """
    condition = build_frozen_condition(shape, predicate)
    (row,) = changes.agg(F.expr(count_where(condition, _FROZEN))).collect()
    count = int(row[_FROZEN])
    return (changes.where(~F.expr(condition)) if count else changes), count


def build_frozen_condition(shape: Shape, predicate: RowPredicate) -> Sql:
    """Builds the condition of change rows that would touch a frozen row."""
    old = {
        name: cast_column(name, None) if shape.is_key(name) else _build_old_column(name) for name in predicate.columns
    }
    new = {name: cast_column(name, None) for name in predicate.columns}
    action = quote_name(ACTION)
    had_row = fill_statement("{action} <> {insert}", action=action, insert=quote_text(INSERT))
    if shape.before_type is not None:
        had_row = fill_statement("{before} IS NOT NULL", before=quote_name(BEFORE))
    return fill_statement(
        "CASE WHEN {had_row} THEN {was_frozen} WHEN {action} = {delete} THEN false ELSE {is_frozen} END",
        had_row=had_row,
        action=action,
        delete=quote_text(DELETE),
        was_frozen=_write_true(predicate, old),
        is_frozen=_write_true(predicate, new),
    )


def _write_true(predicate: RowPredicate, values: Mapping[str, exp.Expr]) -> Sql:
    return fill_statement("coalesce({value}, false)", value=write_expression(predicate.bind_columns(values)))


def _build_old_column(name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(BEFORE, quoted=True))


def _compare_with_table(attempt: PreparedAttempt, changes: DataFrame) -> DataFrame:
    """Computes the change rows that turn the table's rows into the new rows of `changes`.

    Those of `changes` may lead from other rows than the table has, since they follow from the query alone.
    """
    rows = attempt.cache(changes)
    old = attempt.read_rows(attempt.find_keys(attempt.select_key(rows), rows.count()))
    new = rows.where(F.col(ACTION) != DELETE).select(*[to_column(column.name) for column in attempt.shape.columns])
    return diff_states(new, old, attempt.shape)


def _record(computed: Computed, entries: RunSummary) -> Computed:
    return replace(computed, summary=computed.summary.with_entries_from(entries))
