"""Normal form of expressions, and labels by which parts of a tree are sorted independently of column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from hashlib import sha256

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import (
    build_column,
    get_form,
    list_used_columns,
    transform_expression,
    unwrap_parens,
)
from arctic_runtime.ivm.algebra.inferred_types import type_of

_PLAIN_TYPE = re.compile(r"(?!char|varchar)[a-z_]+(\(\d+,\d+\))?")
"""Types that consist of a name, or of a name with precision and scale; others keep their casts."""

_CONNECTORS: tuple[type[exp.Connector], ...] = (exp.And, exp.Or)
_SYMMETRIC: tuple[type[exp.Binary], ...] = (exp.EQ, exp.NEQ, exp.NullSafeEQ)
FLIPPED: Mapping[type[exp.Expr], type[exp.Binary]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
"""Comparisons that are written as others, with their sides exchanged."""


def simplify_expression(expression: exp.Expr, types: Mapping[str, str]) -> exp.Expr:
    """Returns a copy of an expression without redundant parentheses, casts to the same type and `coalesce(x)`.

    `types` are the types of columns, as far as they are certain.
    """

    def visit_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Neg) and _is_number(unwrap_parens(node.this)):
            # The sign belongs to a literal: -(2147483648) is a bigint, -2147483648 an int.
            return node.copy()
        if _is_redundant(node, types):
            return simplify_expression(node.this, types)
        return node

    return transform_expression(expression, visit_node)


def _is_redundant(node: exp.Expr, types: Mapping[str, str]) -> bool:
    """Whether a node has always the value and the type of the only expression in it."""
    if isinstance(node, exp.Coalesce):
        return not node.expressions
    return isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and _has_type(node.this, node.to, types))


def _has_type(value: exp.Expr, wanted: exp.DataType, types: Mapping[str, str]) -> bool:
    """Whether `value` certainly has the type `wanted`; False for literals, for which Spark has rules of their own."""
    written = wanted.sql(dialect="spark").lower().replace(" ", "")
    own = type_of(value, types) if list_used_columns(value) else None
    return own is not None and _PLAIN_TYPE.fullmatch(written) is not None and own.replace(" ", "") == written


def _is_number(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and not value.is_string


def order_operands(expression: exp.Expr, labels: Mapping[str, str]) -> exp.Expr:
    """Returns a copy of an expression in which operands whose order has no meaning are sorted, each once.

    These are the operands of AND, OR and symmetric comparisons; `a > b` becomes `b < a`. `labels` are the labels of
    columns, by name.
    """

    def visit_node(node: exp.Expr) -> exp.Expr:
        kind = type(node)
        if kind in _CONNECTORS:
            return connect_sorted(kind, _list_operands(node, kind), labels)
        if isinstance(node, exp.Binary) and (kind in _SYMMETRIC or kind in FLIPPED):
            left, right = order_operands(node.this, labels), order_operands(node.expression, labels)
            if kind in FLIPPED:
                return FLIPPED[kind](this=right, expression=left)
            first, second = sorted((left, right), key=lambda side: label_expression(side, labels))
            return kind(this=first, expression=second)
        return node

    return transform_expression(expression, visit_node)


def connect_sorted(kind: type[exp.Expr], operands: Iterable[exp.Expr], labels: Mapping[str, str]) -> exp.Expr:
    """Connects at least one operand by AND or OR, the class `kind`, sorted by label and each once."""
    ordered = [order_operands(part, labels) for part in operands]
    distinct = {get_form(part): part for part in ordered}.values()
    parts = sorted(distinct, key=lambda part: label_expression(part, labels))
    return reduce(lambda left, right: kind(this=left, expression=right), parts)


def _list_operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    if type(node) is not kind:
        return [node]
    return [*_list_operands(node.this, kind), *_list_operands(node.args["expression"], kind)]


def label_expression(expression: exp.Expr, labels: Mapping[str, str]) -> str:
    """Label of an expression, which depends on the labels of the columns that it reads and not on their names."""
    return digest(get_form(replace_columns(expression, lambda name: labels[name])))


def replace_columns(expression: exp.Expr, rename: Callable[[str], str]) -> exp.Expr:
    """Returns a copy of an expression with renamed columns."""
    return transform_expression(
        expression, lambda part: build_column(rename(part.name)) if type(part) is exp.Column else part
    )


def digest(*parts: object) -> str:
    """Short text by which values are sorted; it is the same in every process."""
    return sha256(repr(parts).encode()).hexdigest()[:24]


def label_all(labels: Mapping[str, str], names: Sequence[str], *parts: object) -> dict[str, str]:
    """Labels of the columns `names`, made distinct from those elsewhere by `parts`, such as the side of a join."""
    return {name: digest(*parts, labels[name]) for name in names}
