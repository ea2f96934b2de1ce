"""Reads conditions: their conjuncts, and the columns that they equate with other columns or with constants.

In an equality `x = y` of two columns the values are the same, so that one column can replace the other. For columns of
different types the analysis writes `coalesce(x) = y` if equal values correspond one to one but are not the same, as 1
and 1.00: the columns can replace each other in comparisons only. `coalesce(x) = coalesce(y)` is ignored here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, build_column, get_form, list_used_columns


@dataclass(frozen=True)
class Equality:
    """Equality of a column of the left input and a column of the right input of a join.

    `null_safe` is True for `<=>`, for which two nulls are equal. `same` is True if one column can replace the other in
    any expression, False if only in comparisons.
    """

    left: str
    right: str
    null_safe: bool
    same: bool = True


def split_conjuncts(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """Splits a condition into the parts that AND connects; `None` and `true` have no parts."""
    if condition is None:
        return ()
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        return (*split_conjuncts(bare.left), *split_conjuncts(bare.right))
    return () if isinstance(bare, exp.Boolean) and bare.this else (bare,)


def build_conjunction(parts: Iterable[exp.Expr]) -> exp.Expr | None:
    """Builds the condition that all `parts` are true; None if there are no parts."""
    conditions = tuple(parts)
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return exp.and_(*conditions)


def factor_conjuncts(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """Splits a condition into conjuncts, after factoring out the conjuncts that all branches of an OR share.

    For example `a and b or a and c` is split into `a` and `b or c`.
    """
    return tuple(part for conjunct in split_conjuncts(condition) for part in _factor_disjunction(conjunct))


def _factor_disjunction(condition: exp.Expr) -> tuple[exp.Expr, ...]:
    branches = [{get_form(part): part for part in split_conjuncts(branch)} for branch in _split_disjuncts(condition)]
    common = set[Form](branches[0]).intersection(*branches)
    if len(branches) < 2 or not common:
        return (condition,)
    rests = [build_conjunction(part for made, part in branch.items() if made not in common) for branch in branches]
    shared = tuple(part for made, part in branches[0].items() if made in common)
    remainders = [rest for rest in rests if rest is not None]
    return shared if len(remainders) < len(rests) else (*shared, exp.or_(*remainders))


def derive_implied(condition: exp.Expr, names: Collection[str]) -> exp.Expr | None:
    """Derives a weaker condition, which reads only the columns `names`, from a condition that is an OR.

    Returns None if a branch of the OR has no conjunct over these columns alone, or if the condition is no OR.
    """
    branches = [
        build_conjunction(
            part
            for part in split_conjuncts(branch)
            if list_used_columns(part) and set(names).issuperset(list_used_columns(part))
        )
        for branch in _split_disjuncts(condition)
    ]
    known_branches = [part for part in branches if part is not None]
    return exp.or_(*known_branches) if len(known_branches) == len(branches) > 1 else None


def _split_disjuncts(condition: exp.Expr) -> tuple[exp.Expr, ...]:
    """Splits a condition into the parts that OR connects."""
    bare = condition.unnest()
    return (*_split_disjuncts(bare.left), *_split_disjuncts(bare.right)) if isinstance(bare, exp.Or) else (bare,)


def list_equalities(condition: exp.Expr | None, left: Collection[str], right: Collection[str]) -> tuple[Equality, ...]:
    """Lists the conjuncts that equate a column in `left` with one in `right`, in either order of the sides."""
    equal_pairs: list[Equality] = []
    for part in split_conjuncts(condition):
        if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
            continue
        sides = part.left.unnest(), part.right.unnest()
        one, other = map(_get_plain_column, sides)
        marked = one is not sides[0], other is not sides[1]
        if one and other and not all(marked):
            for a, b in ((one.name, other.name), (other.name, one.name)):
                if a in left and b in right:
                    equal_pairs.append(Equality(a, b, isinstance(part, exp.NullSafeEQ), not any(marked)))
    return tuple(dict.fromkeys(equal_pairs))


def _get_plain_column(side: exp.Expr) -> exp.Column | None:
    """Returns `side` if it is a column, or the column in `coalesce(x)`; None for any other expression."""
    bare = side.this.unnest() if isinstance(side, exp.Coalesce) and not side.expressions else side
    return bare if isinstance(bare, exp.Column) else None


def list_hash_links(condition: exp.Expr | None, left: Collection[str], right: Collection[str]) -> tuple[exp.Expr, ...]:
    """Lists the conjuncts that a hash join can use: an expression over `left` equals an expression over `right`."""
    return tuple(part for part in split_conjuncts(condition) if _is_link(part, left, right))


def _is_link(part: exp.Expr, left: Collection[str], right: Collection[str]) -> bool:
    if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
        return False
    one, other = list_used_columns(part.left), list_used_columns(part.right)
    if not one or not other:
        return False
    return any(set(one) <= set(a) and set(other) <= set(b) for a, b in ((left, right), (right, left)))


def list_constant_columns(condition: exp.Expr | None) -> frozenset[str]:
    """Columns that a condition equates with an expression without columns, so that they have only one value."""
    sides = [
        (one.unnest(), other)
        for part in split_conjuncts(condition)
        if isinstance(part, (exp.EQ, exp.NullSafeEQ))
        for one, other in ((part.left, part.right), (part.right, part.left))
    ]
    return frozenset(one.name for one, other in sides if isinstance(one, exp.Column) and not list_used_columns(other))


def substitute_columns(expression: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """Replaces columns in an expression by the expressions that `values` has for their names."""

    def swap_column(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in values:
            return node
        value = values[node.name].copy()
        return value if isinstance(value, exp.Column) else exp.paren(value, copy=False)

    return expression.copy().transform(swap_column)


def map_plain_columns(expressions: Iterable[tuple[str, exp.Expr]]) -> dict[str, str]:
    """Maps output columns to input columns, for those of the pairs (name, value) whose value is a plain column."""
    bare = ((name, value.unnest()) for name, value in expressions)
    return {name: value.name for name, value in bare if isinstance(value, exp.Column)}


def build_equality(left: str, right: str, null_safe: bool) -> exp.Expr:
    """Builds the condition that two columns are equal; if `null_safe`, nulls equal each other."""
    kind = exp.NullSafeEQ if null_safe else exp.EQ
    return kind(this=build_column(left), expression=build_column(right))
