"""Expresses aggregate calls by columns of aggregate state, and collects the columns that the state needs for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.aggregate_functions import State, find_aggregate_function
from arctic_runtime.ivm.algebra.average import build_average, is_averaged
from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.exact_numbers import is_exact
from arctic_runtime.ivm.algebra.expressions import Form, build_column, get_form
from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY
from arctic_runtime.ivm.rewrite.nullability import is_never_null
from arctic_runtime.ivm.strategies.extremes import Extreme, is_ordered


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

    def value_if_any(self, count: exp.Column, value: exp.Expr) -> exp.Expr:
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
    if is_exact(value, state.types) is False or (size and size[1] > _MOST_BEHIND):
        return None
    return state.value_if_any(
        state.add_count(_require_not_null(parts, condition, state)), state.add_sum(_filter_value(condition, value))
    )


def _express_average(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    (value,) = parts
    of_type = type_of(value, state.types)
    if of_type is None or not is_averaged(of_type):
        return None
    count = state.add_count(_require_not_null(parts, condition, state))
    return build_average(state.add_sum(_filter_value(condition, value)), state.value_if_any(count, count), of_type)


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

_MOST_BEHIND = 35
"""Maximum scale of decimals that can be summed exactly: the CASE with the number 0 leaves 3 of 38 digits before it."""


def _require_not_null(parts: list[exp.Expr], condition: exp.Expr | None, state: StateColumns) -> exp.Expr | None:
    asked = [part for part in parts if not isinstance(part, exp.Star) and not is_never_null(part, state.never_null)]
    return build_conjunction((*_list_condition(condition), *(exp.paren(part).is_(exp.null()).not_() for part in asked)))


def _list_condition(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    return () if condition is None else (condition,)


def _filter_value(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return value if condition is None else exp.case().when(condition, value)
