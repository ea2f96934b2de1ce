"""Evidence for the causes of differences, taken from the text of a model's two queries."""

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
    """What a model's queries say about its result.

    `volatile` are columns that each run computes anew, `joined` those that come only from tables whose rows no
    incremental filter restricts, and `partial` aggregates over the filtered rows alone; in lower case.
    """

    filters: tuple[IncrementalFilter, ...] = ()
    volatile: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()


def find_volatile_columns(sql: str, columns: Sequence[str], constants: Sequence[str] = ()) -> frozenset[str]:
    """The columns of a query, in lower case, whose values depend on the clock, on chance or on the run.

    `constants` are texts that dbt writes into the query anew in each run.
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
    """Collects evidence about the columns of a model's query, whose text is `full_sql`."""
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
        aggregates = [found for found in expression.find_all(exp.AggFunc) if not found.find_ancestor(exp.Window)]
        return bool(aggregates) and any(
            _restricts_rows(inner, conditions, place) for inner in origins.walk_sources(place)
        )

    return origins.find_expressions(scope, column, aggregates_filtered_rows)


def _restricts_rows(inner: Scope, conditions: Sequence[exp.Expr], grouped: Scope) -> bool:
    """Whether a filter of the scope `inner` leaves out rows of groups that `grouped` returns, and not whole groups."""
    where = inner.expression.args.get("where")
    own = [condition for condition in conditions if where is not None and condition.find_ancestor(exp.Where) is where]
    group = grouped.expression.args.get("group")
    keys = {key.unalias().sql() for key in group.expressions} if group else set()
    return any(not {column.sql() for column in condition.find_all(exp.Column)} <= keys for condition in own)
