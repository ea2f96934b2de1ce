"""Determines the columns of a MySQL or MariaDB table over time, by the statements in Debezium's schema history.

These servers do not number columns. Here each column gets a number from the statement that adds it, and keeps it when
it is renamed.
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

from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, UNKNOWN_IN_OLDER_ROWS, OlderRows

_WHOLE = re.compile(r"-?\d+")
_LITERALS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT"), _WHOLE),
    **dict.fromkeys(("DECIMAL", "NUMERIC"), re.compile(r"-?\d+(\.\d+)?")),
    **dict.fromkeys(("BOOL", "BOOLEAN"), re.compile(r"0|1|true|false", re.IGNORECASE)),
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT", "ENUM"), re.compile(r"([^\\']*[^\\' ])?")),
    "DATE": re.compile(r"\d{4}-\d\d-\d\d"),
}
"""Column types, with a pattern of the defaults that Spark casts to the same value as the server."""


@dataclass(frozen=True)
class Defined:
    """A column of a table's definition: its number, and its value in rows that existed before the column was added."""

    number: int
    older_rows: OlderRows


Definition = Mapping[str, Defined]
"""The columns of a table at some time, by name, in the order of the table."""


def list_definitions(history: str, schema: str, table: str) -> list[Definition]:
    """Lists the columns of a table as they were after each statement that defined it, oldest first.

    `history` is Debezium's schema history, one JSON object per line.
    """
    defined_columns: list[Definition] = []
    numbers = 0
    for ddl, change in _list_changes(history, schema, table):
        before: Definition = defined_columns[-1] if defined_columns else {}
        columns = [] if change["type"] == "DROP" else change["table"]["columns"]
        statement = _parse_statement(ddl)
        earlier_columns = {
            statement.renamed.get(name, name): column_definition for name, column_definition in before.items()
        }
        new = {column["name"] for column in columns} - set(earlier_columns)
        is_clear = statement.is_plain and not (
            statement.moves
            and new
            and set(earlier_columns) - {column_definition["name"] for column_definition in columns}
        )
        now: dict[str, Defined] = {}
        for column in sorted(columns, key=lambda column_definition: int(column_definition["position"])):
            numbers += 1
            older = _get_older_rows_value(column) if is_clear else UNKNOWN_IN_OLDER_ROWS
            now[column["name"]] = earlier_columns.get(column["name"]) or Defined(numbers, older)
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
    """A parsed DDL statement; `renamed` maps old column names to new ones.

    `moves` is whether the statement may change or rename columns; True if it can't be parsed. `is_plain` is whether the
    statement alters a table, adds no generated columns, and has only constants as defaults.
    """

    renamed: Mapping[str, str]
    moves: bool
    is_plain: bool


def _parse_statement(ddl: str) -> _Statement:
    try:
        tokens = sqlglot.tokenize(ddl, dialect="mysql")
    except SqlglotError:
        return _Statement({}, True, False)
    words = [_get_unquoted_word(token) for token in tokens]
    defaults = [place for place, word in enumerate(words) if word == "DEFAULT"]
    is_plain = words[:1] == ["ALTER"] and not {"AS", "GENERATED"}.intersection(words)
    is_plain = is_plain and all(_is_constant(tokens[place + 1 :]) for place in defaults)
    renamed = dict(pair for place in range(len(tokens)) if (pair := _parse_rename(tokens[place:])) is not None)
    return _Statement(renamed, bool({"CHANGE", "RENAME"}.intersection(words)), is_plain)


def _is_constant(tokens: Sequence[Token]) -> bool:
    """Whether `tokens`, which follow DEFAULT in DDL, begin with a constant; also true if there are no tokens.

    There are none if a default is dropped.
    """
    signed = tokens[1:] if tokens and tokens[0].text in ("-", "+") else tokens
    if not signed:
        return True
    is_literal = signed[0].token_type in (TokenType.NUMBER, TokenType.STRING)
    return is_literal or _get_unquoted_word(signed[0]) in ("NULL", "TRUE", "FALSE", ",", ";")


def _parse_rename(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """Returns the old and new column name if the tokens begin with `change a b` or `rename column a to b`.

    None if they begin with neither.
    """
    words = [_get_unquoted_word(token) for token in tokens[:6]]
    if words[:1] == ["CHANGE"]:
        start = 2 if words[1:2] == ["COLUMN"] else 1
        start += 2 if words[start : start + 2] == ["IF", "EXISTS"] else 0
        return (tokens[start].text, tokens[start + 1].text) if len(tokens) > start + 1 else None
    if words[:2] != ["RENAME", "COLUMN"]:
        return None
    start = 4 if words[2:4] == ["IF", "EXISTS"] else 2
    is_whole = words[start + 1 : start + 2] == ["TO"] and len(tokens) > start + 2
    return (tokens[start].text, tokens[start + 2].text) if is_whole else None


def _get_unquoted_word(token: Token) -> str:
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


def _get_older_rows_value(column: Mapping[str, Any]) -> OlderRows:
    """Returns the value that existing rows get when `column` is added, from its definition in the schema history.

    The value is unknown for generated values, for defaults that Spark may cast differently, and for a column that is
    not null and has no default.
    """
    default = column.get("defaultValueExpression")
    if column.get("generated") or column.get("autoIncremented"):
        return UNKNOWN_IN_OLDER_ROWS
    if default is None or str(default).upper() == "NULL":
        return NULL_IN_OLDER_ROWS if column.get("optional") else UNKNOWN_IN_OLDER_ROWS
    literal = _LITERALS.get(str(column["typeName"]).upper())
    is_same = literal is not None and literal.fullmatch(str(default)) is not None
    return OlderRows(True, str(default)) if is_same else UNKNOWN_IN_OLDER_ROWS
