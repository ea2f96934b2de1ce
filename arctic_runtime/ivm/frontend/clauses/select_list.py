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
    """One entry of a select list: an expression with its names.

    A generator has several names. An entry has none if Spark derives its name from the text.
    """

    names: tuple[str, ...]
    value: exp.Expr


def resolve_alias(items: Sequence[Item], parts: tuple[str, ...]) -> exp.Expr | None:
    """Resolves a name, given by its `parts`, that begins with an alias; None if no item has this alias.

    The result is in parentheses unless it is a column. Raises NotMaintained if different items have this alias.
    """
    same = [item.value for item in items if len(item.names) == 1 and is_same_name(item.names[0], parts[0])]
    values = list({get_form(value): value for value in same}.values())
    if len(values) > 1:
        raise NotMaintained("UNRESOLVED", f"{'.'.join(parts)} is ambiguous: it matches several columns")
    return select_nested_field(_wrap_in_parentheses(values[0]), parts[1:]) if values else None


def _wrap_in_parentheses(value: exp.Expr) -> exp.Expr:
    return value.copy() if isinstance(value, exp.Column) else exp.paren(value)
