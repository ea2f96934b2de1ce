"""The replication slot of PostgreSQL, for which the server keeps its log from the position of one reader on."""

from __future__ import annotations

import time

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_database import Row, SourceDatabase
from arctic_runtime.thresholds import DebeziumThresholds

_SLOT = """
select plugin, database, active, active_pid, wal_status, confirmed_flush_lsn - '0/0'::pg_lsn
from pg_replication_slots where slot_name = ?
"""
_RESYNC = "`arctic ingest --resync` reads the tables again and writes what differs"


class ReplicationSlot:
    """The replication slot of a connection; its methods raise SourceError with advice for the user."""

    def __init__(
        self, connection: DebeziumConnection, database: SourceDatabase, thresholds: DebeziumThresholds
    ) -> None:
        self._connection = connection
        self._database = database
        self._thresholds = thresholds

    def check_slot(self, position: Position | None) -> None:
        """Raises SourceError if the slot can't be read from `position` on.

        `position` is None for a source that was never ingested; then no slot may exist. If `position` is inside a
        snapshot, nothing is checked, since the slot is created again.
        """
        slot = self._find_slot()
        if position is None:
            self._check_absent(slot)
        elif not position.is_snapshot:
            self._check_position(slot, position)

    def get_start(self) -> int:
        """Returns the LSN at which the slot was created; valid only until a batch is acknowledged.

        Raises SourceError if the slot was dropped.
        """
        slot = self._find_slot()
        if slot is None or slot[5] is None:
            raise self._build_error(f"replication slot {self._connection.slot} was dropped during the snapshot")
        return int(slot[5])

    def drop_slot(self) -> None:
        """Drops the slot if there is one; raises SourceError if a reader does not release it in time."""
        if self.wait_for_release():
            self._database.fetch_one("select pg_drop_replication_slot(?)::text", (self._connection.slot,))

    def wait_for_release(self) -> bool:
        """Waits until no reader uses the slot, since a server needs a moment to notice that a reader ended.

        Returns False if there is no slot. Raises SourceError if the slot is still in use after `release_seconds`.
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

    def _find_slot(self) -> Row | None:
        rows = self._database.fetch_rows(_SLOT, (self._connection.slot,))
        return rows[0] if rows else None

    def _check_absent(self, slot: Row | None) -> None:
        if slot is not None:
            raise self._build_error(
                f"replication slot {self._connection.slot} exists, but this source was never ingested: another "
                "reader uses it, or the tables of an earlier ingestion were dropped",
                f"drop it (`select pg_drop_replication_slot('{self._connection.slot}')`), or choose another `slot`",
            )

    def _check_position(self, slot: Row | None, position: Position) -> None:
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
        return SourceError(f"{self._connection.address}: {what}.", fix=fix)
