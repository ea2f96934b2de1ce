"""The clock as an input of queries: the functions that return it, the time that a run pins, and that of the last run.

In the tree of a query, `current_date` and its like are computed from the function NOW, and in the tree of its old rows
from the function BEFORE. Both return microseconds since 1970. The clock counts as a source that has changed if the two
differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from arctic_runtime.ivm.algebra.conditions import build_conjunction, split_conjuncts
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.model.names import TableName

CLOCK: Final = TableName("arctic", "clock", "now")
"""Stands for the clock among the names of sources; there is no such table."""

NOW: Final = "ARCTIC_CLOCK"
"""Function that returns the time of this run."""

BEFORE: Final = "ARCTIC_CLOCK_BEFORE"
"""Function that returns the time of the last run."""

_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
}

_NEVER_NULL = (exp.Literal, exp.Interval, exp.Var, exp.DataType, exp.Paren, exp.Add, exp.Sub, exp.Neg)
_NEVER_NULL_FUNCTIONS = frozenset({NOW, BEFORE, "TIMESTAMP_MICROS", "DATE_ADD", "DATE_SUB", "ADD_MONTHS", "LAST_DAY"})


def reads_clock(value: exp.Expr) -> bool:
    """Whether an expression depends on the time of the run."""
    return any(_is_call(node, NOW) for node in value.find_all(exp.Anonymous))


def at_old_clock(value: exp.Expr) -> exp.Expr:
    """Returns a copy of an expression that is computed with the time of the last run."""
    return value.transform(lambda node: exp.Anonymous(this=BEFORE) if _is_call(node, NOW) else node)


def split_by_clock(condition: exp.Expr) -> tuple[tuple[exp.Expr, ...], tuple[exp.Expr, ...]]:
    """Splits a condition into the conjuncts that read the clock, and the others; `between` is two comparisons."""
    parts = [part for conjunct in split_conjuncts(condition) for part in _split_between(conjunct)]
    return tuple(filter(reads_clock, parts)), tuple(part for part in parts if not reads_clock(part))


def enter_by_clock(condition: exp.Expr) -> exp.Expr:
    """Builds the condition for rows that meet `condition` now and did not meet it at the time of the last run."""
    timed, _ = split_by_clock(condition)
    return _require_bound(build_conjunction((condition, _refute_any(map(at_old_clock, timed)))))


def leave_by_clock(condition: exp.Expr) -> exp.Expr:
    """Builds the condition for rows that met `condition` at the time of the last run and do not meet it now."""
    timed, _ = split_by_clock(condition)
    return _require_bound(build_conjunction((at_old_clock(condition), _refute_any(timed))))


def is_between_times(condition: exp.Expr) -> bool:
    """Whether a condition, built for what enters or leaves, compares values with both times, so that few rows meet it.

    It is then a range between two bounds, outside of which Spark skips files.
    """
    calls = list(condition.find_all(exp.Anonymous))
    is_both = any(_is_call(node, NOW) for node in calls) and any(_is_call(node, BEFORE) for node in calls)
    return is_both and condition.find(exp.Not) is None


def _split_between(part: exp.Expr) -> Sequence[exp.Expr]:
    if not isinstance(part, exp.Between) or part.args.get("symmetric") or not reads_clock(part):
        return (part,)
    low = exp.GTE(this=part.this.copy(), expression=part.args["low"].copy())
    return (low, exp.LTE(this=part.this.copy(), expression=part.args["high"].copy()))


def _refute_any(parts: Iterable[exp.Expr]) -> exp.Expr:
    """Builds the condition that one of `parts` is not true, for rows for which all of them are at another time."""
    return exp.or_(*map(_refute_bound, parts))


def _refute_bound(part: exp.Expr) -> exp.Expr:
    """Builds the condition that `part` is false or null.

    For a comparison of a value with a time this is the opposite comparison, by which Spark skips files. It is null for
    a null value, for which `part` is true at no time.
    """
    opposite = _OPPOSITES.get(type(part))
    if opposite is not None and isinstance(part, exp.Binary):
        value, time = (part.left, part.right) if not _is_time(part.left) else (part.right, part.left)
        if _is_time(time) and list_used_columns(value) and not _reads_any_clock(value):
            return opposite(this=part.left.copy(), expression=part.right.copy())
    return exp.not_(exp.Coalesce(this=part.copy(), expressions=[exp.false()]))


def _is_time(value: exp.Expr) -> bool:
    """Whether an expression reads the clock and nothing else, so that it is one value in a run, and never null."""
    return _reads_any_clock(value) and all(map(_is_never_null, value.walk()))


def _is_never_null(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return node.is_type(exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ)
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _NEVER_NULL_FUNCTIONS
    return isinstance(node, _NEVER_NULL)


def _reads_any_clock(value: exp.Expr) -> bool:
    return any(_is_call(node, NOW) or _is_call(node, BEFORE) for node in value.find_all(exp.Anonymous))


def _is_call(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == name


def _require_bound(condition: exp.Expr | None) -> exp.Expr:
    assert condition is not None
    return condition


DATES: Final = frozenset({"CURRENT_DATE", "CURDATE"})
"""Functions that return a day, so that their value changes once a day."""

_PINNED: Final = {
    **dict.fromkeys(DATES, "CAST(TIMESTAMP_MICROS({now}) AS DATE)"),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW"), "TIMESTAMP_MICROS({now})"),
    "LOCALTIMESTAMP": "CAST(TIMESTAMP_MICROS({now}) AS TIMESTAMP_NTZ)",
}

CLOCK_FUNCTIONS: Final = frozenset(_PINNED)
"""Functions that return the time of the run."""

_WITHOUT_PARENTHESES = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP"})


def pin_clock(sql: str, micros: int | None = None) -> str:
    """Replaces each call of a function in `CLOCK_FUNCTIONS` in the text of a query by the time that the run pins.

    That is the value of the SQL function `NOW`, or the time `micros`, in microseconds since 1970. The rest of the text
    stays as it is, names in quotes and texts too.
    """
    now = f"{NOW.lower()}()" if micros is None else str(micros)
    tokens = sqlglot.tokenize(sql, read="spark")
    pinned = sql
    for place in reversed(range(len(tokens))):
        end = _find_end(tokens, place)
        if end is not None:
            call = _PINNED[tokens[place].text.upper()].format(now=now)
            pinned = f"{pinned[: tokens[place].start]}{call}{pinned[tokens[end].end + 1 :]}"
    return pinned


def show_clock(sql: str) -> str:
    """Writes the pinned time in the text of an expression as the functions that users call."""
    text = sql
    for name in ("CURRENT_DATE", "LOCALTIMESTAMP", "NOW"):
        shown = name.lower() if name in _WITHOUT_PARENTHESES else f"{name.lower()}()"
        text = text.replace(_PINNED[name].format(now=f"{NOW}()"), shown)
    return text


def _find_end(tokens: list[Token], place: int) -> int | None:
    """Returns the index of the last token of the call that begins at `place`; None if no such call begins there."""
    token, before = tokens[place], tokens[place - 1].token_type if place else None
    name = token.text.upper()
    is_name = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or name not in _PINNED
    if is_name or before in (TokenType.DOT, TokenType.ALIAS):
        return None
    kinds = [token.token_type for token in tokens[place + 1 : place + 3]]
    if kinds == [TokenType.L_PAREN, TokenType.R_PAREN]:
        return place + 2
    return place if name in _WITHOUT_PARENTHESES and kinds[:1] != [TokenType.DOT] else None
