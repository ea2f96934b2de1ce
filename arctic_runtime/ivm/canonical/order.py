"""Second step to the normal form: sorts the parts of operators whose order has no meaning.

They are sorted by labels, texts that do not depend on the names of columns. Conditions and inner joins without other
operators between them become a cross join of the sorted inputs, and one filter with the sorted conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import split_conjuncts
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
)
from arctic_runtime.ivm.canonical.expressions import (
    connect_sorted,
    digest,
    label_all,
    label_expression,
    order_operands,
)

_Labelled = tuple[Node, str]
_Named = tuple[tuple[str, exp.Expr], ...]


def order_tree(tree: Node) -> Node:
    """Sorts the parts of a flattened tree; its columns keep their positions."""
    return _Ordering().order_exactly(tree)[0]


class _Ordering:
    """Orders operators, inputs first, and stores the label of each column."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}

    def order_exactly(self, node: Node) -> _Labelled:
        """Orders a node of which the positions of the columns have a meaning."""
        if not isinstance(node, Projection):
            return self._order(node)
        child, label = self._order(node.child)
        named = self._order_named(node.expressions)
        return Projection(child, named), self._label_named(named, "exact", label)

    def _order(self, node: Node) -> _Labelled:  # noqa: C901 - one case per operator
        match node:
            case Scan(source=source, fields=fields, key=key, image=image):
                stored = dict(fields)
                own_key = None if key is None else tuple(stored[name] for name in key)
                label = digest("scan", source, tuple(stored.values()), own_key, image)
                return node, self._label_columns(list_columns(node), label)
            case SpoolScan(name=name, names=names):
                return node, self._label_columns(names, digest("spool", name, names))
            case OneRow():
                return node, digest("one row")
            case Projection(child=child, expressions=expressions):
                below, label = self._order(child)
                named = self._sort_named(expressions)
                return Projection(below, named), self._label_named(named, "projection", label)
            case Filter() | Join(kind="inner"):
                return self._order_block(node)
            case Join() | SemiJoin():
                return self._order_join(node)
            case Aggregate(child=child, keys=keys, aggregates=aggregates):
                below, label = self._order(child)
                own_keys = tuple(sorted(keys, key=lambda name: self._labels[name]))
                named = self._sort_named(aggregates)
                own = [self._labels[name] for name in own_keys]
                return Aggregate(below, own_keys, named), self._label_named(named, "aggregate", label, own)
            case WindowColumns(child=child, partition=partition, expressions=expressions):
                below, label = self._order(child)
                named = self._sort_named(expressions)
                own = [self._labels[name] for name in partition]
                return WindowColumns(below, partition, named), self._label_named(named, "window", label, own)
            case Explode(child=child, generator=generator, names=names, outer=outer):
                below, label = self._order(child)
                call = order_operands(generator, self._labels)
                made = digest("explode", label, label_expression(call, self._labels), outer)
                return replace(node, child=below, generator=call), self._label_columns(names, made)
            case Distinct(child=child):
                below, label = self._order(child)
                return Distinct(below), digest("distinct", label)
            case UnionAll(inputs=inputs, names=names):
                parts = [self.order_exactly(part) for part in inputs]
                label = digest("union", [of_part for _, of_part in parts])
                return UnionAll(tuple(part for part, _ in parts), names), self._label_columns(names, label)
            case SetOperation(kind=kind, all=is_all, left=left, right=right, names=names):
                (one, of_one), (other, of_other) = self.order_exactly(left), self.order_exactly(right)
                label = digest(kind, is_all, of_one, of_other)
                return replace(node, left=one, right=other), self._label_columns(names, label)
            case _:
                assert_never(node)

    def _order_join(self, node: Join | SemiJoin) -> _Labelled:
        left, of_left = self._order(node.left)
        right, of_right = self._order(node.right)
        self._labels.update(label_all(self._labels, list_columns(left), "left"))
        self._labels.update(label_all(self._labels, list_columns(right), "right"))
        conditions = split_conjuncts(node.on)
        on = connect_sorted(exp.And, conditions, self._labels) if conditions else None
        own = None if on is None else label_expression(on, self._labels)
        return replace(node, left=left, right=right, on=on), digest(node.kind, of_left, of_right, own)

    def _order_block(self, node: Node) -> _Labelled:
        """Orders filters and inner joins: the sorted inputs are joined without conditions, and then filtered."""
        leaves, conditions = _collect_block(node)
        ordered = self._sort_leaves([self._order(leaf) for leaf in leaves], conditions)
        if len(ordered) > 1:
            for place, (leaf, _) in enumerate(ordered):
                self._labels.update(label_all(self._labels, list_columns(leaf), place))
        joined = reduce(lambda left, right: Join("inner", left, right, None), [leaf for leaf, _ in ordered])
        label = digest("block", [of_leaf for _, of_leaf in ordered])
        if not conditions:
            return joined, label
        condition = connect_sorted(exp.And, conditions, self._labels)
        return Filter(joined, condition), digest(label, label_expression(condition, self._labels))

    def _sort_leaves(self, leaves: Sequence[_Labelled], conditions: Sequence[exp.Expr]) -> list[_Labelled]:
        """Sorts the inputs of a join by label; equal inputs by the conditions that read them."""
        counts = Counter(label for _, label in leaves)

        def build_key(leaf: _Labelled) -> tuple[str, list[str]]:
            return leaf[1], self._label_usage(leaf[0], conditions) if counts[leaf[1]] > 1 else []

        return sorted(leaves, key=build_key)

    def _label_usage(self, leaf: Node, conditions: Sequence[exp.Expr]) -> list[str]:
        own = set(list_columns(leaf))
        labels = {**self._labels, **label_all(self._labels, list_columns(leaf), "own")}
        used = [part for part in conditions if own.intersection(list_used_columns(part))]
        return sorted(label_expression(order_operands(part, labels), labels) for part in used)

    def _order_named(self, named: _Named) -> _Named:
        return tuple((name, order_operands(value, self._labels)) for name, value in named)

    def _sort_named(self, named: _Named) -> _Named:
        return tuple(sorted(self._order_named(named), key=lambda pair: label_expression(pair[1], self._labels)))

    def _label_named(self, named: _Named, kind: str, *below: object) -> str:
        """Stores the labels of computed columns, and returns that of their operator."""
        own = {name: label_expression(value, self._labels) for name, value in named}
        self._labels.update({name: digest(kind, own[name]) for name, value in named if not _is_kept(name, value)})
        return digest(kind, list(own.values()), *below)

    def _label_columns(self, names: Sequence[str], label: str) -> str:
        self._labels.update({name: digest(label, place) for place, name in enumerate(names)})
        return label


def _is_kept(name: str, value: exp.Expr) -> bool:
    return isinstance(value, exp.Column) and value.name == name


def _collect_block(node: Node) -> tuple[list[Node], list[exp.Expr]]:
    """Lists the inputs of filters and inner joins at the top of a tree, and all their conditions."""
    if isinstance(node, Filter):
        leaves, conditions = _collect_block(node.child)
        return leaves, [*conditions, *split_conjuncts(node.condition)]
    if not isinstance(node, Join) or node.kind != "inner":
        return [node], []
    sides = _collect_block(node.left), _collect_block(node.right)
    return [*sides[0][0], *sides[1][0]], [*sides[0][1], *sides[1][1], *split_conjuncts(node.on)]
