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
from sqlglot.tokens import Token

from arctic_runtime.ingest.formats.event_format import UNKNOWN_IN_OLDER_ROWS
from arctic_runtime.ingest.transports.debezium.servers.default_clauses import Default, find_default, get_word


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
