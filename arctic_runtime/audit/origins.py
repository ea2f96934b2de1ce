"""Traces the columns of a query to the tables that they come from, and finds the filters of incremental runs in it.

Only the text of the query is used. The columns of tables are not looked up, so the origin of a column may stay unknown,
such as that of a column without a qualifier in a join of two tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.scope import Scope, find_all_in_scope, find_in_scope, traverse_scope

from arctic_runtime.ivm.frontend.reads import UNSTABLE, get_clock_word, list_function_names
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class TracedTables:
    """The origin of a column: the tables from which its values come, by their names with dots.

    `is_known` is False if a part of the column could not be traced. `is_volatile` is True if the values depend on the
    clock, on random numbers or on the session, so that each run may compute others.
    """

    tables: frozenset[str] = frozenset()
    is_known: bool = True
    is_volatile: bool = False

    def merge_origin(self, other: TracedTables) -> TracedTables:
        return TracedTables(
            self.tables | other.tables, self.is_known and other.is_known, self.is_volatile or other.is_volatile
        )


UNKNOWN = TracedTables(is_known=False)


def parse_scopes(sql: str) -> list[Scope]:
    """Parses a query to sqlglot's scopes, the outermost query last, with names in lower case; empty if that fails."""
    try:
        tree = normalize_identifiers(sqlglot.parse_one(sql, dialect="spark"), dialect="spark")
        return list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    except SqlglotError:
        return []


def get_sources(scope: Scope) -> dict[str, exp.Expr | Scope]:
    """Returns the tables and subqueries in a scope's FROM and joins, by their aliases."""
    return {name: source for name, (_, source) in scope.selected_sources.items()}


def name_table(table: exp.Table) -> str:
    """Returns the name of a table, its parts separated by dots."""
    return ".".join(part.name for part in table.parts)


def trace_column(scope: Scope, column: str) -> TracedTables:
    """Traces the output column `column` of a scope, a name in lower case, to the tables from which its values come."""
    if isinstance(scope.expression, exp.SetOperation):
        return reduce(
            TracedTables.merge_origin,
            (trace_column(part, own) for part, own in _name_in_parts(scope, column)),
            TracedTables(),
        )
    select = scope.expression
    if not isinstance(select, exp.Select):
        return UNKNOWN
    for projection in select.expressions:
        if projection.alias_or_name == column and not projection.is_star:
            return trace_expression(scope, projection)
    return _trace_star(scope, select, column)


def trace_expression(scope: Scope, expression: exp.Expr) -> TracedTables:
    """Traces an expression of a scope to the tables from which its columns come.

    The origin is not known if the expression contains a subquery.
    """
    columns = find_all_in_scope(expression, exp.Column)
    own = TracedTables(is_volatile=is_volatile(expression), is_known=expression.find(exp.Query) is None)
    return reduce(
        TracedTables.merge_origin, (_trace_one_of(_list_sources(scope, column), column.name) for column in columns), own
    )


def is_volatile(expression: exp.Expr) -> bool:
    """Whether an expression depends on the clock, on random numbers or on the session."""
    names = {name for function in expression.find_all(exp.Func) for name in list_function_names(function)}
    return bool(names & UNSTABLE) or any(get_clock_word(part) for part in expression.walk())


def find_expressions(scope: Scope, column: str, test: Callable[[Scope, exp.Expr], bool]) -> bool:
    """Whether `test` holds for the expression of an output column, or for one below it in CTEs and subqueries.

    `test` gets the scope of an expression and the expression.
    """
    if isinstance(scope.expression, exp.SetOperation):
        return any(find_expressions(part, own, test) for part, own in _name_in_parts(scope, column))
    if not isinstance(scope.expression, exp.Select):
        return False
    for projection in scope.expression.expressions:
        if projection.alias_or_name == column and not projection.is_star:
            below = (
                find_expressions(source, reference.name, test)
                for reference in projection.find_all(exp.Column)
                for source in _list_sources(scope, reference)
                if isinstance(source, Scope)
            )
            return test(scope, projection) or any(below)
    stars = (scope_below for scope_below in get_sources(scope).values() if isinstance(scope_below, Scope))
    has_star = any(projection.is_star for projection in scope.expression.expressions)
    return has_star and any(find_expressions(below, column, test) for below in stars)


def has_column(source: exp.Expr | Scope, column: str) -> bool | None:
    """Whether a part of a FROM clause has a column; None if that is unknown.

    A subquery has the columns of its select list. If this list contains a star, the parts of the subquery's own FROM
    clause are searched. For a table the result is always None, since its columns are not in the query's text.
    """
    if not isinstance(source, Scope):
        return None
    scope = _list_union_parts(source)[0]
    if not isinstance(scope.expression, exp.Select):
        return None
    projections = scope.expression.expressions
    if any(projection.alias_or_name == column for projection in projections if not projection.is_star):
        return True
    if not any(projection.is_star for projection in projections):
        return False
    answers = [has_column(below, column) for below in get_sources(scope).values()]
    return True if True in answers else (None if None in answers else False)


def _trace_star(scope: Scope, select: exp.Select, column: str) -> TracedTables:
    """Traces an output column that the select list has by a star, such as `*`, `t.*` or `* REPLACE (…)`."""
    stars = [projection for projection in select.expressions if projection.is_star]
    for star in stars:
        replaced = (star.this if isinstance(star, exp.Column) else star).args.get("replace") or ()
        for projection in replaced:
            if projection.alias_or_name == column:
                return trace_expression(scope, projection)
    named = [star.table for star in stars if isinstance(star, exp.Column) and star.table]
    sources = get_sources(scope)
    names = named if len(named) == len(stars) else list(sources)
    return _trace_one_of([sources[name] for name in names if name in sources], column)


def _list_sources(scope: Scope, column: exp.Column) -> list[exp.Expr | Scope]:
    """Returns the tables and subqueries of a scope to which a column may belong; all if it is not qualified."""
    sources = get_sources(scope)
    if column.table:
        return [sources[column.table]] if column.table in sources else []
    return list(sources.values())


def _trace_one_of(sources: list[exp.Expr | Scope], column: str) -> TracedTables:
    """Traces a column in the one of `sources` that has it; the origin is unknown if none or several may have it."""
    certain = [source for source in sources if has_column(source, column)]
    possible = certain or [source for source in sources if has_column(source, column) is not False]
    if len(possible) != 1:
        return UNKNOWN
    (source,) = possible
    if isinstance(source, Scope):
        return trace_column(source, column)
    return TracedTables(frozenset({name_table(source)})) if isinstance(source, exp.Table) else UNKNOWN


def _list_union_parts(scope: Scope) -> list[Scope]:
    return [part for inner in scope.set_operation_scopes for part in _list_union_parts(inner)] or [scope]


def _name_in_parts(scope: Scope, column: str) -> list[tuple[Scope, str]]:
    """Returns the parts of a set operation, such as UNION, each with its own name of one output column.

    `column` is the name in the first part, from which a set operation takes its names; others have it by position.
    """
    parts = _list_union_parts(scope)
    names = [(list(part.expression.named_selects) if isinstance(part.expression, exp.Query) else []) for part in parts]
    if column not in names[0] or any(part.expression.is_star for part in parts):
        return [(part, column) for part in parts]
    place = names[0].index(column)
    return [(part, own[place]) for part, own in zip(parts, names, strict=True) if place < len(own)]


def walk_sources(scope: Scope) -> Iterator[Scope]:
    """Yields a scope and the scopes of its CTEs and subqueries in FROM, at any depth."""
    yield scope
    for below in (*get_sources(scope).values(), *scope.set_operation_scopes):
        if isinstance(below, Scope):
            yield from walk_sources(below)


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
    tables = trace_expression(scope, condition).tables
    if _leaves_out_known_keys(scope, condition, table):
        return IncrementalFilter("known_keys", condition, scope, tables=tables)
    sides = _split_comparison(condition)
    if sides is None:
        return IncrementalFilter("other", condition, scope, tables=tables)
    value, bound = sides
    moves = not _reads_table(bound, table) and is_volatile(bound)
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
        names = trace_expression(scope, condition.this).tables
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
