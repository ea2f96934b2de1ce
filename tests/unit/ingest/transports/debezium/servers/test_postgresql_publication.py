"""The replication slot of a source is its own, stands where the tables are, and has no other reader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.debezium.servers.postgresql_publication import ReplicationSlot
from arctic_runtime.thresholds import SHIPPED

CONNECTION = DebeziumConnection("postgresql", "db", 5432, "shop", "reader", "", (r"public\.a",), "arctic_shop")
LIMITS = replace(SHIPPED.debezium, release_poll_seconds=0.005)
FREE = ("pgoutput", "shop", "f", None, "reserved", "100")
BUSY = ("pgoutput", "shop", "t", "4711", "reserved", "100")
Slot = tuple[str | None, ...]


class Database:
    """Answers with the state of the slot at each question, the last of which stays; notes what is dropped."""

    def __init__(self, *states: Slot | None) -> None:
        self.states = list(states)
        self.dropped: list[Any] = []

    def fetch_rows(self, _: str, __: Any) -> list[Slot]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return [] if state is None else [state]

    def fetch_one(self, sql: str, arguments: Any) -> None:
        assert "pg_drop_replication_slot" in sql
        self.dropped.append(arguments)


def a_slot(*states: Slot | None, release_seconds: float = 60) -> tuple[ReplicationSlot, Database]:
    database: Any = Database(*states)
    return ReplicationSlot(CONNECTION, database, replace(LIMITS, release_seconds=release_seconds)), database


def at(reached: int) -> Position:
    return Position({}, {"lsn": reached, "lsn_commit": reached}, None, reached)


@pytest.mark.parametrize(
    ("state", "position", "error"),
    [
        (FREE, None, "exists, but this source was never ingested"),
        (None, at(100), "is gone, and with it the changes"),
        (("wal2json", *FREE[1:]), at(100), "plugin wal2json"),
        (("pgoutput", "other", *FREE[2:]), at(100), "database other, expected pgoutput and shop"),
        ((*FREE[:4], "lost", None), at(100), "removed the log"),
        (FREE, at(99), "is at 100, ahead of the last commit at 99"),
    ],
)
def test_a_slot_that_would_lose_changes_is_refused(state: Slot | None, position: Position | None, error: str) -> None:
    with pytest.raises(SourceError, match=error):
        a_slot(state)[0].check_slot(position)


@pytest.mark.parametrize(
    ("state", "position"), [(None, None), (None, INITIAL), (BUSY, INITIAL), (FREE, at(100)), (FREE, at(101))]
)
def test_a_slot_that_fits_is_taken(state: Slot | None, position: Position | None) -> None:
    a_slot(state)[0].check_slot(position)


def test_a_slot_is_dropped_when_its_reader_is_gone() -> None:
    slot, database = a_slot(BUSY, BUSY, FREE)
    slot.drop_slot()
    assert database.dropped == [("arctic_shop",)]
    slot, database = a_slot(None)
    slot.drop_slot()
    assert database.dropped == []


def test_a_reader_that_stays_is_named() -> None:
    slot, database = a_slot(BUSY, release_seconds=0)
    with pytest.raises(SourceError, match="in use by process 4711"):
        slot.drop_slot()
    assert database.dropped == []


def test_a_stream_starts_where_the_slot_was_made() -> None:
    assert a_slot(FREE)[0].get_start() == 100
    with pytest.raises(SourceError, match="was dropped during the snapshot"):
        a_slot(None)[0].get_start()
