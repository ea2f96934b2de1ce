"""Operators that look at one row at a time: project, filter and explode. What changes above is what changed below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import column, used
from arctic_runtime.ivm.algebra.failing import can_fail
from arctic_runtime.ivm.algebra.tree import WEIGHT, Explode, Filter, Node, Project, columns
from arctic_runtime.ivm.rules.existing_rows import keeps, rows_of_either, touched_rows
from arctic_runtime.ivm.rules.inputs import Inputs, Names, some
from arctic_runtime.ivm.rules.terms import present, project, select, weighted


def delta(node: Project | Filter | Explode, of: Inputs) -> Node:
    below = present(of.delta(node.child))
    if isinstance(node, Project):
        return project(below, (*node.expressions, (WEIGHT, column(WEIGHT))))
    return select(replace(node, child=below), weighted(columns(node)))


def touched(node: Project | Filter | Explode, names: Names, of: Inputs) -> Node:
    return _read(node, names, of, of.touched, touched_rows)


def either(node: Project | Filter | Explode, names: Names, of: Inputs) -> Node:
    return _read(node, names, of, of.either, rows_of_either)


_Read = Callable[[Node, Names], Node | None]
_ReadRows = Callable[[Node, Names, Inputs], Node]


def _read(node: Project | Filter | Explode, names: Names, of: Inputs, read: _Read, read_rows: _ReadRows) -> Node:
    """What is computed of rows and could fail is computed of rows alone that are there or were."""
    if isinstance(node, Filter):
        return _filtered(node, names, of, read)
    if isinstance(node, Project):
        kept = [(name, value) for name, value in node.expressions if name in names]
        below = _below(node.child, [value for _, value in kept], (), of, read, read_rows)
        return select(project(below, kept), names)
    own = tuple(name for name in names if name not in node.names)
    if len(own) == len(names):
        return present(read(node.child, names))
    below = _below(node.child, [node.generator], own, of, read, read_rows)
    return select(replace(node, child=below), names)


def _below(node: Node, values: Sequence[exp.Expr], names: Names, of: Inputs, read: _Read, read_rows: _ReadRows) -> Node:
    """What values are computed of, and some columns besides."""
    needed = some(tuple(dict.fromkeys((*names, *(name for value in values for name in used(value))))), node)
    if any(can_fail(value, of.known.types) for value in values):
        return read_rows(node, needed, of)
    return present(read(node, needed))


def _filtered(node: Filter, names: Names, of: Inputs, read: _Read) -> Node:
    if not keeps(node, names, of):
        return present(read(node.child, names))
    below = present(read(node.child, tuple(dict.fromkeys((*names, *used(node.condition))))))
    return select(Filter(below, node.condition), names)
