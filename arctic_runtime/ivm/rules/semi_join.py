"""Semi and anti joins: linear on the left; on the right, rows whose partners may have changed are looked at again.

Where the right is a single row, as in `amount > (select avg(amount) …)`, all rows are judged by it as it is and as it
was: what they would give otherwise is not computed for those that both say the same of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import replaced
from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Filter, Join, Node, SemiJoin, before, columns
from arctic_runtime.ivm.algebra.unique import has_single_row, is_one_partner
from arctic_runtime.ivm.rules.inputs import Inputs, Names, has_changes, new, old
from arctic_runtime.ivm.rules.join_conditions import linked
from arctic_runtime.ivm.rules.partners import (
    pairs_by_right,
    partners_of_changed,
    replaced_by_right,
    touched_by,
    with_partners,
)
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, project, select, union, weighted

_FOUND = "__arctic_found"
_ACCEPTED = "__arctic_accepted"


def delta(node: SemiJoin, of: Inputs) -> Node:
    terms: list[Node] = []
    left = of.delta(node.left)
    if left is not None:
        right = partners_of_changed(old(node.right, of), node.left, node.on, of)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, of):
        terms.extend(_by_right(node, of))
    return present(union(terms, weighted(columns(node))))


def _by_right(node: SemiJoin, of: Inputs) -> list[Node]:
    """A row with one partner at most comes and goes with it; in an anti join it goes and comes."""
    if has_single_row(node):
        return [_judged_otherwise(node, of)]
    if not is_one_partner(columns(node.left), node.right, node.on):
        return replaced_by_right(node, of)
    weight = column(MULTIPLICITY) if node.kind == "semi" else exp.Neg(this=column(MULTIPLICITY))
    own = [(name, column(name)) for name in columns(node)]
    return [project(pairs_by_right(node, of), [*own, (MULTIPLICITY, weight)])]


def touched(node: SemiJoin, names: Names, of: Inputs) -> Node:
    """Rows of the left that changed, most of them whether or not they have a partner, and those whose partners did."""
    node = linked(node, of)
    return present(union((_by_left(node, names, of), _touched_by_right(node, names, of)), names))


def _touched_by_right(node: SemiJoin, names: Names, of: Inputs) -> Node | None:
    if not has_changes(node.right, of):
        return None
    if has_single_row(node):
        return select(_judged_otherwise(node, of), names)
    return touched_by(node.right, node.left, node.on, names, of)


def _by_left(node: SemiJoin, names: Names, of: Inputs) -> Node | None:
    if node.kind == "anti" or not has_changes(node.left, of):
        return of.touched(node.left, names)
    return with_partners(node.left, node.right, node.on, names, of)


def either(node: SemiJoin, names: Names, of: Inputs) -> Node:
    return of.either(linked(node, of).left, names)


def is_judged_otherwise(node: Node) -> bool:
    """Whether these are the rows, few as a rule, that a change of the single row on the right makes come or go."""
    return isinstance(node, Filter) and node.condition == _IS_OTHERWISE


def _judged_otherwise(node: SemiJoin, of: Inputs) -> Node:
    """The rows that gained their first partner or lost their last one, as a Z-set.

    The left side is read once, as it is now.
    """
    left = partners_of_changed(new(node.left), node.right, node.on, of)
    rows = Join("left", left, _found(new(node.right), str), None)
    rows = Join("left", rows, _found(old(node.right, of), before), None)
    own = [(name, column(name)) for name in columns(node)]
    judged = project(rows, [*own, *((named(_ACCEPTED), _accepts(node, named)) for named in (str, before))])
    comes = column(_ACCEPTED if node.kind == "semi" else before(_ACCEPTED))
    weight = exp.case().when(comes, exp.Literal.number(1)).else_(exp.Literal.number(-1))
    return project(Filter(judged, _IS_OTHERWISE), [*own, (MULTIPLICITY, weight)])


_Named = Callable[[str], str]
_IS_OTHERWISE = exp.NEQ(this=column(_ACCEPTED), expression=column(before(_ACCEPTED)))


def _found(right: Node, named: _Named) -> Node:
    """The single row of an image, if it has one, under names of the image's own."""
    return project(right, [*((named(name), column(name)) for name in columns(right)), (named(_FOUND), exp.true())])


def _accepts(node: SemiJoin, named: _Named) -> exp.Expr:
    """Whether the row of an image is a partner, never null."""
    on = None if node.on is None else replaced(node.on, {name: column(named(name)) for name in columns(node.right)})
    is_partner = column(named(_FOUND)) if on is None else exp.and_(column(named(_FOUND)), on)
    return exp.Coalesce(this=is_partner, expressions=[exp.false()])


RULE = Rule(delta, touched, either)
