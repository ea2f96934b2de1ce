"""Infers the types of expressions, without a call to Spark, and tests whether numbers and their sums are exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.aggregate_functions import find_aggregate_function, get_first_argument
from arctic_runtime.ivm.algebra.expressions import Form, get_form
from arctic_runtime.ivm.algebra.numbers import (
    find_exact_type,
    get_precision_and_scale,
    infer_addition_type,
    infer_product_type,
    is_integer,
)

SAME_TYPE = (exp.Paren, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""Expressions around one other expression that have its type, such as parentheses and OVER (…)."""

ALWAYS_TYPES: dict[type[exp.Expr], str] = {
    exp.Boolean: "boolean",
    exp.RowNumber: "int",
    exp.Rank: "int",
    exp.DenseRank: "int",
}

FUNCTION_TYPES: dict[tuple[str, int], str] = {
    **dict.fromkeys((("DATE_FORMAT", 2), ("HEX", 1), ("MD5", 1), ("SHA1", 1), ("SHA2", 2)), "string"),
    **dict.fromkeys((("TO_DATE", 1), ("TO_DATE", 2), ("DATE", 1), ("LAST_DAY", 1), ("MAKE_DATE", 3)), "date"),
    **dict.fromkeys((("DATE_ADD", 2), ("DATE_SUB", 2), ("ADD_MONTHS", 2)), "date"),
    **dict.fromkeys((("YEAR", 1), ("QUARTER", 1), ("MONTH", 1), ("DAY", 1), ("WEEKOFYEAR", 1)), "int"),
    **dict.fromkeys((("DAYOFWEEK", 1), ("LENGTH", 1), ("HASH", 1), ("HASH", 2)), "int"),
    ("TIMESTAMP_MICROS", 1): "timestamp",
    **dict.fromkeys((("XXHASH64", 1), ("XXHASH64", 2)), "bigint"),
}
"""Result types by function name and number of arguments, for functions whose type does not depend on the arguments."""

TEXT_FUNCTIONS = frozenset({"LOWER", "UPPER", "INITCAP", "REPLACE", "REGEXP_REPLACE", "SPLIT_PART", "CONCAT_WS"})
"""Functions that return a text, which has the collation of the arguments if these have one."""

_TEXTS = ("char", "varchar")

_OF_SUFFIX = {"Y": "tinyint", "S": "smallint", "L": "bigint", "D": "double", "F": "float"}


def type_of(value: exp.Expr, types: Mapping[str, str]) -> str | None:
    """Infers the type of `value` from `types`, the types of columns by name; None if the type is not certain.

    Types are written as Spark writes them, such as `decimal(10,2)`.
    """
    match value:
        case exp.Column():
            return types.get(value.name)
        case exp.Cast():
            return _infer_cast_type(value)
        case exp.Literal():
            return _infer_literal_type(value)
        case exp.Neg():
            return _infer_negative_type(value, types)
        case exp.Coalesce():
            return _infer_common_type((value.this, *value.expressions), types)
        case exp.Case():
            return _infer_common_type(
                (*(part.args["true"] for part in value.args["ifs"]), value.args.get("default")), types
            )
        case exp.Add() | exp.Sub() | exp.Mul():
            return _infer_arithmetic_type(value, types)
    function = find_aggregate_function(value)
    if function is not None and function.infer_type is not None:
        argument = get_first_argument(value)
        return function.infer_type(None if argument is None else type_of(argument, types))
    if isinstance(value, exp.Anonymous):
        return _infer_call_type(value, types)
    if isinstance(value, SAME_TYPE):
        return type_of(value.this, types)
    return ALWAYS_TYPES.get(type(value))


_CASTS: dict[Form, str] = {}
"""Cache of the result types of casts, by `get_form` of the type: a wide query has thousands of casts to a few types."""


def _infer_cast_type(value: exp.Cast) -> str:
    """Returns the result type of a cast: `string` for char(n) and varchar(n), which only stored columns can have."""
    key = get_form(value.to)
    if key not in _CASTS:
        written = value.to.sql(dialect="spark").lower()
        _CASTS[key] = "string" if written.partition("(")[0] in _TEXTS else written
    return _CASTS[key]


def _infer_call_type(call: exp.Anonymous, types: Mapping[str, str]) -> str | None:
    name = call.name.upper()
    if name not in TEXT_FUNCTIONS:
        return FUNCTION_TYPES.get((name, len(call.expressions)))
    argument_types = [type_of(part, types) for part in call.expressions]
    return "string" if all(of_type is not None and "collate" not in of_type for of_type in argument_types) else None


def _infer_negative_type(value: exp.Neg, types: Mapping[str, str]) -> str | None:
    """Infers the type of a negated number.

    The sign belongs to a literal: `-2147483648` is an int, although `2147483648` is a bigint.
    """
    if isinstance(value.this, exp.Literal) and value.this.is_int:
        return _infer_whole_number_type(-int(value.this.name))
    of_type = type_of(value.this, types)
    return of_type if get_precision_and_scale(of_type) is not None or of_type in ("float", "double") else None


def _infer_arithmetic_type(value: exp.Add | exp.Sub | exp.Mul, types: Mapping[str, str]) -> str | None:
    """Infers the type of a sum, a difference or a product of exact numbers; None if it is not certain."""
    sides = [side.unnest() for side in (value.this, value.expression)]
    one, other = (type_of(side, types) for side in sides)
    if one is not None and other is not None and is_integer(one) and is_integer(other):
        return find_exact_type((one, other))
    left, right = (_get_precision_and_scale(side, of_type) for side, of_type in zip(sides, (one, other), strict=True))
    if left is None or right is None:
        return None
    return infer_product_type(left, right) if isinstance(value, exp.Mul) else infer_addition_type(left, right)


def _get_precision_and_scale(value: exp.Expr, of_type: str | None) -> tuple[int, int] | None:
    """Returns the precision and scale that Spark gives `value` in arithmetic with a decimal; None if not certain.

    `of_type` is the type of `value`. The precision of an integer literal is the number of its digits.
    """
    if not is_integer(of_type) or isinstance(value, exp.Column | exp.Cast):
        return get_precision_and_scale(of_type)
    return (len(str(int(value.name.rstrip("LSYlsy")))), 0) if isinstance(value, exp.Literal) else None


def _infer_common_type(parts: Iterable[exp.Expr | None], types: Mapping[str, str]) -> str | None:
    """Returns the one type of all `parts`, or the type of exact numbers that holds all their values.

    Nulls are ignored. Returns None if there is no such type, or if the type of a part is not certain.
    """
    part_types = {type_of(part, types) for part in parts if part is not None and not isinstance(part, exp.Null)}
    known = [of_type for of_type in part_types if of_type is not None]
    if len(known) < len(part_types) or not known:
        return None
    return known[0] if len(known) == 1 else find_exact_type(known)


def _infer_literal_type(value: exp.Literal) -> str | None:
    if value.is_string:
        return "string"
    written = value.name
    of_suffix = _OF_SUFFIX.get(written[-1:].upper())
    if of_suffix is not None:
        return of_suffix
    if written.isdigit():
        return _infer_whole_number_type(int(written))
    whole, _, rest = written.partition(".")
    if not (whole + rest).isdigit():
        return None
    before = whole.lstrip("0")
    return f"decimal({max(len(before) + len(rest), 1)},{len(rest)})"


def _infer_whole_number_type(number: int) -> str | None:
    """Returns the type of an integer literal, int or bigint; None if it does not fit a bigint."""
    if -(2**31) <= number < 2**31:
        return "int"
    return "bigint" if -(2**63) <= number < 2**63 else None


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
