"""Rows of operators that take the columns of their inputs by position."""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.ivm.algebra.tree import Node, children, columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.terms import present, rename, union


def touched_in_inputs(node: Node, names: Names, of: Inputs) -> Node:
    """The values that changed rows of any input have in the columns at the places of `names`."""
    parts = [of.touched(child, _own(node, child, names)) for child in children(node)]
    return present(union((rename(part, names) for part in parts if part is not None), names))


def either_in_inputs(node: Node, inputs: Iterable[Node], names: Names, of: Inputs) -> Node:
    """The values that rows of some inputs have there before or after."""
    found = (rename(of.either(child, _own(node, child, names)), names) for child in inputs)
    return present(union(found, names))


def _own(node: Node, child: Node, names: Names) -> Names:
    """The child's names of some columns of the node."""
    own = dict(zip(columns(node), columns(child), strict=True))
    return tuple(own[name] for name in names)
