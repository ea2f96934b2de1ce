"""Turns IN and NOT IN over subqueries into joins, even if the value or rows of the subquery may be null.

In SQL, both IN and NOT IN are null if the value is null and the subquery returns rows, or if the subquery returns a
null and not the value. Inside an expression Spark evaluates both as false in these cases.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Join, Node, SemiJoin
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.frontend.subqueries.correlation import check_known, split_correlation
from arctic_runtime.ivm.rewrite.nullability import find_never_null, is_never_null


@dataclass(frozen=True)
class Membership:
    """The two sides of an IN: the expressions `values` on its left, and the subquery `derived` on its right."""

    derived: Derived
    values: tuple[exp.Expr, ...]

    @property
    def pairs(self) -> list[tuple[exp.Expr, exp.Expr]]:
        return [(value, build_column(made)) for value, (_, made) in zip(self.values, self.derived.fields, strict=True)]

    @property
    def equal(self) -> list[exp.Expr]:
        return [exp.EQ(this=value.copy(), expression=made) for value, made in self.pairs]

    def list_nullable_sides(self, node: Node, names: Names) -> list[list[exp.Expr]]:
        """Lists for each pair of a value and a column of the subquery those of the two that may be null."""
        around, inside = (find_never_null(side_node, names.never_null) for side_node in (node, self.derived.node))
        return [
            [side for side, known in ((value, around), (made, inside)) if not is_never_null(side, known)]
            for value, made in self.pairs
        ]


def exclude_members(node: Node, member: Membership, names: Names) -> Node:
    """Restricts `node` to the rows for which NOT IN is true, even if values or rows of the subquery may be null."""
    nullable = member.list_nullable_sides(node, names)
    derived = member.derived
    if any(nullable) and len(nullable) == 1 and not derived.pending:
        anti_join = SemiJoin("anti", node, derived.node, build_conjunction(member.equal))
        check_known(anti_join.on, node, derived.node)
        counts, is_known = _join_null_facts(member, nullable[0], names)
        return SemiJoin("semi", anti_join, counts, is_known)
    differ = [exp.or_(same, *map(_is_null, sides)) for same, sides in zip(member.equal, nullable, strict=True)]
    on = build_conjunction([*derived.pending, *differ])
    check_known(on, node, derived.node)
    return SemiJoin("anti", node, derived.node, on)


def build_containment(node: Node, member: Membership, written: exp.In, names: Names) -> tuple[exp.Expr, Node]:
    """Joins the subquery of an IN to `node`; returns a condition that replaces the IN, and the joined node.

    The condition is true if the IN is true, and otherwise false. If `written`, the syntax node of the IN, is below a
    NOT, the condition is also true if the IN is null, so that its negation is false, as in Spark.
    """
    groups = split_correlation(member.derived.node, [*member.derived.pending, *member.equal], (), names)
    rows = names.make_fresh("rows", "bigint")
    counted = Aggregate(groups.node, groups.keys, ((rows, exp.Count(this=exp.Star(), big_int=True)),))
    on = build_conjunction(groups.on)
    check_known(on, node, counted)
    joined: Node = Join("left", node, counted, on)
    condition: exp.Expr = _is_some(build_column(rows))
    nullable = member.list_nullable_sides(node, names)
    negations = _count_negations(written)
    if not negations or not any(nullable):
        return exp.paren(condition), joined
    if len(nullable) > 1 or member.derived.pending or negations > 1:
        raise NotMaintained(
            "NOT_IN_NULLABLE",
            "NOT IN inside an expression that compares what may be null, over several columns or a correlated "
            "subquery, or negated twice; write NOT EXISTS, or add IS NOT NULL on both sides",
        )
    counts, is_known = _join_null_facts(member, nullable[0], names)
    return exp.paren(exp.or_(condition, exp.Not(this=exp.paren(is_known)))), Join("left", joined, counts, None)


def _join_null_facts(member: Membership, nullable: list[exp.Expr], names: Names) -> tuple[Node, exp.Expr]:
    """Builds a node with one row: the number of the subquery's rows, and the number of nulls among these.

    Also returns the condition under which NOT IN is true for a value that equals no row of the subquery: the subquery
    has no rows, or neither the value nor a row is null. `nullable` are those of the two compared sides, the value and
    the subquery's column, that may be null.
    """
    other = with_fresh_attributes(member.derived, names)
    (value,), own = member.values, build_column(other.fields[0][1])
    rows, nulls = names.make_fresh("rows", "bigint"), names.make_fresh("nulls", "bigint")
    counts = [(rows, exp.Count(this=exp.Star(), big_int=True)), (nulls, exp.CountIf(this=_is_null(own)))]
    known = [
        exp.not_(_is_null(side)) if side is value else exp.not_(_is_some(build_column(nulls))) for side in nullable
    ]
    is_empty = exp.EQ(this=build_column(rows), expression=exp.Literal.number(0))
    return Aggregate(other.node, (), tuple(counts)), exp.or_(is_empty, exp.and_(*known))


def _count_negations(written: exp.In) -> int:
    """Counts the NOTs around an IN in its expression.

    Returns 2 if anything but AND, OR and parentheses is between the IN and the innermost NOT.
    """
    negation_count = 0
    is_seen_through = True
    node = written.parent
    while node is not None:
        negation_count += isinstance(node, exp.Not)
        is_seen_through = is_seen_through and (bool(negation_count) or isinstance(node, exp.Paren | exp.And | exp.Or))
        node = node.parent
    return negation_count if is_seen_through or not negation_count else 2


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(value.copy()), expression=exp.null())


def _is_some(rows: exp.Expr) -> exp.Expr:
    none = exp.Literal.number(0)
    return exp.GT(this=exp.Coalesce(this=rows, expressions=[none]), expression=none.copy())
