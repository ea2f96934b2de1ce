"""Splits a text into SQL statements, since Spark runs one at a time, and classifies statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

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
# Statements with any other first word may leave settings, variables or functions in their session.
_LEAVES_NOTHING = _QUERY_WORDS | {
    *("alter", "analyze", "call", "comment", "create", "delete", "desc", "describe", "drop", "explain", "insert"),
    *("merge", "refresh", "show", "truncate", "update"),
}
_READING_WORDS = _QUERY_WORDS | {"desc", "describe", "explain", "set", "show", "use"}
# A text that begins like a query may be a changing statement if it has one of these words unquoted.
_CHANGING = frozenset({"insert", "merge", "update", "delete", "overwrite"})
_TEMPORARY = ("temp", "temporary")


def split_statements(text: str) -> list[str]:
    """Splits a text into its statements, without the semicolons between them and without empty ones.

    Semicolons in strings, quoted names and comments do not separate statements, and a `BEGIN … END` script stays one
    statement. A text that consists only of comments has no statement.
    """
    if _is_script(text):
        return [text.strip().removesuffix(";")]
    statements, start, filled = [], 0, False
    for kind, begin, end in _list_tokens(text):
        if kind == "end":
            if filled:
                statements.append(text[start:begin].strip())
            start, filled = end, False
        elif kind not in ("space", "line", "block"):
            filled = True
    return [*statements, text[start:].strip()] if filled else statements


def get_first_word(statement: str) -> str:
    """Returns the first word or character of a statement after its comments, in lower case."""
    return next(iter(_list_first_words(statement, 1)), "")


def drop_first_comments(statement: str) -> str:
    """Returns the statement without the comments before its first word."""
    starts = (begin for kind, begin, _ in _list_tokens(statement) if kind not in ("space", "line", "block"))
    return statement[next(starts, 0) :]


def is_query(statement: str) -> bool:
    """Whether the statement is a query, which Spark only plans until its rows are fetched."""
    return get_first_word(statement) in _QUERY_WORDS


def is_reading(statement: str) -> bool:
    """Whether the statement changes nothing except its session; False if that is not certain."""
    words = {text for text in _list_first_words(statement, len(statement)) if text in _CHANGING}
    return get_first_word(statement) in _READING_WORDS and not words


def is_session_change(statement: str) -> bool:
    """Whether the statement may change its session's settings, functions or variables; temporary views do not count."""
    is_temporary = _get_temporary_kind(statement) not in ("", "view")
    return is_temporary or get_first_word(statement) not in _LEAVES_NOTHING


def is_temporary_view(statement: str) -> bool:
    return _get_temporary_kind(statement) == "view"


def _get_temporary_kind(statement: str) -> str:
    """Returns the kind of temporary object that a statement creates, such as `view` or `function`; "" for none."""
    words = [word for word in _list_first_words(statement, 5) if word not in ("or", "replace")]
    return words[2] if words[:1] == ["create"] and len(words) > 2 and words[1] in _TEMPORARY else ""


def _is_script(text: str) -> bool:
    """Whether a text is a `BEGIN … END` script, with or without a label."""
    words = _list_first_words(text, 3)
    return words[:1] == ["begin"] or words[1:] == [":", "begin"]


def _list_first_words(text: str, count: int) -> list[str]:
    """Returns the first `count` words or characters of a text, without its comments, in lower case."""
    words = (text[a:b].lower() for kind, a, b in _list_tokens(text) if kind not in ("space", "line", "block"))
    return list(islice(words, count))


def _list_tokens(text: str) -> Iterator[tuple[str, int, int]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        assert match.lastgroup is not None
        end = _end_of_block(text, match.end()) if match.lastgroup == "block" else match.end()
        yield match.lastgroup, position, end
        position = end


def _end_of_block(text: str, position: int) -> int:
    """Returns the index after the bracketed comment whose text begins at `position`, or the text's length if unclosed.

    Comments may be nested, as in Spark.
    """
    depth = 1
    for mark in re.finditer(r"/\*|\*/", text[position:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return position + mark.end()
    return len(text)
