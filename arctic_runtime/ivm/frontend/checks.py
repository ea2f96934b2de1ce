"""A contract's checks: predicates over a table's columns, read where these have other names."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import read
from arctic_runtime.model.columns import same_name


def over(check: str, names: Mapping[str, str]) -> exp.Expr:
    """The same predicate over columns that go by other names; `names` maps each column's own to the other.

    Raises ConfigError for a text that is no predicate, and for a column that there is not.
    """
    found = _parsed(check)
    variables = {variable.name for function in found.find_all(exp.Lambda) for variable in function.expressions}
    for column in list(found.find_all(exp.Column)):
        first = column.parts[0]
        if first.name not in variables:
            first.replace(exp.to_identifier(_other(first.name, names, check), quoted=True))
    return found


def _parsed(check: str) -> exp.Expr:
    try:
        found, *others = read(check)
    except (SqlglotError, NotMaintained) as error:
        raise ConfigError(f"the check constraint {check!r} is not a predicate.\n  found: {error}") from error
    if not isinstance(found, exp.Condition) or others:
        raise ConfigError(f"the check constraint {check!r} is not a predicate.\n  found: {type(found).__name__}")
    if found.find(exp.Query):
        raise ConfigError(
            f"the check constraint {check!r} has a subquery.\n"
            "  what to do: use only columns of the same row, or write a dbt test"
        )
    return found


def _other(name: str, names: Mapping[str, str], check: str) -> str:
    for own, other in names.items():
        if same_name(own, name):
            return other
    raise ConfigError(
        f"the check constraint {check!r} names a column that the query does not have.\n  found: {name}\n"
        f"  expected: one of {', '.join(names)}"
    )
