"""Types of numbers, and the result types of Spark's arithmetic with them."""

from __future__ import annotations

from collections.abc import Sequence

_WHOLE = {"tinyint": 3, "byte": 3, "smallint": 5, "short": 5, "int": 10, "integer": 10, "bigint": 20, "long": 20}
"""Maps names of integer types to the precision that Spark gives their values as decimals."""
_DECIMAL = ("decimal", "dec", "numeric")
_MOST_DIGITS = 38
_MORE_IN_SUM = 10


def get_precision_and_scale(of_type: str | None) -> tuple[int, int] | None:
    """Returns the precision and scale of an integer or decimal type; None for other types.

    An integer type has the precision that Spark gives its values as decimals, and scale 0.
    """
    name, _, rest = (of_type or "").lower().replace(" ", "").partition("(")
    if name in _WHOLE:
        return _WHOLE[name], 0
    if name not in _DECIMAL:
        return None
    precision, _, scale = (rest.rstrip(")") or "10").partition(",")
    return int(precision), int(scale or 0)


def is_integer(of_type: str | None) -> bool:
    """Whether a type is tinyint, smallint, int or bigint."""
    return (of_type or "").lower().strip() in _WHOLE


def to_decimal_type(precision: int, scale: int) -> str | None:
    """Returns the decimal type with this precision and scale; None above 38 digits, because Spark would round."""
    return f"decimal({precision},{scale})" if precision <= _MOST_DIGITS else None


def infer_sum_type(of_type: str | None) -> str | None:
    """Returns the type of Spark's `sum` over values of an integer or decimal type; None for other types."""
    if is_integer(of_type):
        return "bigint"
    digit_counts = get_precision_and_scale(of_type)
    return digit_counts and to_decimal_type(min(digit_counts[0] + _MORE_IN_SUM, _MOST_DIGITS), digit_counts[1])


def infer_addition_type(left: tuple[int, int], right: tuple[int, int]) -> str | None:
    """Returns the type of a sum or a difference of two decimals, each given as (precision, scale).

    None if it needs more than 38 digits.
    """
    scale = max(left[1], right[1])
    return to_decimal_type(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def infer_product_type(left: tuple[int, int], right: tuple[int, int]) -> str | None:
    """Returns the type of a product of two decimals, each given as (precision, scale).

    None if it needs more than 38 digits.
    """
    return to_decimal_type(left[0] + right[0] + 1, left[1] + right[1])


def find_exact_type(of_types: Sequence[str]) -> str | None:
    """Finds the smallest integer or decimal type that holds all values of all `of_types`.

    Returns None if that takes more than 38 digits, or if one of `of_types` is neither an integer nor a decimal type.
    """
    if all(map(is_integer, of_types)):
        return max(of_types, key=lambda of_type: _WHOLE[of_type.lower().strip()])
    sizes = [get_precision_and_scale(of_type) for of_type in of_types]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    scale = max(behind for _, behind in known)
    return to_decimal_type(max(size - behind for size, behind in known) + scale, scale)


def find_wider_type(left: str, right: str) -> str:
    """Returns the wider of two integer types, which is the type of a sum, difference or product of their values."""
    return max(left, right, key=lambda of_type: _WHOLE[of_type.lower().strip()])
