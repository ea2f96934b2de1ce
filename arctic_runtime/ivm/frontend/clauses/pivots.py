"""Analyses PIVOT and UNPIVOT in FROM.

PIVOT groups by the columns that do not occur in it, and computes each aggregate for each listed value. UNPIVOT repeats
each row for each listed column.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns, unwrap_parens
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Explode, Filter, Projection
from arctic_runtime.ivm.frontend.functions import (
    check_clause_args,
    check_functions,
    check_of_one_row,
    get_value_over_no_rows,
    is_aggregate,
)
from arctic_runtime.ivm.frontend.scope import Derived, Field, Names, Rows, Source, find_column, resolve_names
from arctic_runtime.ivm.frontend.type_coercion import is_same

_ARGS = {"expressions", "fields", "alias", "unpivot", "include_nulls"}
_OF_OURS = {"columns", "default_on_null", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"}
_OF_OURS |= {"value_columns_first"}
"""Arguments that sqlglot adds to a Pivot node by itself, which mean nothing for Spark."""


def apply_pivots(rows: Rows, pivots: Sequence[exp.Pivot], names: Names) -> Rows:
    """Applies the `pivots` that follow a table or a subquery in FROM to its `rows`."""
    for pivot in pivots:
        check_clause_args(pivot, _ARGS | _OF_OURS)
        derived = (
            _derive_unpivot(rows, pivot, names) if pivot.args.get("unpivot") else _derive_pivot(rows, pivot, names)
        )
        alias = pivot.args.get("alias")
        if alias is not None and alias.columns:
            raise NotMaintained("UNSUPPORTED", "PIVOT or UNPIVOT with names for its columns")
        rows = Rows(derived.node, derived.fields, (Source((alias.name,) if alias else (), derived.fields),))
    return rows


def _derive_pivot(rows: Rows, pivot: exp.Pivot, names: Names) -> Derived:
    in_clause = _get_in_clause(pivot)
    by = resolve_names(in_clause.this, lambda parts: find_column(rows, parts))
    if not isinstance(by, exp.Column):
        raise NotMaintained("UNSUPPORTED", "PIVOT by several columns or by an expression")
    calls = [_read_aggregate(part, rows) for part in pivot.expressions]
    if len(calls) > 1 and not all(name for name, _ in calls):
        raise NotMaintained("UNSUPPORTED", "PIVOT with several aggregates, one of them without a name")
    _check_empty([call for _, call in calls], names)
    read = {by.name, *(name for _, call in calls for name in list_used_columns(call))}
    keys = [(name, made) for name, made in rows.visible if made not in read]
    of_type = names.types.get(by.name)
    if of_type is None or "collate" in of_type:
        raise NotMaintained("UNSUPPORTED", "PIVOT by a column with a collation or of unknown type; cast it")
    aggregates: list[tuple[str, exp.Expr]] = []
    shown: list[tuple[str, str, exp.Expr]] = []
    for part in in_clause.expressions:
        value, called = _read_pivot_value(part)
        is_there = exp.NullSafeEQ(this=build_column(by.name), expression=exp.cast(value, of_type, dialect="spark"))
        for name, call in calls:
            made = names.make_fresh(called, names.type_of(call))
            aggregates.append((made, exp.Filter(this=call.copy(), expression=exp.Where(this=is_there.copy()))))
            shown.append((f"{called}_{name}" if len(calls) > 1 else called, made, build_column(made)))
            if not isinstance(get_value_over_no_rows(call), exp.Null):
                rows_of = names.make_fresh("rows", "bigint")
                aggregates.append((rows_of, exp.CountIf(this=is_there.copy())))
                some = exp.GT(this=build_column(rows_of), expression=exp.Literal.number(0))
                shown[-1] = (
                    shown[-1][0],
                    names.make_fresh(called, names.type_of(call)),
                    exp.case().when(some, build_column(made)),
                )
    groups = Aggregate(rows.node, tuple(dict.fromkeys(made for _, made in keys)), tuple(aggregates))
    own = {**{made: build_column(made) for _, made in keys}, **{made: value for _, made, value in shown}}
    return Derived(Projection(groups, tuple(own.items())), (*keys, *((name, made) for name, made, _ in shown)))


def _derive_unpivot(rows: Rows, pivot: exp.Pivot, names: Names) -> Derived:
    in_clause = _get_in_clause(pivot)
    if len(pivot.expressions) != 1 or not all(
        isinstance(identifier, exp.Identifier) for identifier in (*pivot.expressions, in_clause.this)
    ):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT into several columns of values")
    taken = [_read_unpivot_column(part, rows) for part in in_clause.expressions]
    types = {names.types.get(made) for _, made in taken}
    first = names.types.get(taken[0][1])
    if first is None or not all(of_type is not None and is_same(of_type, first) for of_type in types):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT of columns of different types; cast them to the same type")
    other_fields = [field for field in rows.visible if field[1] not in {made for _, made in taken}]
    called = [exp.Literal.string(name) for name, _ in taken]
    if len({name for name, _ in taken}) < len(taken):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT that gives two columns one name")
    name, value = names.make_fresh(in_clause.this.name, "string"), names.make_fresh(pivot.expressions[0].name, first)
    node = Explode(rows.node, exp.Explode(this=exp.Array(expressions=called)), (name,), False)
    picked = exp.case()
    for literal, (_, made) in zip(called, taken, strict=True):
        picked = picked.when(exp.EQ(this=build_column(name), expression=literal.copy()), build_column(made))
    wanted = {**{made: build_column(made) for _, made in other_fields}, name: build_column(name), value: picked}
    result_node: Projection | Filter = Projection(node, tuple(wanted.items()))
    if not pivot.args.get("include_nulls"):
        result_node = Filter(result_node, exp.not_(exp.Is(this=build_column(value), expression=exp.null())))
    return Derived(result_node, (*other_fields, (in_clause.this.name, name), (pivot.expressions[0].name, value)))


def _get_in_clause(pivot: exp.Pivot) -> exp.In:
    (in_clause, *others) = pivot.args["fields"]
    if others or not isinstance(in_clause, exp.In) or in_clause.args.get("query"):
        raise NotMaintained("UNSUPPORTED", "PIVOT or UNPIVOT with several FOR")
    return in_clause


def _read_aggregate(written: exp.Expr, rows: Rows) -> tuple[str, exp.Expr]:
    """Resolves an aggregate of PIVOT; returns its alias, "" without one, and the resolved call."""
    value = written.this if isinstance(written, exp.Alias) else written
    resolved = resolve_names(unwrap_parens(value), lambda parts: find_column(rows, parts))
    check_functions(resolved)
    if not is_aggregate(resolved) or isinstance(resolved, exp.Filter):
        raise NotMaintained("UNSUPPORTED", "PIVOT with an expression other than one aggregate")
    for part in resolved.iter_expressions():
        if not isinstance(part, exp.Star):
            check_of_one_row(part, "an aggregate of PIVOT")
    return (written.alias if isinstance(written, exp.Alias) else ""), resolved


def _check_empty(calls: Sequence[exp.Expr], names: Names) -> None:
    """Raises NotMaintained if the result of a call is not known for a group that has no row with a pivot value.

    Spark has two implementations of PIVOT. If all results are numbers or booleans, the result for such a group is null;
    otherwise it is the value of the call over no rows.
    """
    empty = [get_value_over_no_rows(call) for call in calls]
    is_simple = all(_is_simple(names.type_of(call)) for call in calls)
    if None in empty or not (is_simple or all(isinstance(value, exp.Null) for value in empty)):
        raise NotMaintained("UNSUPPORTED", "PIVOT with an aggregate whose value over no rows is not certain")


def _is_simple(of_type: str | None) -> bool:
    return get_precision_and_scale(of_type) is not None or of_type in ("float", "double", "boolean")


def _read_pivot_value(part: exp.Expr) -> tuple[exp.Expr, str]:
    """Returns a value that PIVOT lists, and the name that its columns get: the value's alias or text."""
    value = part.this if isinstance(part, exp.PivotAlias) else part
    is_named = isinstance(part, exp.PivotAlias)
    if not isinstance(value, exp.Literal) or not (is_named or value.is_string or value.is_int):
        raise NotMaintained("UNSUPPORTED", "PIVOT for a value other than a text or a number; numbers may need a name")
    return value, part.args["alias"].name if is_named else value.name


def _read_unpivot_column(part: exp.Expr, rows: Rows) -> Field:
    """Resolves a column that UNPIVOT lists; returns its text in the result's name column, and its name in the tree."""
    written = part.this if isinstance(part, exp.PivotAlias) else part
    resolved = (
        resolve_names(written, lambda parts: find_column(rows, parts)) if isinstance(written, exp.Column) else None
    )
    if not isinstance(resolved, exp.Column):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT of something other than columns")
    return (part.args["alias"].name if isinstance(part, exp.PivotAlias) else written.name), resolved.name
