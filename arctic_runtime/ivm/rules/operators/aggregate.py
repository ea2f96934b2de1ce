"""Rule of Aggregate: recomputes each group that contains or contained a changed row."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Aggregate, Node
from arctic_runtime.ivm.rules.inputs import (
    Inputs,
    Names,
    Rule,
    build_affected_zset,
    select_before_and_after,
    select_old_and_new,
)
from arctic_runtime.ivm.rules.terms import require_term


def derive_delta(node: Aggregate, inputs: Inputs) -> Node:
    return build_affected_zset(node, node.keys, _derive_affected_groups(node, inputs), inputs)


def derive_touched(node: Aggregate, names: Names, inputs: Inputs) -> Node:
    if names and set(names) <= set(node.keys):
        return require_term(inputs.derive_touched(node.child, names))
    return select_before_and_after(node, node.keys, _derive_affected_groups(node, inputs), names, inputs)


def derive_either(node: Aggregate, names: Names, inputs: Inputs) -> Node:
    if names and set(names) <= set(node.keys):
        return inputs.derive_either(node.child, names)
    return select_old_and_new(node, names, inputs)


def _derive_affected_groups(node: Aggregate, inputs: Inputs) -> Node | None:
    return inputs.derive_touched(node.child, node.keys) if node.keys else None


RULE = Rule(derive_delta, derive_touched, derive_either)
