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
    """A table's name at one place of a query; `alias` is empty if the query gives it none."""

    table: TableName
    start: int
    end: int
    alias: str


@dataclass(frozen=True)
class Pins:
    """What is read in place of tables, by their names in lower case: a snapshot of the table, or another query."""

    snapshots: Mapping[TableName, int] = field(default_factory=dict)
    queries: Mapping[TableName, str] = field(default_factory=dict)


def fold_name(table: TableName) -> TableName:
    """The name in lower case, since Spark ignores the case of names."""
    return TableName(*(part.lower() for part in table.parts))


def list_table_reads(sql: str, catalog: str) -> tuple[TableRead, ...] | None:
    """Lists the tables that a query names by schema, in the order of the text; None if it can't be parsed.

    `catalog` completes names without one. Tables that the query itself pins to a version are left out.
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
    """Returns the query over the snapshots and queries of `pins`; the same text if it can't be parsed.

    A query in place of a table is rewritten in the same way. A table in `above` is not replaced by its own query.
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
    """The tables that a query reads, directly or through the queries in place of tables, each once."""
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
