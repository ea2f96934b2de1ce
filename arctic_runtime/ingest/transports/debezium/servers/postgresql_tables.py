"""Checks, by PostgreSQL's catalog, that the tables to read have the same rows and columns in a snapshot and the stream.

Each rule is a query for tables or columns that violate it. If ingestion reads one of them, the rule describes the fault
and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from arctic_runtime.errors import SourceError, suggest_nearest
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import Row, SourceDatabase
from arctic_runtime.ingest.transports.transport import TableGone

_KINDS = """
select n.nspname || '.' || c.relname,
  case when c.relkind = 'v' then 'a view' when c.relkind = 'm' then 'a materialized view'
    when c.relkind = 'f' then 'a foreign table' when c.relpersistence = 'u' then 'an unlogged table'
    when c.relpersistence = 't' then 'a temporary table' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', 'information_schema')
"""
_COLUMNS_OF = """
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  and n.nspname not in ('pg_catalog', 'information_schema')
"""
_GENERATED = f"""
select n.nspname || '.' || c.relname, a.attname, null {_COLUMNS_OF} and a.attgenerated <> ''
order by n.nspname, c.relname, a.attnum
"""
_UNREADABLE = f"""
select n.nspname || '.' || c.relname, a.attname,
  format('grant usage on schema %I to %I; grant select on %I.%I to %I', n.nspname, current_user,
    n.nspname, c.relname, current_user)
{_COLUMNS_OF}
  and not (has_schema_privilege(n.oid, 'usage') and has_column_privilege(c.oid, a.attnum, 'select'))
order by n.nspname, c.relname, a.attnum
"""
_HIDDEN_ROWS = """
select n.nspname || '.' || c.relname, null, format('alter role %I bypassrls', current_user)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and row_security_active(c.oid) order by 1
"""
_UNLOGGED_PARTITIONS = """
select n.nspname || '.' || c.relname, null, string_agg(part.oid::regclass::text, ', ')
from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join pg_partition_tree(c.oid) leaf
join pg_class part on part.oid = leaf.relid
where c.relkind = 'p' and (part.relkind = 'f' or part.relpersistence <> 'p') group by 1 order by 1
"""
_IDENTITY_WITHOUT_KEY = """
select n.nspname || '.' || c.relname, null, format('alter table %I.%I replica identity default', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_index pk on pk.indrelid = c.oid and pk.indisprimary
join pg_index i on i.indrelid = c.oid and i.indisreplident
where c.relkind in ('r', 'p') and c.relreplident = 'i' and not (pk.indkey::int2[] <@ i.indkey::int2[]) order by 1
"""


@dataclass(frozen=True)
class _ReadabilityRule:
    """A check, by a query for tables or columns that can't be read exactly.

    Each row of the query has the table, the column or null, and a text for the advice. `describe` converts the rows to
    a description of the fault, and the advice. A rule with `is_of_snapshot` is checked only before a snapshot.
    """

    sql: str
    describe: Callable[[Sequence[Row]], tuple[str, str]]
    is_of_snapshot: bool = False


def _get_name(row: Row) -> str:
    return str(row[0]) if row[1] is None else f"{row[0]}.{row[1]}"


def _join_names(rows: Sequence[Row]) -> str:
    return ", ".join(_get_name(row) for row in rows)


def _join_advice(rows: Sequence[Row]) -> str:
    return "; ".join(dict.fromkeys(str(row[2]) for row in rows))


def _join_tables(rows: Sequence[Row]) -> str:
    return ", ".join(dict.fromkeys(str(row[0]) for row in rows))


def describe_generated(rows: Sequence[Row]) -> tuple[str, str]:
    """Describes why generated columns can't be read, and how to leave them out.

    `rows` are as described in `_ReadabilityRule`.
    """
    patterns = ",".join(re.escape(_get_name(row)) for row in rows)
    return (
        f"the log does not have generated columns, so that they would keep the values of the "
        f"snapshot: {_join_names(rows)}",
        f"leave them out, with the Debezium property `column.exclude.list: {patterns}`, and compute "
        "them in a model; or take out their tables and load these in another way",
    )


_RULES = (
    _ReadabilityRule(_GENERATED, describe_generated),
    _ReadabilityRule(
        _UNREADABLE,
        lambda rows: (
            f"the user may not read {_join_tables(rows)}",
            f"as their owner, `{_join_advice(rows)}`",
        ),
        is_of_snapshot=True,
    ),
    _ReadabilityRule(
        _HIDDEN_ROWS,
        lambda rows: (
            f"row-level security may hide rows of {_join_names(rows)} from a snapshot, and the log has the changes "
            "of all rows",
            f"`{_join_advice(rows)}`, or take these tables out",
        ),
        is_of_snapshot=True,
    ),
    _ReadabilityRule(
        _UNLOGGED_PARTITIONS,
        lambda rows: (
            f"{_join_names(rows)} has partitions of which no change is logged: {_join_advice(rows)}",
            "ingest the other partitions under their own names",
        ),
    ),
    _ReadabilityRule(
        _IDENTITY_WITHOUT_KEY,
        lambda rows: (
            f"the log does not say which row is deleted or gets another primary key, since the replica "
            f"identity is an index without the primary key: {_join_names(rows)}",
            f"`{_join_advice(rows)}`, or `full`",
        ),
    ),
)


def check_tables(connection: DebeziumConnection, database: SourceDatabase, is_snapshot: bool) -> None:
    """Raises SourceError, with a fix, if the stream of the tables that are read would not match their snapshot.

    `is_snapshot` is whether a snapshot is about to begin; otherwise rules for snapshots are skipped.
    """
    for rule in _RULES:
        if rule.is_of_snapshot and not is_snapshot:
            continue
        rows = [row for row in database.fetch_rows(rule.sql) if _is_read(connection, row)]
        if rows:
            what, fix = rule.describe(rows)
            raise SourceError(f"{connection.address}: {what}.", fix=fix)


def check_kinds(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError if a table to read does not exist, or is a relation whose changes are not logged."""
    kinds = {str(row[0]): row[1] for row in database.fetch_rows(_KINDS)}
    for pattern in connection.tables:
        if (error := _find_fault(connection, kinds, pattern)) is not None:
            raise error


def find_unlogged(
    connection: DebeziumConnection, database: SourceDatabase, tables: Collection[str]
) -> dict[str, SourceError]:
    """Returns those of `tables` that do not exist, or whose changes are not logged, each with the error."""
    kinds = {str(row[0]): row[1] for row in database.fetch_rows(_KINDS)}
    faults = {table: _find_fault(connection, kinds, re.escape(table)) for table in tables}
    return {table: error for table, error in faults.items() if error is not None}


def _find_fault(connection: DebeziumConnection, kinds: Mapping[str, str | None], pattern: str) -> SourceError | None:
    """Returns the error for a table to read that is missing or not logged; None if there is none.

    `kinds` are the results of `_KINDS`, by table.
    """
    matches = [name for name in kinds if re.fullmatch(pattern, name)]
    if not matches:
        return TableGone(
            f"{connection.address}: there is no table {pattern}{suggest_nearest(pattern, list(kinds))}.",
            fix="if it was renamed or dropped, name another one by `source_table`, or take it out of the project",
        )
    if all(kinds[name] is not None for name in matches):
        return SourceError(
            f"{connection.address}: {matches[0]} is {kinds[matches[0]]}, of which no change is logged.",
            fix="ingest the tables that it is made of, or load it in another way and take it out here",
        )
    return None


def _is_read(connection: DebeziumConnection, row: Row) -> bool:
    table, column, _ = row
    return connection.is_read(str(table)) if column is None else connection.is_column_read(str(table), str(column))
