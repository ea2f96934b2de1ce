"""Conditions moved to where their columns come from.

Engines do that as well. Here it shows the rules what an operator has to do with its inputs: tables listed with commas
become joins with equalities, and what changed in one source is judged without reading another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction, factored, implied, replaced
from arctic_runtime.ivm.algebra.expressions import used
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Project,
    SemiJoin,
    Window,
    columns,
    map_children,
)

_Conditions = tuple[exp.Expr, ...]


def pushed_down(node: Node) -> Node:
    """The same rows and columns, with each condition as far down as it means the same."""
    return _under(node, ())


def _under(node: Node, conditions: _Conditions) -> Node:
    """The node's rows for which the conditions are true."""
    match node:
        case Filter(child=child, condition=condition):
            return _under(child, (*factored(condition), *conditions))
        case Project(child=child, expressions=expressions):
            inner = tuple(replaced(part, dict(expressions)) for part in conditions)
            return replace(node, child=_under(child, inner))
        case Distinct(child=child):
            return replace(node, child=_under(child, conditions))
        case Join():
            return _under_join(node, conditions)
        case SemiJoin():
            return _under_semi_join(node, conditions)
        case Aggregate(child=child, keys=allowed) | Window(child=child, partition=allowed):
            return _under_part(node, child, allowed, conditions)
        case Explode(child=child):
            return _under_part(node, child, columns(child), conditions)
        case _:
            return _filtered(map_children(node, pushed_down), conditions)


def _under_part(
    node: Aggregate | Window | Explode, child: Node, allowed: Collection[str], conditions: _Conditions
) -> Node:
    below, rest = _split(conditions, allowed)
    return _filtered(replace(node, child=_under(child, below)), rest)


def _under_join(node: Join, conditions: _Conditions) -> Node:
    if node.kind == "full":
        return _filtered(map_children(node, pushed_down), conditions)
    if node.kind == "left":
        left, rest = _split(conditions, columns(node.left))
        right, on = _split(factored(node.on), columns(node.right))
        return _filtered(_joined(node, left, right, on), rest)
    left, others = _split((*factored(node.on), *conditions), columns(node.left))
    right, on = _split(others, columns(node.right))
    return _joined(node, left, right, on)


def _under_semi_join(node: SemiJoin, conditions: _Conditions) -> Node:
    left, rest = _split(conditions, columns(node.left))
    right, on = _split(factored(node.on), columns(node.right))
    if node.kind == "semi":
        more, on = _split(on, columns(node.left))
        left = (*left, *more)
    return _filtered(_joined(node, left, right, on), rest)


def _joined(node: Join | SemiJoin, left: _Conditions, right: _Conditions, on: _Conditions) -> Node:
    return replace(node, left=_under(node.left, left), right=_under(node.right, right), on=conjunction(on))


def _split(conditions: Iterable[exp.Expr], allowed: Collection[str]) -> tuple[_Conditions, _Conditions]:
    """Those that read only allowed columns, with what others imply of these, and the others.

    A condition that reads no column stays where it is.
    """
    inside: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for part in conditions:
        read = used(part)
        is_inside = read and set(allowed).issuperset(read)
        pushed = part if is_inside else implied(part, allowed)
        if pushed is not None:
            inside.append(pushed)
        if not is_inside:
            others.append(part)
    return tuple(inside), tuple(others)


def _filtered(node: Node, conditions: _Conditions) -> Node:
    condition = conjunction(conditions)
    return node if condition is None else Filter(node, condition)
