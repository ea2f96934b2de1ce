"""Finds the conditions that a model's query has only in an incremental run, and the column that each compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, find_all_in_scope, find_in_scope

from arctic_runtime.audit import origins
from arctic_runtime.model.names import TableName

FilterKind = Literal["high_water_mark", "look_back", "known_keys", "other"]


@dataclass(frozen=True)
class IncrementalFilter:
    """A condition that only the incremental query has, and not the query of a full refresh."""

    kind: FilterKind
    """What the condition compares: `high_water_mark`, `look_back`, `known_keys` or `other`.

    A `high_water_mark` compares `value` with the newest row of the model's table or with a constant; `look_back`
    compares it with a time that moves with the clock; `known_keys` excludes rows whose key the table has already.
    """

    condition: exp.Expr
    """The condition as an expression."""

    scope: Scope
    """The select of the query to which the condition belongs."""

    value: exp.Expr | None = None
    """The compared expression over columns; None for the kinds without one."""

    columns: tuple[str, ...] = ()
    """Names under which the query may return the value, the likeliest first."""

    tables: frozenset[str] = frozenset()
    """Tables whose rows the condition filters."""

    @property
    def text(self) -> str:
        return self.condition.sql(dialect="spark")

    @property
    def includes_mark(self) -> bool:
        """Whether rows whose value equals the bound of the comparison pass the filter."""
        return isinstance(self.condition, exp.GTE | exp.LTE)


def find_filters(
    full: Sequence[Scope], incremental: Sequence[Scope], table: TableName
) -> tuple[IncrementalFilter, ...]:
    """Returns the conditions that occur in the incremental query of a model but not in its full query.

    `full` and `incremental` are the scopes of both queries, as `parse_scopes` returns them; `table` is the model's
    table.
    """
    known = Counter(condition.sql() for scope in full for condition in _list_conditions(scope))
    filters: list[IncrementalFilter] = []
    for scope in incremental:
        for condition in _list_conditions(scope):
            text = condition.sql()
            if known[text]:
                known[text] -= 1
            else:
                filters.append(_build_filter(scope, condition, table))
    return tuple(filters)


def _list_conditions(scope: Scope) -> Iterator[exp.Expr]:
    """Yields the operands of AND in the conditions of a SELECT: those of WHERE, HAVING, QUALIFY and joins."""
    select = scope.expression
    if not isinstance(select, exp.Select):
        return
    clauses = [select.args.get(clause) for clause in ("where", "having", "qualify")]
    conditions = [clause.this for clause in clauses if clause is not None]
    conditions += [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    for condition in conditions:
        whole = condition.unnest()
        parts = whole.flatten() if isinstance(whole, exp.And) else (whole,)
        yield from (part.unnest() for part in parts)


def _build_filter(scope: Scope, condition: exp.Expr, table: TableName) -> IncrementalFilter:
    tables = origins.trace_expression(scope, condition).tables
    if _leaves_out_known_keys(scope, condition, table):
        return IncrementalFilter("known_keys", condition, scope, tables=tables)
    sides = _split_comparison(condition)
    if sides is None:
        return IncrementalFilter("other", condition, scope, tables=tables)
    value, bound = sides
    moves = not _reads_table(bound, table) and origins.is_volatile(bound)
    columns = tuple(dict.fromkeys(_list_output_names(scope, value, bound)))
    kind: FilterKind = "look_back" if moves else "high_water_mark"
    return IncrementalFilter(kind, condition, scope, value, columns, tables)


_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)


def _split_comparison(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Splits a comparison into the side with columns and the side without any, its bound; None for other conditions.

    The bound of a BETWEEN is its lower one.
    """
    if isinstance(condition, exp.Between):
        has_columns = _has_columns(condition.args["low"]) or _has_columns(condition.args["high"])
        return None if has_columns else (condition.this, condition.args["low"])
    if not isinstance(condition, _COMPARISONS):
        return None
    left, right = condition.left, condition.right
    if _has_columns(left) and not _has_columns(right):
        return left, right
    return (right, left) if _has_columns(right) and not _has_columns(left) else None


def _has_columns(expression: exp.Expr) -> bool:
    return find_in_scope(expression, exp.Column) is not None


def _reads_table(expression: exp.Expr, table: TableName) -> bool:
    name = table.name.lower()
    return any(read.name == name and read.db in ("", table.schema.lower()) for read in expression.find_all(exp.Table))


def _leaves_out_known_keys(scope: Scope, condition: exp.Expr, table: TableName) -> bool:
    """Whether a condition is an anti-join with the model's own table.

    It may be NOT IN or NOT EXISTS with the table in a subquery, or IS NULL of a column of the table after a join.
    """
    if isinstance(condition, exp.Not):
        inner = condition.this.unnest()
        return isinstance(inner, exp.In | exp.Exists) and _reads_table(inner, table)
    if isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null):
        names = origins.trace_expression(scope, condition.this).tables
        return str(table).lower() in names
    return False


def _list_output_names(scope: Scope, value: exp.Expr, bound: exp.Expr) -> Iterator[str]:
    """Yields names under which a query may return the `value` that it compares with `bound`, the likeliest first.

    These are: the alias of the same expression in the select list; the column whose maximum is the bound, as in
    `max(updated_at)`; and the name of the column that `value` reads, if it reads only one.
    """
    projections: Sequence[exp.Expr] = scope.expression.expressions if isinstance(scope.expression, exp.Select) else ()
    for projection in projections:
        if projection.unalias() == value and projection.alias_or_name:
            yield projection.alias_or_name
    for newest in bound.find_all(exp.Max):
        yield from (column.name for column in newest.find_all(exp.Column))
    columns = list(find_all_in_scope(value, exp.Column))
    if len(columns) == 1:
        yield columns[0].name
