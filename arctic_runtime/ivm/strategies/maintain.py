"""Chooses the strategy by which a run updates a query's result, and the spools: changed rows that it computes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SpoolScan,
    list_children,
    list_columns,
    list_scans,
    map_children,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.apply import derive_delta, derive_touched
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.partners import has_runtime_filter
from arctic_runtime.ivm.rules.restrict import has_blocking_operator, restrict_to_keys
from arctic_runtime.ivm.rules.runtime_filters import NO_FILTER_SOURCES, FilterSources, add_runtime_filters
from arctic_runtime.ivm.rules.terms import has_changed, require_term
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, plan_aggregate_state
from arctic_runtime.ivm.strategies.choices import collect_choices
from arctic_runtime.ivm.strategies.determinism import explain_full_invalidation, is_deterministic, walk_changing
from arctic_runtime.ivm.strategies.pairs import Pairs, plan_pairs
from arctic_runtime.model.names import TableName

AFFECTED = "__arctic_affected"
"""Name of the spool of affected keys, which `AffectedKeys.new` reads."""


@dataclass(frozen=True)
class Deltas:
    """Maintenance by deltas: the tree `changes` computes the added and removed result rows, as a Z-set."""

    changes: Node


@dataclass(frozen=True)
class AffectedKeys:
    """Maintenance by affected keys: the query's current rows with these keys replace the stored ones.

    `affected` computes the keys, each once. `new` computes the current rows, with all columns of the query; it reads
    the keys as `SpoolScan(AFFECTED, key)`. An affected key without a row in `new` has been removed. `affected` may
    contain keys that are neither in the old nor in the new result.
    """

    affected: Node
    new: Node


Maintenance = Deltas | Pairs | AggregateState | AffectedKeys


@dataclass(frozen=True)
class Facts:
    """Facts besides the query on which the choice of a strategy depends."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Types of the tree's columns, as far as they are certain."""

    paired: frozenset[TableName] = frozenset()
    """Sources whose change rows also hold the row before the change."""

    small: frozenset[TableName] = frozenset()
    """Sources that cost little to read twice."""

    few_rows: bool = False
    """True if the result is so small that aggregate state of all its groups costs little."""

    few_row_sources: frozenset[TableName] = frozenset()
    """Sources with no more rows than such state may have."""

    filter_sources: FilterSources = field(default_factory=lambda: NO_FILTER_SOURCES)
    """For each changed source, the other sources that are worth a read as a runtime filter of its changes."""


def plan_maintenance(
    tree: Node, key: tuple[str, ...], changed: frozenset[TableName], facts: Facts | None = None
) -> Maintenance:
    """Plans the maintenance of the result of `tree`, whose rows are identified by the columns `key`.

    The strategy is aggregate state for sums, counts and extremes over few groups. Otherwise it is pairs or deltas, if
    the operators allow these and the key is proven to be unique. In all other cases it is affected keys. `key` may have
    a column twice. Raises NotMaintained if a change could affect all rows, or if no source has changed.
    """
    if not has_changed(tree, changed):
        raise NotMaintained("NOTHING_NEW", "no upstream has changed")
    key = tuple(dict.fromkeys(key))
    optimized = push_down_filters(tree)
    known = facts or Facts()
    by_state = (
        plan_aggregate_state(optimized, key, changed, known.types, known.filter_sources, known.few_row_sources)
        if known.few_rows
        else None
    )
    if by_state is not None:
        return by_state
    _refuse_single_row(key)
    # Pairs and deltas compute removed rows again; these have to equal the rows that were added before.
    is_known = not has_blocking_operator(optimized) or is_deterministic(optimized, known.types)
    paired = plan_pairs(optimized, key, changed, known.paired, known.small) if is_known else None
    if paired is not None:
        return paired
    followed = tuple(walk_changing(optimized, changed))
    for node in followed:
        _refuse_everything(node, changed, known.types)
    if is_known and all(map(_is_linear, followed)) and is_unique(optimized, key):
        return Deltas(require_term(derive_delta(optimized, changed, known.filter_sources, Known(known.types))))
    chosen = collect_choices(optimized, known.types)
    chosen.check_choices(optimized, key, changed)
    columns_known = Known(known.types, chosen.names)
    affected = require_term(
        derive_touched(
            add_runtime_filters(optimized, known.filter_sources), key, changed, known.filter_sources, columns_known
        )
    )
    return AffectedKeys(Distinct(affected), restrict_to_keys(optimized, key, SpoolScan(AFFECTED, key)))


def derive_touched_keys(tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> Node | None:
    """Builds a tree of the keys of all result rows that changes of the sources may affect.

    None if the result depends on none of the `changed` sources. Raises NotMaintained if `key` is empty.
    """
    _refuse_single_row(key)
    return derive_touched(push_down_filters(tree), tuple(dict.fromkeys(key)), changed)


def _refuse_single_row(key: tuple[str, ...]) -> None:
    if not key:
        raise NotMaintained("ONE_ROW", "the table has a single row, which depends on all rows of its upstreams")


def _refuse_everything(node: Node, changed: frozenset[TableName], types: Mapping[str, str]) -> None:
    because = explain_full_invalidation(node, changed, types)
    if because is not None:
        raise NotMaintained("EVERYTHING_AFFECTED", because)


def _is_linear(node: Node) -> bool:
    if isinstance(node, Join):
        return node.kind != "full"
    return isinstance(node, Scan | Projection | Filter | SemiJoin)


@dataclass(frozen=True)
class Spool:
    """Rows that are computed once, by the tree `rows`, and that other trees read as a spool with the name `name`."""

    name: str
    rows: Node

    @property
    def scan(self) -> SpoolScan:
        return SpoolScan(self.name, list_columns(self.rows))


def with_spools(tree: Node) -> tuple[Node, tuple[Spool, ...]]:
    """Replaces subtrees that occur several times in `tree` by scans of spools; returns the new tree and the spools.

    Only subtrees of changed rows after a runtime filter are replaced.
    """
    times = Counter(_list_shareable(tree))
    several = [node for node, count in times.items() if count > 1]
    made = {node: Spool(f"__arctic_shared_{number}", node) for number, node in enumerate(several)}
    return _replace_nodes(tree, made), tuple(made.values())


def _list_shareable(node: Node) -> Iterator[Node]:
    if _is_shareable(node):
        yield node
    else:
        for child in list_children(node):
            yield from _list_shareable(child)


def _is_shareable(node: Node) -> bool:
    return has_runtime_filter(node) and not any(scan.reads_rows for scan in list_scans(list_children(node)[0]))


def _replace_nodes(node: Node, made: Mapping[Node, Spool]) -> Node:
    if _is_shareable(node):
        return made[node].scan if node in made else node
    return map_children(node, lambda child: _replace_nodes(child, made))
