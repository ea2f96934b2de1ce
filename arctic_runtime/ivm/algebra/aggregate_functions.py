"""Aggregate functions of Spark, each with the facts on which analysis and maintenance rely.

A fact that is not proven has its cautious value: the type is unknown, the value over no rows is unknown, the value may
be any of many, and it can't be computed from aggregate state. With a cautious value a query is refused, or more is
computed than necessary; the rows of a table are never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.numbers import infer_sum_type

Answers = Literal["one", "near", "many"]
"""Number of different values that a call may return for the same rows.

These are only one (`one`); several that differ in their last digits or in the sign of a zero, as sums of floating point
numbers do (`near`); or any number of unrelated values, as for the first value of a group (`many`).
"""

OneAnswerIf = Literal[
    "exact_argument", "exactly_averaged_type", "type_with_one_zero", "unique_second_argument", "unique_window_order"
]
"""Conditions under which a call has only one possible value, although other calls of the function have several."""

State = Literal["count", "count_if", "sum", "average", "min", "max"]
"""Ways to compute the value of a call from aggregate state: counts, sums and extremes that are stored per group."""


@dataclass(frozen=True, kw_only=True)
class AggregateFunction:
    """Facts about one aggregate function of Spark; no field has a default, so that a new function must state each.

    `name` is in upper case. `expression` is sqlglot's class for calls of the function; None if sqlglot has no class for
    the function, or would write its calls back as another function. Two names with the same class are aliases of one
    function and have the same facts.
    """

    name: str
    expression: type[exp.Expr] | None
    infer_type: Callable[[str | None], str | None] | None
    """Infers the type of a call's value from the type of its first argument; None if one of the two is not certain.

    The field itself is None if the type can't be inferred in this way.
    """
    over_no_rows: Literal["zero", "null", "unknown"]
    """Value of a call without GROUP BY if the input has no rows."""
    is_never_null: bool
    """Whether the value is known to be never null."""
    answers: Answers
    """Number of values that a call may return, over all types of its arguments and all orders of the same rows."""
    one_answer_if: OneAnswerIf | None
    """Condition under which a call has only one possible value although `answers` is not `one`; None without one."""
    ignores_row_order: bool
    """Whether the value is known not to depend on the order of the input rows, except for rounding."""
    state: State | None
    """Way to compute the value from aggregate state; None if each changed group is computed from all its rows."""
    is_masking: bool
    """Whether the value does not reveal values of the argument, as that of a count; used for column lineage."""


def find_aggregate_function(call: exp.Expr) -> AggregateFunction | None:
    """Returns the facts about the aggregate function that `call` calls; None if `call` is any other expression."""
    if isinstance(call, exp.Anonymous):
        return _BY_NAME.get(call.name.upper())
    return _BY_EXPRESSION.get(type(call))


def get_first_argument(call: exp.Expr) -> exp.Expr | None:
    """Returns the first argument of a call, even if sqlglot has no class for the function; None without arguments."""
    argument = next(iter(call.expressions), None) if isinstance(call, exp.Anonymous) else call.this
    return argument if isinstance(argument, exp.Expr) else None


def _keep_type(of_type: str | None) -> str | None:
    return of_type


def _give_bigint(of_type: str | None) -> str | None:
    return "bigint"


def _widen_type(of_type: str | None) -> str | None:
    return "double" if of_type in ("float", "double") else infer_sum_type(of_type)


_Calls = tuple[tuple[str, type[exp.Expr] | None], ...]
"""Names and sqlglot classes of several functions that have all other facts in common."""

_FIRST_AND_LAST: _Calls = (("FIRST", exp.First), ("LAST", exp.Last))
_FIRST_AND_LAST_VALUES: _Calls = (("FIRST_VALUE", exp.FirstValue), ("LAST_VALUE", exp.LastValue))
_LOGIC: _Calls = (("BOOL_AND", exp.LogicalAnd), ("BOOL_OR", exp.LogicalOr))
_LOGIC_AND_BITS: _Calls = (
    ("BIT_AND", exp.BitwiseAndAgg),
    ("BIT_OR", exp.BitwiseOrAgg),
    ("BIT_XOR", exp.BitwiseXorAgg),
    ("EVERY", None),
    ("SOME", None),
)
_DEVIATIONS: _Calls = (
    ("STDDEV", exp.Stddev),
    ("STDDEV_POP", exp.StddevPop),
    ("STDDEV_SAMP", exp.StddevSamp),
    ("VAR_POP", exp.VariancePop),
    ("VAR_SAMP", exp.Variance),
    ("VARIANCE", exp.Variance),
)
_STATISTICS: _Calls = (
    ("CORR", exp.Corr),
    ("COVAR_POP", exp.CovarPop),
    ("COVAR_SAMP", exp.CovarSamp),
    ("KURTOSIS", exp.Kurtosis),
    ("MEAN", None),
    ("SKEWNESS", exp.Skewness),
    ("STD", None),
    ("TRY_AVG", None),
    ("TRY_SUM", None),
)
_REGRESSIONS: _Calls = (
    ("REGR_AVGX", exp.RegrAvgx),
    ("REGR_AVGY", exp.RegrAvgy),
    ("REGR_INTERCEPT", exp.RegrIntercept),
    ("REGR_R2", exp.RegrR2),
    ("REGR_SLOPE", exp.RegrSlope),
    ("REGR_SXX", exp.RegrSxx),
    ("REGR_SXY", exp.RegrSxy),
    ("REGR_SYY", exp.RegrSyy),
)
_BY_ANOTHER: _Calls = (("MAX_BY", None), ("MIN_BY", None))
_UNPROVEN: _Calls = (
    ("ANY", None),
    ("APPROX_PERCENTILE", None),
    ("APPROX_TOP_K", None),
    ("ARRAY_AGG", exp.ArrayAgg),
    ("BITMAP_CONSTRUCT_AGG", exp.BitmapConstructAgg),
    ("BITMAP_OR_AGG", exp.BitmapOrAgg),
    ("COLLECT_LIST", exp.ArrayAgg),
    ("COLLECT_SET", exp.ArrayUniqueAgg),
    ("COUNT_MIN_SKETCH", None),
    ("HISTOGRAM_NUMERIC", None),
    ("HLL_SKETCH_AGG", None),
    ("HLL_UNION_AGG", None),
    ("LISTAGG", None),
    ("MODE", exp.Mode),
    ("PERCENTILE", None),
    ("PERCENTILE_APPROX", None),
    ("PERCENTILE_CONT", None),
    ("PERCENTILE_DISC", None),
    ("SCHEMA_OF_JSON_AGG", None),
    ("SCHEMA_OF_VARIANT_AGG", None),
    ("STRING_AGG", None),
)

AGGREGATE_FUNCTIONS: tuple[AggregateFunction, ...] = (
    AggregateFunction(
        name="COUNT",
        expression=exp.Count,
        infer_type=_give_bigint,
        over_no_rows="zero",
        is_never_null=True,
        answers="one",
        one_answer_if=None,
        ignores_row_order=True,
        state="count",
        is_masking=True,
    ),
    AggregateFunction(
        name="COUNT_IF",
        expression=exp.CountIf,
        infer_type=_give_bigint,
        over_no_rows="zero",
        is_never_null=False,
        answers="one",
        one_answer_if=None,
        ignores_row_order=True,
        state="count_if",
        is_masking=True,
    ),
    AggregateFunction(
        name="APPROX_COUNT_DISTINCT",
        expression=exp.ApproxDistinct,
        infer_type=_give_bigint,
        over_no_rows="zero",
        is_never_null=False,
        answers="one",
        one_answer_if=None,
        ignores_row_order=True,
        state=None,
        is_masking=True,
    ),
    AggregateFunction(
        name="SUM",
        expression=exp.Sum,
        infer_type=_widen_type,
        over_no_rows="null",
        is_never_null=False,
        answers="near",
        one_answer_if="exact_argument",
        ignores_row_order=True,
        state="sum",
        is_masking=False,
    ),
    AggregateFunction(
        name="AVG",
        expression=exp.Avg,
        infer_type=None,
        over_no_rows="null",
        is_never_null=False,
        answers="near",
        one_answer_if="exactly_averaged_type",
        ignores_row_order=True,
        state="average",
        is_masking=False,
    ),
    AggregateFunction(
        name="MIN",
        expression=exp.Min,
        infer_type=_keep_type,
        over_no_rows="null",
        is_never_null=False,
        answers="near",
        one_answer_if="type_with_one_zero",
        ignores_row_order=True,
        state="min",
        is_masking=False,
    ),
    AggregateFunction(
        name="MAX",
        expression=exp.Max,
        infer_type=_keep_type,
        over_no_rows="null",
        is_never_null=False,
        answers="near",
        one_answer_if="type_with_one_zero",
        ignores_row_order=True,
        state="max",
        is_masking=False,
    ),
    AggregateFunction(
        name="ANY_VALUE",
        expression=exp.AnyValue,
        infer_type=_keep_type,
        over_no_rows="null",
        is_never_null=False,
        answers="many",
        one_answer_if=None,
        ignores_row_order=False,
        state=None,
        is_masking=False,
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=_keep_type,
            over_no_rows="null",
            is_never_null=False,
            answers="many",
            one_answer_if="unique_window_order",
            ignores_row_order=False,
            state=None,
            is_masking=False,
        )
        for name, expression in _FIRST_AND_LAST
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="many",
            one_answer_if="unique_window_order",
            ignores_row_order=False,
            state=None,
            is_masking=False,
        )
        for name, expression in _FIRST_AND_LAST_VALUES
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="null",
            is_never_null=False,
            answers="one",
            one_answer_if=None,
            ignores_row_order=True,
            state=None,
            is_masking=False,
        )
        for name, expression in _LOGIC
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="one",
            one_answer_if=None,
            ignores_row_order=True,
            state=None,
            is_masking=False,
        )
        for name, expression in _LOGIC_AND_BITS
    ),
    AggregateFunction(
        name="REGR_COUNT",
        expression=exp.RegrCount,
        infer_type=None,
        over_no_rows="unknown",
        is_never_null=False,
        answers="one",
        one_answer_if=None,
        ignores_row_order=False,
        state=None,
        is_masking=False,
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="null",
            is_never_null=False,
            answers="near",
            one_answer_if=None,
            ignores_row_order=True,
            state=None,
            is_masking=False,
        )
        for name, expression in _DEVIATIONS
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="near",
            one_answer_if=None,
            ignores_row_order=True,
            state=None,
            is_masking=False,
        )
        for name, expression in _STATISTICS
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="near",
            one_answer_if=None,
            ignores_row_order=False,
            state=None,
            is_masking=False,
        )
        for name, expression in _REGRESSIONS
    ),
    AggregateFunction(
        name="MEDIAN",
        expression=exp.Median,
        infer_type=None,
        over_no_rows="unknown",
        is_never_null=False,
        answers="many",
        one_answer_if=None,
        ignores_row_order=True,
        state=None,
        is_masking=False,
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="many",
            one_answer_if="unique_second_argument",
            ignores_row_order=False,
            state=None,
            is_masking=False,
        )
        for name, expression in _BY_ANOTHER
    ),
    *(
        AggregateFunction(
            name=name,
            expression=expression,
            infer_type=None,
            over_no_rows="unknown",
            is_never_null=False,
            answers="many",
            one_answer_if=None,
            ignores_row_order=False,
            state=None,
            is_masking=False,
        )
        for name, expression in _UNPROVEN
    ),
)

_BY_NAME: Mapping[str, AggregateFunction] = {function.name: function for function in AGGREGATE_FUNCTIONS}
_BY_EXPRESSION: Mapping[type[exp.Expr], AggregateFunction] = {
    function.expression: function for function in AGGREGATE_FUNCTIONS if function.expression is not None
}
