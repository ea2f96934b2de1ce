"""Tests whether numbers are exact: integers and decimals, whose sums do not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer

_LEAST_AVERAGED = 12
"""Least precision of decimals that Spark averages exactly; its optimizer averages others as floating point numbers."""


def is_averaged_exactly(of_type: str | None) -> bool:
    """Whether Spark averages a type without floating point: decimals of at least `_LEAST_AVERAGED` digits."""
    digit_counts = get_precision_and_scale(of_type)
    return digit_counts is not None and not is_integer(of_type) and digit_counts[0] >= _LEAST_AVERAGED


def is_exact(value: exp.Expr, types: Mapping[str, str]) -> bool | None:
    """Whether the type of `value` is a whole number or a decimal; None if the type is not known.

    `types` are the types of columns by name. For a quotient the result is None, because Spark divides whole numbers as
    floating point numbers; it is False if the dividend or the divisor is inexact.
    """
    bare = value.unnest()
    if isinstance(bare, exp.Neg):
        return is_exact(bare.this, types)
    if isinstance(bare, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        sides = is_exact(bare.this, types), is_exact(bare.expression, types)
        unsure = None in sides or isinstance(bare, exp.Div)
        return False if False in sides else None if unsure else True
    if isinstance(bare, exp.Coalesce | exp.Case):
        return _is_all_exact(_list_results(bare), types)
    of_type = type_of(bare, types)
    return None if of_type is None else get_precision_and_scale(of_type) is not None


def _list_results(value: exp.Coalesce | exp.Case) -> list[exp.Expr]:
    """Lists the arguments of a COALESCE, or the results of the branches of a CASE."""
    if isinstance(value, exp.Coalesce):
        return [value.this, *value.expressions]
    default = value.args.get("default")
    return [*(part.args["true"] for part in value.args["ifs"]), *([default] if default is not None else [])]


def _is_all_exact(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool | None:
    answers = {is_exact(part, types) for part in parts if not isinstance(part.unnest(), exp.Null)}
    return False if False in answers else None if None in answers else bool(answers)
