"""Checks PostgreSQL for settings, rights, columns and tables that prevent an exact reading of changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.postgresql_publication import VIA_ROOT
from arctic_runtime.ingest.transports.debezium.servers.source_database import SourceDatabase

LOG = logging.getLogger(__name__)

_OLDEST_VERSION = 14
_RESYNC = "`arctic ingest --resync TABLE`"

_SETUP = """
select current_setting('server_version_num')::int / 10000, current_setting('wal_level'),
  (select bool_or(rolsuper or rolreplication) from pg_roles
   where rolname = current_user or rolname = 'rds_replication' and pg_has_role(current_user, oid, 'member')),
  pg_is_in_recovery()
"""
_BASES = """
with recursive bases(oid, base, dims, typmod) as (
  select oid, oid, 0, -1 from pg_type where typtype <> 'd'
  union all
  select d.oid, b.base, greatest(d.typndims, b.dims), greatest(d.typtypmod, b.typmod)
  from pg_type d join bases b on d.typbasetype = b.oid where d.typtype = 'd'
)
"""
"""SQL that maps each type to the type below its domains, with the dimensions and the length that these domains have."""

_INEXACT_COLUMNS = f"""{_BASES}
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join bases b on b.oid = a.atttypid join pg_type t on t.oid = b.base
where (
    greatest(a.attndims, b.dims) > 1
    or t.typname in ('varbit', '_varbit', '_bit', '_interval', '_money', '_xml', '_name', '_point')
  )
  and c.relkind in ('r', 'p') and not a.attisdropped and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname, a.attnum
"""
_UNSENT_COLUMNS = f"""{_BASES}
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join bases b on b.oid = a.atttypid join pg_type t on t.oid = b.base left join pg_type e on e.oid = t.typelem
where c.relreplident <> 'f' and a.attstorage <> 'p' and not a.attisdropped
  and (
    t.typcategory = 'A' and t.typlen = -1 and e.typname not in ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'bytea',
      'uuid', 'int4', 'int8', 'date')
    or t.typname = 'bit' and greatest(a.atttypmod, b.typmod) > 160
  )
  and c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname, a.attnum
"""
_DATES_BEHIND_COMMAS = f"""{_BASES}
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join bases b on b.oid = a.atttypid
where b.base = 'date'::regtype and strpos(n.nspname || c.relname, ',') > 0
  and c.relkind in ('r', 'p') and not a.attisdropped and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname, a.attnum
"""
_TWIN_COLUMNS = """
select n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  and n.nspname not in ('pg_catalog', 'information_schema')
  and exists (
    select from pg_attribute o where o.attrelid = a.attrelid and o.attnum > 0 and not o.attisdropped
      and o.attnum <> a.attnum and lower(o.attname) = lower(a.attname)
  )
order by n.nspname, c.relname, a.attnum
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


Columns = Mapping[str, Sequence[str]]
"""Columns that violate a rule, by their table; each is its full name with its type."""


@dataclass(frozen=True)
class _ColumnRule:
    """A query for columns that can't be read exactly, and a function that describes the fault and the fix."""

    sql: str
    describe: Callable[[Columns], tuple[str, str]]


def _join_columns(columns: Columns) -> str:
    return ", ".join(column for own in columns.values() for column in own)


def _describe_inexact(columns: Columns) -> tuple[str, str]:
    """Describes columns of types that Debezium does not read exactly.

    It turns nested arrays into nulls, and loses some arrays and the lengths of varying bits.
    """
    return (
        "columns with bits of any length, lists of bits, intervals, money, xml, names or points, or lists inside of "
        f"lists can't be read exactly: {_join_columns(columns)}",
        "exclude them, with the Debezium property `column.exclude.list`",
    )


def _describe_unsent(columns: Columns) -> tuple[str, str]:
    """Describes columns whose long values would become null in updates that do not change them.

    PostgreSQL does not send such values, and for some types Debezium has no placeholder for a value that was not sent.
    """
    tables = "; ".join(f"alter table {table} replica identity full" for table in columns)
    return (
        "the server does not send long values of these columns with every update, and for their types Debezium "
        f"does not mark them as missing: {_join_columns(columns)}",
        f"`{tables}`, or exclude the columns, with the Debezium property `column.exclude.list`",
    )


def _describe_twins(columns: Columns) -> tuple[str, str]:
    return (
        f"the names of these columns differ in nothing but case, and Debezium does not tell them apart: "
        f"{_join_columns(columns)}",
        "rename one of them in the database",
    )


def _describe_commas(columns: Columns) -> tuple[str, str]:
    """Describes dates, which need a query of their own in a snapshot: Debezium's list of such tables has commas."""
    return (
        f"Debezium can't read dates exactly in a table whose name has a comma: {_join_columns(columns)}",
        "rename the table or its schema in the database, or exclude the columns, with the Debezium property "
        "`column.exclude.list`",
    )


_COLUMN_RULES = (
    _ColumnRule(_INEXACT_COLUMNS, _describe_inexact),
    _ColumnRule(_UNSENT_COLUMNS, _describe_unsent),
    _ColumnRule(_TWIN_COLUMNS, _describe_twins),
    _ColumnRule(_DATES_BEHIND_COMMAS, _describe_commas),
)


def find_unreadable(connection: DebeziumConnection, database: SourceDatabase) -> dict[str, str]:
    """Maps tables of a connection with columns that can't be read exactly to the reason, as a text for people."""
    reasons: dict[str, str] = {}
    for rule in _COLUMN_RULES:
        for table, own in _list_columns(connection, database, rule.sql).items():
            what, fix = rule.describe({table: own})
            reasons.setdefault(table, str(connection.build_error(what, f"{fix}; then {_RESYNC}")))
    return reasons


def check_requirements(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError, with a fix, for the first setting, right or column that prevents exact reading of changes."""
    for check in (_check_setup, _check_columns, _check_partitions, _check_inheritance):
        check(connection, database)


def _check_setup(connection: DebeziumConnection, database: SourceDatabase) -> None:
    version, wal_level, may_replicate, _ = database.fetch_rows(_SETUP)[0]
    if int(version or 0) < _OLDEST_VERSION:
        raise connection.build_error(f"this is PostgreSQL {version}, expected {_OLDEST_VERSION} or newer")
    if wal_level != "logical":
        raise connection.build_error(
            f"the server's wal_level is {wal_level}, expected logical",
            "`alter system set wal_level = logical`, then restart the server",
        )
    if may_replicate != "t":
        raise connection.build_error(
            f"user {connection.user} has no right to replicate",
            f"`alter role {connection.user} replication`, or where roles can't have it, as on RDS and Aurora, "
            f"`grant rds_replication to {connection.user}`",
        )


def _check_columns(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError for columns whose values Debezium does not read exactly."""
    for rule in _COLUMN_RULES:
        if columns := _list_columns(connection, database, rule.sql):
            raise connection.build_error(*rule.describe(columns))


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
        raise connection.build_error(
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
            raise connection.build_error(
                f"a snapshot of {parent} has the rows of {children} too, which inherit from it, and their changes "
                "would be left out",
                f"set the Debezium properties `{SNAPSHOT_SELECTS}: {apart}` "
                f"and `{SNAPSHOT_SELECTS}.{parent}: select * from only {parent}`, and ingest {children} as well",
            )


def _list_columns(connection: DebeziumConnection, database: SourceDatabase, sql: str) -> Columns:
    """Runs a query that returns columns with their types, and lists those columns that ingestion reads."""
    columns: dict[str, list[str]] = {}
    for table, column, kind in database.fetch_rows(sql):
        if connection.is_column_read(str(table), str(column)):
            columns.setdefault(str(table), []).append(f"{table}.{column} ({kind})")
    return columns


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
