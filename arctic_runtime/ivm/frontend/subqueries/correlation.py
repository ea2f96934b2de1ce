"""Correlated conditions: conditions of a subquery that also read columns of the outer query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction, substitute_columns
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Distinct, Join, Node, Projection, list_columns
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.frontend.type_coercion import is_comparison_lossless


@dataclass(frozen=True)
class Correlated:
    """Tree of a subquery, `node`, and its correlated conditions, `on`, by which it must be joined to the outer query.

    `keys` are the columns of `node` that these conditions compare.
    """

    node: Node
    keys: tuple[str, ...]
    on: tuple[exp.Expr, ...]


def split_correlation(
    node: Node, conditions: Sequence[exp.Expr], output_columns: Sequence[str], names: Names
) -> Correlated:
    """Projects a subquery to `output_columns`, and to a key column for each expression compared with the outer query.

    `conditions` are the correlated conditions. Rows with equal keys match the same outer rows. Raises NotMaintained if
    a condition is no equality of an expression over the subquery with one over the outer query.
    """
    inside = set(list_columns(node))
    keys: dict[str, exp.Expr] = {}
    on = []
    for condition in conditions:
        own = find_inner_side(condition, inside, names)
        if own is None:
            on.append(condition)
            continue
        name = own.name if isinstance(own, exp.Column) else names.make_fresh("key", names.type_of(own))
        other = condition.this if condition.expression is own else condition.expression
        keys[name] = own
        on.append(type(condition)(this=other.copy(), expression=build_column(name)))
    wanted = {**{name: build_column(name) for name in output_columns}, **keys}
    return Correlated(Projection(node, tuple(wanted.items())) if wanted else node, tuple(keys), tuple(on))


def join_domain(
    node: Node, conditions: Sequence[exp.Expr], around: Node, names: Names
) -> tuple[Node, tuple[exp.Expr, ...]]:
    """Joins a subquery's rows, on `conditions`, to the distinct values of the outer columns that the conditions read.

    `around` is the outer query's tree. The join has these values as columns, so that the subquery can be grouped by
    them, even if the conditions are no equalities. Also returns the conditions by which the result must be joined to
    the outer query: each of the columns equals the outer column, or both are null.
    """
    inside = set(list_columns(node))
    read = tuple(dict.fromkeys(name for part in conditions for name in list_used_columns(part) if name not in inside))
    if not read or not set(list_columns(around)).issuperset(read):
        raise NotMaintained(
            "SUBQUERY", "a correlated subquery that selects its rows by conditions on a query more than one level above"
        )
    shown = Projection(around, tuple((name, build_column(name)) for name in read))
    domain = with_fresh_attributes(Derived(Distinct(shown), tuple((name, name) for name in read)), names)
    stands_for = dict(domain.fields)
    on = [
        substitute_columns(part, {name: build_column(made) for name, made in stands_for.items()}) for part in conditions
    ]
    same = (exp.NullSafeEQ(this=build_column(name), expression=build_column(made)) for name, made in stands_for.items())
    return Join("inner", domain.node, node, build_conjunction(on)), tuple(same)


def is_by_values(condition: exp.Expr, node: Node, names: Names) -> bool:
    """Whether a condition equates an expression over `node` with one over the outer query, of comparable types.

    The types must be such that a value equals at most one value of the other type. Also True for a condition that reads
    no columns of `node`.
    """
    inside = set(list_columns(node))
    sides = match_correlation(condition, inside)
    return inside.isdisjoint(list_used_columns(condition)) or (
        sides is not None and is_comparison_lossless(*map(names.type_of, sides))
    )


def match_correlation(condition: exp.Expr, inside: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Returns the sides of an equality if one reads only columns in `inside`, and the other none of them; else None.

    The side that reads columns in `inside` comes first.
    """
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    left, right = condition.this, condition.expression
    if (
        list_used_columns(left)
        and inside.issuperset(list_used_columns(left))
        and inside.isdisjoint(list_used_columns(right))
    ):
        return left, right
    if (
        list_used_columns(right)
        and inside.issuperset(list_used_columns(right))
        and inside.isdisjoint(list_used_columns(left))
    ):
        return right, left
    return None


def find_inner_side(condition: exp.Expr, inside: set[str], names: Names) -> exp.Expr | None:
    """Returns the side of a correlated equality that reads the subquery, whose columns are `inside`.

    None if the condition reads no column of the subquery. Raises NotMaintained if the condition is no such equality, or
    if a value of one side may equal several values of the other, as with texts and numbers.
    """
    if inside.isdisjoint(list_used_columns(condition)):
        return None
    sides = match_correlation(condition, inside)
    if sides is None:
        raise NotMaintained(
            "SUBQUERY", "a correlated subquery that aggregates rows that it selects by conditions other than equalities"
        )
    if not is_comparison_lossless(*map(names.type_of, sides)):
        raise NotMaintained(
            "SUBQUERY",
            "a correlated subquery that compares columns of different types; cast them to the same type",
        )
    return sides[0]


def check_inner_value(value: exp.Expr, node: Node) -> exp.Expr:
    if not set(list_columns(node)).issuperset(list_used_columns(value)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
    return value


def check_known(on: exp.Expr | None, left: Node, right: Node) -> None:
    if not set(list_columns(left)).union(list_columns(right)).issuperset(list_used_columns(on)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
