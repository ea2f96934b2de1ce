"""PIVOT and UNPIVOT in FROM.

PIVOT is one aggregate by the columns that it does not name, with each call once for each value. UNPIVOT has each row
once for each of some columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import bare, column, used
from arctic_runtime.ivm.algebra.numbers import digits
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Explode, Filter, Project
from arctic_runtime.ivm.frontend.clauses import check_of_one_row, only_args
from arctic_runtime.ivm.frontend.functions import check_functions, is_aggregate, value_when_empty
from arctic_runtime.ivm.frontend.scope import Derived, Field, Names, Rows, Source, find, resolve
from arctic_runtime.ivm.frontend.type_coercion import is_same

_ARGS = {"expressions", "fields", "alias", "unpivot", "include_nulls"}
_OF_OURS = {"columns", "default_on_null", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"}
_OF_OURS |= {"value_columns_first"}
"""What the parser adds: names that it expects, and how other dialects write the same."""


def pivoted(rows: Rows, pivots: Sequence[exp.Pivot], names: Names) -> Rows:
    """Rows after what stands behind them in FROM."""
    for pivot in pivots:
        only_args(pivot, _ARGS | _OF_OURS)
        found = _unpivoted(rows, pivot, names) if pivot.args.get("unpivot") else _pivoted(rows, pivot, names)
        alias = pivot.args.get("alias")
        if alias is not None and alias.columns:
            raise NotMaintained("UNSUPPORTED", "PIVOT or UNPIVOT with names for its columns")
        rows = Rows(found.node, found.fields, (Source((alias.name,) if alias else (), found.fields),))
    return rows


def _pivoted(rows: Rows, pivot: exp.Pivot, names: Names) -> Derived:
    told = _only(pivot)
    by = resolve(told.this, lambda parts: find(rows, parts))
    if not isinstance(by, exp.Column):
        raise NotMaintained("UNSUPPORTED", "PIVOT by several columns or by an expression")
    calls = [_call(part, rows) for part in pivot.expressions]
    if len(calls) > 1 and not all(name for name, _ in calls):
        raise NotMaintained("UNSUPPORTED", "PIVOT with several aggregates, one of them without a name")
    _check_empty([call for _, call in calls], names)
    read = {by.name, *(name for _, call in calls for name in used(call))}
    keys = [(name, made) for name, made in rows.visible if made not in read]
    of_type = names.types.get(by.name)
    if of_type is None or "collate" in of_type:
        raise NotMaintained("UNSUPPORTED", "PIVOT by a column with a collation or of unknown type; cast it")
    found: list[tuple[str, exp.Expr]] = []
    shown: list[tuple[str, str, exp.Expr]] = []
    for part in told.expressions:
        value, called = _value(part)
        is_there = exp.NullSafeEQ(this=column(by.name), expression=exp.cast(value, of_type, dialect="spark"))
        for name, call in calls:
            made = names.fresh(called, names.type_of(call))
            found.append((made, exp.Filter(this=call.copy(), expression=exp.Where(this=is_there.copy()))))
            shown.append((f"{called}_{name}" if len(calls) > 1 else called, made, column(made)))
            if not isinstance(value_when_empty(call), exp.Null):
                rows_of = names.fresh("rows", "bigint")
                found.append((rows_of, exp.CountIf(this=is_there.copy())))
                some = exp.GT(this=column(rows_of), expression=exp.Literal.number(0))
                shown[-1] = (
                    shown[-1][0],
                    names.fresh(called, names.type_of(call)),
                    exp.case().when(some, column(made)),
                )
    groups = Aggregate(rows.node, tuple(dict.fromkeys(made for _, made in keys)), tuple(found))
    own = {**{made: column(made) for _, made in keys}, **{made: value for _, made, value in shown}}
    return Derived(Project(groups, tuple(own.items())), (*keys, *((name, made) for name, made, _ in shown)))


def _unpivoted(rows: Rows, pivot: exp.Pivot, names: Names) -> Derived:
    told = _only(pivot)
    if len(pivot.expressions) != 1 or not all(isinstance(of, exp.Identifier) for of in (*pivot.expressions, told.this)):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT into several columns of values")
    taken = [_taken(part, rows) for part in told.expressions]
    types = {names.types.get(made) for _, made in taken}
    first = names.types.get(taken[0][1])
    if first is None or not all(of_type is not None and is_same(of_type, first) for of_type in types):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT of columns of different types; cast them to the same type")
    kept = [field for field in rows.visible if field[1] not in {made for _, made in taken}]
    called = [exp.Literal.string(name) for name, _ in taken]
    if len({name for name, _ in taken}) < len(taken):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT that gives two columns one name")
    name, value = names.fresh(told.this.name, "string"), names.fresh(pivot.expressions[0].name, first)
    node = Explode(rows.node, exp.Explode(this=exp.Array(expressions=called)), (name,), False)
    picked = exp.case()
    for literal, (_, made) in zip(called, taken, strict=True):
        picked = picked.when(exp.EQ(this=column(name), expression=literal.copy()), column(made))
    wanted = {**{made: column(made) for _, made in kept}, name: column(name), value: picked}
    found: Project | Filter = Project(node, tuple(wanted.items()))
    if not pivot.args.get("include_nulls"):
        found = Filter(found, exp.not_(exp.Is(this=column(value), expression=exp.null())))
    return Derived(found, (*kept, (told.this.name, name), (pivot.expressions[0].name, value)))


def _only(pivot: exp.Pivot) -> exp.In:
    (told, *others) = pivot.args["fields"]
    if others or not isinstance(told, exp.In) or told.args.get("query"):
        raise NotMaintained("UNSUPPORTED", "PIVOT or UNPIVOT with several FOR")
    return told


def _call(written: exp.Expr, rows: Rows) -> tuple[str, exp.Expr]:
    """An aggregate and the name that is given to it."""
    value = written.this if isinstance(written, exp.Alias) else written
    found = resolve(bare(value), lambda parts: find(rows, parts))
    check_functions(found)
    if not is_aggregate(found) or isinstance(found, exp.Filter):
        raise NotMaintained("UNSUPPORTED", "PIVOT with an expression other than one aggregate")
    for part in found.iter_expressions():
        if not isinstance(part, exp.Star):
            check_of_one_row(part, "an aggregate of PIVOT")
    return (written.alias if isinstance(written, exp.Alias) else ""), found


def _check_empty(calls: Sequence[exp.Expr], names: Names) -> None:
    """Raises NotMaintained where it is not known what a call gives for a value that a group does not have.

    Spark computes PIVOT in two ways. If all results are numbers or booleans, it is null; else it is what the call makes
    of no rows.
    """
    empty = [value_when_empty(call) for call in calls]
    is_simple = all(_is_simple(names.type_of(call)) for call in calls)
    if None in empty or not (is_simple or all(isinstance(value, exp.Null) for value in empty)):
        raise NotMaintained("UNSUPPORTED", "PIVOT with an aggregate whose value over no rows is not certain")


def _is_simple(of_type: str | None) -> bool:
    return digits(of_type) is not None or of_type in ("float", "double", "boolean")


def _value(part: exp.Expr) -> tuple[exp.Expr, str]:
    """A value of PIVOT, and what its columns are called."""
    value = part.this if isinstance(part, exp.PivotAlias) else part
    is_named = isinstance(part, exp.PivotAlias)
    if not isinstance(value, exp.Literal) or not (is_named or value.is_string or value.is_int):
        raise NotMaintained("UNSUPPORTED", "PIVOT for a value other than a text or a number; numbers may need a name")
    return value, part.args["alias"].name if is_named else value.name


def _taken(part: exp.Expr, rows: Rows) -> Field:
    """A column of UNPIVOT, by what it is called in the result."""
    written = part.this if isinstance(part, exp.PivotAlias) else part
    found = resolve(written, lambda parts: find(rows, parts)) if isinstance(written, exp.Column) else None
    if not isinstance(found, exp.Column):
        raise NotMaintained("UNSUPPORTED", "UNPIVOT of something other than columns")
    return (part.args["alias"].name if isinstance(part, exp.PivotAlias) else written.name), found.name
