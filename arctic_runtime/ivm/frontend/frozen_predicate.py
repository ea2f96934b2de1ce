"""The predicate of `frozen_where`, which may read the clock if time alone makes it true, and never false again."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.clock import NOW, pin_clock, reads_clock
from arctic_runtime.ivm.algebra.refusal import get_first_line
from arctic_runtime.ivm.frontend.row_predicate import RowPredicate, parse_row_condition, read_row_predicate

_LATER = {"TIMESTAMP_MICROS": 0, "DATE_ADD": 0, "DATE_SUB": 0, "ADD_MONTHS": 0, "LAST_DAY": 0, "TRUNC": 0}
_LATER |= {"YEAR": 0, "TO_DATE": 0, "DATE": 0, "DATE_TRUNC": 1, "DATEADD": 2}
"""Functions whose value never decreases as the argument at this index increases."""


def check_frozen_predicate(text: str) -> None:
    """Raises ConfigError if a text can't be the predicate of `frozen_where`, whatever columns the model has.

    It is a deterministic condition over single rows. A condition on the clock compares a value of the row with a time
    that the value precedes, so that a row for which the predicate is true needs no record of this.
    """
    tree = parse_row_condition(_pin(text))
    if not _stays_true(tree):
        raise ConfigError(
            f"{text!r} may be true of a row and false of the same row later.",
            expected="conditions on the clock by which a row is old enough, joined with others by `and` or `or`",
            fix="compare as in `day < current_date - interval 90 days`",
        )


def read_frozen_predicate(text: str, columns: Sequence[str], micros: int) -> RowPredicate:
    """Reads the predicate of `frozen_where` as of the time `micros`, in microseconds since 1970.

    `columns` are those of the table. Raises ConfigError if it names another one.
    """
    return read_row_predicate(_pin(text, micros), columns, text)


def _pin(text: str, micros: int | None = None) -> str:
    try:
        return pin_clock(text, micros)
    except SqlglotError as error:
        raise ConfigError(f"{text!r} is not an SQL predicate.", actual=get_first_line(error)) from error


def _stays_true(node: exp.Expr) -> bool:
    """Whether a condition that is true of a row stays true as time passes."""
    if not reads_clock(node):
        return True
    match node:
        case exp.Paren():
            return _stays_true(node.this)
        case exp.And() | exp.Or():
            return _stays_true(node.left) and _stays_true(node.right)
        case exp.LT() | exp.LTE():
            return _is_before(node.left, node.right)
        case exp.GT() | exp.GTE():
            return _is_before(node.right, node.left)
    return False


def _is_before(value: exp.Expr, time: exp.Expr) -> bool:
    return not reads_clock(value) and _never_decreases(time)


def _never_decreases(node: exp.Expr) -> bool:
    """Whether an expression of one row never becomes smaller as time passes."""
    if not reads_clock(node):
        return True
    match node:
        case exp.Paren():
            return _never_decreases(node.this)
        case exp.Cast():
            return _is_time_type(node) and _never_decreases(node.this)
        case exp.Add():
            return _never_decreases(node.left) and _never_decreases(node.right)
        case exp.Sub():
            return _never_decreases(node.left) and not reads_clock(node.right)
        case exp.Anonymous():
            return node.name.upper() == NOW or _is_later(node.name.upper(), node.expressions)
    return False


def _is_later(function: str, arguments: Sequence[exp.Expr]) -> bool:
    place = _LATER.get(function)
    if place is None or place >= len(arguments):
        return False
    others = (argument for index, argument in enumerate(arguments) if index != place)
    return _never_decreases(arguments[place]) and not any(map(reads_clock, others))


def _is_time_type(node: exp.Cast) -> bool:
    return node.is_type(exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ)
