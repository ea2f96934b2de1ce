"""What a rule can compute of an operator's inputs, and results that many operators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from arctic_runtime.ivm.algebra.tree import Node, columns
from arctic_runtime.ivm.rules.restrict import restrict
from arctic_runtime.ivm.rules.runtime_filters import FilterSources
from arctic_runtime.ivm.rules.terms import at, changes, present, select, signed, union, weighted
from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import SHIPPED

Names = tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """Facts about a tree's columns: their `types`, where certain, and the `chosen` columns, which have several answers.

    The old values of chosen columns are unknown: a second computation may give others. A plan with more scans than
    `most_scans` is refused.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    most_scans: int = SHIPPED.incremental.plan_scans


NOTHING_KNOWN = Known()


class Inputs(Protocol):
    """The rules as they apply to the inputs of an operator, for one set of changed sources."""

    @property
    def changed(self) -> frozenset[TableName]: ...

    @property
    def filter_sources(self) -> FilterSources: ...

    @property
    def known(self) -> Known: ...

    def delta(self, node: Node) -> Node | None:
        """The added and removed rows as a Z-set, exactly."""

    def touched(self, node: Node, names: Names) -> Node | None:
        """The values of some columns in added and removed rows, or a superset."""

    def either(self, node: Node, names: Names) -> Node:
        """The values of some columns before and after the changes, or a superset."""


def new(node: Node) -> Node:
    """A tree over its sources as they are now, which is the tree itself."""
    return node


def old(node: Node, of: Inputs) -> Node:
    """A tree over its sources as they were."""
    return at(node, "old", of.changed)


def has_changes(node: Node, of: Inputs) -> bool:
    return changes(node, of.changed)


def some(names: Names, node: Node) -> Names:
    """These columns; if there are none, the node's first column, so that rows still count."""
    return names or columns(node)[:1]


def recomputed(node: Node, unit: Names, affected: Node | None, of: Inputs) -> Node:
    """The Z-set that replaces all rows with affected values in the columns `unit`; without a unit, all rows."""
    before, after = _affected(node, unit, affected, of)
    return present(union((signed(before, -1), signed(after, 1)), weighted(columns(node))))


def before_and_after(node: Node, unit: Names, affected: Node | None, names: Names, of: Inputs) -> Node:
    """Columns of all old and new rows with affected values in the columns `unit`; without a unit, of all rows."""
    return present(union(_affected(node, unit, affected, of), names))


def both(node: Node, names: Names, of: Inputs) -> Node:
    """Columns of all rows of a tree before and after."""
    return before_and_after(node, (), None, names, of) if has_changes(node, of) else select(node, names)


def _affected(node: Node, unit: Names, affected: Node | None, of: Inputs) -> tuple[Node, Node]:
    images = (old(node, of), new(node))
    if affected is None or not unit:
        return images
    before, after = (restrict(image, unit, affected) for image in images)
    return before, after
