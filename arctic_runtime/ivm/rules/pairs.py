"""Operators over pairs: a row as it is and as it was, in one row.

A pair has columns, what they were (under the names that `before` gives), and whether there is such a row and was one.
Where there is none the columns hold anything, so whatever could raise an error is computed under its flag.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction, conjuncts, plain, replaced
from arctic_runtime.ivm.algebra.expressions import column, used
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, Filter, Join, Node, Scan, SemiJoin, before, columns
from arctic_runtime.ivm.rules.terms import project

Kept = Literal["inner", "left"]
Asked = Literal["semi", "anti"]

_FOUND = "__arctic_found"
_FLAGS = (HAS_AFTER, HAS_BEFORE)


@dataclass(frozen=True)
class Paired:
    """The pairs of an operator with the columns `names`.

    `reconciled` are those that are the same before and after; `keys` those that are in the source's key, with the name
    that they have there. Both hold whatever the flags say.
    """

    node: Node
    names: tuple[str, ...]
    reconciled: frozenset[str]
    keys: Mapping[str, str]

    def settles(self, condition: exp.Expr | None) -> bool:
        """Whether a condition says the same of both rows of a pair."""
        return self.reconciled.issuperset(set(used(condition)).intersection(self.names))


def pair_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of pairs of rows that have these columns."""
    return (*names, *map(before, names), *_FLAGS)


def scanned(node: Scan) -> Paired:
    own = {name: name for name in node.key or ()}
    return Paired(replace(node, image="pair"), columns(node), frozenset(own), own)


def projected(below: Paired, expressions: tuple[tuple[str, exp.Expr], ...]) -> Paired:
    made = [(image.named(name), image.computed(value, below.names)) for image in _IMAGES for name, value in expressions]
    own = plain(expressions)
    return Paired(
        project(below.node, (*made, *((flag, column(flag)) for flag in _FLAGS))),
        tuple(name for name, _ in expressions),
        frozenset(name for name, source in own.items() if source in below.reconciled),
        {name: below.keys[source] for name, source in own.items() if source in below.keys},
    )


def filtered(below: Paired, condition: exp.Expr) -> Paired:
    if below.settles(condition):
        return replace(below, node=Filter(below.node, condition))
    return _with_flags(below, {image.flag: image.holds(condition, below.names) for image in _IMAGES})


def joined_once(below: Paired, kind: Kept, partner: Node, on: exp.Expr | None) -> Paired:
    """A join whose condition settles who the partner is, so that both rows of a pair have the same one."""
    own = columns(partner)
    joined = Join(kind, below.node, partner, on)
    values = {name: column(name) for name in columns(joined)} | {before(name): column(name) for name in own}
    node = project(joined, tuple(values.items()))
    return replace(below, node=node, names=(*below.names, *own), reconciled=below.reconciled.union(own))


def joined_twice(below: Paired, kind: Kept, partner: Node, on: exp.Expr | None) -> Paired:
    """A join in which each row of a pair finds a partner of its own."""
    joined = replace(below, node=_looked_up(below, partner, on), names=(*below.names, *columns(partner)))
    return _with_flags(joined, {image.flag: image.is_found() for image in _IMAGES} if kind == "inner" else {})


def asked_once(below: Paired, kind: Asked, right: Node, on: exp.Expr | None) -> Paired:
    return replace(below, node=SemiJoin(kind, below.node, right, on))


def asked_twice(below: Paired, kind: Asked, probe: Node, on: exp.Expr | None) -> Paired:
    """A semi or anti join with rows of which each row of a pair finds one at most."""
    asked = replace(below, node=_looked_up(below, probe, on))
    return _with_flags(asked, {image.flag: image.is_found(kind == "semi") for image in _IMAGES})


@dataclass(frozen=True)
class _Image:
    """One of the two rows of a pair."""

    flag: str
    named: Callable[[str], str]

    def of(self, value: exp.Expr, names: Collection[str]) -> exp.Expr:
        """An expression of this row, which has its own columns in the place of `names`."""
        return replaced(value, {name: column(self.named(name)) for name in names})

    def computed(self, value: exp.Expr, names: Collection[str]) -> exp.Expr:
        """An expression of this row if there is one; what can't raise an error needs no asking."""
        own = self.of(value, names)
        is_safe = isinstance(own.unnest(), exp.Column | exp.Literal | exp.Boolean | exp.Null)
        return own if is_safe else exp.case().when(column(self.flag), own)

    def holds(self, condition: exp.Expr, names: Collection[str]) -> exp.Expr:
        """Whether there is such a row and a condition is true of it, never null.

        The flag stands behind ELSE as well, since optimizers make an AND of a CASE with `false` there, take the AND
        apart and compute the condition on its own.
        """
        is_true = exp.Coalesce(this=self.of(condition, names), expressions=[exp.false()])
        return exp.case().when(column(self.flag), is_true).else_(column(self.flag))

    def is_found(self, wanted: bool = True) -> exp.Expr:
        """Whether there is such a row and it has a partner; if not `wanted`, has none."""
        is_alone = exp.Is(this=column(self.named(_FOUND)), expression=exp.null())
        return exp.and_(column(self.flag), exp.not_(is_alone) if wanted else is_alone)


_IMAGES = (_Image(HAS_AFTER, str), _Image(HAS_BEFORE, before))


def _with_flags(below: Paired, flags: Mapping[str, exp.Expr]) -> Paired:
    """Pairs with new flags and no further columns, without those of which neither row is left."""
    values = {name: flags.get(name, column(name)) for name in pair_columns(below.names)}
    node = project(below.node, tuple(values.items()))
    is_left = exp.or_(*(column(flag) for flag in _FLAGS))
    return replace(below, node=Filter(node, is_left) if flags else node)


def _looked_up(below: Paired, partner: Node, on: exp.Expr | None) -> Node:
    """Pairs with the one partner that each row has, and `_FOUND` where it has one."""
    values = [*((name, column(name)) for name in columns(partner)), (_FOUND, exp.true())]
    found = below.node
    for image in _IMAGES:
        side = project(partner, [(image.named(name), value) for name, value in values])
        found = Join("left", found, side, _matched(below, on, image, columns(partner)))
    return found


def _matched(below: Paired, on: exp.Expr | None, image: _Image, partner: tuple[str, ...]) -> exp.Expr | None:
    """The condition of a join for one row of a pair; an equality stays one, by which an engine can hash."""
    own, names = set(below.names), (*below.names, *partner)

    def matched(part: exp.Expr) -> exp.Expr:
        if own.isdisjoint(used(part)):
            return image.of(part, names)
        sides = (part.left, part.right) if isinstance(part, exp.EQ | exp.NullSafeEQ) else ()
        if not sides or any(own.intersection(used(side)) and not own.issuperset(used(side)) for side in sides):
            return image.holds(part, names)
        one, other = ((image.computed if own.intersection(used(side)) else image.of)(side, names) for side in sides)
        return type(part)(this=one, expression=other)

    return conjunction(map(matched, conjuncts(on)))
