"""Expresses aggregate calls by columns of aggregate state: by sums, counts, averages, and the extremes of each group.

Spark's average of decimal(p, s) is the quotient rounded half away from zero to decimal(p + 4, s + 4). Its division
rounds as well, to a number of digits that depends on the types, so that a quotient of two columns would be rounded
twice. Here no division rounds: before it, the sum is reduced by its remainder modulo the count (in units of the last
digit). The remainder then decides whether the last digit is rounded.

A run can update an extreme, the least or greatest value of a group, from added rows alone. If a row with the extreme
value is removed, the group is lost: its state is recomputed from the sources, because the state does not store the
group's other values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.aggregate_functions import State, find_aggregate_function
from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import Form, build_column, get_form
from arctic_runtime.ivm.algebra.inferred_types import is_averaged_exactly, is_exact, type_of
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Aggregate, Node, Projection, UnionAll, list_columns, walk_tree
from arctic_runtime.ivm.rewrite.nullability import is_never_null

_MOST_AVERAGED_DIGITS = 23
_MOST_AVERAGED_BEHIND = 12
_MOST_COUNTED_DIGITS = 19


def is_averaged(of_type: str | None) -> bool:
    """Whether `build_average` can compute the average of values of the type `of_type` exactly.

    True for decimals that Spark averages without floating point, if no intermediate result exceeds 38 digits.
    """
    precision, scale = get_precision_and_scale(of_type) or (0, 0)
    return is_averaged_exactly(of_type) and precision <= _MOST_AVERAGED_DIGITS and scale <= _MOST_AVERAGED_BEHIND


def build_average(total: exp.Expr, count: exp.Expr, of_type: str) -> exp.Expr:
    """Builds the expression `total / count`, rounded as Spark rounds an average of values of the type `of_type`.

    `is_averaged(of_type)` must hold, and `count` must not be zero. The average is null if `total` or `count` is null.
    """
    precision, scale = get_precision_and_scale(of_type) or (0, 0)
    precision, scale = precision + 4, scale + 4
    number = _cast_to_decimal(count, _MOST_COUNTED_DIGITS, 0)
    last = _cast_to_decimal(exp.Literal.number(f"0.{'1':0>{scale}}"), scale, scale)
    step = exp.Mul(this=number, expression=last)
    finer = _cast_to_decimal(total, precision + 10, scale)
    rest = exp.Mod(this=finer, expression=exp.paren(step))
    whole = exp.Div(this=exp.paren(exp.Sub(this=finer.copy(), expression=exp.paren(rest))), expression=number.copy())
    rounded = exp.Add(this=_cast_to_decimal(whole, precision, scale), expression=_build_rounding(rest, step, last))
    return _cast_to_decimal(rounded, precision, scale)


def _build_rounding(rest: exp.Expr, step: exp.Expr, last: exp.Expr) -> exp.Expr:
    """Builds the correction that rounds a quotient half away from zero, after its further digits were cut off.

    `last` is one unit of the last digit, `step` is the divisor times `last`, and `rest` is the dividend modulo `step`.
    The correction is `last` if `rest` is at least half of `step`, `-last` if it is at most minus half, else 0.
    """
    twice = exp.Add(this=exp.paren(rest), expression=exp.paren(rest))
    less = exp.Neg(this=exp.paren(step))
    up = exp.GTE(this=twice, expression=exp.paren(step))
    down = exp.LTE(this=twice.copy(), expression=exp.paren(less))
    return exp.case().when(up, last).when(down, exp.Neg(this=last.copy())).else_(exp.Literal.number(0))


def _cast_to_decimal(value: exp.Expr, precision: int, scale: int) -> exp.Cast:
    return exp.cast(value.copy(), f"decimal({precision}, {scale})", dialect="spark")


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


@dataclass
class StateColumns:
    """Collects the columns of aggregate state from which aggregate calls can be computed.

    `rows` is the name of the column with the number of a group's rows. `types` are the types of the columns of the
    grouped rows, and `never_null` those of them that are never null. `made` are the sums and counts: by the form of the
    expression that each row adds, the column's name and this expression. `extremes` are the least and greatest values,
    by kind and by the form of the value. If `is_one`, there is no GROUP BY, and so one group, which may be empty.
    """

    rows: str
    types: Mapping[str, str]
    never_null: frozenset[str]
    is_one: bool
    made: dict[Form, tuple[str, exp.Expr]] = field(default_factory=dict)
    extremes: dict[tuple[str, Form], tuple[Extreme, exp.Expr]] = field(default_factory=dict)

    def add_count(self, condition: exp.Expr | None) -> exp.Column:
        """Adds a count of the rows that fulfil `condition`, or of all rows if that is None; returns its column."""
        if condition is None:
            return build_column(self.rows)
        return self._add_total(exp.case().when(condition, build_column(MULTIPLICITY)).else_(exp.Literal.number(0)))

    def add_sum(self, value: exp.Expr) -> exp.Column:
        """Adds a sum of the values that are not null; returns the sum's column.

        Integers are cast to bigint, so that the negation of a removed value can't overflow a smaller type.
        """
        has_integer_type = is_integer(type_of(value, self.types))
        wide = exp.cast(value, "bigint", dialect="spark") if has_integer_type else exp.paren(value)
        went = exp.LT(this=build_column(MULTIPLICITY), expression=exp.Literal.number(0))
        return self._add_total(exp.case().when(went, exp.Neg(this=wide)).else_(wide))

    def build_value_unless_empty(self, count: exp.Column, value: exp.Expr) -> exp.Expr:
        """Builds an expression with the value of `value`, but null if `count` is 0.

        Returns `value` itself if `count` is the number of all rows of a group with keys: such a group is never empty.
        """
        if count.name == self.rows and not self.is_one:
            return value
        return exp.case().when(exp.NEQ(this=count, expression=exp.Literal.number(0)), value)

    def add_extreme(self, kind: Literal["min", "max"], value: exp.Expr) -> exp.Column:
        """Adds the least or greatest of the values that are not null; returns the column of this extreme."""
        place = len(self.extremes) + 1
        new = Extreme(f"__arctic_extreme_{place}", kind, f"__arctic_gone_{place}")
        stored, _ = self.extremes.setdefault((kind, get_form(value)), (new, value))
        return build_column(stored.name)

    def _add_total(self, added: exp.Expr) -> exp.Column:
        name, _ = self.made.setdefault(get_form(added), (f"__arctic_total_{len(self.made) + 1}", added))
        return build_column(name)


def express_by_state(call: exp.Expr, state: StateColumns) -> exp.Expr | None:
    """Builds an expression over columns of aggregate state that has the value of the aggregate `call`.

    Adds the columns that the expression reads to `state`. None if the value can't be computed from such columns.
    """
    condition = None
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    function = find_aggregate_function(call)
    parts = [part for part in (call.this, *call.expressions) if isinstance(part, exp.Expr)]
    if function is None or function.state is None or any(isinstance(part, _MODIFIERS) for part in parts):
        return None
    return _VALUES[function.state](parts, condition, state)


_MODIFIERS = (exp.Distinct, exp.Order, exp.Limit, exp.HavingMax, exp.IgnoreNulls, exp.RespectNulls)


def _express_count(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    return state.add_count(_require_not_null(parts, condition, state))


def _express_count_if(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    return state.add_count(build_conjunction((*_list_condition(condition), *parts)))


def _express_sum(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    (value,) = parts
    size = get_precision_and_scale(type_of(value, state.types))
    if is_exact(value, state.types) is False or (size and size[1] > _MOST_SUMMED_BEHIND):
        return None
    return state.build_value_unless_empty(
        state.add_count(_require_not_null(parts, condition, state)), state.add_sum(_filter_value(condition, value))
    )


def _express_average(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    (value,) = parts
    of_type = type_of(value, state.types)
    if of_type is None or not is_averaged(of_type):
        return None
    count = state.add_count(_require_not_null(parts, condition, state))
    return build_average(
        state.add_sum(_filter_value(condition, value)), state.build_value_unless_empty(count, count), of_type
    )


def _express_min(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    return _express_extreme("min", parts, condition, state)


def _express_max(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    return _express_extreme("max", parts, condition, state)


def _express_extreme(
    kind: Literal["min", "max"], parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns
) -> exp.Expr | None:
    """Builds the expression for a min or max of `parts`, and adds the column that it reads to `state`.

    None if values of the type can't be kept as an extreme. The stored value is cast to the type of the argument, if it
    is known, as the table of the state may store small integers as larger ones. `condition` is that of the aggregate's
    FILTER clause.
    """
    value, *more = parts
    of_type = type_of(value, state.types)
    if more or not (is_ordered(of_type) or is_exact(value, state.types)):
        return None
    extreme_column = state.add_extreme(kind, _filter_value(condition, value))
    return exp.cast(extreme_column, of_type, dialect="spark") if of_type else extreme_column


_VALUES: Mapping[State, Callable[[list[exp.Expr], exp.Expr | None, StateColumns], exp.Expr | None]] = {
    "count": _express_count,
    "count_if": _express_count_if,
    "sum": _express_sum,
    "average": _express_average,
    "min": _express_min,
    "max": _express_max,
}

_MOST_SUMMED_BEHIND = 35
"""Maximum scale of decimals that can be summed exactly: the CASE with the number 0 leaves 3 of 38 digits before it."""


def _require_not_null(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    asked = [part for part in parts if not isinstance(part, exp.Star) and not is_never_null(part, state.never_null)]
    return build_conjunction((*_list_condition(condition), *(exp.paren(part).is_(exp.null()).not_() for part in asked)))


def _list_condition(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    return () if condition is None else (condition,)


def _filter_value(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return value if condition is None else exp.case().when(condition, value)
