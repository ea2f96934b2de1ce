"""Finds the DEFAULT of a column that an ALTER TABLE of MySQL or MariaDB adds, if it is an expression of constants.

The server can compute such an expression again, exactly: it has no name of a column or variable, and only functions
whose result depends on their arguments alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows, build_unknown_value

_LITERALS = frozenset(
    (TokenType.NUMBER, TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING)
)
_PARTS = _LITERALS | {
    *(TokenType.INTRODUCER, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.PLUS, TokenType.DASH),
    *(TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE),
    *(TokenType.GT, TokenType.GTE),
}
"""Types of the tokens, besides words, of which an expression of constants is made."""

_WORDS = re.compile(
    r"""
    NULL|TRUE|FALSE|AND|OR|NOT|XOR|IS|IN|BETWEEN|LIKE|DIV|MOD|IF|CASE|WHEN|THEN|ELSE|END|AS|CAST|CONVERT|USING
    |N?CHAR|BINARY|(UN)?SIGNED|INT(EGER)?|DECIMAL|FLOAT|DOUBLE|DATE|DATETIME|TIME|TIMESTAMP|JSON
    |CONCAT(_WS)?|UPPER|UCASE|LOWER|LCASE|REPEAT|SPACE|(UN)?HEX|[LR]?TRIM|[LR]PAD|LEFT|RIGHT|SUBSTR(ING)?|REPLACE
    |REVERSE|ABS|SIGN|ROUND|FLOOR|CEIL(ING)?|TRUNCATE|POW(ER)?|SQRT|GREATEST|LEAST|COALESCE|IFNULL|NULLIF|ELT|FIELD
    |CHAR_LENGTH|JSON_(ARRAY|OBJECT|QUOTE)|MD5|SHA[12]|(TO|FROM)_BASE64|MAKEDATE|MAKETIME
    """,
    re.VERBOSE,
)
"""Keywords, types and functions of an expression of constants; each function depends on its arguments alone."""

_TYPED = frozenset(("DATE", "TIME", "TIMESTAMP"))
"""Words that make a literal with the text that follows, such as `date '2024-01-01'`."""


@dataclass(frozen=True)
class ConstantDefault:
    """A DEFAULT that the server can compute again: the text of the expression, as the statement has it.

    `sql` is None for a column that is not null and has no DEFAULT: it has the value that its type implies.
    """

    sql: str | None


Default = OlderRows | ConstantDefault
"""The value of an added column in older rows: known, unknown for a reason, or an expression for the server."""

_VARYING = build_unknown_value("its default is not an expression of constants")
_UNCLEAR = build_unknown_value("the statement that added it can't be read")
_GENERATED = build_unknown_value("the server computes its values")


def get_word(token: Token) -> str:
    """Returns a token in upper case; empty for quoted names and texts."""
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


def find_default(ddl: str, tokens: Sequence[Token], name: str, is_optional: bool) -> Default:
    """Returns the default of the column `name` that the ALTER TABLE statement `ddl` adds.

    `tokens` are those of the statement. `is_optional` is whether the column may be null: without a default its value is
    then null.
    """
    definition = _find_added_columns(tokens).get(name.casefold())
    if definition is None:
        return _UNCLEAR
    words = [get_word(token) for token, depth in _with_depth(definition) if depth == 0]
    if {"AS", "GENERATED", "AUTO_INCREMENT", "SERIAL"}.intersection(words):
        return _GENERATED
    outer = [place for place, (_, depth) in enumerate(_with_depth(definition)) if depth == 0]
    place = next((outer[i] for i, word in enumerate(words) if word == "DEFAULT"), None)
    if place is None:
        return NULL_IN_OLDER_ROWS if is_optional else ConstantDefault(None)
    expression = _take_expression(definition[place + 1 :])
    if [get_word(token) for token in expression] == ["NULL"]:
        return NULL_IN_OLDER_ROWS
    if not expression or not _is_constant(expression):
        return _VARYING
    return ConstantDefault(ddl[expression[0].start : expression[-1].end + 1])


def _with_depth(tokens: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Yields tokens with the number of open parentheses around them; a parenthesis counts as inside of itself."""
    depth = 0
    for token in tokens:
        depth += token.token_type == TokenType.L_PAREN
        yield token, depth
        depth -= token.token_type == TokenType.R_PAREN


def _split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token, depth in _with_depth(tokens):
        if depth == 0 and token.token_type == TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _find_added_columns(tokens: Sequence[Token]) -> Mapping[str, Sequence[Token]]:
    """Returns the definitions that an ALTER TABLE adds, without their names, by name in one case."""
    added: dict[str, Sequence[Token]] = {}
    for clause in _split_at_commas(tokens):
        words = [get_word(token) for token in clause]
        if "ADD" not in words:
            continue
        start = words.index("ADD") + 1
        start += words[start : start + 1] == ["COLUMN"]
        start += 3 if words[start : start + 3] == ["IF", "NOT", "EXISTS"] else 0
        for definition in _split_list(clause[start:]):
            if definition:
                added.setdefault(definition[0].text.casefold(), definition[1:])
    return added


def _split_list(tokens: Sequence[Token]) -> list[list[Token]]:
    """Splits `(a int, b int)` into its definitions; returns other tokens as one definition."""
    is_list = bool(tokens) and tokens[0].token_type == TokenType.L_PAREN
    return _split_at_commas(tokens[1:-1]) if is_list else [list(tokens)]


def _take_expression(tokens: Sequence[Token]) -> Sequence[Token]:
    """Returns the tokens of the expression that follows DEFAULT, without the rest of the definition."""
    place = 0
    while place < len(tokens) and tokens[place].token_type in (TokenType.DASH, TokenType.PLUS):
        place += 1
    rest = tokens[place:]
    if not rest:
        return ()
    if rest[0].token_type == TokenType.L_PAREN:
        return tokens[: place + _count_group(rest)]
    if len(rest) > 1 and rest[1].token_type == TokenType.L_PAREN:
        return tokens[: place + 1 + _count_group(rest[1:])]
    place += 1
    is_prefix = rest[0].token_type == TokenType.INTRODUCER or get_word(rest[0]) in _TYPED
    place += is_prefix and len(rest) > 1
    while tokens[place - 1].token_type in _LITERALS and place < len(tokens) and tokens[place].token_type in _TEXTS:
        place += 1
    return tokens[:place]


_TEXTS = (TokenType.STRING, TokenType.NATIONAL_STRING)


def _count_group(tokens: Sequence[Token]) -> int:
    """Returns the number of tokens up to the end of the parenthesis with which `tokens` begin."""
    closed = TokenType.R_PAREN
    places = enumerate(_with_depth(tokens), 1)
    return next((end for end, (token, depth) in places if depth == 1 and token.token_type == closed), len(tokens))


def _is_constant(tokens: Sequence[Token]) -> bool:
    """Whether an expression has nothing but constants; a comment inside of it may be code for the server."""
    has_comment = any(token.comments for token in tokens[:-1])
    return not has_comment and all(
        token.token_type in _PARTS or _WORDS.fullmatch(get_word(token)) is not None for token in tokens
    )
