"""Determines the columns of a MySQL or MariaDB table over time, by the statements in Debezium's schema history.

These servers do not number columns. Here each column gets a number from the statement that adds it, and keeps it when
it is renamed. The server can compute the DEFAULT of an added column again, exactly, if it is an expression of
constants: without a name of a column or variable, and only with functions whose result depends on their arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from arctic_runtime.ingest.formats.event_format import (
    NULL_IN_OLDER_ROWS,
    UNKNOWN_IN_OLDER_ROWS,
    OlderRows,
    build_unknown_value,
)

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


@dataclass(frozen=True)
class ColumnType:
    """The type of a column as Debezium's schema history has it; `labels` are quoted texts of an enum or a set."""

    name: str
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Defined:
    """A column of a table's definition: its number, its type, and its default when it was added.

    All rows that existed before the column was added have the default.
    """

    number: int
    type: ColumnType
    default: Default


Definition = Mapping[str, Defined]
"""The columns of a table at some time, by name, in the order of the table."""


def list_definitions(history: str, schema: str, table: str) -> list[Definition]:
    """Lists the columns of a table as they were after each statement that defined it, oldest first.

    `history` is Debezium's schema history, one JSON object per line.
    """
    defined_columns: list[Definition] = []
    numbers = 0
    for ddl, change in _list_changes(history, schema, table):
        statement = _parse_statement(ddl)
        before: Definition = defined_columns[-1] if defined_columns and not statement.is_new else {}
        columns = [] if change["type"] == "DROP" else change["table"]["columns"]
        earlier_columns = {
            statement.renamed.get(name, name): column_definition for name, column_definition in before.items()
        }
        new = {column["name"] for column in columns} - set(earlier_columns)
        is_clear = statement.is_alter and not (
            statement.moves
            and new
            and set(earlier_columns) - {column_definition["name"] for column_definition in columns}
        )
        now: dict[str, Defined] = {}
        for column in sorted(columns, key=lambda column_definition: int(column_definition["position"])):
            numbers += 1
            name = str(column["name"])
            now[name] = earlier_columns.get(name) or Defined(
                numbers,
                _read_type(column),
                find_default(ddl, statement.tokens, name, bool(column.get("optional")))
                if is_clear
                else UNKNOWN_IN_OLDER_ROWS,
            )
        defined_columns.append(now)
    return defined_columns


def find_definition(known_definitions: Sequence[Definition], names: Sequence[str]) -> Definition:
    """Returns the newest definition whose columns include `names`, in this order; empty if there is none."""
    for definition in reversed(known_definitions):
        left = iter(definition)
        if all(name in left for name in names):
            return definition
    return {}


def _list_changes(history: str, schema: str, table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the DDL of each statement about a table in `history`, with the definition that Debezium parsed from it."""
    for line in filter(None, history.split("\n")):
        record = json.loads(line)
        for change in record.get("tableChanges") or ():
            if [part.strip('"`') for part in re.findall(r'"[^"]*"|`[^`]*`|[^.]+', change["id"])] == [schema, table]:
                yield str(record.get("ddl") or ""), change


@dataclass(frozen=True)
class _Statement:
    """The tokens of a DDL statement; `renamed` maps old column names to new ones.

    `moves` is whether the statement may change or rename columns; True if it can't be parsed. `is_alter` is whether it
    is an ALTER, and `is_new` whether it replaces the table by a new one, CREATE OR REPLACE.
    """

    tokens: Sequence[Token]
    renamed: Mapping[str, str]
    moves: bool
    is_alter: bool
    is_new: bool = False


def _parse_statement(ddl: str) -> _Statement:
    try:
        tokens = sqlglot.tokenize(ddl, dialect="mysql")
    except SqlglotError:
        return _Statement((), {}, True, False)
    words = [get_word(token) for token in tokens]
    renamed = dict(pair for place in range(len(tokens)) if (pair := _parse_rename(tokens[place:])) is not None)
    return _Statement(
        tokens,
        renamed,
        bool({"CHANGE", "RENAME"}.intersection(words)),
        words[:1] == ["ALTER"],
        words[:3] == ["CREATE", "OR", "REPLACE"],
    )


def _parse_rename(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """Returns the old and new column name if the tokens begin with `change a b` or `rename column a to b`.

    None if they begin with neither.
    """
    words = [get_word(token) for token in tokens[:6]]
    if words[:1] == ["CHANGE"]:
        start = 2 if words[1:2] == ["COLUMN"] else 1
        start += 2 if words[start : start + 2] == ["IF", "EXISTS"] else 0
        return (tokens[start].text, tokens[start + 1].text) if len(tokens) > start + 1 else None
    if words[:2] != ["RENAME", "COLUMN"]:
        return None
    start = 4 if words[2:4] == ["IF", "EXISTS"] else 2
    is_whole = words[start + 1 : start + 2] == ["TO"] and len(tokens) > start + 2
    return (tokens[start].text, tokens[start + 2].text) if is_whole else None


def _read_type(column: Mapping[str, Any]) -> ColumnType:
    labels = tuple(str(label) for label in column.get("enumValues") or ())
    return ColumnType(
        str(column["typeName"]), column.get("length"), column.get("scale"), column.get("charsetName"), labels
    )
