"""Rewrites the check constraints of a dbt model contract for a frame in which the table's columns have other names."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import read_sql
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
