"""Cutting a text of several SQL statements into single ones, since Spark takes one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
      (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<end>;)
    | (?P<word>\w+)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUERY_WORDS = frozenset({"select", "with", "values", "from", "table", "("})
_SESSION_CHANGE = re.compile(r"(set|reset|use|declare|cache|uncache|add)\b", re.IGNORECASE)
_TEMPORARY_VIEW = re.compile(r"create\s+(or\s+replace\s+)?temp(orary)?\s+view\b", re.IGNORECASE)


def split(text: str) -> list[str]:
    """The statements of a text, without the semicolons between them and without empty ones.

    Semicolons in strings, quoted names and comments do not count, and a `BEGIN … END` script stays one
    statement. A text of comments alone has no statement.
    """
    if first_word(text) == "begin":
        return [text.strip().removesuffix(";")]
    statements, start, filled = [], 0, False
    for kind, begin, end in _tokens(text):
        if kind == "end":
            if filled:
                statements.append(text[start:begin].strip())
            start, filled = end, False
        elif kind not in ("space", "line", "block"):
            filled = True
    return [*statements, text[start:].strip()] if filled else statements


def first_word(statement: str) -> str:
    """The first word or character of a statement after its comments, in lower case."""
    for kind, begin, end in _tokens(statement):
        if kind not in ("space", "line", "block"):
            return statement[begin:end].lower()
    return ""


def without_leading_comments(statement: str) -> str:
    for kind, begin, _ in _tokens(statement):
        if kind not in ("space", "line", "block"):
            return statement[begin:]
    return ""


def is_query(statement: str) -> bool:
    """Whether Spark only plans this statement until somebody fetches its rows."""
    return first_word(statement) in _QUERY_WORDS


def changes_session(statement: str) -> bool:
    """Whether the statement leaves settings behind in its session."""
    return bool(_SESSION_CHANGE.match(without_leading_comments(statement)))


def makes_temporary_view(statement: str) -> bool:
    return bool(_TEMPORARY_VIEW.match(without_leading_comments(statement)))


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        assert match.lastgroup is not None
        end = _end_of_block(text, match.end()) if match.lastgroup == "block" else match.end()
        yield match.lastgroup, position, end
        position = end


def _end_of_block(text: str, position: int) -> int:
    """Where a bracketed comment ends; Spark's nest."""
    depth = 1
    for mark in re.finditer(r"/\*|\*/", text[position:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return position + mark.end()
    return len(text)
