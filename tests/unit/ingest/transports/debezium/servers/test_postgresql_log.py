"""Whether a position lies in the log of a server, by what a server says of its timelines; no server is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position, read_position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import WalOrder
from arctic_runtime.ingest.transports.debezium.servers.postgresql_log import check_same_log, parse_timelines

CONNECTION = DebeziumConnection("postgresql", "db", 5432, "shop", "arctic", "-", ("public.a",), "arctic")
LOG = {"system": "7", "timeline": "2"}
AT = Position({"server": "arctic"}, {"lsn": 500, "lsn_commit": 500}, None, 500, log=LOG)
HISTORY = "1\t0/64\tno recovery target specified\n\n2\t0/1F4\tno recovery target specified\n"


class Database:
    """What a server answers."""

    def __init__(self, timeline: str | None, end: int, history: str = "", system: str = "7") -> None:
        self.timeline, self.end, self.history, self.system = timeline, end, history, system

    def fetch_one(self, sql: str) -> str:
        assert "pg_current_wal_lsn() end" in sql
        return str(self.end)

    def fetch_rows(self, sql: str) -> list[tuple[str, str | None]]:
        assert "pg_control_system" in sql
        return [(self.system, self.timeline)]

    def fetch_replication_rows(self, command: str) -> list[tuple[str, str]]:
        assert command == f"TIMELINE_HISTORY {self.timeline}"
        return [("history", self.history)]


def test_a_history_has_the_ends_of_earlier_timelines() -> None:
    assert parse_timelines(HISTORY) == [(1, 100), (2, 500)]


@pytest.mark.parametrize(
    "server",
    [
        Database("2", 500),
        Database("3", 900, HISTORY),
        Database(None, 0),
    ],
    ids=["the same", "promoted with all", "a standby that replays"],
)
def test_a_log_with_all_that_was_read_is_the_same(server: Any) -> None:
    check_same_log(CONNECTION, server, AT)


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (Database("3", 9000, HISTORY.replace("1F4", "1F3")), "standby was promoted that had not received"),
        (Database("3", 9000, "1\t0/64\treason\n"), "standby was promoted that had not received"),
        (Database("2", 499), "ends before what was read"),
        (Database("2", 9000, system="8"), "another server answers"),
    ],
    ids=["promoted with less", "never on the timeline", "set back", "another system"],
)
def test_a_log_that_lacks_something_is_refused_with_what_to_do(server: Any, text: str) -> None:
    with pytest.raises(SourceError, match=rf"(?s){text}.*arctic ingest --resync"):
        check_same_log(CONNECTION, server, AT)


def test_a_position_without_a_log_is_checked_by_the_end_alone() -> None:
    old = replace(AT, log=None)
    server: Any = Database("3", 9000, "1\t0/64\treason\n")
    check_same_log(CONNECTION, server, old)
    short: Any = Database("3", 499)
    with pytest.raises(SourceError, match="ends before what was read"):
        check_same_log(CONNECTION, short, old)


def test_positions_keep_the_log_in_which_they_lie() -> None:
    assert read_position(AT.text) == AT
    later = WalOrder().build_position(AT.partition, {"lsn": 900, "lsn_commit": 800}, {}, AT)
    assert (later.log, WalOrder().build_snapshot_position(AT, None).log) == (LOG, LOG)
