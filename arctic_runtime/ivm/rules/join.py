"""Joins: pairs are linear in both sides; rows without a partner follow from them, or are looked at again."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Explode, Join, Node, SemiJoin, UnionAll, columns
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules.inputs import Inputs, Names, has_changes, old
from arctic_runtime.ivm.rules.join_conditions import linked
from arctic_runtime.ivm.rules.partners import (
    expressible,
    pairs_by_right,
    pairs_of_either,
    partners_of_changed,
    replaced_by_right,
    rows_of_either,
    touched_by,
)
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, project, select, union, weighted


def delta(node: Join, of: Inputs) -> Node:
    if node.kind == "full":
        return present(of.delta(halves(node)))
    terms: list[Node] = []
    left = of.delta(node.left)
    if left is not None:
        right = partners_of_changed(old(node.right, of), node.left, node.on, of)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, of):
        terms.extend(_by_right(node, of))
    return present(union(terms, weighted(columns(node))))


def touched(node: Join, names: Names, of: Inputs) -> Node:
    node = linked(node, of)
    if node.kind == "full":
        return present(of.touched(halves(node), names))
    terms: list[Node] = []
    if has_changes(node.left, of):
        terms.append(touched_by(node.left, node.right, node.on, names, of, node.kind == "left"))
    if has_changes(node.right, of):
        terms.append(touched_by(node.right, node.left, node.on, names, of))
    return _or_alone(present(union(terms, names)), node, names)


def either(node: Join, names: Names, of: Inputs) -> Node:
    node = linked(node, of)
    if not has_changes(node, of) and not set(names) <= set(columns(node.left)):
        return select(node, names)
    if node.kind == "full":
        return of.either(halves(node), names)
    if _outer(node, names) and not set(names) <= set(expressible(node.left, node.right, node.on)):
        return _or_alone(rows_of_either(node, names, of), node, names)
    return _or_alone(pairs_of_either(node.left, node.right, node.on, names, of), node, names)


def halves(node: Join) -> UnionAll:
    """A full join as a left join and the rows of the right without a partner."""
    alone = SemiJoin("anti", node.right, node.left, node.on)
    pads = project(alone, [_or_null(name, node.right) for name in columns(node)])
    return UnionAll((replace(node, kind="left"), pads), columns(node))


def _by_right(node: Join, of: Inputs) -> list[Node]:
    if node.kind == "inner":
        return [pairs_by_right(node, of)]
    if is_one_partner(columns(node.left), node.right, node.on):
        return [_with_pads(pairs_by_right(node, of), node)]
    return replaced_by_right(node, of)


def _with_pads(pairs: Node, node: Join) -> Node:
    """Pairs that come and go, and each once more as a row without a partner, which goes and comes instead.

    A row on the left has one partner at most, so it is without one as often as it lacks one: where a partner is
    exchanged for another, what comes and goes without any cancels out. The left side is read once that way.
    """
    paired = f"{_PAIRED}{MULTIPLICITY}"
    weight = exp.case().when(column(paired), column(MULTIPLICITY)).else_(exp.Neg(this=column(MULTIPLICITY)))
    return _and_alone(pairs, node, columns(node), paired, (MULTIPLICITY, weight))


def _outer(node: Join, names: Names) -> bool:
    """Whether it shows in these columns that a row on the left has no partner."""
    return node.kind == "left" and not set(names) <= set(columns(node.left))


def _or_alone(rows: Node, node: Join, names: Names) -> Node:
    """The rows, and each once more as it is without a partner, where that shows.

    That reads what they are made of once, whereas a union of both would read it twice, at every join anew.
    """
    if not _outer(node, names):
        return rows
    own = columns(node.left)
    return _and_alone(rows, node, names, f"{_PAIRED}{next(name for name in names if name not in own)}")


def _and_alone(rows: Node, node: Join, names: Names, paired: str, *more: tuple[str, exp.Expr]) -> Node:
    """Each row as it is, where the column `paired` is true, and as it is without a partner; with `more` columns."""
    both = Explode(rows, exp.Explode(this=exp.Array(expressions=[exp.true(), exp.false()])), (paired,), False)
    own = columns(node.left)
    return project(both, [*((name, column(name) if name in own else _if(paired, name)) for name in names), *more])


_PAIRED = "__arctic_paired_"


def _if(paired: str, name: str) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=column(paired), true=column(name))])


def _or_null(name: str, node: Node) -> tuple[str, exp.Expr]:
    return (name, column(name) if name in columns(node) else exp.null())


RULE = Rule(delta, touched, either)
