"""Applies the rules of incremental maintenance of all operators to a whole tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, Scan, list_children
from arctic_runtime.ivm.rules.inputs import NOTHING_KNOWN, Known, Names
from arctic_runtime.ivm.rules.registry import RULES
from arctic_runtime.ivm.rules.runtime_filters import NO_FILTER_SOURCES, FilterSources
from arctic_runtime.ivm.rules.terms import has_changed, require_term
from arctic_runtime.model.names import TableName


def derive_delta(
    node: Node,
    changed: frozenset[TableName],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    known: Known = NOTHING_KNOWN,
) -> Node | None:
    """Builds a tree that computes the rows added to (+1) and removed from (-1) the result of `node`.

    The tree has the columns of `node` and MULTIPLICITY. For each distinct row, the multiplicities add up to the number
    of its copies in the new result less that in the old result. `filter_sources` are the sources that are worth a read
    as a runtime filter; `known` are facts about the columns. None if `node` reads none of the `changed` sources.
    """
    return _Applied(changed, filter_sources, known).derive_delta(node)


def derive_touched(
    node: Node,
    names: Names,
    changed: frozenset[TableName],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    known: Known = NOTHING_KNOWN,
) -> Node | None:
    """Builds a tree that computes the values of the columns `names` in all added and removed rows of `node`.

    The values may be a superset, and each may occur any number of times: the tree is built to be cheap to compute, not
    to return few rows. None if `node` reads none of the `changed` sources. Raises NotMaintained if the values depend on
    a column in `known.chosen`, whose old values can't be computed again.
    """
    return _Applied(changed, filter_sources, known).derive_touched(node, names)


def derive_either(node: Node, names: Names, changed: frozenset[TableName]) -> Node:
    """Builds a tree that computes the values of the columns `names` in old and new rows of `node`, or a superset."""
    return _Applied(changed, NO_FILTER_SOURCES).derive_either(node, names)


_Question = tuple[int, str, Names]


@dataclass(frozen=True)
class _Applied:
    """Applies the rules for one set of changed sources, and caches the trees that they derive for each operator.

    `answers` caches derived trees, and `sizes` numbers of scans. Their keys contain `id(node)`; each entry also holds
    the node itself, so that the id stays unique.
    """

    changed: frozenset[TableName]
    filter_sources: FilterSources
    known: Known = NOTHING_KNOWN
    answers: dict[_Question, tuple[Node, Node | None]] = field(default_factory=dict, repr=False)
    sizes: dict[int, tuple[Node, int]] = field(default_factory=dict, repr=False)

    def derive_delta(self, node: Node) -> Node | None:
        return self._derive_once("delta", node, (), lambda: self._apply_delta(node))

    def derive_touched(self, node: Node, names: Names) -> Node | None:
        return self._derive_once("touched", node, names, lambda: self._apply_touched(node, names))

    def derive_either(self, node: Node, names: Names) -> Node:
        return require_term(self._derive_once("either", node, names, lambda: self._apply_either(node, names)))

    def _derive_once(self, kind: str, node: Node, names: Names, work_out: Callable[[], Node | None]) -> Node | None:
        if not self.known.chosen.isdisjoint(names):
            raise NotMaintained("NOT_REPEATABLE", _explain_choice(names, self.known.chosen))
        question = (id(node), kind, names)
        if question not in self.answers:
            answer = work_out()
            if answer is not None and self._count_scans(answer) > (most := self.known.most_scans):
                raise NotMaintained("TOO_COMPLEX", f"the incremental plan would have more than {most} scans")
            self.answers[question] = (node, answer)
        return self.answers[question][1]

    def _count_scans(self, node: Node) -> int:
        """Number of scans in a tree; the number is cached, because trees share subtrees."""
        if id(node) not in self.sizes:
            size = 1 if isinstance(node, Scan) else sum(self._count_scans(child) for child in list_children(node))
            self.sizes[id(node)] = (node, size)
        return self.sizes[id(node)][1]

    def _apply_delta(self, node: Node) -> Node | None:
        return RULES[type(node)].delta(node, self) if has_changed(node, self.changed) else None

    def _apply_touched(self, node: Node, names: Names) -> Node | None:
        return RULES[type(node)].touched(node, names, self) if has_changed(node, self.changed) else None

    def _apply_either(self, node: Node, names: Names) -> Node:
        return RULES[type(node)].either(node, names, self)


def _explain_choice(names: Names, chosen: frozenset[str]) -> str:
    shown = next(name for name in names if name in chosen).partition("#")[0]
    return f"which rows may differ follows from {shown}, which may be another one when it is computed again"
