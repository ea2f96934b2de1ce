"""What MySQL and MariaDB need beside Debezium: rights and settings, and where their binary log begins and ends."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import UNKNOWN_IN_OLDER_ROWS, SourceColumn
from arctic_runtime.ingest.transports.binlog_order import BinlogOrder, begin_of, file_number
from arctic_runtime.ingest.transports.ddl_history import defined, definitions
from arctic_runtime.ingest.transports.debezium_connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium_position import Position, Source
from arctic_runtime.ingest.transports.jvm import java
from arctic_runtime.ingest.transports.mariadb_in_debezium import let_debezium_read_mariadb
from arctic_runtime.ingest.transports.mysql_tables import account, check_tables
from arctic_runtime.ingest.transports.source_database import SourceDatabase, catalog_tables, causes
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.thresholds import DebeziumThresholds

End = tuple[int, int]
"""The number of a file of the log, and a place in it."""

_NEWEST_STATUS = (8, 4)
"""The version of MySQL from which on the log's end has another statement."""

_SETTINGS: Mapping[str, tuple[str, str]] = {
    "log_bin": ("1", "`log_bin = binlog` in the server's configuration, then restart it"),
    "binlog_format": ("ROW", "`set global binlog_format = 'ROW'`"),
    "binlog_row_image": ("FULL", "`set global binlog_row_image = 'FULL'`"),
}
"""Variable → the value that is expected, and what to do otherwise."""

_NO_TABLES = (
    r"(SET STATEMENT .+ FOR )?(CREATE|ALTER|DROP)\s+(OR REPLACE\s+)?(TEMPORARY\s+)?(DEFINER\s*=\s*\S+\s+)?"
    r"(SEQUENCE|PACKAGE)\b.*"
)
"""Statements that define no tables."""

_RIGHTS = ("REPLICATION SLAVE", "REPLICATION CLIENT")
_RIGHTS_OF_SNAPSHOTS = ("RELOAD",)
_OTHER_NAMES = {
    "REPLICATION CLIENT": ("BINLOG MONITOR",),
    "REPLICATION SLAVE": ("REPLICATION REPLICA",),
    "RELOAD": ("FLUSH_TABLES",),
}
"""Rights that are as good, in MariaDB and newer versions of MySQL."""
_MARIADB_TYPES = """
select concat(table_schema, '.', table_name), column_name, data_type from information_schema.columns
where data_type in ('uuid', 'inet4', 'inet6')
"""
_KEY = """
select column_name from information_schema.key_column_usage
where constraint_name = 'PRIMARY' and table_schema = ? and table_name = ? order by ordinal_position
"""
_EXPECTED = re.compile(r" expecting \{[^}]*\}+")
"""What Debezium's parser could have gone on with: all of its words."""

_CATALOG = """
select t.table_schema, t.table_name, k.column_name from information_schema.tables t
left join information_schema.key_column_usage k
  on k.table_schema = t.table_schema and k.table_name = t.table_name and k.constraint_name = 'PRIMARY'
where t.table_type = 'BASE TABLE' and t.table_schema = database()
order by t.table_schema, t.table_name, k.ordinal_position
"""
_FILTER = "internal.schema.history.internal.ddl.filter"
_UNREAD = (
    f"what to do: where it defines no table that is read, pass over it by the Debezium property `{_FILTER}`; else make "
    "the table without what is new in it, then `arctic ingest --resync`"
)
_RESYNC = "what to do: `arctic ingest --resync` reads the tables again and writes what differs"


class MySQL:
    """The server side of an ingestion from MySQL or MariaDB."""

    order = BinlogOrder()
    gives_signs_of_life = True

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds) -> None:
        self._connection = connection
        self._database = SourceDatabase(connection, thresholds.heap_bytes)
        let_debezium_read_mariadb()

    def check(self, position: Position | None) -> None:
        is_snapshot = position is None or position.is_snapshot
        self._check_settings()
        self._check_rights((*_RIGHTS, *_RIGHTS_OF_SNAPSHOTS) if is_snapshot else _RIGHTS)
        self._check_columns()
        if position is None or position.is_snapshot:
            check_tables(self._connection, self._database)
        else:
            if position.history is None:
                raise self._lost("the definitions of tables as of the last commit are not kept")
            self._check_log(position)

    def prepare(self, position: Position) -> None:
        self.check(position)

    def publish(self, tables: Collection[str]) -> None:
        """Nothing: the log has the changes of all tables."""

    def withdraw(self) -> None:
        """Nothing: the log has the changes of all tables."""

    def mark(self) -> None:
        """Nothing: each event tells its own place in the log."""

    def begin(self, first: Source) -> Source:
        return begin_of(first)

    def end(self) -> End:
        file, place, *_ = self._database.rows(self._status())[0]
        return file_number(str(file)), int(place or 0)

    def push(self) -> None:
        """Nothing: the server tells a reader that waits how far its log is, several times a second."""

    def reached(self, position: Position, end: End) -> bool:
        if position.is_snapshot or position.reached is None:
            return False
        file, place = position.reached
        return (file_number(file), int(place)) >= end

    def catalog(self) -> list[CatalogTable]:
        return catalog_tables(self._database.rows(_CATALOG))

    def primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        return tuple(str(row[0]) for row in self._database.rows(_KEY, (schema, table)))

    def columns(
        self, schema: str, table: str, columns: Sequence[SourceColumn], history: str | None
    ) -> tuple[SourceColumn, ...]:
        known = defined(definitions(history or "", schema, table), [column.name for column in columns])
        return tuple(
            replace(of, number=known[of.name].number, older_rows=known[of.name].older_rows)
            if of.name in known
            else replace(of, older_rows=UNKNOWN_IN_OLDER_ROWS)
            for of in columns
        )

    def failure(self, error: Any, reason: str) -> SourceError:
        if error is None:
            return self._database.lost(reason)
        unread = [cause for cause in causes(error) if hasattr(cause, "getErrors")]
        if unread:
            what = _EXPECTED.sub("", "; ".join(str(of.getMessage()) for of in unread[0].getErrors()))
            return self._error(f"Debezium can't read a statement of the server's log.\n  found: {what}\n  {_UNREAD}")
        return self._database.failure(error)

    def properties(self) -> Mapping[str, str]:
        """The statements that Debezium passes over, those of MariaDB added that its parser for MySQL does not know."""
        known = java("io.debezium.relational.history.SchemaHistory").DDL_FILTER.defaultValueAsString()
        return {_FILTER: f"{known},{_NO_TABLES}"}

    def close(self) -> None:
        self._database.close()

    def _status(self) -> str:
        """The statement that tells where the log ends."""
        version = str(self._database.one("select version()"))
        if "MariaDB" not in version and tuple(map(int, version.split(".")[:2])) >= _NEWEST_STATUS:
            return "show binary log status"
        return "show master status"

    def _check_settings(self) -> None:
        names = ", ".join(f"@@global.{name}" for name in _SETTINGS)
        found = self._database.rows(f"select {names}")[0]
        for (name, (expected, advice)), value in zip(_SETTINGS.items(), found, strict=True):
            if str(value).upper() != expected:
                raise self._error(f"the server's {name} is {value}, expected {expected}.\n  what to do: {advice}")

    def _check_rights(self, expected: Sequence[str]) -> None:
        granted = " ".join(str(row[0]).upper() for row in self._database.rows("show grants"))
        missing = [right for right in expected if not _is_granted(right, granted)]
        if missing:
            rights = ", ".join(missing)
            raise self._error(
                f"user {self._connection.user} lacks the right {rights}.\n"
                f"  what to do: `grant {rights} on *.* to {account(self._database)}`"
            )

    def _check_columns(self) -> None:
        """Debezium's parser for MySQL stops at definitions of tables with types that only MariaDB has."""
        unknown = [
            f"{table}.{column} ({kind})"
            for table, column, kind in self._database.rows(_MARIADB_TYPES)
            if self._connection.reads(str(table))
        ]
        if unknown:
            raise self._error(
                f"columns of types that only MariaDB has can't be read: {', '.join(unknown)}.\n"
                "  what to do: make them binary(16) or char columns, or leave their tables out"
            )

    def _check_log(self, position: Position) -> None:
        """Raises SourceError where the server no longer has the log after a position, or it is another log."""
        if "gtids" in position.offset:
            known = (str(position.offset["gtids"]),)
            if self._database.one("select gtid_subset(@@global.gtid_purged, ?)", known) == "0":
                raise self._lost(f"the server purged transactions after {known[0]} from its binary log")
            return
        sizes = {str(row[0]): int(row[1] or 0) for row in self._database.rows("show binary logs")}
        file, place = str(position.offset["file"]), int(position.offset["pos"])
        if file not in sizes:
            raise self._lost(f"the server purged its binary log {file}; the oldest that it has is {min(sizes)}")
        if place > sizes[file]:
            raise self._lost(
                f"the binary log {file} ends at {sizes[file]}, before the last commit at {place}: this is another "
                "server, or its log was begun anew"
            )

    def _lost(self, what: str) -> SourceError:
        return self._error(f"{what}.\n  {_RESYNC}")

    def _error(self, text: str) -> SourceError:
        return SourceError(f"{self._connection.place}: {text}")


def _is_granted(right: str, granted: str) -> bool:
    names = (right, *_OTHER_NAMES.get(right, ()), "ALL PRIVILEGES")
    return any(re.search(rf"\b{name}\b", granted) for name in names)
