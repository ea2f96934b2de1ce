"""Proves that one condition follows from another, as `amount > 10` follows from `amount > 20`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, unwrap_parens
from arctic_runtime.ivm.edits.block import get_bare_form, get_condition_form

_DATE = re.compile(r"\d{4}-\d\d-\d\d")

Constant = tuple[str, Decimal | str]
"""Kind and value of a constant; constants of one kind are ordered by their values in every type of a column."""


@dataclass(frozen=True)
class _Comparison:
    """`operand` compared with a constant by an operator that begins with `<` or `>`."""

    operand: Form
    is_upper: bool
    is_strict: bool
    bound: Constant


def is_implied(condition: exp.Expr, known: Iterable[exp.Expr]) -> bool:
    """Whether a condition is true for every row for which all the conditions `known` are true, as far as is proven."""
    return any(_implies(one, condition) for one in known)


def _implies(one: exp.Expr, other: exp.Expr) -> bool:
    if get_condition_form(one) == get_condition_form(other):
        return True
    bare = unwrap_parens(other)
    if isinstance(bare, exp.Or):
        return _implies(one, bare.left) or _implies(one, bare.right)
    weaker, stronger = _read_values(other), _read_values(one)
    if weaker is not None and stronger is not None:
        return weaker[0] == stronger[0] and stronger[1] <= weaker[1]
    bound, narrow = _read_comparison(other), _read_comparison(one)
    if bound is None:
        return isinstance(bare, exp.Not) and _is_not_null(bare) and _reads_operand(one, bare)
    if narrow is not None:
        return _is_within(narrow, bound)
    return stronger is not None and stronger[0] == bound.operand and all(_meets(value, bound) for value in stronger[1])


def _is_not_null(condition: exp.Not) -> bool:
    inner = unwrap_parens(condition.this)
    return isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null)


def _reads_operand(one: exp.Expr, not_null: exp.Not) -> bool:
    """Whether the condition `one` compares the operand of `x is not null`, so that it is true for no null."""
    operand = get_bare_form(unwrap_parens(not_null.this).this)
    comparison, values = _read_comparison(one), _read_values(one)
    return (comparison is not None and comparison.operand == operand) or (values is not None and values[0] == operand)


def _is_within(narrow: _Comparison, wide: _Comparison) -> bool:
    if narrow.operand != wide.operand or narrow.is_upper != wide.is_upper or narrow.bound[0] != wide.bound[0]:
        return False
    if narrow.bound == wide.bound:
        return narrow.is_strict or not wide.is_strict
    return _is_less(narrow.bound, wide.bound) == narrow.is_upper


def _meets(value: Constant, bound: _Comparison) -> bool:
    if value[0] != bound.bound[0]:
        return False
    return not bound.is_strict if value == bound.bound else _is_less(value, bound.bound) == bound.is_upper


def _is_less(one: Constant, other: Constant) -> bool:
    return one[1] < other[1]  # type: ignore[operator]


def _read_values(condition: exp.Expr) -> tuple[Form, frozenset[Constant]] | None:
    """Reads `x = constant` or `x in (constants)`: the form of x, and the constants."""
    bare = unwrap_parens(condition)
    if isinstance(bare, exp.EQ):
        for one, other in ((bare.left, bare.right), (bare.right, bare.left)):
            constant = _read_constant(other)
            if constant is not None and _read_constant(one) is None:
                return get_bare_form(one), frozenset((constant,))
    if isinstance(bare, exp.In) and bare.expressions and not bare.args.get("query"):
        constants = [_read_constant(value) for value in bare.expressions]
        known = frozenset(constant for constant in constants if constant is not None)
        return (get_bare_form(bare.this), known) if None not in constants else None
    return None


_OPERATORS: Mapping[type[exp.Expr], tuple[bool, bool]] = {
    exp.LT: (True, True),
    exp.LTE: (True, False),
    exp.GT: (False, True),
    exp.GTE: (False, False),
}


def _read_comparison(condition: exp.Expr) -> _Comparison | None:
    bare = unwrap_parens(condition)
    if type(bare) not in _OPERATORS:
        return None
    assert isinstance(bare, exp.Binary)
    is_upper, is_strict = _OPERATORS[type(bare)]
    left, right = _read_constant(bare.left), _read_constant(bare.right)
    if right is not None and left is None:
        return _Comparison(get_bare_form(bare.left), is_upper, is_strict, right)
    if left is not None and right is None:
        return _Comparison(get_bare_form(bare.right), not is_upper, is_strict, left)
    return None


def _read_constant(value: exp.Expr) -> Constant | None:
    """Reads a number, a date or a text; None for any other expression.

    Whole numbers and decimals are of two kinds, since Spark may compare a text column with each in another type. Each
    text is a kind of its own, so that texts are compared for equality only; their order may be that of a collation.
    """
    bare = unwrap_parens(value)
    if isinstance(bare, exp.Neg):
        inner = _read_constant(bare.this)
        return (inner[0], -inner[1]) if inner is not None and isinstance(inner[1], Decimal) else None
    if isinstance(bare, exp.Cast) and bare.to.is_type("date"):
        inner = _read_constant(bare.this)
        return ("day", inner[1]) if inner is not None and inner[0] == "date" else None
    if not isinstance(bare, exp.Literal):
        return None
    if bare.is_string:
        return ("date" if _DATE.fullmatch(bare.name) else f"text {bare.name}", bare.name)
    try:
        return ("whole" if bare.name.isdigit() else "number", Decimal(bare.name))
    except InvalidOperation:
        return None
