"""An incremental model as an audit sees it: its table, its queries and its key; evidence for causes of differences.

The evidence is collected from the text of the model's full and incremental query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from arctic_runtime.audit import origins
from arctic_runtime.audit.origins import IncrementalFilter, find_filters
from arctic_runtime.model.names import TableName

KeySource = Literal["unique_key", "constraint", "tests", "none"]


@dataclass(frozen=True)
class AuditedModel:
    """An incremental model of a dbt project, with its queries, its key and the way in which dbt writes its table."""

    name: str
    table: TableName
    full_sql: str | None = None
    """The query as a full refresh runs it; None if there is no such query."""

    incremental_sql: str | None = None
    """The query as the next incremental run executes it; None if there is no such query."""

    key: tuple[str, ...] = ()
    """Columns that identify a row; empty if none are declared."""

    key_source: KeySource = "none"
    """Declaration from which `key` was taken."""

    strategy: str = "append"
    """dbt's `incremental_strategy`, the way in which a run writes its rows into the table."""

    has_unique_key: bool = False
    """True if the strategy replaces rows by dbt's `unique_key`."""

    updated_columns: tuple[str, ...] | None = None
    """Columns that a merge updates in existing rows; None for all."""

    kept_columns: tuple[str, ...] = ()
    """Columns that a merge never updates in existing rows."""

    constants: tuple[str, ...] = ()
    """Texts in the compiled queries that differ in each run, such as dbt's invocation id."""

    upstreams: tuple[str, ...] = ()
    """dbt's ids of the nodes that the model reads."""

    error: str = ""
    """Reason for which the queries are missing; empty if they are not."""

    @property
    def replaces_rows(self) -> bool:
        """Whether a run may replace rows of the table; otherwise it only appends rows."""
        return self.has_unique_key or self.strategy == "insert_overwrite"


@dataclass(frozen=True)
class UpstreamModel:
    """A model upstream of an audited one; in a query, its own query `sql` can replace its table.

    `sql` is the query of a full refresh; None if the query can't replace the table. `upstreams` has dbt's ids of the
    nodes that the model reads.
    """

    name: str
    table: TableName
    sql: str | None
    is_view: bool
    upstreams: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditedProject:
    """The models of an audit: the selected incremental ones, and all nodes that their queries may read.

    `others` has the selected models and all nodes upstream of them, by dbt's ids; each node comes after those it reads.
    """

    models: tuple[AuditedModel, ...]
    others: Mapping[str, UpstreamModel] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit: the number of example rows for each kind and cause, and the columns that are not compared.

    An excluded column is given as `column`, for all models, or as `model.column`. Case does not matter.
    """

    examples: int = 3
    excluded_columns: tuple[str, ...] = ()

    def excludes_column(self, model: str, column: str) -> bool:
        names = {name.lower() for name in self.excluded_columns}
        return column.lower() in names or f"{model}.{column}".lower() in names


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

    It can't if it uses only grouping columns: then it removes a whole group or none of its rows.
    """
    where = inner.expression.args.get("where")
    own = [condition for condition in conditions if where is not None and condition.find_ancestor(exp.Where) is where]
    group = grouped.expression.args.get("group")
    keys = {key.unalias().sql() for key in group.expressions} if group else set()
    return any(not {column.sql() for column in condition.find_all(exp.Column)} <= keys for condition in own)
