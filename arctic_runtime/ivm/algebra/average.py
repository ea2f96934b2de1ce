"""Computes the average of decimals from their sum and their count, rounded exactly as Spark does.

Spark's average of decimal(p, s) is the quotient rounded half away from zero to decimal(p + 4, s + 4). Its division
rounds as well, to a number of digits that depends on the types, so that a quotient of two columns would be rounded
twice. Here no division rounds: before it, the sum is reduced by its remainder modulo the count (in units of the last
digit). The remainder then decides whether the last digit is rounded.
"""

from __future__ import annotations

from sqlglot import exp

from arctic_runtime.ivm.algebra.exact_numbers import is_averaged_exactly
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale

_MOST = 23
_MOST_BEHIND = 12
_MOST_COUNTED = 19


def is_averaged(of_type: str | None) -> bool:
    """Whether `build_average` can compute the average of values of the type `of_type` exactly.

    True for decimals that Spark averages without floating point, if no intermediate result exceeds 38 digits.
    """
    precision, scale = get_precision_and_scale(of_type) or (0, 0)
    return is_averaged_exactly(of_type) and precision <= _MOST and scale <= _MOST_BEHIND


def build_average(total: exp.Expr, count: exp.Expr, of_type: str) -> exp.Expr:
    """Builds the expression `total / count`, rounded as Spark rounds an average of values of the type `of_type`.

    `is_averaged(of_type)` must hold, and `count` must not be zero. The average is null if `total` or `count` is null.
    """
    precision, scale = get_precision_and_scale(of_type) or (0, 0)
    precision, scale = precision + 4, scale + 4
    number = _cast_to_decimal(count, _MOST_COUNTED, 0)
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
