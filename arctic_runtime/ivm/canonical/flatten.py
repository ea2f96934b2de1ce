"""First step to the normal form: removes what a tree has only because of how its query is written.

Projections that only select, order or copy columns are removed, except where the positions of columns have a meaning:
below UNION ALL, INTERSECT and EXCEPT, and at the root. There every column gets a name of its own. Expressions are
simplified, and hints for joins removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import build_column
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
from arctic_runtime.ivm.canonical.expressions import replace_columns, simplify_expression

Renames = dict[str, str]
"""Maps the output columns of an operator to columns of the flattened tree."""

_Named = tuple[tuple[str, exp.Expr], ...]


def flatten_tree(tree: Node, types: Mapping[str, str], columns: Sequence[str]) -> Node:
    """Returns a tree with the same rows, of which it has `columns` in order, without projections that compute nothing.

    `types` are the types of columns, as far as they are certain.
    """
    return _Flattening(types).flatten_exactly(tree, columns)


class _Flattening:
    """Flattens trees; each occurrence of a column gets a new name, unique in the whole flattened tree."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._numbers = count()

    def flatten_exactly(self, node: Node, columns: Sequence[str]) -> Node:
        """Flattens a node of which `columns` are read by their positions."""
        child, renames = self._flatten(node)
        return Projection(child, tuple((self._make_name(), build_column(renames[name])) for name in columns))

    def _make_name(self) -> str:
        return f"c#{next(self._numbers)}"

    def _make_names(self, names: Iterable[str]) -> Renames:
        return {name: self._make_name() for name in names}

    def _rename(self, expression: exp.Expr, renames: Renames) -> exp.Expr:
        return replace_columns(simplify_expression(expression, self._types), lambda name: renames[name])

    def _rename_all(self, named: _Named, below: Renames, made: Renames) -> _Named:
        return tuple((made[name], self._rename(value, below)) for name, value in named)

    def _flatten(self, node: Node) -> tuple[Node, Renames]:  # noqa: C901 - one case per operator
        match node:
            case Scan(fields=fields, key=key):
                made = self._make_names(name for name, _ in fields)
                own = tuple((made[name], stored) for name, stored in fields)
                return replace(node, fields=own, key=None if key is None else tuple(made[name] for name in key)), made
            case SpoolScan(names=names):
                return node, {name: name for name in names}
            case OneRow():
                return node, {}
            case Projection():
                return self._flatten_projection(node)
            case Filter(child=child, condition=condition):
                below, renames = self._flatten(child)
                return Filter(below, self._rename(condition, renames)), renames
            case Join() | SemiJoin():
                return self._flatten_join(node)
            case Aggregate(child=child, keys=keys, aggregates=aggregates):
                below, renames = self._flatten(child)
                made = self._make_names(name for name, _ in aggregates)
                own_keys = _list_distinct(keys, renames)
                out = {**{name: renames[name] for name in keys}, **made}
                return Aggregate(below, own_keys, self._rename_all(aggregates, renames, made)), out
            case WindowColumns(child=child, partition=partition, expressions=expressions):
                below, renames = self._flatten(child)
                made = self._make_names(name for name, _ in expressions)
                named = self._rename_all(expressions, renames, made)
                return WindowColumns(below, _list_distinct(partition, renames), named), {**renames, **made}
            case Explode(child=child, generator=generator, names=names):
                below, renames = self._flatten(child)
                made = self._make_names(names)
                call = self._rename(generator, renames)
                return replace(node, child=below, generator=call, names=tuple(made.values())), {**renames, **made}
            case Distinct(child=child):
                below, renames = self._flatten(child)
                columns = _list_distinct(list_columns(child), renames)
                return Distinct(Projection(below, tuple((name, build_column(name)) for name in columns))), renames
            case UnionAll(inputs=inputs, names=names):
                made = self._make_names(names)
                return UnionAll(tuple(map(self._flatten_input, inputs)), tuple(made.values())), made
            case SetOperation(left=left, right=right, names=names):
                made = self._make_names(names)
                sides = self._flatten_input(left), self._flatten_input(right)
                return replace(node, left=sides[0], right=sides[1], names=tuple(made.values())), made
            case _:
                assert_never(node)

    def _flatten_input(self, node: Node) -> Node:
        return self.flatten_exactly(node, list_columns(node))

    def _flatten_projection(self, node: Projection) -> tuple[Node, Renames]:
        child, below = self._flatten(node.child)
        values = {name: self._rename(value, below) for name, value in node.expressions}
        renames = {
            name: value.name if isinstance(value, exp.Column) else self._make_name() for name, value in values.items()
        }
        if all(isinstance(value, exp.Column) for value in values.values()):
            return child, renames
        return Projection(child, tuple({renames[name]: value for name, value in values.items()}.items())), renames

    def _flatten_join(self, node: Join | SemiJoin) -> tuple[Node, Renames]:
        left, of_left = self._flatten(node.left)
        right, of_right = self._flatten(node.right)
        both = {**of_left, **of_right}
        on = None if node.on is None else self._rename(node.on, both)
        return replace(node, left=left, right=right, on=on, broadcast=None), (
            of_left if isinstance(node, SemiJoin) else both
        )


def _list_distinct(names: Sequence[str], renames: Renames) -> tuple[str, ...]:
    return tuple(dict.fromkeys(renames[name] for name in names))
