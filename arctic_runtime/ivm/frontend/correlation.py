"""Conditions that compare the rows of a subquery with the query around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction, replaced
from arctic_runtime.ivm.algebra.expressions import column, used
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Distinct, Join, Node, Project, columns
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.frontend.type_coercion import correspond


@dataclass(frozen=True)
class Correlated:
    """Rows with the columns `keys`, of which `on` compares each with the query around."""

    node: Node
    keys: tuple[str, ...]
    on: tuple[exp.Expr, ...]


def by_correlation(node: Node, conditions: Sequence[exp.Expr], kept: Sequence[str], names: Names) -> Correlated:
    """The rows with the columns `kept` and with what conditions compare with the query around as columns.

    Rows that are alike in these columns have the same partners. Raises NotMaintained for other conditions than
    equalities of values.
    """
    inside = set(columns(node))
    keys: dict[str, exp.Expr] = {}
    on = []
    for condition in conditions:
        own = side_inside(condition, inside, names)
        if own is None:
            on.append(condition)
            continue
        name = own.name if isinstance(own, exp.Column) else names.fresh("key", names.type_of(own))
        other = condition.this if condition.expression is own else condition.expression
        keys[name] = own
        on.append(type(condition)(this=other.copy(), expression=column(name)))
    wanted = {**{name: column(name) for name in kept}, **keys}
    return Correlated(Project(node, tuple(wanted.items())) if wanted else node, tuple(keys), tuple(on))


def over_domain(
    node: Node, conditions: Sequence[exp.Expr], around: Node, names: Names
) -> tuple[Node, tuple[exp.Expr, ...]]:
    """The rows that conditions pick for each combination of values that they read of the query `around`.

    The combinations are columns, which the conditions that are left compare with the values, nulls equal. So rows can
    be grouped by what picks them, whatever the condition is.
    """
    inside = set(columns(node))
    read = tuple(dict.fromkeys(name for part in conditions for name in used(part) if name not in inside))
    if not read or not set(columns(around)).issuperset(read):
        raise NotMaintained(
            "SUBQUERY", "a correlated subquery that selects its rows by conditions on a query more than one level above"
        )
    shown = Project(around, tuple((name, column(name)) for name in read))
    domain = with_fresh_attributes(Derived(Distinct(shown), tuple((name, name) for name in read)), names)
    stands_for = dict(domain.fields)
    on = [replaced(part, {name: column(made) for name, made in stands_for.items()}) for part in conditions]
    same = (exp.NullSafeEQ(this=column(name), expression=column(made)) for name, made in stands_for.items())
    return Join("inner", domain.node, node, conjunction(on)), tuple(same)


def is_by_values(condition: exp.Expr, node: Node, names: Names) -> bool:
    """Whether rows that a condition picks are alike in a value, or it reads none of them."""
    inside = set(columns(node))
    sides = correlation(condition, inside)
    return inside.isdisjoint(used(condition)) or (sides is not None and correspond(*map(names.type_of, sides)))


def correlation(condition: exp.Expr, inside: set[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The two sides of an equality, the one of `inside` columns first; None for any other condition."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    left, right = condition.this, condition.expression
    if used(left) and inside.issuperset(used(left)) and inside.isdisjoint(used(right)):
        return left, right
    if used(right) and inside.issuperset(used(right)) and inside.isdisjoint(used(left)):
        return right, left
    return None


def side_inside(condition: exp.Expr, inside: set[str], names: Names) -> exp.Expr | None:
    """What of a condition on the query around is to be grouped by; nothing where it reads none of these rows."""
    if inside.isdisjoint(used(condition)):
        return None
    sides = correlation(condition, inside)
    if sides is None:
        raise NotMaintained(
            "SUBQUERY", "a correlated subquery that aggregates rows that it selects by conditions other than equalities"
        )
    if not correspond(*map(names.type_of, sides)):
        raise NotMaintained(
            "SUBQUERY",
            "a correlated subquery that compares columns of different types; cast them to the same type",
        )
    return sides[0]


def within(value: exp.Expr, node: Node) -> exp.Expr:
    if not set(columns(node)).issuperset(used(value)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
    return value


def check_known(on: exp.Expr | None, left: Node, right: Node) -> None:
    if not set(columns(left)).union(columns(right)).issuperset(used(on)):
        raise NotMaintained(
            "SUBQUERY",
            "a subquery that refers to a query more than one level above, or to columns that GROUP BY removed",
        )
