"""Extracts from a query the comparisons of columns with constants by which files of its sources are skipped."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import split_conjuncts
from arctic_runtime.ivm.algebra.tree import Filter, Node, Scan, list_children
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_filter import ColumnLimit, Operator

_OPERATORS: dict[type[exp.Expr], tuple[Operator, Operator]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Operators of comparisons: with the column on the left, and with the column on the right."""


def list_scan_limits(tree: Node) -> dict[TableName, frozenset[ColumnLimit]]:
    """Returns for each source the limits that all scans of it have, so that files beyond them are read by none."""
    limits: dict[TableName, frozenset[ColumnLimit]] = {}
    for scan, conditions in _walk_scans(push_down_filters(tree)):
        names = dict(scan.fields)
        own = frozenset(limit for part in conditions if (limit := _read_limit(part, names)) is not None)
        limits[scan.source] = limits.get(scan.source, own) & own
    return limits


def _walk_scans(node: Node, conditions: tuple[exp.Expr, ...] = ()) -> Iterator[tuple[Scan, tuple[exp.Expr, ...]]]:
    """Yields each scan with the conditions of the filters directly above it."""
    match node:
        case Scan():
            yield node, conditions
        case Filter(child=child, condition=condition):
            yield from _walk_scans(child, (*conditions, *split_conjuncts(condition)))
        case _:
            for child in list_children(node):
                yield from _walk_scans(child)


def _read_limit(condition: exp.Expr, names: dict[str, str]) -> ColumnLimit | None:
    """Converts a comparison of a column with a constant; None for any other condition."""
    operators = _OPERATORS.get(type(condition))
    if operators is None or not isinstance(condition, exp.Binary):
        return None
    sides = (condition.left.unnest(), condition.right.unnest())
    for (side, other), operator in zip((sides, sides[::-1]), operators, strict=True):
        value = _read_constant(other)
        if isinstance(side, exp.Column) and side.name in names and value is not None:
            return ColumnLimit(names[side.name], operator, value)
    return None


def _read_constant(side: exp.Expr) -> str | int | float | None:
    """Returns the value of a literal, also of one that is converted or negated; None for any other expression."""
    match side:
        case exp.Cast(this=exp.Literal() as literal) | (exp.Literal() as literal):
            return str(literal.this) if literal.is_string else _read_number(str(literal.this))
        case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
            number = _read_number(str(literal.this))
            return None if number is None else -number
    return None


def _read_number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None
