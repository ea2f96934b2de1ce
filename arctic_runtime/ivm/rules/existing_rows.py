"""Rows that are there or were, where the rules would else look at some that the query leaves out."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.expressions import used
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
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    Window,
    columns,
    walk,
)
from arctic_runtime.ivm.rules.free_columns import free
from arctic_runtime.ivm.rules.inputs import Inputs, Names, before_and_after, both
from arctic_runtime.ivm.rules.terms import present


def touched_rows(node: Node, names: Names, of: Inputs) -> Node:
    """Columns of rows that came or went, and of no row that neither was nor is there."""
    found = present(of.touched(node, names))
    if has_only_real(node, names, of):
        return found
    _check(node, of)
    return before_and_after(node, names, found, names, of)


def rows_of_either(node: Node, names: Names, of: Inputs) -> Node:
    """Columns of rows that are or were there, and of no other."""
    if has_only_real(node, names, of):
        return of.either(node, names)
    _check(node, of)
    return both(node, names, of)


def has_only_real(node: Node, names: Names, of: Inputs) -> bool:
    """Whether what the rules have of some columns is of rows only that are or were there."""
    match node:
        case Scan() | SpoolScan() | OneRow():
            return True
        case Project(child=child, expressions=expressions):
            read = (part for name, value in expressions if name in names for part in used(value))
            return has_only_real(child, tuple(dict.fromkeys(read)), of)
        case Filter(child=child, condition=condition):
            needed = tuple(dict.fromkeys((*names, *used(condition))))
            return keeps(node, names, of) and has_only_real(child, needed, of)
        case Aggregate(child=child, keys=keys):
            return not set(names) <= set(keys) or has_only_real(child, names, of)
        case Window(child=child, partition=partition):
            needed = tuple(dict.fromkeys((*names, *partition)))
            return not set(names) <= set(columns(child)) or has_only_real(child, needed, of)
        case Distinct(child=child):
            return has_only_real(child, names, of)
        case UnionAll(inputs=inputs, names=own):
            at = [own.index(name) for name in names]
            return all(has_only_real(part, tuple(columns(part)[place] for place in at), of) for part in inputs)
        case _:
            return False


def keeps(node: Filter, names: Names, of: Inputs) -> bool:
    """Whether the rules apply a condition to rows of which they have some columns.

    They leave it away where its columns would cost reading more, where they show what is chosen, and where it could
    fail for rows that are not there.
    """
    needed = used(node.condition)
    if not of.known.chosen.isdisjoint(needed) or not free(node.child, names).issuperset(needed):
        return False
    is_safe = not can_fail(node.condition, of.known.types)
    return is_safe or has_only_real(node.child, tuple(dict.fromkeys((*names, *needed))), of)


def _check(node: Node, of: Inputs) -> None:
    """Raises NotMaintained where the rows that were there can't be computed again."""
    if any(not of.known.chosen.isdisjoint(_telling(part)) for part in walk(node)):
        raise NotMaintained(
            "NOT_REPEATABLE", "which rows existed before depends on a value that may differ if it is recomputed"
        )


def _telling(node: Node) -> tuple[str, ...]:
    """The columns that tell a node's rows apart."""
    match node:
        case Filter(condition=condition):
            return used(condition)
        case Join(on=on) | SemiJoin(on=on):
            return used(on)
        case Aggregate(keys=keys):
            return keys
        case Explode(generator=generator):
            return used(generator)
        case Distinct() | SetOperation():
            return columns(node)
        case _:
            return ()
