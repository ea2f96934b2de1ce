"""Columns of a select list, and the resolution of their aliases in other clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import get_form
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.scope import select_nested_field
from arctic_runtime.model.columns import is_same_name


@dataclass(frozen=True)
class Item:
    """One entry of a select list: an expression with the names of the columns that it returns.

    Only a generator may return several columns. `names` is empty if Spark derives the name from the expression's text.
    """

    names: tuple[str, ...]
    value: exp.Expr


def resolve_alias(items: Sequence[Item], parts: tuple[str, ...]) -> exp.Expr | None:
    """Returns the expression with the alias `parts[0]`, and selects the nested fields `parts[1:]`; None without one.

    The expression is in parentheses unless it is a column. Raises NotMaintained if several different expressions have
    this alias.
    """
    same = [item.value for item in items if len(item.names) == 1 and is_same_name(item.names[0], parts[0])]
    values = list({get_form(value): value for value in same}.values())
    if len(values) > 1:
        raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is ambiguous: it matches several columns")
    return select_nested_field(_wrap_in_parentheses(values[0]), parts[1:]) if values else None


def _wrap_in_parentheses(value: exp.Expr) -> exp.Expr:
    return value.copy() if isinstance(value, exp.Column) else exp.paren(value)
