"""The part of a source that a plan needs, where every reading of it is for the partners of what has changed.

Where several tables of a join have changed, each of them adds a term, and each term reads the largest table again. What
they look for there can be told beforehand, so that one reading finds the rows for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import Equality, conjunction, conjuncts, equalities, plain, replaced
from arctic_runtime.ivm.algebra.expressions import column, form, parts
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Image,
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
    children,
    columns,
    map_children,
    scans,
)
from arctic_runtime.ivm.rewrite.predicate_pushdown import pushed_down
from arctic_runtime.ivm.rules.restrict import restrict
from arctic_runtime.ivm.rules.semi_join import is_judged_otherwise
from arctic_runtime.ivm.rules.terms import project, select
from arctic_runtime.model.names import TableName

_MOST_LOOKS = 3
"""A source that has to be looked at more often, since each look tells what the next one is for, is read as a whole."""

_COMPARISONS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.DataType, exp.DataTypeParam),
    *(exp.Paren, exp.And, exp.Or, exp.Not),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In, exp.Is),
)


@dataclass(frozen=True)
class Wanted:
    """Rows whose `fields`, as the source calls them, equal the columns of a row of `values`, by position.

    Nulls are equal to each other if `null_safe`.
    """

    fields: tuple[str, ...]
    values: Node
    null_safe: bool


@dataclass(frozen=True)
class SemiJoinReducer:
    """The rows of a source that are `wanted` in one way at least, which are given to trees in the place of `scans`.

    Of these rows no more are needed than those for which `condition`, in the source's own columns, is true.
    """

    source: TableName
    name: str
    wanted: tuple[Wanted, ...]
    scans: tuple[Scan, ...]
    condition: exp.Expr | None = None

    @property
    def images(self) -> dict[Image, str]:
        """The images of the part that trees read, and the names under which they are given."""
        return {scan.image: f"{self.name}_{scan.image}" for scan in self.scans}

    def over(self, tree: Node) -> Node:
        """The same tree, reading the part in the place of its source; changes it reads as before."""
        if isinstance(tree, Scan):
            return self._given(tree) if _read(tree, self.source) else tree
        return map_children(tree, self.over)

    def _given(self, scan: Scan) -> Node:
        rows = SpoolScan(self.images[scan.image], tuple(dict.fromkeys(own for _, own in scan.fields)))
        return Project(rows, tuple((made, column(own)) for made, own in scan.fields))

    @property
    def whole(self) -> Scan:
        """The source as it is now, with all columns that are read of the part."""
        fields = dict.fromkeys(name for scan in self.scans for _, name in scan.fields)
        key = next((scan.key for scan in self.scans if scan.key), None)
        named = {made: name for scan in self.scans for made, name in scan.fields}
        return Scan(self.source, tuple((name, name) for name in fields), key and tuple(named[part] for part in key))

    @property
    def changes(self) -> Scan | None:
        """The changes of the part, where more is read of it than its rows as they are now."""
        is_new = all(scan.image == "new" for scan in self.scans)
        return None if is_new else replace(self.whole, image="delta")

    @property
    def trees(self) -> tuple[Node, ...]:
        """All that is read to make the part, apart from its source."""
        made = tuple(one.values for one in self.wanted)
        return made if self.changes is None else (*made, self.changes)


def sliced(
    trees: Sequence[Node], sources: Iterable[TableName], few: Collection[str] = ()
) -> tuple[tuple[Node, ...], tuple[SemiJoinReducer, ...]]:
    """The trees over parts of those of the `sources` of which they need no more, and these parts.

    A part may be read to make a later one. What is given to the trees under the names `few` are about as many rows as
    have changed.
    """
    found: list[SemiJoinReducer] = []
    for source in sources:
        known = frozenset(few).union(*(part.images.values() for part in found))
        made = _slices(trees, source, known, len(found))
        if made:
            trees = [made[-1].over(tree) for tree in trees]
            found.extend(made)
    return tuple(trees), tuple(found)


def _slices(
    trees: Sequence[Node], source: TableName, few: frozenset[str], first: int, depth: int = 1
) -> tuple[SemiJoinReducer, ...]:
    """The part of a source, after the one that tells what is wanted of it where that takes another look at it.

    They are numbered from `first` on.
    """
    found = _wanted(trees, source, few)
    if not found:
        return ()
    again = [one.values for one in found if _read(one.values, source)]
    helpers = _slices(again, source, few, first, depth + 1) if again and depth < _MOST_LOOKS else ()
    if again and not helpers:
        return ()
    if helpers:
        found = tuple(replace(one, values=helpers[-1].over(one.values)) for one in found)
    read = tuple(scan for tree in trees for scan in _read(tree, source))
    part = SemiJoinReducer(source, f"__arctic_part_{first + len(helpers)}", found, read, _condition(trees, source))
    return (*helpers, part)


def _wanted(trees: Iterable[Node], source: TableName, few: frozenset[str]) -> tuple[Wanted, ...] | None:
    """Which rows of a source, of any image of it, the trees can need; None if they can need all.

    What is given under the names `few` holds no more than what has changed and its partners.
    """
    asked = _Asked(source, few)
    try:
        for tree in trees:
            asked.visit(tree, ())
    except _AllOfIt:
        return None
    return tuple(dict.fromkeys(asked.found))


def _read(tree: Node, source: TableName) -> tuple[Scan, ...]:
    """Where a tree reads rows of a source, not only its changes."""
    return tuple(scan for scan in scans(tree) if scan.source == source and scan.reads_rows)


def _condition(trees: Iterable[Node], source: TableName) -> exp.Expr | None:
    """What is a condition wherever a source's rows are read, in the source's own columns; None if nothing is.

    Of all rows no more is asked than comparisons: it costs less to look for a row than to match a pattern with it.
    """
    found = [{form(part): part for part in told} for tree in trees for told in _conditions(pushed_down(tree), source)]
    common = set(found[0]).intersection(*found[1:])
    return conjunction(part for made, part in found[0].items() if made in common and _compares(part))


def _compares(condition: exp.Expr) -> bool:
    return all(isinstance(part, _COMPARISONS) for part in parts(condition))


def _conditions(node: Node, source: TableName) -> Iterator[tuple[exp.Expr, ...]]:
    """The conditions that each reading of a source's rows is under."""
    scan, told = (node.child, conjuncts(node.condition)) if isinstance(node, Filter) else (node, ())
    if not isinstance(scan, Scan):
        for child in children(node):
            yield from _conditions(child, source)
    elif scan.source == source and scan.reads_rows:
        own = {name: column(field) for name, field in scan.fields}
        yield tuple(replaced(part, own) for part in told)


class _AllOfIt(Exception):
    """A tree reads all rows of a source."""


@dataclass(frozen=True)
class _Sought:
    """Of a tree only rows are needed whose `columns` equal the columns of a row of `values`, by position."""

    columns: tuple[str, ...]
    values: Node
    null_safe: bool


_Soughts = tuple[_Sought, ...]


@dataclass(frozen=True)
class _Asked:
    """Collects the conditions on the rows of a source; each condition on a tree is enough by itself."""

    source: TableName
    few: frozenset[str]
    found: list[Wanted] = field(default_factory=list)
    small: dict[int, tuple[Node, bool]] = field(default_factory=dict)

    def visit(self, node: Node, sought: _Soughts) -> None:
        """Notes the conditions on the source below a node, of which only rows under these conditions are read."""
        if not _read(node, self.source):
            return
        match node:
            case Scan():
                self._note(node, sought)
            case SpoolScan() | OneRow():
                pass
            case Project(child=child, expressions=expressions):
                self.visit(child, _through(sought, plain(expressions)))
            case Filter(child=child) | Distinct(child=child):
                self.visit(child, sought)
            case Aggregate(child=child, keys=names) | Window(child=child, partition=names):
                self.visit(child, _through(sought, {name: name for name in names}))
            case Explode(child=child):
                self.visit(child, _through(sought, {name: name for name in columns(child)}))
            case Join() | SemiJoin():
                for side, below in zip((node.left, node.right), self._of_sides(node, sought), strict=True):
                    self.visit(side, below)
            case UnionAll(names=names) | SetOperation(names=names):
                for part in children(node):
                    self.visit(part, _through(sought, dict(zip(names, columns(part), strict=True))))
            case _:
                assert_never(node)

    def _note(self, node: Scan, sought: _Soughts) -> None:
        """Takes what is read most easily.

        By a source's key it finds no more rows than there are values, so more values do no harm; nor do they where the
        source itself would be read to tell them.
        """
        if not sought:
            raise _AllOfIt
        fields = dict(node.fields)
        ways = [
            self._wider(one.values, columns(one.values))
            if set(node.key or ()) == set(one.columns) or _read(one.values, self.source)
            else one.values
            for one in sought
        ]
        values, best = min(zip(ways, sought, strict=True), key=lambda way: self._cost(way[0]))
        self.found.append(Wanted(tuple(fields[name] for name in best.columns), values, best.null_safe))

    def _cost(self, values: Node) -> tuple[int, int]:
        whole = [scan.source for scan in scans(values) if not self.is_small(scan)]
        return whole.count(self.source), len(whole)

    def _of_sides(self, node: Join | SemiJoin, sought: _Soughts) -> tuple[_Soughts, _Soughts]:
        """The conditions on either side: on its own columns, on those that they equal, and on partners of the other."""
        if node.kind == "full":
            return (), ()
        equal = equalities(node.on, columns(node.left), columns(node.right))
        to_right, to_left = {pair.left: pair.right for pair in equal}, {pair.right: pair.left for pair in equal}
        own = {name: name for name in columns(node)}
        left = _through(sought, {**(to_left if node.kind == "inner" else {}), **_only(own, node.left)})
        right = _through(sought, {**to_right, **(_only(own, node.right) if node.kind == "inner" else {})})
        by_left = self._partners(node.left, left, equal, to_right)
        by_right = self._partners(node.right, right, equal, to_left) if node.kind in ("inner", "semi") else ()
        return (*left, *by_right), (*right, *by_left)

    def _partners(
        self, side: Node, sought: _Soughts, equal: Collection[Equality], others: Mapping[str, str]
    ) -> _Soughts:
        """What the rows of one side, if they are few, seek on the other; `others` are its columns there."""
        if not equal:
            return ()
        null_safe = any(pair.null_safe for pair in equal)
        asked = ((one.columns, one.values, one.null_safe) for one in sought)
        few = [side] if self.is_small(side) else [restrict(side, *one) for one in asked]
        return tuple(_Sought(tuple(others.values()), select(rows, tuple(others)), null_safe) for rows in few)

    def is_small(self, node: Node) -> bool:
        """Whether a tree has about as many rows as have changed."""
        if id(node) not in self.small:
            self.small[id(node)] = (node, self._is_small(node))
        return self.small[id(node)][1]

    def _is_small(self, node: Node) -> bool:
        match node:
            case Scan():
                return not node.reads_rows
            case SpoolScan(name=name):
                return name in self.few
            case OneRow():
                return True
            case Filter() if is_judged_otherwise(node):
                return True
            case Project() | Filter() | Distinct() | Explode() | Aggregate() | Window():
                return self.is_small(node.child)
            case Join(kind="full") | UnionAll():
                return all(map(self.is_small, children(node)))
            case Join(kind="inner") | SemiJoin(kind="semi"):
                has_link = bool(equalities(node.on, columns(node.left), columns(node.right)))
                return has_link and any(map(self.is_small, children(node)))
            case Join() | SemiJoin() | SetOperation(kind="except"):
                return self.is_small(node.left)
            case SetOperation():
                return any(map(self.is_small, children(node)))
            case _:
                assert_never(node)

    def _wider(self, node: Node, names: tuple[str, ...]) -> Node:
        """The values of some columns and perhaps more, told by one small side of a join where that side has them."""
        match node:
            case Project(child=child, expressions=expressions) if set(names) <= set(plain(expressions)):
                inner = plain(expressions)
                below = self._wider(child, tuple(dict.fromkeys(inner[name] for name in names)))
                return project(below, [(name, column(inner[name])) for name in names])
            case SemiJoin(kind="semi") if set(names) <= (asked := self._asked(node)).keys():
                below = self._wider(node.right, tuple(dict.fromkeys(asked[name] for name in names)))
                return project(below, [(name, column(asked[name])) for name in names])
            case Join() | SemiJoin():
                sides = (node.left, node.right) if node.kind == "inner" else (node.left,)
                alone = (side for side in sides if self.is_small(side) and set(names) <= set(columns(side)))
                found = next(alone, None) if node.kind != "full" else None
                return self._wider(found, names) if found else select(node, names)
            case UnionAll(inputs=inputs):
                places = [node.names.index(name) for name in names]
                at = (tuple(columns(part)[place] for place in places) for part in inputs)
                return UnionAll(tuple(map(self._wider, inputs, at)), names)
            case Aggregate(child=child, keys=keys) if set(names) <= set(keys):
                return self._wider(child, names)
            case _:
                return select(node, names)

    def _asked(self, node: SemiJoin) -> dict[str, str]:
        """The columns whose values all are among those of a column on the right, where that side alone is small."""
        if self.is_small(node.left) or not self.is_small(node.right):
            return {}
        pairs = equalities(node.on, columns(node.left), columns(node.right))
        return {pair.left: pair.right for pair in pairs}


def _only(names: Mapping[str, str], side: Node) -> dict[str, str]:
    return {name: own for name, own in names.items() if name in columns(side)}


def _through(sought: _Soughts, names: Mapping[str, str]) -> _Soughts:
    """The conditions on an input, under its own names of the columns."""
    found = []
    for one in sought:
        kept = [place for place, name in enumerate(one.columns) if name in names]
        if kept:
            values = select(one.values, [columns(one.values)[place] for place in kept])
            found.append(_Sought(tuple(names[one.columns[place]] for place in kept), values, one.null_safe))
    return tuple(found)
