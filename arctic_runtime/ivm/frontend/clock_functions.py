"""Functions of SQL that return the time of the run: how they are found in a query, and pinned to one time."""

from __future__ import annotations

from typing import Final

import sqlglot
from sqlglot.tokens import Token, TokenType

from arctic_runtime.ivm.algebra.clock import NOW

DATES: Final = frozenset({"CURRENT_DATE", "CURDATE"})
"""Functions that return a day, so that their value changes once a day."""

_PINNED: Final = {
    **dict.fromkeys(DATES, "CAST(TIMESTAMP_MICROS({now}()) AS DATE)"),
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW"), "TIMESTAMP_MICROS({now}())"),
    "LOCALTIMESTAMP": "CAST(TIMESTAMP_MICROS({now}()) AS TIMESTAMP_NTZ)",
}

CLOCK_FUNCTIONS: Final = frozenset(_PINNED)
"""Functions that return the time of the run."""

_WITHOUT_PARENTHESES = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP"})


def pin_clock(sql: str) -> str:
    """Replaces each call of a function in `CLOCK_FUNCTIONS` in the text of a query by the time that the run pins.

    That is the value of the SQL function `NOW`. The rest of the text stays as it is, names in quotes and texts too.
    """
    tokens = sqlglot.tokenize(sql, read="spark")
    pinned = sql
    for place in reversed(range(len(tokens))):
        end = _find_end(tokens, place)
        if end is not None:
            call = _PINNED[tokens[place].text.upper()].format(now=NOW.lower())
            pinned = f"{pinned[: tokens[place].start]}{call}{pinned[tokens[end].end + 1 :]}"
    return pinned


def show_clock(sql: str) -> str:
    """Writes the pinned time in the text of an expression as the functions that users call."""
    text = sql
    for name in ("CURRENT_DATE", "LOCALTIMESTAMP", "NOW"):
        shown = name.lower() if name in _WITHOUT_PARENTHESES else f"{name.lower()}()"
        text = text.replace(_PINNED[name].format(now=NOW), shown)
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
