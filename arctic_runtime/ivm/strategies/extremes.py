"""Maintains extremes, the least or greatest value of each group, as columns of aggregate state.

A run can update an extreme from added rows alone. If a row with the extreme value is removed, the group is lost: its
state is recomputed from the sources, because the state does not store the group's other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Aggregate, Node, Projection, UnionAll, list_columns, walk_tree

Values = Sequence[tuple[str, exp.Expr]]

_ORDERED = ("date", "timestamp", "timestamp_ntz", "string", "boolean")
_CALLS: dict[str, type[exp.Min | exp.Max]] = {"min": exp.Min, "max": exp.Max}


@dataclass(frozen=True)
class Extreme:
    """The least (`min`) or greatest (`max`) value of each group, null if all values are null.

    In the state it is the column `name`. In the change of the state, the column `name` is the extreme of the added
    rows, and the column `removed_extreme` is that of the removed rows; `removed_extreme` is null if no row was removed,
    or if an added row is as extreme. The new extreme is the more extreme of the stored and the added value. If this is
    not more extreme than `removed_extreme`, the group is lost: its state has to be recomputed from the sources.
    """

    name: str
    kind: Literal["min", "max"]
    removed_extreme: str


def is_ordered(of_type: str | None) -> bool:
    """Whether two values of a type are always the same if neither is less than the other.

    False for floating point, because of 0.0 and -0.0, for texts with a collation, and if the type is unknown.
    """
    return get_precision_and_scale(of_type) is not None or (of_type or "").lower().strip() in _ORDERED


def build_extreme(extreme: Extreme, value: exp.Expr) -> exp.Expr:
    """Builds the aggregate call that computes an extreme from the values of all rows."""
    return _CALLS[extreme.kind](this=value.copy())


def split_added_removed(extreme: Extreme, value: exp.Expr) -> tuple[tuple[str, exp.Expr], tuple[str, exp.Expr]]:
    """Builds two aggregate calls over a Z-set: the extreme of its added rows, and that of its removed rows.

    Each is a pair of a column name and an expression.
    """
    zero = exp.Literal.number(0)
    came = exp.case().when(exp.GT(this=build_column(MULTIPLICITY), expression=zero), value)
    went = exp.case().when(exp.LT(this=build_column(MULTIPLICITY), expression=zero.copy()), value)
    return (extreme.name, build_extreme(extreme, came)), (extreme.removed_extreme, build_extreme(extreme, went))


def express_replaced(extreme: Extreme) -> exp.Expr:
    """Builds an expression with the value of the column `removed_extreme`, but null if an added row is as extreme."""
    sides = {"this": build_column(extreme.name), "expression": build_column(extreme.removed_extreme)}
    is_as_extreme = exp.LTE(**sides) if extreme.kind == "min" else exp.GTE(**sides)
    return exp.case().when(is_as_extreme, exp.null()).else_(build_column(extreme.removed_extreme))


def net_rows(rows: Node, keys: tuple[str, ...], sums: Values, values: Values) -> tuple[Node, Values, Values]:
    """Cancels rows of a Z-set that are both added and removed; returns it, with `sums` and `values` over its columns.

    If the Z-set is a union of terms, one term may add a row that another term removes, so that the row exists neither
    before nor after the changes. Rows with equal `keys` and `values` become one row, in which the multiplicities and
    the `sums` are added up. Any other Z-set is returned unchanged.
    """
    if not any(isinstance(node, UnionAll) for node in walk_tree(rows)):
        return rows, sums, values
    valued = Projection(rows, (*((name, build_column(name)) for name in list_columns(rows)), *values))
    partial = tuple(
        (name, exp.Sum(this=value.copy())) for name, value in ((MULTIPLICITY, build_column(MULTIPLICITY)), *sums)
    )
    summed = Aggregate(valued, (*keys, *(name for name, _ in values)), partial)
    return summed, [(name, build_column(name)) for name, _ in sums], [(name, build_column(name)) for name, _ in values]
