"""`in` and `not in` over queries, with nulls on either side.

A value that is null, or that is not among others of which one is null, may or may not be among them: neither `in` nor
`not in` holds. Inside an expression Spark takes both for false then, and not for null.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction
from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Join, Node, SemiJoin
from arctic_runtime.ivm.frontend.correlation import by_correlation, check_known
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.rewrite.nullability import is_never_null, never_null


@dataclass(frozen=True)
class Membership:
    """Values, and the query among whose rows they are looked for."""

    derived: Derived
    values: tuple[exp.Expr, ...]

    @property
    def pairs(self) -> list[tuple[exp.Expr, exp.Expr]]:
        return [(value, column(made)) for value, (_, made) in zip(self.values, self.derived.fields, strict=True)]

    @property
    def equal(self) -> list[exp.Expr]:
        return [exp.EQ(this=value.copy(), expression=made) for value, made in self.pairs]

    def nullable(self, node: Node, names: Names) -> list[list[exp.Expr]]:
        """What of each pair may be null."""
        around, inside = (never_null(of, names.never_null) for of in (node, self.derived.node))
        return [
            [side for side, known in ((value, around), (made, inside)) if not is_never_null(side, known)]
            for value, made in self.pairs
        ]


def excluded(node: Node, member: Membership, names: Names) -> Node:
    """The rows whose values are known not to be among those of the query."""
    nullable = member.nullable(node, names)
    derived = member.derived
    if any(nullable) and len(nullable) == 1 and not derived.pending:
        found = SemiJoin("anti", node, derived.node, conjunction(member.equal))
        check_known(found.on, node, derived.node)
        counts, is_known = _nulls(member, nullable[0], names)
        return SemiJoin("semi", found, counts, is_known)
    differ = [exp.or_(same, *map(_is_null, sides)) for same, sides in zip(member.equal, nullable, strict=True)]
    on = conjunction([*derived.pending, *differ])
    check_known(on, node, derived.node)
    return SemiJoin("anti", node, derived.node, on)


def contained(node: Node, member: Membership, written: exp.In, names: Names) -> tuple[exp.Expr, Node]:
    """Whether values are among those of a query, as an expression, and the node with what it reads.

    Where the membership is negated as it is `written`, it is true of values that may be among the others.
    """
    groups = by_correlation(member.derived.node, [*member.derived.pending, *member.equal], (), names)
    rows = names.fresh("rows", "bigint")
    counted = Aggregate(groups.node, groups.keys, ((rows, exp.Count(this=exp.Star(), big_int=True)),))
    on = conjunction(groups.on)
    check_known(on, node, counted)
    joined: Node = Join("left", node, counted, on)
    found: exp.Expr = _is_some(column(rows))
    nullable = member.nullable(node, names)
    negations = _negations(written)
    if not negations or not any(nullable):
        return exp.paren(found), joined
    if len(nullable) > 1 or member.derived.pending or negations > 1:
        raise NotMaintained(
            "NOT_IN_NULLABLE",
            "NOT IN inside an expression that compares what may be null, over several columns or a correlated "
            "subquery, or negated twice; write NOT EXISTS, or add IS NOT NULL on both sides",
        )
    counts, is_known = _nulls(member, nullable[0], names)
    return exp.paren(exp.or_(found, exp.Not(this=exp.paren(is_known)))), Join("left", joined, counts, None)


def _nulls(member: Membership, nullable: list[exp.Expr], names: Names) -> tuple[Node, exp.Expr]:
    """One row about the query, and whether a value that is not among its rows is known not to be.

    It is where there are no rows, or no nulls.
    """
    other = with_fresh_attributes(member.derived, names)
    (value,), own = member.values, column(other.fields[0][1])
    rows, nulls = names.fresh("rows", "bigint"), names.fresh("nulls", "bigint")
    counts = [(rows, exp.Count(this=exp.Star(), big_int=True)), (nulls, exp.CountIf(this=_is_null(own)))]
    known = [exp.not_(_is_null(side)) if side is value else exp.not_(_is_some(column(nulls))) for side in nullable]
    is_empty = exp.EQ(this=column(rows), expression=exp.Literal.number(0))
    return Aggregate(other.node, (), tuple(counts)), exp.or_(is_empty, exp.and_(*known))


def _negations(written: exp.In) -> int:
    """How often a membership is negated: 2 stands for more than once, and for any way that is not seen through."""
    found = 0
    is_seen_through = True
    node = written.parent
    while node is not None:
        found += isinstance(node, exp.Not)
        is_seen_through = is_seen_through and (bool(found) or isinstance(node, exp.Paren | exp.And | exp.Or))
        node = node.parent
    return found if is_seen_through or not found else 2


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(value.copy()), expression=exp.null())


def _is_some(rows: exp.Expr) -> exp.Expr:
    none = exp.Literal.number(0)
    return exp.GT(this=exp.Coalesce(this=rows, expressions=[none]), expression=none.copy())
