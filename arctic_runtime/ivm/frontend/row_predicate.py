"""A predicate over the columns of a table, as users type it to select rows of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ivm.algebra.expressions import build_column, transform_expression
from arctic_runtime.ivm.algebra.refusal import NotMaintained, get_first_line
from arctic_runtime.ivm.frontend.functions import check_functions, check_of_one_row, read_sql
from arctic_runtime.model.columns import is_same_name


@dataclass(frozen=True)
class RowPredicate:
    """A deterministic SQL predicate over single rows.

    `text` is its SQL, `tree` its expression, and `columns` the columns that it reads, as the table spells them.
    """

    text: str
    tree: exp.Expr
    columns: tuple[str, ...]

    @property
    def selects_all(self) -> bool:
        """Whether the predicate is the constant `true`."""
        return isinstance(self.tree, exp.Boolean) and bool(self.tree.this)

    def bind_columns(self, values: Mapping[str, exp.Expr]) -> exp.Expr:
        """Returns the predicate over other values: `values` has an expression for each of `columns`."""
        variables = _list_variables(self.tree)

        def swap_column(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or part.parts[0].name in variables:
                return part
            first, *fields = part.parts
            value = values[_find_name(first.name, self.columns)].copy()
            for field in fields:
                value = exp.Dot(this=value, expression=exp.to_identifier(field.name, quoted=True))
            return value

        return exp.paren(transform_expression(self.tree, swap_column), copy=False)

    def bind_names(self) -> exp.Expr:
        """Returns the predicate over columns with the table's own names, quoted."""
        return self.bind_columns({name: build_column(name) for name in self.columns})


def cast_column(name: str, kind: str | None) -> exp.Expr:
    """Builds the expression of a column, cast to the type `kind`, or as it is if that is None."""
    column = build_column(name)
    return column if kind is None else exp.cast(column, kind, dialect="spark")


def read_row_predicate(text: str, columns: Sequence[str], typed: str = "") -> RowPredicate:
    """Parses a predicate over `columns`, the columns of a table.

    `typed` is what the user typed, for messages, if it is not `text`. Raises ConfigError if the text is not one
    expression, names another column, has a subquery, an aggregate or a window function, or if its value may differ for
    equal rows.
    """
    tree = parse_row_condition(text)
    variables = _list_variables(tree)
    names = dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column))
    read = [_find_known(typed or text, name, columns) for name in names if name not in variables]
    return RowPredicate(text.strip(), tree, tuple(dict.fromkeys(read)))


def parse_row_condition(text: str) -> exp.Expr:
    """Parses a deterministic condition over single rows, whatever columns it reads; raises ConfigError for others."""
    tree = _parse_expression(text)
    if tree.find(exp.Query):
        raise _refuse(text, "it has a subquery", "use only columns of the same row")
    try:
        check_of_one_row(tree, "it")
        check_functions(tree)
    except NotMaintained as refused:
        raise _refuse(text, refused.because, "use built-in, deterministic functions of single rows") from refused
    return tree


def _parse_expression(text: str) -> exp.Expr:
    if "${" in text:
        raise _refuse(text, "Spark replaces `${…}` by settings", "write the value itself")
    try:
        statements = read_sql(text)
    except (SqlglotError, NotMaintained, RecursionError) as error:
        raise _refuse(text, get_first_line(error), "write one SQL predicate, such as `day >= '2026-01-01'`") from error
    tree = statements[0] if len(statements) == 1 else None
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Literal | exp.Star | exp.Tuple):
        raise _refuse(text, "it is not one expression", "write one SQL predicate, such as `day >= '2026-01-01'`")
    return tree


def _find_known(text: str, name: str, columns: Sequence[str]) -> str:
    for known in columns:
        if is_same_name(known, name):
            return known
    raise ConfigError(
        f"the predicate {text!r} names a column that the table does not have{suggest_nearest(name, columns)}.",
        expected=f"columns of the model: {', '.join(columns)}",
        actual=name,
    )


def _find_name(name: str, columns: Sequence[str]) -> str:
    return next(known for known in columns if is_same_name(known, name))


def _list_variables(tree: exp.Expr) -> set[str]:
    return {variable.name for function in tree.find_all(exp.Lambda) for variable in function.expressions}


def _refuse(text: str, because: str, fix: str) -> ConfigError:
    return ConfigError(
        f"{text!r} can't select rows: {because}.", expected="one SQL predicate over columns of the model", fix=fix
    )
