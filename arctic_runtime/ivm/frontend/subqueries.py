"""Queries inside expressions, as joins.

A membership (`in`, `exists`) that has to hold is a semi join, one that must not hold an anti join. A query that gives
one value is the right side of a left join: grouped by what it is correlated by, or with one row for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction
from arctic_runtime.ivm.algebra.expressions import column, parts, used
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    Window,
    columns,
)
from arctic_runtime.ivm.frontend.functions import value_when_empty
from arctic_runtime.ivm.frontend.grouping import calls, correlation
from arctic_runtime.ivm.frontend.scope import Context, Derived, Lookup, Shape, project
from arctic_runtime.ivm.rewrite.nullability import is_never_null, never_null


def has_query(expression: exp.Expr) -> bool:
    """Whether there is a query inside an expression."""
    return type(expression) is not exp.Column and any(isinstance(part, exp.Query) for part in parts(expression))


def restrict(node: Node, conditions: Sequence[exp.Expr], lookup: Lookup, context: Context) -> Node:
    """The rows for which all conditions hold, each one with a query in it."""
    for condition in conditions:
        negated = isinstance(condition, exp.Not)
        bare = condition.this.unnest() if negated else condition
        if isinstance(bare, exp.Exists):
            node = _exists(node, bare, negated, lookup, context)
        elif isinstance(bare, exp.In) and bare.args.get("query"):
            node = _in(node, bare, negated, lookup, context)
        else:
            value, lifted = lift(condition, node, lookup, context)
            node = _judged(node, lifted, _within(value, lifted))
    return node


def _judged(node: Node, lifted: Node, condition: exp.Expr) -> Node:
    """The rows for which a condition is true that reads what was `lifted` beside them.

    Nobody else reads that, so values that are the same for all rows are a partner that a row has or has not.
    """
    values: list[Node] = []
    below = lifted
    while below is not node and isinstance(below, Join) and below.on is None and _has_one_row(below.right):
        values.append(below.right)
        below = below.left
    if below is not node or not values:
        return Filter(lifted, condition)
    return SemiJoin("semi", node, reduce(_beside, reversed(values)), condition)


def _beside(left: Node, right: Node) -> Node:
    return Join("inner", left, right, None)


def lift(expression: exp.Expr, node: Node, lookup: Lookup, context: Context) -> tuple[exp.Expr, Node]:
    """The expression with columns in the place of its queries, and the node with these columns."""
    if type(expression) is exp.Column or not any(map(_is_query, parts(expression))):
        return expression, node
    holder = exp.Paren(this=expression.copy())
    for found in list(holder.walk(prune=_is_query)):
        if _is_query(found):
            value, node = _value(found, node, lookup, context)
            found.replace(exp.paren(value))
    return holder.this.pop(), node


def _is_query(node: exp.Expr) -> bool:
    is_predicate = isinstance(node, exp.Exists | exp.Any | exp.All)
    return isinstance(node, exp.Query) or is_predicate or bool(isinstance(node, exp.In) and node.args.get("query"))


def _value(found: exp.Expr, node: Node, lookup: Lookup, context: Context) -> tuple[exp.Expr, Node]:
    if isinstance(found, exp.Subquery):
        return _scalar(found.unnest(), node, lookup, context)
    if isinstance(found, exp.Exists):
        value, node = _scalar(_counting(found.this), node, lookup, context)
        return exp.GT(this=exp.paren(value), expression=exp.Literal.number(0)), node
    raise NotMaintained(
        "SUBQUERY", "IN (SELECT …) below OR or in an expression, or ANY or ALL with a subquery; write EXISTS instead"
    )


def _counting(query: exp.Expr) -> exp.Select:
    """How many rows a query has, as a query."""
    bare = query.unnest() if isinstance(query, exp.Subquery) else query
    refused = ("group", "having", "limit", "offset", "distinct")
    if not isinstance(bare, exp.Select) or any(bare.args.get(part) for part in refused) or calls(bare.expressions):
        raise NotMaintained(
            "SUBQUERY", "EXISTS in an expression, over a subquery with GROUP BY, HAVING, DISTINCT, LIMIT or aggregates"
        )
    found = bare.copy()
    found.set("expressions", [exp.Count(this=exp.Star(), big_int=True)])
    return found


def _exists(node: Node, found: exp.Exists, negated: bool, lookup: Lookup, context: Context) -> Node:
    inner = found.this.unnest() if isinstance(found.this, exp.Subquery) else found.this
    derived = _member_query(_without_list(inner), lookup, context)
    return _semi(node, derived, (), negated)


def _without_list(query: exp.Expr) -> exp.Expr:
    """The same rows with nothing selected, which for EXISTS is as good."""
    is_plain = isinstance(query, exp.Select) and not query.args.get("group") and not calls(query.expressions)
    if not is_plain or query.args.get("having"):
        return query
    found = query.copy()
    found.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
    found.set("distinct", None)
    return found


def _in(node: Node, found: exp.In, negated: bool, lookup: Lookup, context: Context) -> Node:
    bare = found.this.unnest()
    left = list(bare.expressions) if isinstance(bare, exp.Tuple) else [found.this]
    if any(map(has_query, left)):
        raise NotMaintained("SUBQUERY", "a subquery on the left of IN")
    derived = _member_query(found.args["query"].unnest(), lookup, context)
    right = [column(made) for _, made in derived.fields]
    if len(left) != len(right):
        raise NotMaintained("UNRESOLVED", f"IN compares {len(left)} values to {len(right)} columns")
    if negated:
        _check_not_null(left, node, context)
        _check_not_null(right, derived.node, context)
    return _semi(node, derived, [exp.EQ(this=own, expression=of) for own, of in zip(left, right, strict=True)], negated)


def _check_not_null(values: Sequence[exp.Expr], node: Node, context: Context) -> None:
    known = never_null(node, context.names.never_null)
    for value in values:
        if not is_never_null(value, known):
            name = value.name.rsplit("#", 1)[0] or value.key
            raise NotMaintained(
                "NOT_IN_NULLABLE",
                f"NOT IN compares {name}, which may be null; write NOT EXISTS, or add IS NOT NULL on both sides",
            )


def _member_query(query: exp.Expr, lookup: Lookup, context: Context) -> Derived:
    if not isinstance(query, exp.Select):
        return context.derive(query, context, None) if isinstance(query, exp.Query) else _refuse(query)
    shape = context.shape(query, context, lookup)
    if shape.groups == "one" and shape.pending:
        raise NotMaintained("SUBQUERY", "IN or EXISTS with a correlated subquery that aggregates without GROUP BY")
    return project(shape, context.names)


def _refuse(query: exp.Expr) -> Derived:
    raise NotMaintained("SUBQUERY", f"{query.key.upper()} in place of a subquery")


def _semi(node: Node, derived: Derived, equal: Sequence[exp.Expr], negated: bool) -> Node:
    on = conjunction([*derived.pending, *equal])
    _check_known(on, node, derived.node)
    return SemiJoin("anti" if negated else "semi", node, derived.node, on)


def _scalar(query: exp.Expr, node: Node, lookup: Lookup, context: Context) -> tuple[exp.Expr, Node]:
    if not isinstance(query, exp.Select):
        raise NotMaintained("SCALAR_SUBQUERY", "a scalar subquery that is a UNION, INTERSECT or EXCEPT")
    shape = context.shape(query, context, lookup)
    if len(shape.items) != 1:
        raise NotMaintained("UNRESOLVED", "a scalar subquery with more than one column")
    is_own = set(columns(shape.node)).issuperset(used(shape.items[0][1]))
    return _correlated(shape, node) if shape.pending or not is_own else _uncorrelated(shape, node, context)


def _uncorrelated(shape: Shape, node: Node, context: Context) -> tuple[exp.Expr, Node]:
    derived = project(shape, context.names)
    if not _has_one_row_at_most(derived.node):
        raise NotMaintained(
            "SCALAR_SUBQUERY",
            "a scalar subquery that may return several rows; an aggregate without GROUP BY returns one",
        )
    return column(derived.fields[0][1]), Join("left", node, derived.node, None)


def _correlated(shape: Shape, node: Node) -> tuple[exp.Expr, Node]:
    """Without rows there is no group to join, so each aggregate above the join is what it makes of no rows."""
    inner = shape.node
    if shape.groups != "one" or not shape.plain or not isinstance(inner, Aggregate):
        raise NotMaintained(
            "SCALAR_SUBQUERY",
            "a correlated scalar subquery other than one aggregate without GROUP BY, HAVING, windows and DISTINCT",
        )
    for condition in shape.pending:
        reads_inner = not set(columns(inner)).isdisjoint(used(condition))
        if reads_inner and correlation(condition, set(columns(inner))) is None:
            raise NotMaintained(
                "SCALAR_SUBQUERY",
                "a correlated subquery that aggregates rows that it selects by conditions other than equalities",
            )
    value = _defaulted(shape.items[0][1], inner)
    on = conjunction(shape.pending)
    _check_known(on, node, inner)
    joined = Join("left", node, inner, on)
    return _within(value, joined), joined


def _defaulted(value: exp.Expr, inner: Aggregate) -> exp.Expr:
    made = dict(inner.aggregates)
    keys = set(inner.keys)

    def visit(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in keys:
            raise NotMaintained(
                "SCALAR_SUBQUERY", "a correlated scalar subquery that selects a column without aggregating it"
            )
        if not isinstance(part, exp.Column) or part.name not in made:
            return part
        empty = value_when_empty(made[part.name])
        if empty is None:
            raise NotMaintained(
                "SCALAR_SUBQUERY",
                "a correlated scalar subquery with an aggregate whose value over no rows is unknown",
            )
        return part if isinstance(empty, exp.Null) else exp.Coalesce(this=part.copy(), expressions=[empty])

    return value.transform(visit)


def _has_one_row(node: Node) -> bool:
    return (
        _has_one_row(node.child)
        if isinstance(node, Project | Window)
        else isinstance(node, Aggregate) and not node.keys
    )


def _has_one_row_at_most(node: Node) -> bool:
    match node:
        case Scan(key=key):
            return key == ()
        case OneRow():
            return True
        case Aggregate(keys=keys):
            return not keys
        case Project() | Filter() | Window() | Distinct():
            return _has_one_row_at_most(node.child)
        case SemiJoin():
            return _has_one_row_at_most(node.left)
        case Join(kind="inner" | "left"):
            return _has_one_row_at_most(node.left) and _has_one_row_at_most(node.right)
    return False


def _within(value: exp.Expr, node: Node) -> exp.Expr:
    if not set(columns(node)).issuperset(used(value)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
    return value


def _check_known(on: exp.Expr | None, left: Node, right: Node) -> None:
    if not set(columns(left)).union(columns(right)).issuperset(used(on)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
