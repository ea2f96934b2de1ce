"""Extracts what a full computation of a query reads of its sources, and the columns that its groups are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import split_conjuncts
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Filter,
    Node,
    Projection,
    Scan,
    SetOperation,
    UnionAll,
    WindowColumns,
    list_children,
    list_columns,
    list_expressions,
    walk_tree,
)
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


def list_needed_scans(tree: Node, outputs: Collection[str]) -> tuple[Scan, ...]:
    """Lists the scans of a tree with the fields that its operators and its `outputs` need.

    The other fields of a scan identify a row of its source, which only incremental runs need.
    """
    nodes = tuple(walk_tree(tree))
    needed = {*outputs, *(name for node in nodes for name in _list_needed_columns(node))}
    return tuple(
        replace(node, fields=tuple(field for field in node.fields if field[0] in needed))
        for node in nodes
        if isinstance(node, Scan)
    )


def _list_needed_columns(node: Node) -> Iterator[str]:
    """Yields the columns of its inputs that an operator needs by their names or their places."""
    for expression in list_expressions(node):
        yield from list_used_columns(expression)
    match node:
        case Aggregate(keys=names) | WindowColumns(partition=names):
            yield from names
        case UnionAll() | SetOperation():
            for child in list_children(node):
                yield from list_columns(child)


def find_group_columns(tree: Node) -> tuple[Node, frozenset[str]]:
    """Returns the columns from which the groups of a query's result are made, and the tree that has these columns.

    There are no columns if the result does not consist of groups.
    """
    while isinstance(tree, Projection | Filter | WindowColumns):
        tree = tree.child
    if not isinstance(tree, Aggregate):
        return tree, frozenset()
    if not isinstance(tree.child, Projection):
        return tree.child, frozenset(tree.keys)
    computed = dict(tree.child.expressions)
    return tree.child.child, frozenset(name for key in tree.keys for name in list_used_columns(computed[key]))


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
