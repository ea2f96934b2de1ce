"""The rules applied to whole trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, Scan, children
from arctic_runtime.ivm.rules.inputs import NOTHING_KNOWN, Known, Names
from arctic_runtime.ivm.rules.registry import RULES
from arctic_runtime.ivm.rules.runtime_filters import NO_FILTER_SOURCES, FilterSources
from arctic_runtime.ivm.rules.terms import changes, present
from arctic_runtime.model.names import TableName


def delta(
    node: Node,
    changed: frozenset[TableName],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    known: Known = NOTHING_KNOWN,
) -> Node | None:
    """The rows that came (+1) and went (-1), with the node's columns and MULTIPLICITY; None where no source changed.

    For each row, all columns together, the multiplicities add up to its copies in the new result less those in the old.
    """
    return _Applied(changed, filter_sources, known).delta(node)


def touched(
    node: Node,
    names: Names,
    changed: frozenset[TableName],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    known: Known = NOTHING_KNOWN,
) -> Node | None:
    """The values that rows which came or went have in `names`; None where nothing that the tree reads changed.

    There may be more, and each any number of times: what is cheap to find counts, not how few there are. Raises
    NotMaintained where that depends on what some column that is `chosen` was.
    """
    return _Applied(changed, filter_sources, known).touched(node, names)


def either(node: Node, names: Names, changed: frozenset[TableName]) -> Node:
    """The values that rows of the old or the new result have in `names`, and perhaps more."""
    return _Applied(changed, NO_FILTER_SOURCES).either(node, names)


_Question = tuple[int, str, Names]


@dataclass(frozen=True)
class _Applied:
    """The rules for one set of changed sources; what one of them asks again is not worked out again.

    A node stands for itself by its identity, so it is kept with the answer, or with the number of its scans.
    """

    changed: frozenset[TableName]
    filter_sources: FilterSources
    known: Known = NOTHING_KNOWN
    answers: dict[_Question, tuple[Node, Node | None]] = field(default_factory=dict, repr=False)
    sizes: dict[int, tuple[Node, int]] = field(default_factory=dict, repr=False)

    def delta(self, node: Node) -> Node | None:
        return self._once("delta", node, (), lambda: self._delta(node))

    def touched(self, node: Node, names: Names) -> Node | None:
        return self._once("touched", node, names, lambda: self._touched(node, names))

    def either(self, node: Node, names: Names) -> Node:
        return present(self._once("either", node, names, lambda: self._either(node, names)))

    def _once(self, what: str, node: Node, names: Names, work_out: Callable[[], Node | None]) -> Node | None:
        if not self.known.chosen.isdisjoint(names):
            raise NotMaintained("NOT_REPEATABLE", _because(names, self.known.chosen))
        question = (id(node), what, names)
        if question not in self.answers:
            answer = work_out()
            if answer is not None and self._size(answer) > (most := self.known.most_scans):
                raise NotMaintained("TOO_COMPLEX", f"the incremental plan would have more than {most} scans")
            self.answers[question] = (node, answer)
        return self.answers[question][1]

    def _size(self, node: Node) -> int:
        """How many scans a tree has. Trees share their parts, so each part is looked at once."""
        if id(node) not in self.sizes:
            size = 1 if isinstance(node, Scan) else sum(self._size(child) for child in children(node))
            self.sizes[id(node)] = (node, size)
        return self.sizes[id(node)][1]

    def _delta(self, node: Node) -> Node | None:
        return RULES[type(node)].delta(node, self) if changes(node, self.changed) else None

    def _touched(self, node: Node, names: Names) -> Node | None:
        return RULES[type(node)].touched(node, names, self) if changes(node, self.changed) else None

    def _either(self, node: Node, names: Names) -> Node:
        return RULES[type(node)].either(node, names, self)


def _because(names: Names, chosen: frozenset[str]) -> str:
    shown = next(name for name in names if name in chosen).partition("#")[0]
    return f"which rows may differ follows from {shown}, which may be another one when it is computed again"
