"""Trees that a rule can derive from an operator's inputs, and results that many operators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
    """Facts about a tree's columns: their `types`, if certain, and the `chosen` columns, which have several answers.

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

    def derive_delta(self, node: Node) -> Node | None:
        """The added and removed rows as a Z-set, exactly."""

    def derive_touched(self, node: Node, names: Names) -> Node | None:
        """The values of some columns in added and removed rows, or a superset."""

    def derive_either(self, node: Node, names: Names) -> Node:
        """The values of some columns before and after the changes, or a superset."""


def at_new(node: Node) -> Node:
    """A tree over its sources as they are now, which is the tree itself."""
    return node


def at_old(node: Node, inputs: Inputs) -> Node:
    """A tree over its sources as they were."""
    return read_image(node, "old", inputs.changed)


def has_changes(node: Node, inputs: Inputs) -> bool:
    return has_changed(node, inputs.changed)


def pick_some(names: Names, node: Node) -> Names:
    """These columns; if there are none, the node's first column, so that rows still count."""
    return names or list_columns(node)[:1]


def recompute_affected(node: Node, unit: Names, affected: Node | None, inputs: Inputs) -> Node:
    """The Z-set that replaces all rows with affected values in the columns `unit`; without a unit, all rows."""
    before, after = _split_affected(node, unit, affected, inputs)
    return require_term(union_terms((to_zset(before, -1), to_zset(after, 1)), add_multiplicity(list_columns(node))))


def select_before_and_after(node: Node, unit: Names, affected: Node | None, names: Names, inputs: Inputs) -> Node:
    """Columns of all old and new rows with affected values in the columns `unit`; without a unit, of all rows."""
    return require_term(union_terms(_split_affected(node, unit, affected, inputs), names))


def select_old_and_new(node: Node, names: Names, inputs: Inputs) -> Node:
    """Columns of all rows of a tree before and after."""
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
