"""Values that have several right answers, and why all that follows from one of them is computed together.

The first of a group, or which of two rows with the same date is the last one, may be another one each time that it is
computed. A table holds what was chosen once. So nobody may ask what such a value was before: it is not known. And
where a choice tells rows apart, as in `where place = 1`, all rows that follow from one choice are computed together, or
none of them: of a table in which some rows follow from one choice and some from another, no computation is the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import equalities, plain
from arctic_runtime.ivm.algebra.expressions import used
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
    scans,
    walk,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.reads import function_names
from arctic_runtime.ivm.rules.restrict import merged
from arctic_runtime.ivm.strategies.determinism import Answers, aggregated, placed
from arctic_runtime.model.names import TableName

_Unit = tuple[frozenset[str], ...]


@dataclass(frozen=True)
class Choice:
    """What an operator chooses for each of its groups or partitions by itself, as it is seen in a node above it.

    `names` are the columns that show it. `unit` are, for each column that identifies the group, those that have its
    value now, none if it is lost; `fixed` all columns of which the rows that follow from one choice have one value.
    `decides`: which rows there are depends on it. `is_near`: its answers differ in their last digits at most.
    """

    origin: Aggregate | Window
    call: str
    names: frozenset[str]
    unit: _Unit
    fixed: frozenset[str]
    is_near: bool
    decides: bool = False

    def deciding(self, *read: Iterable[str]) -> Choice:
        """The same where what reads these columns tells rows apart."""
        is_read = any(not self.names.isdisjoint(names) for names in read)
        return replace(self, decides=True) if is_read else self

    def renamed(self, names: Mapping[str, str]) -> Choice:
        """The same under other names, of which it has some."""

        def other(own: frozenset[str]) -> frozenset[str]:
            return frozenset(names[name] for name in own if name in names)

        return replace(self, names=other(self.names), unit=tuple(map(other, self.unit)), fixed=other(self.fixed))

    def equated(self, equal: Mapping[str, Collection[str]]) -> Choice:
        """The same with what equals its columns."""

        def wider(own: frozenset[str]) -> frozenset[str]:
            return own.union(*(equal.get(name, ()) for name in own))

        return replace(self, unit=tuple(map(wider, self.unit)), fixed=wider(self.fixed))

    def within(self, names: Collection[str]) -> Choice:
        """The same where no more than these columns identify it."""
        unit = tuple(part.intersection(names) for part in self.unit)
        return replace(self, unit=unit, fixed=self.fixed.intersection(names))


@dataclass(frozen=True)
class Choices:
    """The choices that a tree's rows follow from, and the `names` of all columns in the tree that show any."""

    seen: tuple[Choice, ...]
    names: frozenset[str]

    def check(self, tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> None:
        """Raises NotMaintained where a part of the rows that follow from one choice could be computed without the rest.

        Those with a key that is affected are computed. That is all or none where they have one key; or where nothing
        else but the rows that are chosen among has changed, so that the keys of whole groups are affected.
        """
        for choice in self.seen:
            is_shown = choice.is_near and not choice.decides
            if not is_shown and not choice.fixed.issuperset(key) and not _is_whole(choice, tree, key, changed):
                raise NotMaintained("NOT_REPEATABLE", _because(choice))


def choices(tree: Node, types: Mapping[str, str]) -> Choices:
    """What a tree's rows depend on that may be another one if it is computed again; `types` are those of columns."""
    found = _Choices(types)
    return Choices(found.of(tree), frozenset(found.names))


def _because(choice: Choice) -> str:
    what = "which rows there are follows from it" if choice.decides else "rows that show it would not all be computed"
    do = "add up decimals" if choice.is_near else "order by something unique"
    return f"{choice.call} may give another result if it is recomputed, and {what}; {do}"


def _is_whole(choice: Choice, tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> bool:
    """Whether all keys of a group's rows are affected where one of them is."""
    inside, everywhere = (sum(scan.source in changed for scan in scans(node)) for node in (choice.origin, tree))
    if inside < everywhere:
        return False
    if _shows_all(tree, choice.origin):
        return True
    return any(
        set(key) <= set(columns(node))
        and all(not part.isdisjoint(columns(node)) for part in choice.unit)
        and is_unique(node, key)
        for node in walk(tree)
    )


def _shows_all(node: Node, origin: Node) -> bool:
    """Whether each row of a window is in the result, so that its key is a key of the window's rows as well."""
    while node is not origin:
        if isinstance(node, Project):
            node = node.child
        elif isinstance(node, Join) and node.kind == "left":
            node = node.left
        else:
            return False
    return isinstance(origin, Window)


def _called(value: exp.Expr) -> str:
    """The name of the function of a call."""
    while isinstance(value, exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        value = value.this
    return function_names(value)[0].lower() if isinstance(value, exp.Func) else value.key


@dataclass
class _Choices:
    types: Mapping[str, str]
    names: set[str] = field(default_factory=set)

    def of(self, node: Node) -> tuple[Choice, ...]:
        """The choices that a node's rows follow from."""
        found = tuple(choice for choice in self._of(node) if choice.names or choice.decides)
        self.names.update(*(choice.names for choice in found))
        return found

    def _of(self, node: Node) -> Iterable[Choice]:
        match node:
            case Scan() | SpoolScan() | OneRow():
                return ()
            case Project():
                return [_projected(choice, node) for choice in self.of(node.child)]
            case Filter(child=child, condition=condition):
                return [choice.deciding(used(condition)) for choice in self.of(child)]
            case Distinct(child=child):
                return [choice.deciding(columns(child)) for choice in self.of(child)]
            case Explode():
                return [_exploded(choice, node) for choice in self.of(node.child)]
            case Aggregate():
                return self._aggregated(node)
            case Window():
                return self._windowed(node)
            case Join():
                return self._joined(node)
            case SemiJoin():
                return self._asked(node)
            case UnionAll(inputs=inputs, names=names):
                return self._by_place(inputs, names)
            case SetOperation(left=left, right=right, names=names):
                return [choice.deciding(names) for choice in self._by_place((left, right), names)]
            case _:
                assert_never(node)

    def _by_place(self, inputs: Iterable[Node], names: tuple[str, ...]) -> Iterable[Choice]:
        for part in inputs:
            own = dict(zip(columns(part), names, strict=True))
            yield from (choice.renamed(own) for choice in self.of(part))

    def _aggregated(self, node: Aggregate) -> Iterable[Choice]:
        for below in self.of(node.child):
            choice = below.deciding(node.keys)
            shown = {
                name for name, call in node.aggregates if choice.decides or not choice.names.isdisjoint(used(call))
            }
            yield replace(choice.within(node.keys), names=choice.names.intersection(node.keys).union(shown))
        answers = [(name, call, aggregated(call, node, self.types)) for name, call in node.aggregates]
        yield from _own(node, node.keys, answers)

    def _windowed(self, node: Window) -> Iterable[Choice]:
        for choice in self.of(node.child):
            yield choice
            is_all = choice.decides or not choice.names.isdisjoint(node.partition)
            shown = {name for name, over in node.expressions if is_all or not choice.names.isdisjoint(used(over))}
            yield replace(choice.within(node.partition), names=frozenset(shown), decides=False)
        answers = [(name, over, placed(over, node, self.types)) for name, over in node.expressions]
        yield from _own(node, node.partition, answers)

    def _joined(self, node: Join) -> Iterable[Choice]:
        """Where partners are chosen, so is which rows have none; these have nothing of the other side."""
        to_right, to_left = _equal(node)
        read = used(node.on)
        for below in self.of(node.left):
            choice = below.deciding(read)
            if node.kind == "full":
                yield choice.within(()) if choice.decides else choice
            else:
                yield choice.equated(to_right) if node.kind == "inner" else choice
        for below in self.of(node.right):
            choice = below.deciding(read)
            if node.kind == "inner" or not choice.decides:
                yield choice.equated(to_left) if node.kind != "full" else choice
            else:
                yield choice.equated(to_left).within(columns(node.left) if node.kind == "left" else ())

    def _asked(self, node: SemiJoin) -> Iterable[Choice]:
        _, to_left = _equal(node)
        yield from (choice.deciding(used(node.on)) for choice in self.of(node.left))
        for below in self.of(node.right):
            choice = below.deciding(used(node.on)).equated(to_left).within(columns(node.left))
            yield replace(choice, names=frozenset())


def _own(
    node: Aggregate | Window, keys: tuple[str, ...], answers: Iterable[tuple[str, exp.Expr, Answers]]
) -> Iterable[Choice]:
    """What a node chooses itself, for each group of its keys or partition."""
    unit = tuple(frozenset((name,)) for name in keys)
    for name, call, found in answers:
        if found != "one":
            yield Choice(node, _called(call), frozenset((name,)), unit, frozenset(keys), found == "near")


def _projected(choice: Choice, node: Project) -> Choice:
    names = {name for name, value in node.expressions if not choice.names.isdisjoint(used(value))}
    own = plain(node.expressions)
    unit = (frozenset(name for name, below in own.items() if below in part) for part in choice.unit)
    fixed = {name for name, value in node.expressions if choice.fixed.issuperset(used(value))}
    either = {name for name, pair in merged(node).items() if not choice.fixed.isdisjoint((pair.left, pair.right))}
    return replace(choice, names=frozenset(names), unit=tuple(unit), fixed=frozenset(fixed | either))


def _exploded(choice: Choice, node: Explode) -> Choice:
    found = choice.deciding(used(node.generator))
    is_read = not choice.names.isdisjoint(used(node.generator))
    return replace(found, names=found.names.union(node.names)) if is_read else found


def _equal(node: Join | SemiJoin) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """For columns of the left those of the right that equal them in all pairs, and the other way round."""
    to_right: dict[str, set[str]] = {}
    to_left: dict[str, set[str]] = {}
    for pair in equalities(node.on, columns(node.left), columns(node.right)):
        to_right.setdefault(pair.left, set()).add(pair.right)
        to_left.setdefault(pair.right, set()).add(pair.left)
    return to_right, to_left
