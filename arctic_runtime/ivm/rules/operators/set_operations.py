"""Rules of operators whose columns are those of their inputs by position: UnionAll, Distinct, SetOperation.

The changes of a union are those of all its inputs together. Of Distinct, INTERSECT and EXCEPT each distinct row is
recomputed of which an input gained or lost a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.ivm.algebra.tree import Distinct, Node, SetOperation, UnionAll, list_children, list_columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule, build_affected_zset
from arctic_runtime.ivm.rules.terms import add_multiplicity, rename_columns, require_term, union_terms


def derive_union_delta(node: UnionAll, inputs: Inputs) -> Node:
    names = add_multiplicity(node.names)
    parts = [inputs.derive_delta(child) for child in node.inputs]
    return require_term(union_terms((rename_columns(part, names) for part in parts if part is not None), names))


def derive_distinct_delta(node: Distinct | SetOperation, inputs: Inputs) -> Node:
    return build_affected_zset(node, list_columns(node), derive_touched(node, list_columns(node), inputs), inputs)


def derive_touched(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the values of `names` in changed rows of the inputs of `node`, or a superset."""
    parts = [inputs.derive_touched(child, _map_own_names(node, child, names)) for child in list_children(node)]
    return require_term(union_terms((rename_columns(part, names) for part in parts if part is not None), names))


def derive_either_union(node: UnionAll, names: Names, inputs: Inputs) -> Node:
    return _derive_either_in(node.inputs, node, names, inputs)


def derive_either_distinct(node: Distinct, names: Names, inputs: Inputs) -> Node:
    return _derive_either_in((node.child,), node, names, inputs)


def derive_either_set_operation(node: SetOperation, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` from the left side, which has all rows of the result; does not read the right."""
    return _derive_either_in((node.left,), node, names, inputs)


def _derive_either_in(children: Iterable[Node], node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the values of `names` in old and new rows of `children`, or a superset."""
    either = (inputs.derive_either(child, _map_own_names(node, child, names)) for child in children)
    return require_term(union_terms((rename_columns(rows, names) for rows in either), names))


def _map_own_names(node: Node, child: Node, names: Names) -> Names:
    """Returns the columns of `child` at the same positions as the columns `names` of `node`."""
    own = dict(zip(list_columns(node), list_columns(child), strict=True))
    return tuple(own[name] for name in names)


UNION_RULE = Rule(derive_union_delta, derive_touched, derive_either_union)
DISTINCT_RULE = Rule(derive_distinct_delta, derive_touched, derive_either_distinct)
SET_OPERATION_RULE = Rule(derive_distinct_delta, derive_touched, derive_either_set_operation)
