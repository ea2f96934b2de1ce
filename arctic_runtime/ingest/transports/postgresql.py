"""What PostgreSQL needs beside Debezium: its rights and settings, its replication slot, and where its log ends."""

from __future__ import annotations

import re
import time
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium_connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium_position import Position
from arctic_runtime.ingest.transports.source_database import SourceDatabase
from arctic_runtime.profile import nearest
from arctic_runtime.thresholds import DebeziumThresholds

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
_TABLES = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
"""
_END = """
select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0'::pg_lsn
"""
_RESYNC = "what to do: `arctic ingest --resync` reads the tables again and writes what differs"


class PostgreSQL:
    """The server side of an ingestion."""

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds) -> None:
        self._connection = connection
        self._thresholds = thresholds
        self._database = SourceDatabase(connection, thresholds.heap)
        self._may_own_slot = False

    def prepare(self, position: Position | None) -> None:
        """Checks all that Debezium would fail of, or worse, go on without; raises SourceError.

        A slot whose snapshot did not finish is dropped, since a snapshot is exact only with a new slot.
        """
        self._check_setup()
        slot = self._slot()
        if position is None:
            self._check_tables()
            if slot is not None:
                raise self._error(
                    f"replication slot {self._connection.slot} exists, but no position in it is known: it was left by "
                    "an ingestion that ended before its first commit, or another reader uses it.\n"
                    f"  what to do: drop it (`select pg_drop_replication_slot('{self._connection.slot}')`), or choose "
                    "another `slot`"
                )
            self._may_own_slot = True
        elif position.is_snapshot:
            self.drop_slot()
            self._may_own_slot = True
        else:
            self._check_slot(slot, _lsn(position))

    def end(self) -> int:
        """Where the log ends now, as a number of bytes."""
        return int(self._database.one(_END) or 0)

    def push(self) -> None:
        """Writes a message into the log, in no table, so that the stream reaches its end even if nothing else comes."""
        self._database.one("select pg_logical_emit_message(true, ?, '')::text", (MESSAGE,))

    def reached(self, position: Position, end: int) -> bool:
        """Whether a position is behind all that was committed before the log's end was `end`."""
        return not position.is_snapshot and _lsn(position) >= end

    def finish(self, position: Position | None) -> None:
        """Ends the connection, and drops a slot that was made for a snapshot that did not finish."""
        try:
            if self._may_own_slot and (position is None or position.is_snapshot):
                self.drop_slot()
        finally:
            self._database.close()

    def failure(self, error: Any, reason: str) -> SourceError:
        """Why Debezium stopped, in plain words: a Java exception, and a text where there is none."""
        return self._database.failure(error) if error is not None else self._database.stopped(reason)

    def close(self) -> None:
        """Ends the connection, and leaves a slot as it is."""
        self._database.close()

    def drop_slot(self) -> None:
        """Drops the replication slot if there is one; raises SourceError where a reader uses it."""
        until = time.monotonic() + self._thresholds.release_seconds
        while (slot := self._slot()) is not None:
            active, pid = slot[2], slot[3]
            if active == "f":
                self._database.one("select pg_drop_replication_slot(?)::text", (self._connection.slot,))
                return
            if time.monotonic() > until:
                raise self._error(f"replication slot {self._connection.slot} is in use by process {pid} of the server")
            time.sleep(self._thresholds.release_poll_seconds)

    def _slot(self) -> tuple[str | None, ...] | None:
        rows = self._database.rows(_SLOT, (self._connection.slot,))
        return rows[0] if rows else None

    def _check_setup(self) -> None:
        version, wal_level, may_replicate, _ = self._database.rows(_SETUP)[0]
        if int(version or 0) < _OLDEST_VERSION:
            raise self._error(f"this is PostgreSQL {version}, expected {_OLDEST_VERSION} or newer")
        if wal_level != "logical":
            raise self._error(
                f"the server's wal_level is {wal_level}, expected logical.\n"
                "  what to do: `alter system set wal_level = logical`, then restart the server"
            )
        if may_replicate != "t":
            raise self._error(
                f"user {self._connection.user} has no right to replicate.\n"
                f"  what to do: `alter role {self._connection.user} replication`"
            )

    def _check_tables(self) -> None:
        names = [str(row[0]) for row in self._database.rows(_TABLES)]
        for pattern in self._connection.tables:
            if not any(re.fullmatch(pattern, name, re.IGNORECASE) for name in names):
                raise self._error(f"there is no table {pattern}{nearest(pattern, names)}")

    def _check_slot(self, slot: tuple[str | None, ...] | None, lsn: int) -> None:
        name = self._connection.slot
        if slot is None:
            raise self._lost(f"replication slot {name} is gone, and with it the changes since the last commit")
        plugin, database, _, _, status, confirmed = slot
        if plugin != "pgoutput" or database != self._connection.database:
            raise self._error(
                f"replication slot {name} is of plugin {plugin} and database {database}, expected pgoutput and "
                f"{self._connection.database}.\n  what to do: choose another `slot`"
            )
        if status == "lost":
            raise self._lost(f"the server removed the log that replication slot {name} needs (max_slot_wal_keep_size)")
        if confirmed is not None and int(confirmed) > lsn:
            raise self._lost(
                f"replication slot {name} stands at {confirmed}, behind the last commit at {lsn}: it was "
                "made anew, or another reader moved it"
            )

    def _lost(self, what: str) -> SourceError:
        return self._error(f"{what}.\n  {_RESYNC}")

    def _error(self, text: str) -> SourceError:
        return SourceError(f"{self._connection.place}: {text}")


def _lsn(position: Position) -> int:
    return int(position.offset.get("lsn", 0))
