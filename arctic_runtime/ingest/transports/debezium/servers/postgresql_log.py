"""Whether the write-ahead log of a PostgreSQL is the one in which a position lies, also after a failover.

A standby that is promoted continues the log on a timeline of its own, from the point up to which it had received it. If
that is before a position, transactions that were read are not in the new log, others have their LSNs, and no position
can tell them apart. The server sends the points at which timelines begin over a replication connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import format_lsn
from arctic_runtime.ingest.transports.debezium.servers.source_database import RESYNC, SourceDatabase

_END = """
select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0'::pg_lsn
"""
_IDENTITY = """
select system_identifier::text, case when not pg_is_in_recovery()
  then ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::text end
from pg_control_system()
"""


def get_log_end(database: SourceDatabase) -> int:
    """Returns the current end of the write-ahead log, as an LSN, a number of bytes."""
    return int(database.fetch_one(_END) or 0)


def identify_log(database: SourceDatabase) -> Mapping[str, str]:
    """Returns the `system` that wrote the log, and its `timeline`, which a standby does not tell."""
    ((system, timeline),) = database.fetch_rows(_IDENTITY)
    parts = {"system": system, "timeline": timeline}
    return {name: value for name, value in parts.items() if value is not None}


def check_same_log(connection: DebeziumConnection, database: SourceDatabase, position: Position) -> None:
    """Raises SourceError if the position lies in another log than the server's, or after the end of that."""
    known, now = position.log or {}, identify_log(database)
    if known.get("system", now.get("system")) != now.get("system"):
        raise connection.build_error(
            "another server answers, whose log has nothing to do with the one that was read",
            RESYNC,
            f"system identifier {known['system']}",
            str(now.get("system")),
        )
    reached = int(position.reached or position.offset["lsn"])
    begin = _find_begin(database, known.get("timeline"), now.get("timeline"))
    if begin is not None and begin < reached:
        raise connection.build_error(
            "a standby was promoted that had not received all that was read; its later changes have the places of "
            "changes that it lost",
            RESYNC,
            f"timeline {now['timeline']} begins at {format_lsn(reached)} or later",
            f"at {format_lsn(begin)}",
        )
    end = get_log_end(database)
    # A standby that was started again replays once more what it had replayed.
    if "timeline" in now and end < reached:
        raise connection.build_error(
            "the server's log ends before what was read: it is another server, or was set back to an earlier state",
            RESYNC,
            f"a log up to {format_lsn(reached)}",
            f"its end at {format_lsn(end)}",
        )


def _find_begin(database: SourceDatabase, known: str | None, now: str | None) -> int | None:
    """Finds the LSN at which the log left the timeline `known`; None if it did not, or a timeline is not known.

    0 if the log never was on the timeline.
    """
    if known is None or now is None or known == now:
        return None
    return next((begin for timeline, begin in read_timelines(database, now) if timeline == int(known)), 0)


def read_timelines(database: SourceDatabase, timeline: str) -> list[tuple[int, int]]:
    """Reads the earlier timelines of the log with the LSNs at which it left them."""
    (row,) = database.fetch_replication_rows(f"TIMELINE_HISTORY {int(timeline)}")
    return parse_timelines(str(row[1]))


def parse_timelines(history: str) -> list[tuple[int, int]]:
    """Parses the file of a timeline's history: a line has a timeline, the LSN of its end, and a reason."""
    parts = [line.split() for line in history.splitlines()]
    return [(int(line[0]), _parse_lsn(line[1])) for line in parts if len(line) > 1 and line[0].isdigit()]


def _parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)
