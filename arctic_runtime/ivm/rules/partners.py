"""Which rows of a join may have other partners than before, and what partners those had and have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import Equality, conjunction, conjuncts, equalities, links, same
from arctic_runtime.ivm.algebra.expressions import column, used
from arctic_runtime.ivm.algebra.tree import Join, Node, SemiJoin, columns
from arctic_runtime.ivm.rules.free_columns import free
from arctic_runtime.ivm.rules.inputs import Inputs, Names, new, old, some
from arctic_runtime.ivm.rules.restrict import is_whole, restrict
from arctic_runtime.ivm.rules.runtime_filters import runtime_filter
from arctic_runtime.ivm.rules.terms import present, project, rename, select, signed


def _affected_left(left: Node, right: Node, on: exp.Expr | None, of: Inputs) -> Node:
    """The rows of `left` that a row which came or went on the right is or was a partner of.

    All other rows have the same partners before and after.
    """
    link = _linking(on, left, columns(left), right, ())
    reads = _own(right, used(link))
    return SemiJoin("semi", left, with_partners(right, left, on, reads, of), link) if reads else left


def _partner_images(left: Node, right: Node, on: exp.Expr | None, of: Inputs) -> tuple[Node, Node]:
    """The right side before and after, as far as affected rows of the left can have partners there."""
    pairs = equalities(on, columns(left), columns(right))
    names = _once(pair.right for pair in pairs)
    if not names:
        return old(right, of), new(right)
    changed = with_partners(right, left, on, names, of)
    before, after = (restrict(image, names, changed, _null_safe(pairs)) for image in (old(right, of), new(right)))
    return before, after


def partners_of_changed(node: Node, other: Node, on: exp.Expr | None, of: Inputs) -> Node:
    """One side of a join as far as what changed on the other can have partners there."""
    return within(node, other, on, lambda names: present(of.touched(other, names)))


def pairs_by_right(node: Join | SemiJoin, of: Inputs) -> Node:
    """The pairs added and removed by changes on the right, as a Z-set; the left side is read as it is now."""
    left = partners_of_changed(new(node.left), node.right, node.on, of)
    return Join("inner", left, present(of.delta(node.right)), node.on)


def replaced_by_right(node: Join | SemiJoin, of: Inputs) -> list[Node]:
    """What rows that may have other partners gave goes, and what they give comes; the left side is read for each."""
    affected = _affected_left(new(node.left), node.right, node.on, of)
    before, after = _partner_images(node.left, node.right, node.on, of)
    return [
        signed(replace(node, left=affected, right=before), -1),
        signed(replace(node, left=affected, right=after), 1),
    ]


def touched_by(
    side: Node, other: Node, on: exp.Expr | None, names: Names, of: Inputs, keeps_alone: bool = False
) -> Node:
    """Columns of the pairs whose row on one side changed, and of rows of that side without a partner if `keeps_alone`.

    Where that side has all these columns, or columns that they equal, its changes alone tell their values; that may be
    more than there are pairs, but the other side is not read, or only as much of it as a runtime filter needs.
    """
    stands_for = expressible(side, other, on)
    if set(names) <= set(stands_for):
        own = _once(stands_for[name] for name in names)
        below = present(of.touched(side, own)) if keeps_alone else with_partners(side, other, on, own, of)
        return project(below, [(name, column(stands_for[name])) for name in names])
    link = _linking(on, side, _own(side, names), other, _own(other, names))
    changed = _own(side, (*names, *used(link)))
    rest = of.either(other, some(_own(other, (*names, *used(link))), other))
    if not changed and not keeps_alone:
        return select(rest, names)
    rows = present(of.touched(side, some(changed, side)))
    rest = within(rest, rows, link, lambda found: select(rows, found))
    if keeps_alone:
        return select(Join("left", rows, rest, link), names)
    if set(names) <= set(columns(other)):
        return select(SemiJoin("semi", rest, rows, link), names)
    return select(Join("inner", rows, rest, link), names)


def with_partners(side: Node, other: Node, on: exp.Expr | None, names: Names, of: Inputs) -> Node:
    """The values that changed rows of one side have in `names`, without some of those that have no partner."""
    found = runtime_filter(side, other, on, of.filter_sources)
    if found is None or found.column not in free(side, names):
        return present(of.touched(side, names))
    rows = present(of.touched(side, _once((*names, found.column))))
    seen = rename(of.either(found.rows, (found.other,)), (_SEEN,))
    return select(SemiJoin("semi", rows, seen, same(found.column, _SEEN, found.null_safe)), names)


_SEEN = "__arctic_seen"


def is_narrowed(node: Node) -> bool:
    """Whether these are values without some of those that have no partner, as `with_partners` finds them."""
    return isinstance(node, SemiJoin) and columns(node.right) == (_SEEN,)


def within(node: Node, other: Node, on: exp.Expr | None, rows: Callable[[Names], Node]) -> Node:
    """One side of a join as far as the rows that it is joined to can have partners there.

    `rows` gives columns of these. Engines see to that by themselves where a side is read row by row; groups, windows
    and sets they would compute for all rows first.
    """
    pairs = equalities(on, columns(node), columns(other))
    if not pairs or not is_whole(node):
        return node
    own = {pair.right: pair.left for pair in pairs}
    return restrict(node, tuple(own.values()), rows(tuple(own)), _null_safe(pairs))


def expressible(side: Node, other: Node, on: exp.Expr | None) -> dict[str, str]:
    """The columns of both sides that have the value of a column of one side in every pair, with that column."""
    equal = {pair.right: pair.left for pair in equalities(on, columns(side), columns(other)) if pair.same}
    return {**equal, **{name: name for name in columns(side)}}


def has_link(left: Node, right: Node, on: exp.Expr | None) -> bool:
    """Whether an equality of the two sides tells which rows can be partners."""
    return bool(links(on, columns(left), columns(right)))


def pairs_of_either(left: Node, right: Node, on: exp.Expr | None, names: Names, of: Inputs) -> Node:
    """Columns of the pairs before or after, of one side alone if that has them."""
    for side, other in ((left, right), (right, left)):
        if set(names) <= set(columns(side)):
            return of.either(side, names)
        stands_for = expressible(side, other, on)
        if set(names) <= set(stands_for):
            below = of.either(side, _once(stands_for[name] for name in names))
            return project(below, [(name, column(stands_for[name])) for name in names])
    return rows_of_either(Join("inner", left, right, on), names, of)


def rows_of_either(node: Join, names: Names, of: Inputs) -> Node:
    """Columns of the pairs before or after, and of a left join's rows that had or have no partner at all."""
    link = _linking(node.on, node.left, _own(node.left, names), node.right, _own(node.right, names))
    one, two = (of.either(side, some(_own(side, (*names, *used(link))), side)) for side in (node.left, node.right))
    return select(Join(node.kind, one, two, link), names)


def _linking(on: exp.Expr | None, left: Node, of_left: Names, right: Node, of_right: Names) -> exp.Expr | None:
    """What of a condition finds partners cheaply: its equalities, and what reads no more than they and the names do."""
    equal = links(on, columns(left), columns(right))
    if not equal:
        return on
    reads = tuple(name for part in equal for name in used(part))
    cheap = free(left, (*of_left, *_own(left, reads))) | free(right, (*of_right, *_own(right, reads)))
    return conjunction(part for part in conjuncts(on) if cheap.issuperset(used(part)))


def _null_safe(pairs: Iterable[Equality]) -> bool:
    return any(pair.null_safe for pair in pairs)


def _own(node: Node, names: Iterable[str]) -> Names:
    return tuple(name for name in _once(names) if name in columns(node))


def _once(names: Iterable[str]) -> Names:
    return tuple(dict.fromkeys(names))
