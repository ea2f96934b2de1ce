"""Checks PostgreSQL for settings, rights, columns and tables that prevent an exact reading of changes."""

from __future__ import annotations

import logging

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.postgresql_publication import VIA_ROOT
from arctic_runtime.ingest.transports.debezium.servers.source_database import SourceDatabase

LOG = logging.getLogger(__name__)

_OLDEST_VERSION = 14

_SETUP = """
select current_setting('server_version_num')::int / 10000, current_setting('wal_level'),
  (select bool_or(rolsuper or rolreplication) from pg_roles
   where rolname = current_user or rolname = 'rds_replication' and pg_has_role(current_user, oid, 'member')),
  pg_is_in_recovery()
"""
_INEXACT_COLUMNS = """
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join pg_type t on t.oid = a.atttypid
where (
    a.attndims > 1
    or t.typname in ('varbit', '_varbit', '_bit', '_interval', '_money', '_xml', '_name', '_point')
  )
  and c.relkind in ('r', 'p') and not a.attisdropped and n.nspname not in ('pg_catalog', 'information_schema')
"""
_UNSENT_COLUMNS = """
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join pg_type t on t.oid = a.atttypid left join pg_type e on e.oid = t.typelem
where c.relreplident <> 'f' and a.attstorage <> 'p' and not a.attisdropped
  and (
    t.typcategory = 'A' and t.typlen = -1 and e.typname not in ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'bytea',
      'uuid', 'int4', 'int8', 'date')
    or t.typname = 'bit' and a.atttypmod > 160
  )
  and c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
"""
_NO_IDENTITY = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
  and (c.relreplident = 'n' or c.relreplident = 'd'
    and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indimmediate))
"""
_PARTITIONED = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'p' and not exists (select 1 from pg_publication where pubname = ? and pubviaroot)
"""
_INHERITED = """
select n.nspname || '.' || t.relname, string_agg(i.inhrelid::regclass::text, ' and ')
from pg_inherits i join pg_class t on t.oid = i.inhparent join pg_namespace n on n.oid = t.relnamespace
where t.relkind = 'r' group by 1
"""


def check_requirements(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError, with a fix, for the first setting, right or column that prevents exact reading of changes."""
    for check in (_check_setup, _check_columns, _check_unsent_values, _check_partitions, _check_inheritance):
        check(connection, database)


def _check_setup(connection: DebeziumConnection, database: SourceDatabase) -> None:
    version, wal_level, may_replicate, _ = database.fetch_rows(_SETUP)[0]
    if int(version or 0) < _OLDEST_VERSION:
        raise _build_error(connection, f"this is PostgreSQL {version}, expected {_OLDEST_VERSION} or newer")
    if wal_level != "logical":
        raise _build_error(
            connection,
            f"the server's wal_level is {wal_level}, expected logical",
            "`alter system set wal_level = logical`, then restart the server",
        )
    if may_replicate != "t":
        raise _build_error(
            connection,
            f"user {connection.user} has no right to replicate",
            f"`alter role {connection.user} replication`",
        )


def _check_columns(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError for columns whose values Debezium does not read exactly.

    Debezium turns nested arrays into nulls, and loses some arrays and the lengths of varying bits.
    """
    inexact = [column for _, column in _list_columns(connection, database, _INEXACT_COLUMNS)]
    if inexact:
        raise _build_error(
            connection,
            "columns with bits of any length, lists of bits, intervals, money, xml, names or points, or lists "
            f"inside of lists can't be read exactly: {', '.join(inexact)}",
            "exclude them, with the Debezium property `column.exclude.list`",
        )


def _check_partitions(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError if changes of partitioned tables are sent under the names of their partitions.

    Such changes would be left out. A publication can be set to send them under the name of the partitioned table.
    """
    publication = connection.publication
    is_there = database.fetch_one("select 1::text from pg_publication where pubname = ?", (publication,))
    if not is_there and connection.properties.get(VIA_ROOT) == "true":
        return
    published_tables = [str(row[0]) for row in database.fetch_rows(_PARTITIONED, (publication,))]
    partitioned = [table for table in published_tables if connection.is_read(table)]
    if partitioned:
        raise _build_error(
            connection,
            f"changes of partitioned tables come under the names of their partitions: {', '.join(partitioned)}",
            f"`alter publication {publication} set (publish_via_partition_root = true)`"
            if is_there
            else f"set the Debezium property `{VIA_ROOT}: true`",
        )


def _check_inheritance(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError if other tables inherit from a table that is read.

    A snapshot of the parent table has the rows of its children, but the changes of these rows are sent only under the
    children's names.
    """
    own = connection.properties
    others = own.get(SNAPSHOT_SELECTS)
    for parent, children in database.fetch_rows(_INHERITED):
        if connection.is_read(str(parent)) and f"{SNAPSHOT_SELECTS}.{parent}" not in own:
            apart = f"{others},{parent}" if others else parent
            raise _build_error(
                connection,
                f"a snapshot of {parent} has the rows of {children} too, which inherit from it, and their changes "
                "would be left out",
                f"set the Debezium properties `{SNAPSHOT_SELECTS}: {apart}` "
                f"and `{SNAPSHOT_SELECTS}.{parent}: select * from only {parent}`, and ingest {children} as well",
            )


def _check_unsent_values(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError for columns whose long values would become null in updates that do not change them.

    PostgreSQL does not send such values, and for some types Debezium has no placeholder for a value that was not sent.
    """
    columns = _list_columns(connection, database, _UNSENT_COLUMNS)
    if columns:
        tables = dict.fromkeys(f"alter table {table} replica identity full" for table, _ in columns)
        raise _build_error(
            connection,
            "the server does not send long values of these columns with every update, and for their types Debezium "
            f"does not mark them as missing: {', '.join(column for _, column in columns)}",
            f"`{'; '.join(tables)}`, or exclude the columns, with the Debezium property `column.exclude.list`",
        )


def _list_columns(connection: DebeziumConnection, database: SourceDatabase, sql: str) -> list[tuple[str, str]]:
    """Runs a query that returns columns of inexact types, and lists those columns that ingestion reads.

    An entry has the table, and the column's full name with its type, for errors.
    """
    return [
        (str(table), f"{table}.{column} ({kind})")
        for table, column, kind in database.fetch_rows(sql)
        if connection.is_column_read(str(table), str(column))
    ]


def warn_of_refused_updates(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Logs a warning for tables that have neither a primary key nor another replica identity.

    While such a table is published, PostgreSQL refuses all updates and deletes of its rows.
    """
    names = [str(row[0]) for row in database.fetch_rows(_NO_IDENTITY) if connection.is_read(str(row[0]))]
    if names:
        LOG.warning(
            "%s: while these tables are ingested, PostgreSQL refuses updates and deletes of them, since they have "
            "no primary key: %s.\nWhat to do where there are such: %s",
            connection.address,
            ", ".join(names),
            "; ".join(f"alter table {name} replica identity full" for name in names),
        )


def _build_error(connection: DebeziumConnection, what: str, fix: str | None = None) -> SourceError:
    return SourceError(f"{connection.address}: {what}.", fix=fix)
