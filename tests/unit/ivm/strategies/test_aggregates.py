"""Averages from sums and counts, computed by a model of how Spark types and rounds arithmetic of decimals."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cache
from random import Random

import pytest
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.strategies.aggregates import build_average, is_averaged

MOST = 38
WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
TYPES = [(12, 0), (12, 12), (13, 2), (15, 2), (18, 6), (20, 12), (23, 0), (23, 4), (23, 12)]


@dataclass(frozen=True)
class Number:
    """A decimal as Spark has it; `make` rounds as a cast does and refuses what a type has no room for."""

    value: Decimal
    precision: int
    scale: int

    @classmethod
    def make(cls, value: Decimal, precision: int, scale: int) -> Number:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=WIDE)
        assert rounded.copy_abs() < Decimal(10) ** (precision - scale), f"{value} is no decimal({precision}, {scale})"
        return cls(rounded, precision, scale)

    @classmethod
    def adjusted(cls, value: Decimal, precision: int, scale: int) -> Number:
        """Of more digits than there may be, those behind the point give way, down to six."""
        if precision > MOST:
            scale = max(MOST - (precision - scale), min(scale, 6))
        return cls.make(value, min(precision, MOST), scale)


def evaluate(node: exp.Expr, row: dict[str, Number]) -> Number:
    """The value of an expression, each step of it with the type and the rounding that Spark gives it."""
    match node:
        case exp.Paren():
            return evaluate(node.this, row)
        case exp.Column():
            return row[node.name]
        case exp.Literal():
            digits = len(node.name.replace(".", ""))
            return Number.make(Decimal(node.name), digits, len(node.name.partition(".")[2]))
        case exp.Neg():
            average = evaluate(node.this, row)
            return Number(average.value.copy_negate(), average.precision, average.scale)
        case exp.Cast():
            precision, scale = (int(part.name) for part in node.to.expressions)
            return Number.make(evaluate(node.this, row).value, precision, scale)
        case exp.Case():
            branch = next((part.args["true"] for part in node.args["ifs"] if holds(part.this, row)), None)
            return evaluate(node.args["default"] if branch is None else branch, row)
    return computed(node, evaluate(node.this, row), evaluate(node.expression, row))


def computed(node: exp.Expr, one: Number, other: Number) -> Number:
    whole = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    match node:
        case exp.Add():
            return Number.adjusted(WIDE.add(one.value, other.value), whole + scale + 1, scale)
        case exp.Sub():
            return Number.adjusted(WIDE.subtract(one.value, other.value), whole + scale + 1, scale)
        case exp.Mul():
            precision, scale = one.precision + other.precision + 1, one.scale + other.scale
            return Number.adjusted(WIDE.multiply(one.value, other.value), precision, scale)
        case exp.Mod():
            least = min(one.precision - one.scale, other.precision - other.scale)
            return Number.adjusted(WIDE.remainder(one.value, other.value), least + scale, scale)
        case exp.Div():
            quotient = WIDE.divide(one.value, other.value).quantize(Decimal(1).scaleb(-MOST - 1), context=WIDE)
            scale = max(6, one.scale + other.precision + 1)
            return Number.adjusted(quotient, one.precision - one.scale + other.scale + scale, scale)
    raise AssertionError(f"{node.key} has no place in an average")


def holds(node: exp.Expr, row: dict[str, Number]) -> bool:
    """A comparison, for which both sides are cast to one type that has to hold all digits of either."""
    one, other = evaluate(node.this, row), evaluate(node.expression, row)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    assert whole + max(one.scale, other.scale) <= MOST
    assert isinstance(node, exp.GTE | exp.LTE)
    return one.value >= other.value if isinstance(node, exp.GTE) else one.value <= other.value


@cache
def expression(precision: int, scale: int) -> exp.Expr:
    return build_average(build_column("total"), build_column("count"), f"decimal({precision},{scale})")


def averaged(unscaled: int, count: int, precision: int, scale: int) -> Decimal:
    total = Number.make(Decimal(unscaled).scaleb(-scale, context=WIDE), precision + 10, scale)
    row = {"total": total, "count": Number.make(Decimal(count), 20, 0)}
    average = evaluate(expression(precision, scale), row)
    assert (average.precision, average.scale) == (precision + 4, scale + 4)
    return average.value


def exactly(unscaled: int, count: int, scale: int) -> Decimal:
    """The quotient rounded half away from zero, by whole numbers alone."""
    ratio = Fraction(abs(unscaled) * 10**4, count)
    rounded = (2 * ratio.numerator + ratio.denominator) // (2 * ratio.denominator)
    return Decimal(rounded if unscaled >= 0 else -rounded).scaleb(-scale - 4, context=WIDE)


def sums(random: Random, precision: int) -> tuple[int, int]:
    """A sum and how many it is of: often such that the average lies half way between two results, or just beside."""
    count = random.choice((1, 2, 3, 7, 64, 10**4, 2 * 10**4, 10**6, random.randint(1, 10**9), 2**63 - 1))
    most = min(count * (10**precision - 1), 10 ** (precision + 10) - 1)
    total = random.choice((random.randint(-most, most), most, -most, 0, random.randint(-count, count)))
    halved = (2 * (total // 3) + 1) * count // (2 * 10**4) + random.choice((-1, 0, 1))
    return max(-most, min(most, random.choice((total, halved)))), count


@pytest.mark.parametrize("size", TYPES)
def test_an_average_is_the_quotient_rounded_once(size: tuple[int, int]) -> None:
    precision, scale = size
    for seed in range(20):
        total, count = sums(Random(seed), precision)
        assert averaged(total, count, precision, scale) == exactly(total, count, scale), (seed, total, count)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(p, s) for p in range(12, 24) for s in range(min(p, 12) + 1)])
def test_an_average_of_any_type_is_the_quotient_rounded_once(size: tuple[int, int]) -> None:
    precision, scale = size
    for seed in range(100):
        total, count = sums(Random(seed), precision)
        assert averaged(total, count, precision, scale) == exactly(total, count, scale), (seed, total, count)


HALVES = {"half": (1, 20_000, "0.0001"), "below zero": (-1, 20_000, "-0.0001"), "less": (1, 20_001, "0.0000")}


@pytest.mark.parametrize(("total", "count", "name"), HALVES.values(), ids=HALVES)
def test_a_half_is_rounded_away_from_zero(total: int, count: int, name: str) -> None:
    assert averaged(total, count, 12, 0) == Decimal(name)


AVERAGED = ["decimal(12,0)", "decimal(15, 2)", "DECIMAL(23,12)", "numeric(18,6)"]
REFUSED = ["decimal(11,2)", "decimal", "decimal(24,2)", "decimal(20,13)", "bigint", "double", "string", "array<int>"]


@pytest.mark.parametrize("of_type", [*AVERAGED, *REFUSED])
def test_only_decimals_that_spark_averages_exactly_are_averaged(of_type: str) -> None:
    assert is_averaged(of_type) == (of_type in AVERAGED)
