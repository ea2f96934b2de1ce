"""Derives the rows that rules derive, but without rows that exist neither before nor after the changes.

Rules may derive a superset of the changed rows. An expression that can raise an error must not be evaluated for rows
that the query never has.
"""

from __future__ import annotations

from arctic_runtime.ivm.algebra.clock import CLOCK
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.failing import can_fail
from arctic_runtime.ivm.algebra.refusal import NotMaintained
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
    is_timed,
    list_columns,
    walk_tree,
)
from arctic_runtime.ivm.rules.free_columns import find_free_columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names, select_before_and_after, select_old_and_new
from arctic_runtime.ivm.rules.terms import require_term


def derive_touched_rows(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the columns `names` of added and removed rows of `node`, or of more of its old and new rows.

    Raises NotMaintained if this needs old rows that can't be computed again.
    """
    candidates = require_term(inputs.derive_touched(node, names))
    if has_only_existing(node, names, inputs):
        return candidates
    _check_old_values_known(node, inputs)
    return select_before_and_after(node, names, candidates, names, inputs)


def derive_either_rows(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the columns `names` of all old and new rows of `node`, without other rows.

    Raises NotMaintained if this needs old rows that can't be computed again.
    """
    if has_only_existing(node, names, inputs):
        return inputs.derive_either(node, names)
    _check_old_values_known(node, inputs)
    return select_old_and_new(node, names, inputs)


def has_only_existing(node: Node, names: Names, context: Inputs) -> bool:
    """Whether the rules for `node` derive the columns `names` of existing rows only: old or new rows of `node`."""
    match node:
        case Scan() | SpoolScan() | OneRow():
            return True
        case Projection(child=child, expressions=expressions):
            read = (part for name, value in expressions if name in names for part in list_used_columns(value))
            return has_only_existing(child, tuple(dict.fromkeys(read)), context)
        case Filter(child=child, condition=condition):
            needed = tuple(dict.fromkeys((*names, *list_used_columns(condition))))
            return keeps_condition(node, names, context) and has_only_existing(child, needed, context)
        case Aggregate(child=child, keys=keys):
            return not set(names) <= set(keys) or has_only_existing(child, names, context)
        case WindowColumns(child=child, partition=partition):
            needed = tuple(dict.fromkeys((*names, *partition)))
            return not set(names) <= set(list_columns(child)) or has_only_existing(child, needed, context)
        case Distinct(child=child):
            return has_only_existing(child, names, context)
        case UnionAll(inputs=inputs, names=own):
            at = [own.index(name) for name in names]
            return all(
                has_only_existing(part, tuple(list_columns(part)[place] for place in at), context) for part in inputs
            )
        case _:
            return False


def keeps_condition(node: Filter, names: Names, inputs: Inputs) -> bool:
    """Whether the rules filter by the condition of `node` when they derive the columns `names`.

    They leave the condition out if it depends on the time, and that has moved; if its columns need a further scan or
    join; if it reads a column in `known.chosen`; or if it can raise an error for rows that do not exist.
    """
    needed = list_used_columns(node.condition)
    if has_moved_clock(node, inputs):
        return False
    if not inputs.known.chosen.isdisjoint(needed) or not find_free_columns(node.child, names).issuperset(needed):
        return False
    is_safe = not can_fail(node.condition, inputs.known.types)
    return is_safe or has_only_existing(node.child, tuple(dict.fromkeys((*names, *needed))), inputs)


def has_moved_clock(node: Filter, inputs: Inputs) -> bool:
    """Whether the condition of a filter may be true for other rows now, because time has passed."""
    return CLOCK in inputs.changed and is_timed(node)


def _check_old_values_known(node: Node, inputs: Inputs) -> None:
    """Raises NotMaintained if the old rows of `node` can't be computed again.

    This is so if a column in `known.chosen` determines the rows of an operator.
    """
    if any(not inputs.known.chosen.isdisjoint(_list_identifying_columns(part)) for part in walk_tree(node)):
        raise NotMaintained(
            "NOT_REPEATABLE", "which rows existed before depends on a value that may differ if it is recomputed"
        )


def _list_identifying_columns(node: Node) -> tuple[str, ...]:
    """Lists the columns of an operator whose values determine the rows that it returns."""
    match node:
        case Filter(condition=condition):
            return list_used_columns(condition)
        case Join(on=on) | SemiJoin(on=on):
            return list_used_columns(on)
        case Aggregate(keys=keys):
            return keys
        case Explode(generator=generator):
            return list_used_columns(generator)
        case Distinct() | SetOperation():
            return list_columns(node)
        case _:
            return ()
