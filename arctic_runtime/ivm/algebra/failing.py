"""Tests whether an expression can raise an error when Spark evaluates it.

Under ANSI rules `cast(s as int)` raises an error if `s` is no number. A query that removes such rows by a filter before
the cast never raises this error, so a plan that maintains the query must not raise it either: it evaluates such an
expression only for rows for which the query evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer

_HARMLESS = (exp.Paren, exp.And, exp.Or, exp.Not, exp.Is)
_LEAVES = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Var)
_COMPARED = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between),
    *(exp.Coalesce, exp.Like, exp.Trim),
)
"""Expressions that can't fail if their arguments have one type, because the arguments are then not converted."""

_SAFE_FOR_ANY_TYPES = frozenset(
    {"LOWER", "UPPER", "LCASE", "UCASE", "LTRIM", "RTRIM", "BTRIM", "INITCAP", "CONCAT_WS", "MD5", "SHA1", "LENGTH"}
    | {"HASH", "XXHASH64", "ISNULL", "ISNOTNULL"}
)
"""Functions that can't fail for arguments of any type, because Spark converts these to texts without errors."""
_SAFE_FOR_ONE_TYPE = frozenset({"IFNULL", "NVL", "NULLIF", "CONCAT", "REPLACE", "STARTSWITH", "ENDSWITH", "CONTAINS"})
_SAFE_FOR_WHOLE_POSITIONS = frozenset({"SUBSTR", "SUBSTRING", "LEFT", "RIGHT"})
_SAFE_FOR_DATES = frozenset(
    {"YEAR", "QUARTER", "MONTH", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "WEEKDAY", "WEEKOFYEAR", "HOUR"}
    | {"MINUTE", "SECOND", "LAST_DAY", "DATE", "TO_DATE"}
)
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_INEXACT = ("float", "double")


def can_fail(value: exp.Expr, types: Mapping[str, str]) -> bool:
    """Whether `value` can raise an error for some values of its columns; True if this is not certain.

    `types` are the types of the columns by name.
    """
    return not _is_safe(value, types)


def _is_safe(value: exp.Expr, types: Mapping[str, str]) -> bool:
    match value:
        case exp.Cast(this=exp.Literal() as number) if number.is_int and is_integer(type_of(value, types)):
            return len(number.name) < (get_precision_and_scale(type_of(value, types)) or (0, 0))[0]
        case exp.Cast():
            return _are_all_safe((value.this,), types) and _is_lossless_cast(
                type_of(value.this, types), type_of(value, types)
            )
        case exp.Case():
            branches = value.args["ifs"]
            results = [part for part in (*(one.args["true"] for one in branches), value.args.get("default")) if part]
            parts = [*(one.this for one in branches), *results]
            return value.this is None and _are_all_safe(parts, types) and _has_one_type(results, types)
        case exp.Mod():
            by = value.expression.unnest()
            is_number = isinstance(by, exp.Literal) and by.is_int and int(by.name) != 0
            return (
                is_number
                and _are_all_safe((value.this,), types)
                and get_precision_and_scale(type_of(value.this.unnest(), types)) is not None
            )
        case exp.In():
            parts = [value.this, *value.expressions]
            return not value.args.get("query") and _are_all_safe(parts, types) and _has_one_type(parts, types)
        case exp.Add() | exp.Sub() | exp.Mul():
            of_type = type_of(value, types)
            sides = [type_of(side.unnest(), types) for side in (value.this, value.expression)]
            cannot_overflow = bool(of_type and of_type.startswith("decimal")) or set(sides) <= set(_INEXACT)
            return _are_all_safe((value.this, value.expression), types) and cannot_overflow
        case exp.Substring():
            places = [part for part in (value.args.get("start"), value.args.get("length")) if part is not None]
            return _are_all_safe((value.this, *places), types) and _are_whole(places, types)
        case exp.Extract():
            return _are_all_safe((value.expression,), types) and _are_moments((value.expression,), types)
        case exp.Anonymous():
            return _is_safe_call(value.name.upper(), value.expressions, types)
    parts = list(value.iter_expressions())
    if isinstance(value, _COMPARED):
        return _are_all_safe(parts, types) and _has_one_type(parts, types)
    return isinstance(value, _LEAVES) or (isinstance(value, _HARMLESS) and _are_all_safe(parts, types))


def _is_safe_call(name: str, arguments: list[exp.Expr], types: Mapping[str, str]) -> bool:
    if not _are_all_safe(arguments, types):
        return False
    if name == "DATE_TRUNC":
        return isinstance(arguments[0], exp.Literal) and _are_moments(arguments[1:], types)
    if name == "TRUNC":
        return isinstance(arguments[-1], exp.Literal) and _are_moments(arguments[:-1], types)
    if name in _SAFE_FOR_DATES:
        return len(arguments) == 1 and _are_moments(arguments, types)
    if name in _SAFE_FOR_WHOLE_POSITIONS:
        return _are_whole(arguments[1:], types)
    return name in _SAFE_FOR_ANY_TYPES or (name in _SAFE_FOR_ONE_TYPE and _has_one_type(arguments, types))


def _are_all_safe(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(_is_safe(part, types) for part in parts)


def _has_one_type(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    """Whether `parts` have one type or are all numbers, so that Spark combines them without a cast that can fail."""
    kinds = {type_of(part.unnest(), types) for part in parts if not isinstance(part, exp.Null)}
    return len(kinds) <= 1 if None in kinds or not all(map(_is_number, kinds)) else True


def _is_number(of_type: str | None) -> bool:
    return get_precision_and_scale(of_type) is not None or of_type in _INEXACT


def _are_whole(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(is_integer(type_of(part, types)) for part in parts)


def _are_moments(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(type_of(part, types) in _MOMENTS for part in parts)


def _is_lossless_cast(of_type: str | None, to: str | None) -> bool:
    """Whether a cast from `of_type` to `to` succeeds for every value."""
    if to == "string" or (of_type is not None and of_type == to):
        return True
    if of_type in _MOMENTS and to in _MOMENTS:
        return True
    one, other = get_precision_and_scale(of_type), get_precision_and_scale(to)
    if one and other:
        return one[1] <= other[1] and one[0] - one[1] <= other[0] - other[1]
    return bool(to in _INEXACT and _is_number(of_type))
