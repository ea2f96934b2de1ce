"""Interfaces of an operator's rule and of the inputs whose changes it derives, and functions that several rules use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from arctic_runtime.ivm.algebra.tree import Node, list_columns
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.runtime_filters import FilterSources
from arctic_runtime.ivm.rules.terms import (
    add_multiplicity,
    has_changed,
    read_image,
    require_term,
    select_columns,
    to_zset,
    union_terms,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import SHIPPED

Names = tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """Facts about a tree's columns that rules use, and limits.

    `types` are the types of columns, as far as they are certain. `chosen` are the columns whose values may differ if
    they are recomputed, as `first(x)` may, so that their old values are not known. A tree with more scans than
    `most_scans` is refused. A star join with at least `star_changes` changed tables has a rule of its own.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    most_scans: int = SHIPPED.incremental.plan_scans
    star_changes: int = SHIPPED.incremental.star_join_changes


NOTHING_KNOWN = Known()


class Inputs(Protocol):
    """Derives changes of an operator's inputs, as trees, for one set of `changed` sources."""

    @property
    def changed(self) -> frozenset[TableName]: ...

    @property
    def filter_sources(self) -> FilterSources: ...

    @property
    def known(self) -> Known: ...

    def derive_delta(self, node: Node) -> Node | None:
        """Builds a tree of exactly the added and removed rows of `node`, as a Z-set; None if no source has changed."""

    def derive_touched(self, node: Node, names: Names) -> Node | None:
        """Builds a tree of the values of `names` in added and removed rows of `node`, or a superset.

        None if no source of `node` has changed.
        """

    def derive_either(self, node: Node, names: Names) -> Node:
        """Builds a tree of the values of `names` in all rows of `node` before and after the changes, or a superset."""


def at_new(node: Node) -> Node:
    """Returns `node` itself, which reads the current rows of its sources; the counterpart of `at_old`."""
    return node


def at_old(node: Node, inputs: Inputs) -> Node:
    """Returns a tree that computes `node` from the sources as they were before the changes."""
    return read_image(node, "old", inputs.changed)


def has_changes(node: Node, inputs: Inputs) -> bool:
    return has_changed(node, inputs.changed)


def pick_some(names: Names, node: Node) -> Names:
    """Returns `names`, or the node's first column if `names` is empty, so that rows can still be counted."""
    return names or list_columns(node)[:1]


def build_affected_zset(node: Node, unit: Names, affected: Node | None, inputs: Inputs) -> Node:
    """Builds the tree of the Z-set that removes the old rows and adds the new rows of the affected groups of `node`.

    Groups are identified by the columns `unit`; the tree `affected` computes the values of these for affected groups.
    All rows of `node` are replaced if `unit` is empty or `affected` is None.
    """
    before, after = _split_affected(node, unit, affected, inputs)
    return require_term(union_terms((to_zset(before, -1), to_zset(after, 1)), add_multiplicity(list_columns(node))))


def select_before_and_after(node: Node, unit: Names, affected: Node | None, names: Names, inputs: Inputs) -> Node:
    """Selects the columns `names` of the old and the new rows of the affected groups of `node`.

    Groups are identified by the columns `unit`; the tree `affected` computes the values of these for affected groups.
    All rows of `node` are selected if `unit` is empty or `affected` is None.
    """
    return require_term(union_terms(_split_affected(node, unit, affected, inputs), names))


def select_old_and_new(node: Node, names: Names, inputs: Inputs) -> Node:
    """Selects the columns `names` of all old and all new rows of `node`."""
    return (
        select_before_and_after(node, (), None, names, inputs)
        if has_changes(node, inputs)
        else select_columns(node, names)
    )


def _split_affected(node: Node, unit: Names, affected: Node | None, inputs: Inputs) -> tuple[Node, Node]:
    images = (at_old(node, inputs), at_new(node))
    if affected is None or not unit:
        return images
    before, after = (restrict_to_keys(image, unit, affected) for image in images)
    return before, after


Operator = TypeVar("Operator")


@dataclass(frozen=True)
class Rule(Generic[Operator]):
    """Functions that derive changes of an operator's result, as trees, from changes of its inputs.

    `delta` and `touched` are called only if a source below the operator has changed.
    """

    delta: Callable[[Operator, Inputs], Node | None]
    """Derives exactly the added and removed rows of the operator's result, as a Z-set."""

    touched: Callable[[Operator, Names, Inputs], Node | None]
    """Derives the values of some columns in added and removed rows of the result, or a superset of these values."""

    either: Callable[[Operator, Names, Inputs], Node]
    """Derives the values of some columns in all rows of the result before and after the changes, or a superset."""
