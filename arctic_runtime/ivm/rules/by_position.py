"""Parts of the rules of operators whose columns correspond to the columns of their inputs by position, as UNION ALL."""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.ivm.algebra.tree import Node, list_children, list_columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.terms import rename_columns, require_term, union_terms


def derive_touched_in_inputs(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the values of `names` in changed rows of the inputs of `node`, or a superset.

    The columns of each input are those at the positions that the columns `names` have in `node`.
    """
    parts = [inputs.derive_touched(child, _map_own_names(node, child, names)) for child in list_children(node)]
    return require_term(union_terms((rename_columns(part, names) for part in parts if part is not None), names))


def derive_either_in_inputs(node: Node, inputs: Iterable[Node], names: Names, context: Inputs) -> Node:
    """Builds a tree of the values of `names` in old and new rows of `inputs`, or a superset.

    The columns of each input are those at the positions that the columns `names` have in `node`.
    """
    renamed = (
        rename_columns(context.derive_either(child, _map_own_names(node, child, names)), names) for child in inputs
    )
    return require_term(union_terms(renamed, names))


def _map_own_names(node: Node, child: Node, names: Names) -> Names:
    """Returns the columns of `child` at the same positions as the columns `names` of `node`."""
    own = dict(zip(list_columns(node), list_columns(child), strict=True))
    return tuple(own[name] for name in names)
