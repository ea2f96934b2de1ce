"""Rewrites the text of a query so that it reads its tables at given snapshots, or other queries in place of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.sql.types import quote_field


@dataclass(frozen=True)
class TableRead:
    """A table's name in the text of a query: from the character `start` up to `end`, exclusive.

    `alias` is empty if the query gives the table no alias.
    """

    table: TableName
    start: int
    end: int
    alias: str


@dataclass(frozen=True)
class Pins:
    """Replacements for the tables of a query, by their names in lower case: a snapshot of the table, or another query.

    If a table has both, the query replaces it.
    """

    snapshots: Mapping[TableName, int] = field(default_factory=dict)
    queries: Mapping[TableName, str] = field(default_factory=dict)


def fold_name(table: TableName) -> TableName:
    """Returns the name of a table in lower case, since Spark ignores the case of names."""
    return TableName(*(part.lower() for part in table.parts))


def list_table_reads(sql: str, catalog: str) -> tuple[TableRead, ...] | None:
    """Lists each use of a table in a query that names its schema, in the order of the text.

    `catalog` completes names without a catalog. Tables that the query itself reads at a version are left out. Returns
    None if the query can't be parsed.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
        if not isinstance(tree, exp.Query):
            return None
        reads = [read for table in tree.find_all(exp.Table) if (read := _build_read(table, catalog))]
    except (SqlglotError, ConfigError):
        return None
    return tuple(sorted(reads, key=lambda read: read.start))


def _build_read(table: exp.Table, catalog: str) -> TableRead | None:
    parts = table.parts
    is_name = all(isinstance(part, exp.Identifier) and part.meta for part in parts)
    if not is_name or len(parts) not in (2, 3) or table.args.get("version") or table.find_ancestor(exp.Hint):
        return None
    names = [part.name for part in parts]
    name = TableName(*([catalog] if len(names) == 2 else []), *names)
    return TableRead(name, parts[0].meta["start"], parts[-1].meta["end"] + 1, table.alias)


def pin_query(sql: str, catalog: str, pins: Pins, above: frozenset[TableName] = frozenset()) -> str:
    """Rewrites the text of a query so that it reads snapshots or other queries in place of its tables, as `pins` say.

    A query that replaces a table is rewritten in the same way. A table in `above` is not replaced by a query, so that
    no query is put into itself. A text that can't be parsed is returned unchanged.
    """
    text = sql.strip().rstrip(";").rstrip()
    for read in reversed(list_table_reads(text, catalog) or ()):
        name = fold_name(read.table)
        query = None if name in above else pins.queries.get(name)
        if query is not None:
            inner = pin_query(query, catalog, pins, above | {name})
            alias = "" if read.alias else f" AS {quote_field(read.table.name)}"
            text = f"{text[: read.start]}(\n{inner}\n){alias}{text[read.end :]}"
        elif name in pins.snapshots:
            text = f"{text[: read.end]} VERSION AS OF {pins.snapshots[name]}{text[read.end :]}"
    return text


def list_all_tables(sql: str, catalog: str, queries: Mapping[TableName, str]) -> tuple[TableName, ...]:
    """Returns the tables that a query reads, each once.

    `queries` has queries that replace tables; the tables that such a query reads are returned in place of its table.
    """
    tables = {fold_name(table): table for table in _walk_tables(sql, catalog, queries, frozenset())}
    return tuple(tables.values())


def _walk_tables(
    sql: str, catalog: str, queries: Mapping[TableName, str], above: frozenset[TableName]
) -> Iterator[TableName]:
    for read in list_table_reads(sql, catalog) or ():
        name = fold_name(read.table)
        query = None if name in above else queries.get(name)
        if query is None:
            yield read.table
        else:
            yield from _walk_tables(query, catalog, queries, above | {name})
