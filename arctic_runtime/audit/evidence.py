"""Collects evidence for causes of differences from the text of a model's full and incremental query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from arctic_runtime.audit import origins
from arctic_runtime.audit.audited_model import AuditedModel
from arctic_runtime.audit.incremental_filters import IncrementalFilter, find_filters


@dataclass(frozen=True)
class Evidence:
    """Facts about a model's columns and filters, taken from the text of its queries; columns are in lower case."""

    filters: tuple[IncrementalFilter, ...] = ()
    """Conditions that only the incremental query has."""

    volatile: frozenset[str] = frozenset()
    """Columns whose values may differ in each run, such as the current time."""

    joined: frozenset[str] = frozenset()
    """Columns that come only from tables without an incremental filter."""

    partial: frozenset[str] = frozenset()
    """Aggregates that an incremental run computes over the filtered rows alone."""


def find_volatile_columns(sql: str, columns: Sequence[str], constants: Sequence[str] = ()) -> frozenset[str]:
    """Returns the `columns` of a query, in lower case, whose values depend on the clock, on randomness or on the run.

    `constants` are texts that dbt writes into the query and that differ in each run, such as its invocation id.
    """
    scopes = origins.parse_scopes(sql)
    if not scopes:
        return frozenset()
    folded = [column.lower() for column in columns]

    def has_constant(_: Scope, expression: exp.Expr) -> bool:
        literals = [literal.name for literal in expression.find_all(exp.Literal)]
        return any(constant in literal for literal in literals for constant in constants)

    return frozenset(
        column
        for column in folded
        if origins.trace_column(scopes[-1], column).is_volatile
        or (constants and origins.find_expressions(scopes[-1], column, has_constant))
    )


def collect_evidence(model: AuditedModel, columns: Sequence[str], full_sql: str) -> Evidence:
    """Collects evidence about the columns of a model's query.

    Volatile columns are searched for in `full_sql`, in which queries of upstream models may replace their tables; all
    other facts come from a comparison of the model's own two queries.
    """
    volatile = find_volatile_columns(full_sql, columns, model.constants)
    if model.full_sql is None or model.incremental_sql is None:
        return Evidence(volatile=volatile)
    scopes = origins.parse_scopes(model.incremental_sql)
    filters = find_filters(origins.parse_scopes(model.full_sql), scopes, model.table)
    if not filters:
        return Evidence(filters, volatile)
    folded = [column.lower() for column in columns]
    joined = frozenset(column for column in folded if _is_joined(scopes[-1], column, filters, model))
    conditions = [one.condition for one in filters if one.kind in ("high_water_mark", "look_back")]
    partial = frozenset(column for column in folded if _is_partial(scopes[-1], column, conditions))
    return Evidence(filters, volatile, joined, partial)


def _is_joined(scope: Scope, column: str, filters: Sequence[IncrementalFilter], model: AuditedModel) -> bool:
    filtered = {table for one in filters for table in one.tables} - {str(model.table).lower()}
    origin = origins.trace_column(scope, column)
    return bool(filtered) and origin.is_known and bool(origin.tables) and not origin.tables & filtered


def _is_partial(scope: Scope, column: str, conditions: Sequence[exp.Expr]) -> bool:
    """Whether a column is an aggregate over rows that an incremental filter leaves out."""

    def aggregates_filtered_rows(place: Scope, expression: exp.Expr) -> bool:
        functions = expression.find_all(exp.AggFunc)
        aggregates = [function for function in functions if not function.find_ancestor(exp.Window)]
        return bool(aggregates) and any(
            _restricts_rows(inner, conditions, place) for inner in origins.walk_sources(place)
        )

    return origins.find_expressions(scope, column, aggregates_filtered_rows)


def _restricts_rows(inner: Scope, conditions: Sequence[exp.Expr], grouped: Scope) -> bool:
    """Whether one of the conditions in the WHERE of `inner` can remove a part of the rows of a group of `grouped`.

    It can't if it uses grouping columns alone: then it removes a whole group or none of its rows.
    """
    where = inner.expression.args.get("where")
    own = [condition for condition in conditions if where is not None and condition.find_ancestor(exp.Where) is where]
    group = grouped.expression.args.get("group")
    keys = {key.unalias().sql() for key in group.expressions} if group else set()
    return any(not {column.sql() for column in condition.find_all(exp.Column)} <= keys for condition in own)
