"""Types of numbers, and those that Spark gives to what is computed of them."""

from __future__ import annotations

from collections.abc import Sequence

_WHOLE = {"tinyint": 3, "byte": 3, "smallint": 5, "short": 5, "int": 10, "integer": 10, "bigint": 20, "long": 20}
"""Whole numbers and the digits that Spark gives them where it takes them for decimals."""
_DECIMAL = ("decimal", "dec", "numeric")
_MOST_DIGITS = 38
_MORE_IN_SUM = 10


def digits(of_type: str | None) -> tuple[int, int] | None:
    """How many digits an exact number has at most, and how many of them behind its point; None for other types."""
    name, _, rest = (of_type or "").lower().replace(" ", "").partition("(")
    if name in _WHOLE:
        return _WHOLE[name], 0
    if name not in _DECIMAL:
        return None
    precision, _, scale = (rest.rstrip(")") or "10").partition(",")
    return int(precision), int(scale or 0)


def is_whole(of_type: str | None) -> bool:
    """Whether a type is tinyint, smallint, int or bigint."""
    return (of_type or "").lower().strip() in _WHOLE


def decimal(precision: int, scale: int) -> str | None:
    """A type of so many digits; None where there are more than Spark keeps, so that it would round."""
    return f"decimal({precision},{scale})" if precision <= _MOST_DIGITS else None


def sum_type(of_type: str | None) -> str | None:
    """The type of a sum of exact numbers; None for other types."""
    if is_whole(of_type):
        return "bigint"
    found = digits(of_type)
    return found and decimal(min(found[0] + _MORE_IN_SUM, _MOST_DIGITS), found[1])


def added_type(left: tuple[int, int], right: tuple[int, int]) -> str | None:
    """The type of a sum or a difference of two decimals with so many digits."""
    scale = max(left[1], right[1])
    return decimal(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def multiplied_type(left: tuple[int, int], right: tuple[int, int]) -> str | None:
    """The type of a product of two decimals with so many digits."""
    return decimal(left[0] + right[0] + 1, left[1] + right[1])


def exact_type(of_types: Sequence[str]) -> str | None:
    """The type of exact numbers that holds all values of some; None where there is none, or one is no exact number."""
    if all(map(is_whole, of_types)):
        return max(of_types, key=lambda of_type: _WHOLE[of_type.lower().strip()])
    sizes = [digits(of_type) for of_type in of_types]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    scale = max(behind for _, behind in known)
    return decimal(max(size - behind for size, behind in known) + scale, scale)


def wider(left: str, right: str) -> str:
    """The type of what is computed of two whole numbers."""
    return max(left, right, key=lambda of_type: _WHOLE[of_type.lower().strip()])
