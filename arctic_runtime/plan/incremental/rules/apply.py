"""The rules applied to whole trees."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import assert_never

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.incremental.rules import aggregate, join, project, scan, semi, sets, window
from arctic_runtime.plan.incremental.rules.inputs import Names
from arctic_runtime.plan.incremental.rules.terms import changes, select
from arctic_runtime.plan.incremental.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Given,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    UnionAll,
    Window,
)


def delta(node: Node, changed: frozenset[TableName]) -> Node | None:
    """What came (+1) and went (-1): a tree with the node's columns and WEIGHT; None where nothing it reads changed.

    For each row, all columns together, the weights add up to its copies in the new result less those in the old.
    """
    return _Applied(changed).delta(node)


def touched(node: Node, names: Names, changed: frozenset[TableName]) -> Node | None:
    """The values that rows which came or went have in `names`; None where nothing that the tree reads changed.

    There may be more, and each any number of times: what is cheap to find counts, not how few there are.
    """
    return _Applied(changed).touched(node, names)


def either(node: Node, names: Names, changed: frozenset[TableName]) -> Node:
    """The values that rows of the old or the new result have in `names`, and perhaps more."""
    return _Applied(changed).either(node, names)


@dataclass(frozen=True)
class _Applied:
    changed: frozenset[TableName]

    def delta(self, node: Node) -> Node | None:
        if not changes(node, self.changed):
            return None
        match node:
            case Scan():
                return scan.delta(node, self)
            case Project() | Filter() | Explode():
                return project.delta(node, self)
            case Join():
                return join.delta(node, self)
            case SemiJoin():
                return semi.delta(node, self)
            case Aggregate():
                return aggregate.delta(node, self)
            case Window():
                return window.delta(node, self)
            case UnionAll() | Distinct() | SetOperation():
                return sets.delta(node, self)
            case Given() | OneRow():
                return None
            case _:
                assert_never(node)

    def touched(self, node: Node, names: Names) -> Node | None:
        if not changes(node, self.changed):
            return None
        match node:
            case Scan():
                return scan.touched(node, names, self)
            case Project() | Filter() | Explode():
                return project.touched(node, names, self)
            case Join():
                return join.touched(node, names, self)
            case SemiJoin():
                return semi.touched(node, names, self)
            case Aggregate():
                return aggregate.touched(node, names, self)
            case Window():
                return window.touched(node, names, self)
            case UnionAll() | Distinct() | SetOperation():
                return sets.touched(node, names, self)
            case Given() | OneRow():
                return None
            case _:
                assert_never(node)

    def either(self, node: Node, names: Names) -> Node:
        match node:
            case Scan():
                return scan.either(node, names, self)
            case Project() | Filter() | Explode():
                return project.either(node, names, self)
            case Join():
                return join.either(node, names, self)
            case SemiJoin():
                return semi.either(node, names, self)
            case Aggregate():
                return aggregate.either(node, names, self)
            case Window():
                return window.either(node, names, self)
            case UnionAll() | Distinct() | SetOperation():
                return sets.either(node, names, self)
            case Given() | OneRow():
                return select(node, names)
            case _:
                assert_never(node)
