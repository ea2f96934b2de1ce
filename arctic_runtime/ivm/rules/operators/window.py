"""Rule of Window: recomputes each partition that contains or contained a changed row."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, WindowColumns, list_columns
from arctic_runtime.ivm.rules.inputs import (
    Inputs,
    Names,
    Rule,
    build_affected_zset,
    select_before_and_after,
    select_old_and_new,
)
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.terms import require_term, select_columns


def derive_delta(node: WindowColumns, inputs: Inputs) -> Node:
    return build_affected_zset(node, node.partition, _derive_affected_partitions(node, inputs), inputs)


def derive_touched(node: WindowColumns, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` of rows in changed partitions, or a superset.

    The window functions are not computed if all columns `names` are columns of the child.
    """
    if set(names) <= set(node.partition):
        return require_term(inputs.derive_touched(node.child, names))
    partitions = _derive_affected_partitions(node, inputs)
    if not set(names) <= set(list_columns(node.child)):
        return select_before_and_after(node, node.partition, partitions, names, inputs)
    rows = inputs.derive_either(node.child, tuple(dict.fromkeys((*names, *node.partition))))
    return select_columns(restrict_to_keys(rows, node.partition, partitions) if partitions else rows, names)


def derive_either(node: WindowColumns, names: Names, inputs: Inputs) -> Node:
    if set(names) <= set(list_columns(node.child)):
        return inputs.derive_either(node.child, names)
    return select_old_and_new(node, names, inputs)


def _derive_affected_partitions(node: WindowColumns, inputs: Inputs) -> Node | None:
    return inputs.derive_touched(node.child, node.partition) if node.partition else None


RULE = Rule(derive_delta, derive_touched, derive_either)
