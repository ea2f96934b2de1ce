"""Turns subqueries in expressions into joins.

A conjunct of WHERE that is an IN or EXISTS becomes a semi join, and one that is NOT IN or NOT EXISTS an anti join. Any
other subquery becomes the right side of a left join, and the expression reads its value from there.

In SQL, both IN and NOT IN are null if the value is null and the subquery returns rows, or if the subquery returns a
null and not the value. Inside an expression Spark evaluates both as false in these cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import build_column, walk_parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Aggregate, Filter, Join, Node, SemiJoin
from arctic_runtime.ivm.frontend.clauses.grouping import collect_aggregate_calls
from arctic_runtime.ivm.frontend.clauses.limits import has_limit
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, NameLookup, Names, QueryContext, project_shape
from arctic_runtime.ivm.frontend.subqueries.correlation import check_inner_value, check_known, split_correlation
from arctic_runtime.ivm.frontend.subqueries.scalar_subqueries import has_one_row, join_scalar_subquery
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


def has_query(expression: exp.Expr) -> bool:
    """Whether an expression contains a subquery."""
    return type(expression) is not exp.Column and any(isinstance(part, exp.Query) for part in walk_parts(expression))


def filter_by_subqueries(node: Node, conditions: Sequence[exp.Expr], lookup: NameLookup, context: QueryContext) -> Node:
    """Restricts `node` to the rows for which all `conditions` are true; each condition contains a subquery."""
    for condition in conditions:
        negated = isinstance(condition, exp.Not)
        bare = condition.this.unnest() if negated else condition
        if isinstance(bare, exp.Exists):
            node = _filter_by_exists(node, bare, negated, lookup, replace(context, around=node))
        elif isinstance(bare, exp.In) and bare.args.get("query"):
            node = _filter_by_membership(node, bare, negated, lookup, replace(context, around=node))
        else:
            value, lifted = lift_subqueries(condition, node, lookup, context)
            node = _filter_by_lifted(node, lifted, check_inner_value(value, lifted))
    return node


def _filter_by_lifted(node: Node, lifted: Node, condition: exp.Expr) -> Node:
    """Restricts `node` to the rows for which a condition is true; its subqueries were replaced by columns of `lifted`.

    `lifted` is `node` joined to these subqueries, whose columns only the condition reads. If each subquery has one row
    for all rows of `node`, as in `amount > (select avg(amount) …)`, the result is a semi join on the condition instead
    of a filter of `lifted`.
    """
    values: list[Node] = []
    below = lifted
    while below is not node and isinstance(below, Join) and below.on is None and has_one_row(below.right):
        values.append(below.right)
        below = below.left
    if below is not node or not values:
        return Filter(lifted, condition)
    return SemiJoin("semi", node, reduce(_cross_join, reversed(values)), condition)


def _cross_join(left: Node, right: Node) -> Node:
    return Join("inner", left, right, None)


def lift_subqueries(
    expression: exp.Expr, node: Node, lookup: NameLookup, context: QueryContext
) -> tuple[exp.Expr, Node]:
    """Replaces the subqueries in an expression by columns; also returns `node` joined to the subqueries."""
    if type(expression) is exp.Column or not any(map(_is_query, walk_parts(expression))):
        return expression, node
    holder = exp.Paren(this=expression.copy())
    for part in list(holder.walk(prune=_is_query)):
        if _is_query(part):
            value, node = _lift_value(part, node, lookup, context)
            part.replace(exp.paren(value))
    return holder.this.pop(), node


def _is_query(node: exp.Expr) -> bool:
    is_predicate = isinstance(node, exp.Exists | exp.Any | exp.All)
    return isinstance(node, exp.Query) or is_predicate or bool(isinstance(node, exp.In) and node.args.get("query"))


def _lift_value(subquery: exp.Expr, node: Node, lookup: NameLookup, context: QueryContext) -> tuple[exp.Expr, Node]:
    if isinstance(subquery, exp.Subquery):
        return join_scalar_subquery(subquery.unnest(), node, lookup, context)
    if isinstance(subquery, exp.Exists):
        value, node = join_scalar_subquery(_build_count_query(subquery.this), node, lookup, context)
        return exp.GT(this=exp.paren(value), expression=exp.Literal.number(0)), node
    if isinstance(subquery, exp.In):
        return build_containment(
            node, _derive_membership(subquery, lookup, replace(context, around=node)), subquery, context.names
        )
    raise NotMaintained("SUBQUERY", "ANY or ALL with a subquery; write EXISTS instead")


def _build_count_query(query: exp.Expr) -> exp.Select:
    """Builds the query that counts the rows of `query`; raises NotMaintained if it is no plain select."""
    bare = query.unnest() if isinstance(query, exp.Subquery) else query
    refused = ("group", "having", "limit", "offset", "distinct")
    if (
        not isinstance(bare, exp.Select)
        or any(bare.args.get(part) for part in refused)
        or collect_aggregate_calls(bare.expressions)
    ):
        raise NotMaintained(
            "SUBQUERY", "EXISTS in an expression, over a subquery with GROUP BY, HAVING, DISTINCT, LIMIT or aggregates"
        )
    count_query = bare.copy()
    count_query.set("expressions", [exp.Count(this=exp.Star(), big_int=True)])
    return count_query


def _filter_by_exists(
    node: Node, subquery: exp.Exists, negated: bool, lookup: NameLookup, context: QueryContext
) -> Node:
    inner = subquery.this.unnest() if isinstance(subquery.this, exp.Subquery) else subquery.this
    derived = _derive_member_query(_strip_select_list(inner), lookup, context)
    return _build_semi_join(node, derived, (), negated)


def _strip_select_list(query: exp.Expr) -> exp.Expr:
    """Replaces the select list of a subquery of EXISTS, which has no meaning, by a constant, unless it aggregates."""
    is_plain = (
        isinstance(query, exp.Select) and not query.args.get("group") and not collect_aggregate_calls(query.expressions)
    )
    if not is_plain or query.args.get("having"):
        return query
    stripped = query.copy()
    stripped.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
    stripped.set("distinct", None)
    return stripped


def _filter_by_membership(
    node: Node, membership: exp.In, negated: bool, lookup: NameLookup, context: QueryContext
) -> Node:
    member = _derive_membership(membership, lookup, context)
    return (
        exclude_members(node, member, context.names)
        if negated
        else _build_semi_join(node, member.derived, member.equal, False)
    )


def _derive_membership(in_clause: exp.In, lookup: NameLookup, context: QueryContext) -> Membership:
    bare = in_clause.this.unnest()
    left = list(bare.expressions) if isinstance(bare, exp.Tuple) else [in_clause.this]
    if any(map(has_query, left)):
        raise NotMaintained("SUBQUERY", "a subquery on the left of IN")
    derived = _derive_member_query(in_clause.args["query"].unnest(), lookup, context)
    if len(left) != len(derived.fields):
        raise NotMaintained("UNRESOLVED", f"IN compares {len(left)} values to {len(derived.fields)} columns")
    return Membership(derived, tuple(left))


def _derive_member_query(query: exp.Expr, lookup: NameLookup, context: QueryContext) -> Derived:
    if not isinstance(query, exp.Select) or has_limit(query):
        return context.derive(query, context, None) if isinstance(query, exp.Query) else _refuse_query(query)
    shape = context.shape(query, context, lookup)
    if shape.groups == "one" and shape.pending:
        raise NotMaintained("SUBQUERY", "IN or EXISTS with a correlated subquery that aggregates without GROUP BY")
    return project_shape(shape, context.names)


def _refuse_query(query: exp.Expr) -> Derived:
    raise NotMaintained("SUBQUERY", f"{query.key.upper()} in place of a subquery")


def _build_semi_join(node: Node, derived: Derived, equal: Sequence[exp.Expr], negated: bool) -> Node:
    on = build_conjunction([*derived.pending, *equal])
    check_known(on, node, derived.node)
    return SemiJoin("anti" if negated else "semi", node, derived.node, on)
