"""Requirements of PostgreSQL beside Debezium: its rights and settings, its replication slot, and the end of its log."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import (
    NULL_IN_OLDER_ROWS,
    UNKNOWN_IN_OLDER_ROWS,
    OlderRows,
    SourceColumn,
)
from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position, Source
from arctic_runtime.ingest.transports.debezium.servers.postgresql_dates import DATE_COLUMNS, snapshot_selects
from arctic_runtime.ingest.transports.debezium.servers.postgresql_publication import VIA_ROOT, Publication
from arctic_runtime.ingest.transports.debezium.servers.postgresql_tables import (
    check_kinds,
    check_tables,
    describe_generated,
)
from arctic_runtime.ingest.transports.debezium.servers.source_database import Row, SourceDatabase, build_catalog_tables
from arctic_runtime.ingest.transports.debezium.servers.wal_order import WalOrder
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.thresholds import DebeziumThresholds

LOG = logging.getLogger(__name__)

_OLDEST_VERSION = 14
MESSAGE = "arctic"
"""The prefix of the messages by which the end of the log is noticed."""

_SLOT = """
select plugin, database, active, active_pid, wal_status, confirmed_flush_lsn - '0/0'::pg_lsn
from pg_replication_slots where slot_name = ?
"""
_SETUP = """
select current_setting('server_version_num')::int / 10000, current_setting('wal_level'),
  (select bool_or(rolsuper or rolreplication) from pg_roles
   where rolname = current_user or rolname = 'rds_replication' and pg_has_role(current_user, oid, 'member')),
  pg_is_in_recovery()
"""
_END = """
select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0'::pg_lsn
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
_UNTOLD_COLUMNS = """
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
_KEY = """
select a.attname from pg_index i
join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indisprimary and n.nspname = ? and c.relname = ?
order by array_position(i.indkey::int2[], a.attnum)
"""
_PLAIN_TYPES = (
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "bool",
    "text",
    "varchar",
    "bpchar",
    "uuid",
    "json",
    "jsonb",
    "date",
    "timestamp",
    "timestamptz",
)
"""Types whose texts Spark casts to the same value."""

_COLUMNS = """
select a.attnum, a.attname, a.atthasmissing, (a.attmissingval::text::text[])[1], a.atthasdef or a.attidentity <> '',
  t.typname, t.typtype, a.attisdropped, a.attgenerated <> '',
  exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
    where p.pubname = ? and r.prrelid = c.oid and to_jsonb(r) ->> 'prattrs' is not null),
  (with recursive bases(oid, base) as (
    select a.atttypid, t.typbasetype union all select b.oid, b.typbasetype from pg_type b join bases on b.oid = base
  ) select typname from bases join pg_type using (oid) where base = 0)
from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
left join pg_type t on t.oid = a.atttypid
where n.nspname = ? and c.relname = ? and a.attnum > 0
order by a.attnum
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
_CATALOG = """
select n.nspname, c.relname, a.attname from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_index i on i.indrelid = c.oid and i.indisprimary
left join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and n.nspname not in ('pg_catalog', 'information_schema')
  and has_table_privilege(c.oid, 'select')
order by n.nspname, c.relname, array_position(i.indkey::int2[], a.attnum)
"""
_RESYNC = "`arctic ingest --resync` reads the tables again and writes what differs"


class PostgreSQL:
    """The server side of an ingestion."""

    order = WalOrder()
    gives_signs_of_life = False

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds) -> None:
        self._connection = connection
        self._thresholds = thresholds
        self._database = SourceDatabase(connection, thresholds.heap_bytes)
        self._publication = Publication(connection, self._database)

    def check_server(self, position: Position | None) -> None:
        """Checks all that Debezium would fail of, or worse, go on without; raises SourceError. Changes nothing."""
        self._check_setup()
        self._check_columns()
        self._check_unsent_values()
        self._check_partitions()
        self._check_inheritance()
        slot = self._find_slot()
        is_snapshot = position is None or position.is_snapshot
        if is_snapshot:
            check_kinds(self._connection, self._database)
        check_tables(self._connection, self._database, is_snapshot)
        self._publication.check_publication(is_snapshot)
        if position is None:
            self._warn_of_refused_updates()
            if slot is not None:
                raise self._build_error(
                    f"replication slot {self._connection.slot} exists, but this source was never ingested: another "
                    "reader uses it, or the tables of an earlier ingestion were dropped",
                    f"drop it (`select pg_drop_replication_slot('{self._connection.slot}')`), or choose another `slot`",
                )
        elif not position.is_snapshot:
            self._check_slot(slot, position)

    def prepare_server(self, position: Position) -> None:
        """Checks, and makes the server ready to go on after a position.

        The slot of a snapshot that did not finish is dropped: with an old slot Debezium loses what is committed between
        the begin of the snapshot and the moment at which it looks where the log ends.
        """
        self.check_server(position)
        if position.is_snapshot:
            self.drop_slot()
            self._publication.complete_publication()
        else:
            self._wait_for_release()

    def publish_tables(self, tables: Collection[str]) -> None:
        """Adds tables to the publication, which has to be done before their snapshot begins.

        What is written to a table before that is not in the stream. A slot that is made after it waits for all
        transactions that ran then, so that a snapshot by it has what they wrote.
        """
        self._publication.complete_publication(tables)

    def withdraw_tables(self) -> None:
        self._publication.withdraw_tables()

    def commit_marker(self) -> None:
        self._check_primary()
        self._database.fetch_one("select pg_logical_emit_message(true, ?, '')::text", (MESSAGE,))

    def get_stream_start(self, _: Source) -> Source:
        """Position at which the stream begins after a snapshot.

        It is where its slot was made, since nothing is acknowledged yet.
        """
        slot = self._find_slot()
        if slot is None or slot[5] is None:
            raise self._build_error(f"replication slot {self._connection.slot} was dropped during the snapshot")
        return {"lsn": int(slot[5])}

    def get_log_end(self) -> int:
        """End of the log now, as a number of bytes."""
        return int(self._database.fetch_one(_END) or 0)

    def push_log_end(self) -> None:
        """Writes a message into the log, in no table, so that the stream reaches its end even if nothing else comes.

        Otherwise the server would keep the log of changes to tables that are not read. Raises SourceError on a standby.
        """
        self._check_primary()
        self._database.fetch_one("select pg_logical_emit_message(false, ?, '')::text", (MESSAGE,))

    def has_reached(self, position: Position, end: int) -> bool:
        """Whether a position is behind all that was committed before the log's end was `end`."""
        return not position.is_snapshot and position.reached is not None and position.reached >= end

    def list_catalog(self) -> list[CatalogTable]:
        return build_catalog_tables(self._database.fetch_rows(_CATALOG))

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        """The columns of a table's primary key, in order; none if it has none."""
        return tuple(str(row[0]) for row in self._database.fetch_rows(_KEY, (schema, table)))

    def build_properties(self) -> Mapping[str, str]:
        return snapshot_selects(self._database.fetch_rows(DATE_COLUMNS), self._connection)

    def close_connection(self) -> None:
        self._database.close_connection()

    def list_columns(
        self,
        schema: str,
        table: str,
        columns: Sequence[SourceColumn],
        history: str | None,  # noqa: ARG002 - the interface
    ) -> tuple[SourceColumn, ...]:
        """Events have columns in the order of their numbers.

        Where all are sent and none was dropped they are told by their places, since the events may be older than the
        definition. Others are told by their names; one that the table does not have there stays without a number.
        """
        rows = self._database.fetch_rows(_COLUMNS, (self._connection.publication, schema, table))
        self._check_generated(f"{schema}.{table}", rows)
        chosen = {"column.include.list", "column.exclude.list"} & set(self._connection.properties)
        return match_columns(columns, rows, is_chosen=bool(chosen))

    def _check_generated(self, table: str, columns: Sequence[Row]) -> None:
        """Raises SourceError if a column has become a generated one since ingestion began."""
        generated = [(table, row[1], None) for row in columns if row[8] == "t"]
        if rows := [row for row in generated if self._connection.is_column_read(table, str(row[1]))]:
            raise self._build_error(*describe_generated(rows))

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        """Why Debezium stopped, in plain words: a Java exception, and a text if there is none."""
        return self._database.to_source_error(error) if error is not None else self._database.build_lost_error(reason)

    def drop_slot(self) -> None:
        """Drops the replication slot if there is one; raises SourceError if a reader uses it."""
        if self._wait_for_release():
            self._database.fetch_one("select pg_drop_replication_slot(?)::text", (self._connection.slot,))

    def _wait_for_release(self) -> bool:
        """Waits until no reader uses the slot, since a server needs a moment to notice that one is gone.

        False if there is no slot; raises SourceError if the reader stays.
        """
        until = time.monotonic() + self._thresholds.release_seconds
        while (slot := self._find_slot()) is not None:
            active, pid = slot[2], slot[3]
            if active == "f":
                return True
            if time.monotonic() > until:
                raise self._build_error(
                    f"replication slot {self._connection.slot} is in use by process {pid} of the server",
                    "end the other ingestion, or choose another `slot`",
                )
            time.sleep(self._thresholds.release_poll_seconds)
        return False

    def _find_slot(self) -> tuple[str | None, ...] | None:
        rows = self._database.fetch_rows(_SLOT, (self._connection.slot,))
        return rows[0] if rows else None

    def _check_primary(self) -> None:
        if self._database.fetch_one("select pg_is_in_recovery()::text") == "true":
            raise self._build_error(
                "the server is a standby, where no place of the log can be marked",
                "read the primary, or run without --once and with the tables of the first run",
            )

    def _check_setup(self) -> None:
        version, wal_level, may_replicate, _ = self._database.fetch_rows(_SETUP)[0]
        if int(version or 0) < _OLDEST_VERSION:
            raise self._build_error(f"this is PostgreSQL {version}, expected {_OLDEST_VERSION} or newer")
        if wal_level != "logical":
            raise self._build_error(
                f"the server's wal_level is {wal_level}, expected logical",
                "`alter system set wal_level = logical`, then restart the server",
            )
        if may_replicate != "t":
            raise self._build_error(
                f"user {self._connection.user} has no right to replicate",
                f"`alter role {self._connection.user} replication`",
            )

    def _check_columns(self) -> None:
        """Debezium makes nulls of lists inside of lists, and loses some lists and the lengths of varying bits."""
        inexact = [column for _, column in self._list_columns(_INEXACT_COLUMNS)]
        if inexact:
            raise self._build_error(
                "columns with bits of any length, lists of bits, intervals, money, xml, names or points, or lists "
                f"inside of lists can't be read exactly: {', '.join(inexact)}",
                "exclude them, with the Debezium property `column.exclude.list`",
            )

    def _check_partitions(self) -> None:
        """Changes come under the names of partitions, and would be left out, unless a publication says otherwise."""
        publication = self._connection.publication
        is_there = self._database.fetch_one("select 1::text from pg_publication where pubname = ?", (publication,))
        if not is_there and self._connection.properties.get(VIA_ROOT) == "true":
            return
        published_tables = [str(row[0]) for row in self._database.fetch_rows(_PARTITIONED, (publication,))]
        partitioned = [table for table in published_tables if self._connection.is_read(table)]
        if partitioned:
            raise self._build_error(
                f"changes of partitioned tables come under the names of their partitions: {', '.join(partitioned)}",
                f"`alter publication {publication} set (publish_via_partition_root = true)`"
                if is_there
                else f"set the Debezium property `{VIA_ROOT}: true`",
            )

    def _check_inheritance(self) -> None:
        """A snapshot has the rows of tables that inherit from one, whose changes come under their own names alone."""
        own = self._connection.properties
        others = own.get(SNAPSHOT_SELECTS)
        for parent, children in self._database.fetch_rows(_INHERITED):
            if self._connection.is_read(str(parent)) and f"{SNAPSHOT_SELECTS}.{parent}" not in own:
                apart = f"{others},{parent}" if others else parent
                raise self._build_error(
                    f"a snapshot of {parent} has the rows of {children} too, which inherit from it, and their changes "
                    "would be left out",
                    f"set the Debezium properties `{SNAPSHOT_SELECTS}: {apart}` "
                    f"and `{SNAPSHOT_SELECTS}.{parent}: select * from only {parent}`, and ingest {children} as well",
                )

    def _check_unsent_values(self) -> None:
        """Of long values that an update leaves alone Debezium makes nulls, if a type has no mark for them."""
        columns = self._list_columns(_UNTOLD_COLUMNS)
        if columns:
            tables = dict.fromkeys(f"alter table {table} replica identity full" for table, _ in columns)
            raise self._build_error(
                "the server does not send long values of these columns with every update, and for their types Debezium "
                f"does not mark them as missing: {', '.join(column for _, column in columns)}",
                f"`{'; '.join(tables)}`, or exclude the columns, with the Debezium property `column.exclude.list`",
            )

    def _list_columns(self, sql: str) -> list[tuple[str, str]]:
        """The columns among those of a query that are read: the table of each, and its full name with its type."""
        return [
            (str(table), f"{table}.{column} ({kind})")
            for table, column, kind in self._database.fetch_rows(sql)
            if self._connection.is_column_read(str(table), str(column))
        ]

    def _warn_of_refused_updates(self) -> None:
        """A table that is published without what tells its rows apart takes no more updates from anybody."""
        names = [
            str(row[0]) for row in self._database.fetch_rows(_NO_IDENTITY) if self._connection.is_read(str(row[0]))
        ]
        if names:
            LOG.warning(
                "%s: while these tables are ingested, PostgreSQL refuses updates and deletes of them, since they have "
                "no primary key: %s.\nWhat to do where there are such: %s",
                self._connection.place,
                ", ".join(names),
                "; ".join(f"alter table {name} replica identity full" for name in names),
            )

    def _check_slot(self, slot: tuple[str | None, ...] | None, position: Position) -> None:
        name = self._connection.slot
        if slot is None:
            raise self._build_lost_error(
                f"replication slot {name} is gone, and with it the changes since the last commit"
            )
        plugin, database, _, _, status, confirmed = slot
        if plugin != "pgoutput" or database != self._connection.database:
            raise self._build_error(
                f"replication slot {name} is of plugin {plugin} and database {database}, expected pgoutput and "
                f"{self._connection.database}",
                "choose another `slot`",
            )
        if status == "lost":
            raise self._build_lost_error(
                f"the server removed the log that replication slot {name} needs (max_slot_wal_keep_size)"
            )
        if confirmed is not None and position.reached is not None and int(confirmed) > position.reached:
            raise self._build_lost_error(
                f"replication slot {name} is at {confirmed}, behind the last commit at {position.reached}: it was "
                "recreated, or another reader moved it"
            )

    def _build_lost_error(self, what: str) -> SourceError:
        return self._build_error(what, _RESYNC)

    def _build_error(self, what: str, fix: str | None = None) -> SourceError:
        return SourceError(f"{self._connection.place}: {what}.", fix=fix)


def match_columns(
    columns: Sequence[SourceColumn], rows: Sequence[Sequence[str | None]], is_chosen: bool
) -> tuple[SourceColumn, ...]:
    """Columns of events with the numbers of a table's columns, rows of `_COLUMNS`.

    Where it `is_chosen`, events lack some columns. See `PostgreSQL.list_columns`.
    """
    if is_chosen or any(row[8] == "t" or row[9] == "t" for row in rows):
        return _match_by_name(columns, rows, is_whole=False)
    is_prefix = len(columns) < len(rows) and all(row[7] == "f" for row in rows)
    if is_prefix or len(columns) == len(rows):
        return tuple(_with_number(column, row) for column, row in zip(columns, rows, strict=False))
    return _match_by_name(columns, rows, is_whole=True)


def _match_by_name(
    columns: Sequence[SourceColumn], rows: Sequence[Sequence[str | None]], is_whole: bool
) -> tuple[SourceColumn, ...]:
    """Columns of events with the numbers of a table's columns, rows of `_COLUMNS`, that have their names in order.

    Events that are `is_whole` lack none of the columns before one that they have: else names were given to others.
    """
    left = [row for row in rows if row[7] == "f"]
    matched = []
    for column in columns:
        place = next((i for i, row in enumerate(left) if row[1] == column.name), None)
        if place is None or (is_whole and place > 0):
            matched.append(replace(column, older_rows=UNKNOWN_IN_OLDER_ROWS))
        else:
            matched.append(_with_number(column, left[place]))
            left = left[place + 1 :]
    return tuple(matched)


def _with_number(column: SourceColumn, row: Sequence[str | None]) -> SourceColumn:
    """The column with what PostgreSQL knows of it. The schema of events does not tell a domain over decimals."""
    is_decimal = row[10] == "numeric" and column.type == "string"
    known = replace(column, encoding="decimal_text") if is_decimal else column
    return replace(known, number=int(row[0] or 0), older_rows=_get_older_rows_value(row))


def _get_older_rows_value(column: Sequence[str | None]) -> OlderRows:
    """Value that existing rows have in a column, a row of `_COLUMNS`, which was added later.

    PostgreSQL keeps one value for all of them, unless the default differs from row to row, or the table was rewritten
    since.
    """
    _, _, has_value, value, has_default, kind, kind_of_kind, is_dropped, *_ = column
    if is_dropped == "t":
        return UNKNOWN_IN_OLDER_ROWS
    if has_value == "t":
        is_plain = (kind in _PLAIN_TYPES or kind_of_kind == "e") and value is not None
        return OlderRows(True, value) if is_plain else UNKNOWN_IN_OLDER_ROWS
    return UNKNOWN_IN_OLDER_ROWS if has_default == "t" else NULL_IN_OLDER_ROWS
