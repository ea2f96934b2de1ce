"""A stream that is cut anywhere and read again from its last position gives every event once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Joining, LogOrder, Position, read_position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import BinlogOrder, WalOrder
from arctic_runtime.ingest.transports.debezium.stream.batches import (
    count_snapshot_rows,
    find_newest_event,
    flag_new_events,
)

Event = tuple[str, dict[str, Any], dict[str, Any]]
"""Table, source and offset."""

TABLES = ("a", "b")


def wal(transactions: Sequence[Sequence[tuple[str, int]]]) -> list[Event]:
    """The events of transactions; each change says how many rows of a table it wrote at one place of the log.

    Transactions overlap: the places of one lie before the commit of the one before it.
    """
    events: list[Event] = []
    commit: int | None = None
    for number, changes in enumerate(transactions):
        base = 1000 * (number + 1) - 700
        for place, (table, rows) in enumerate(changes):
            sequence = json.dumps([commit and str(commit), str(base + place)])
            source = {"txId": 50 + number, "lsn": base + place, "sequence": sequence}
            offset = {"lsn": base + place, "lsn_proc": base + place, **({"lsn_commit": commit} if commit else {})}
            events += [(table, source, offset)] * rows
        commit = 1000 * (number + 1)
    return events


def binlog(transactions: Sequence[Sequence[tuple[str, int]]]) -> list[Event]:
    events: list[Event] = []
    for number, changes in enumerate(transactions):
        file, begin = f"binlog.{number // 2 + 9:06}", 500 * (number % 2) + 4
        for place, (table, rows) in enumerate(changes):
            for row in range(rows):
                source = {"file": file, "pos": begin + 20 + 10 * place, "row": row}
                events.append((table, source, {"file": file, "pos": begin, "event": 2 * place + 2, "row": row + 1}))
    return events


CHANGES = st.lists(st.tuples(st.sampled_from(TABLES), st.integers(1, 4)), min_size=1, max_size=4)
TRANSACTIONS = st.lists(CHANGES, min_size=1, max_size=5)
LOGS = {"wal": (WalOrder(), wal, {"lsn": 10}), "binlog": (BinlogOrder(), binlog, {"file": "binlog.000009", "pos": 4})}


def payload(event: Event, op: str = "c") -> str:
    return json.dumps({"op": op, "source": event[1]})


def read(
    order: LogOrder, events: Sequence[Event], start: Position, resume: Position | None, sizes: Sequence[int]
) -> tuple[list[Event], list[Position]]:
    """What a transport gives of events that follow on a position, in batches of sizes, and the position after each."""
    new: list[Event] = []
    positions: list[Position] = []
    at, done = start, 0
    for size in [*sizes, len(events)]:
        batch = events[done : done + size]
        done += len(batch)
        if not batch:
            break
        by_table = {table: [of for of in batch if of[0] == table] for table in TABLES}
        last = {
            table: find_newest_event(order, [payload(of) for of in found]) for table, found in by_table.items() if found
        }
        before, at = at, order.build_position({}, batch[-1][2], {t: of for t, of in last.items() if of is not None}, at)
        left = batch
        if resume is not None:
            flags = {
                table: iter(flag_new_events(order, table, [payload(of) for of in found], resume, before))
                for table, found in by_table.items()
            }
            left = [of for of in batch if next(flags[of[0]])]
        if resume is not None and not left and not order.is_past(at, resume):
            continue
        resume = None
        new += left
        positions.append(at)
    return new, positions


def following(order: LogOrder, events: Sequence[Event], offset: dict[str, Any]) -> list[Event]:
    """What a server sends from an offset on: whole transactions."""
    if isinstance(order, WalOrder):
        commit = int(offset.get("lsn_commit") or 0)
        return [of for of in events if int(json.loads(of[1]["sequence"])[0] or 0) >= commit]
    return [of for of in events if (of[1]["file"], of[1]["pos"]) >= (offset["file"], offset["pos"])]


@pytest.mark.parametrize("kind", LOGS)
@given(data=st.data())
def test_a_cut_stream_gives_every_event_once(kind: str, data: st.DataObject) -> None:
    order, make, begin = LOGS[kind]
    events = make(data.draw(TRANSACTIONS))
    sizes = data.draw(st.lists(st.integers(1, 5), max_size=8))
    start = Position({}, begin)
    whole, positions = read(order, events, start, None, sizes)
    assert whole == events
    cut = data.draw(st.integers(0, len(positions) - 1))
    resume = read_position(positions[cut].text)
    seen = sum([*sizes, len(events)][: cut + 1])
    again = following(order, events, dict(resume.offset))
    begun = Position({}, resume.offset)
    others = data.draw(st.lists(st.integers(1, 5), max_size=8))
    rest, _ = read(order, again, begun, resume if resume.seen else None, others)
    assert rest == events[seen:]


@pytest.mark.parametrize("kind", LOGS)
@given(data=st.data())
def test_a_tables_own_position_lies_anywhere(kind: str, data: st.DataObject) -> None:
    """Events of a table are left out up to a later position than the one from which the stream is read."""
    order, make, begin = LOGS[kind]
    events = make(data.draw(TRANSACTIONS))
    _, positions = read(order, events, Position({}, begin), None, [1] * len(events))
    known = data.draw(st.integers(0, len(events) - 1))
    for table in TABLES:
        own = [i for i, of in enumerate(events) if of[0] == table]
        kept = flag_new_events(order, table, [payload(events[i]) for i in own], positions[known], Position({}, begin))
        assert kept == [i > known for i in own]


@pytest.mark.parametrize("is_known", [True, False])
@given(data=st.data())
def test_a_snapshot_alongside_the_log_is_between_two_transactions(is_known: bool, data: st.DataObject) -> None:
    """Its place is before the commit of a transaction, and before or after the events of that."""
    transactions = data.draw(TRANSACTIONS)
    events = wal(transactions)
    number = data.draw(st.integers(0, len(transactions)))
    begin = Position({}, {"lsn": 1000 * number + data.draw(st.integers(1, 999))})
    later = [of for of in events if of[1]["txId"] >= 50 + number]
    own = [of for of in later if of[0] == "a"]
    if not is_known:  # a transaction without events of tables is committed first
        events = [of if of not in later else _after(of, 1000 * number + 999) for of in events]
    position = WalOrder().build_snapshot_position(begin, own[0][1] if own and is_known else None)
    found = [of for of in events if of[0] == "a"]
    kept = flag_new_events(WalOrder(), "a", [payload(of) for of in found], read_position(position.text), None)
    assert kept == [of[1]["txId"] >= 50 + number for of in found]


def _after(event: Event, commit: int) -> Event:
    """An event whose transaction comes after another commit than it did."""
    table, source, offset = event
    before, lsn = json.loads(source["sequence"])
    sequence = json.dumps([str(max(int(before or 0), commit)), lsn])
    return table, {**source, "sequence": sequence}, {**offset, "lsn_commit": max(int(before or 0), commit)}


def test_rows_of_a_snapshot_are_always_new_and_come_first() -> None:
    (event,) = wal([[("a", 1)]])
    rows = [payload(event, "r"), payload(event, "r"), payload(event)]
    position = Position({}, {"lsn": 9000, "lsn_commit": 9000})
    assert flag_new_events(WalOrder(), "a", rows, position, None) == [True, True, False]
    assert [count_snapshot_rows(rows[:count]) for count in range(4)] == [0, 1, 2, 2]
    assert find_newest_event(WalOrder(), rows[:2]) is None


def test_a_position_is_the_same_after_it_was_a_text() -> None:
    position = Position({"server": "s"}, {"lsn": 2**60}, {"commit": 1, "tx": 2, "lsn": 3, "count": {"ü.t": 4}}, 2**60)
    assert read_position(position.text) == position
    joining = replace(position, history="{}", joining=(Joining(("a.b",), {"file": "f.1", "pos": 5}, "{}\n"),))
    assert read_position(str(joining.progress)) == joining
    assert read_position(joining.text) == position
    assert read_position(INITIAL.text).is_snapshot


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"partition": 1, "offset": {}}', '{"partition": {}'])
def test_a_text_that_is_no_position_is_corrupt_state(text: str) -> None:
    with pytest.raises(CorruptState, match="no position of a Debezium source"):
        read_position(text)


def test_an_offset_is_stored_as_kafka_connect_does() -> None:
    position = Position({"server": "old"}, {"lsn": 5})
    assert position.to_stored_offset("shop") == ('["shop",{"server":"shop"}]', '{"lsn":5}')
