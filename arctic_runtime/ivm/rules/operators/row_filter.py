"""Rule of Filter: the changed rows are the changed input rows that fulfil the condition.

If the condition depends on the time, unchanged input rows that it is true for at only one of two times are changed too.
"""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.clock import enter_by_clock, leave_by_clock
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import Filter, Node, list_columns
from arctic_runtime.ivm.rules.existing_rows import Read, has_moved_clock, keeps_condition
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule, at_old
from arctic_runtime.ivm.rules.terms import add_multiplicity, require_term, select_columns, to_zset, union_terms


def derive_delta(node: Filter, inputs: Inputs) -> Node:
    names = add_multiplicity(list_columns(node))
    below = inputs.derive_delta(node.child)
    terms = [] if below is None else [select_columns(replace(node, child=below), names)]
    if has_moved_clock(node, inputs):
        entering, leaving = _derive_by_clock(node, inputs)
        terms += [to_zset(entering, 1), to_zset(leaving, -1)]
    return require_term(union_terms(terms, names))


def _derive_by_clock(node: Filter, inputs: Inputs) -> tuple[Node, Node]:
    """Builds the trees of the old input rows that enter, and of those that leave, because time has passed."""
    old = at_old(node.child, inputs)
    return Filter(old, enter_by_clock(node.condition)), Filter(old, leave_by_clock(node.condition))


def derive_touched(node: Filter, names: Names, inputs: Inputs) -> Node:
    if has_moved_clock(node, inputs):
        below = inputs.derive_touched(node.child, names)
        return require_term(union_terms((below, *_derive_by_clock(node, inputs)), names))
    return _derive_filtered(node, names, inputs, inputs.derive_touched)


def derive_either(node: Filter, names: Names, inputs: Inputs) -> Node:
    return _derive_filtered(node, names, inputs, inputs.derive_either)


def _derive_filtered(node: Filter, names: Names, inputs: Inputs, read: Read) -> Node:
    if not keeps_condition(node, names, inputs):
        return require_term(read(node.child, names))
    below = require_term(read(node.child, tuple(dict.fromkeys((*names, *list_used_columns(node.condition))))))
    return select_columns(Filter(below, node.condition), names)


RULE = Rule(derive_delta, derive_touched, derive_either)
