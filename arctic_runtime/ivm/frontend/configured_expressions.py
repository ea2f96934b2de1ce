"""SQL expressions of a configuration: check constraints of a dbt model contract, and those of `merge_columns`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import read_sql
from arctic_runtime.ivm.frontend.reads import UNSTABLE, get_clock_word, list_function_names
from arctic_runtime.model.columns import is_same_name


def rename_check_columns(check: str, names: Mapping[str, str]) -> exp.Expr:
    """Parses the SQL predicate `check` and renames its columns; `names` maps each old name to the new name.

    Raises ConfigError if the text is no predicate, has a subquery, or names a column that is not in `names`.
    """
    predicate = _parse_check(check)
    variables = {variable.name for function in predicate.find_all(exp.Lambda) for variable in function.expressions}
    for column in list(predicate.find_all(exp.Column)):
        first = column.parts[0]
        if first.name not in variables:
            first.replace(exp.to_identifier(_get_other_name(first.name, names, check), quoted=True))
    return predicate


def _parse_check(check: str) -> exp.Expr:
    try:
        predicate, *others = read_sql(check)
    except (SqlglotError, NotMaintained) as error:
        raise ConfigError(f"the check constraint {check!r} is not a predicate.", actual=str(error)) from error
    if not isinstance(predicate, exp.Condition) or others:
        raise ConfigError(f"the check constraint {check!r} is not a predicate.", actual=type(predicate).__name__)
    if predicate.find(exp.Query):
        raise ConfigError(
            f"the check constraint {check!r} has a subquery.",
            fix="use only columns of the same row, or write a dbt test",
        )
    return predicate


def _get_other_name(name: str, names: Mapping[str, str], check: str) -> str:
    for own, other in names.items():
        if is_same_name(own, name):
            return other
    raise ConfigError(
        f"the check constraint {check!r} names a column that the query does not have.",
        expected=f"one of {', '.join(names)}",
        actual=name,
    )


OLD, NEW = "old", "new"


def check_merge_expression(text: str) -> None:
    """Raises ConfigError unless a text is one deterministic expression over `old.column` and `new.column`.

    Subqueries, aggregates and window functions are refused.
    """
    expression = _parse_expression(text)
    if next(_list_columns(expression, text), None) is None:
        raise ConfigError(f"{text!r} uses neither `old.column` nor `new.column`")
    if expression.find(exp.Query, exp.Window, exp.AggFunc, exp.Star):
        raise ConfigError(
            f"{text!r} has a subquery, an aggregate or a window function; use functions of single values, such as "
            "`greatest` instead of `max`"
        )
    names = {name for function in expression.find_all(exp.Func) for name in list_function_names(function)}
    words = [word for part in expression.walk() if (word := get_clock_word(part))]
    unstable = sorted(names & UNSTABLE) + words
    if unstable:
        raise ConfigError(f"{text!r} gives another result at another time: {', '.join(unstable)}")


def list_row_columns(text: str, row: str) -> tuple[str, ...]:
    """Lists the columns of `row`, which is `old` or `new`, that the expression `text` uses, each once."""
    column_names = (
        column.parts[1].name
        for column in _list_columns(_parse_expression(text), text)
        if is_same_name(column.parts[0].name, row)
    )
    return tuple(dict.fromkeys(column_names))


def bind_rows(text: str, rows: Mapping[str, tuple[str, Mapping[str, str]]]) -> exp.Expr:
    """Rewrites the expression `text` so that it reads the columns of `old` and `new` from two struct columns.

    `rows` maps `old` and `new` to the name of the struct and to a mapping from column names to the struct's fields.
    Raises ConfigError if the expression uses a column that the struct does not have.
    """
    expression = _parse_expression(text)
    for column in list(_list_columns(expression, text)):
        row, own = column.parts[0], column.parts[1]
        struct, fields = rows[row.name.lower()]
        field = next((field for name, field in fields.items() if is_same_name(name, own.name)), None)
        if field is None:
            raise ConfigError(
                f"the expression {text!r} uses `{row.name}.{own.name}`, and there is no such column.",
                expected=f"one of {', '.join(fields)}",
            )
        row.replace(exp.to_identifier(struct, quoted=True))
        own.replace(exp.to_identifier(field, quoted=True))
    return expression


def _parse_expression(text: str) -> exp.Expr:
    try:
        expression, *others = read_sql(text)
    except (SqlglotError, NotMaintained) as error:
        raise ConfigError(f"{text!r} is not an SQL expression: {error}") from error
    if not isinstance(expression, exp.Condition) or others:
        raise ConfigError(f"{text!r} is not an SQL expression")
    return expression


def _list_columns(expression: exp.Expr, text: str) -> Iterator[exp.Column]:
    """Yields the references to columns of `old` and `new`; raises ConfigError for any other column."""
    variables = {variable.name for function in expression.find_all(exp.Lambda) for variable in function.expressions}
    if variables & {OLD, NEW}:
        raise ConfigError(f"{text!r} names a variable `old` or `new`; give it another name")
    for column in expression.find_all(exp.Column):
        first = column.parts[0].name
        if first in variables:
            continue
        if first.lower() not in (OLD, NEW) or len(column.parts) < 2:
            raise ConfigError(f"{text!r} uses `{column.sql()}`; write `old.column` or `new.column`")
        yield column
