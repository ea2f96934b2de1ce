"""The record of a run: what is encoded is decoded, and every key of a run's commit belongs to it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.ingest.connectors import get_position_parser
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.kafka.offsets import encode_offsets
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.properties import POSITION, POSITION_EVENTS, STORED_NAMES
from arctic_runtime.model.run_summary import ClockReading, RunSummary, find_last_run, find_version_at, to_micros
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version

TEXTS = st.none() | st.text(min_size=1)
VERSIONS = st.builds(Version, st.text(), st.integers(), st.integers())
PLACES = st.dictionaries(st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple), st.text(), min_size=1)
TEXT_FIELDS = (
    *("run", "mode", "reason", "query", "session", "high_watermark", "restored", "aggregate_state"),
    *("no_aggregate_state", "given_up", "judged", "changelog", "repaired", "position", "position_events", "letters"),
    *("truncated", "newest_valid_time", "cut", "where", "frozen", "frozen_total", "refresh_state"),
)
SUMMARIES = st.builds(
    RunSummary,
    **dict.fromkeys(TEXT_FIELDS, TEXTS),
    offsets=st.none() | st.dictionaries(st.text(), VERSIONS),
    declared=st.none() | st.builds(Declared, PLACES),
    forward=st.none() | st.builds(ForwardEdit, VERSIONS, st.integers(), st.integers()),
    started_ms=st.none() | st.integers(),
    estimated=st.none() | st.integers(0, 10**9).map(lambda milliseconds: milliseconds / 1000),
    source_time_ms=st.none() | st.integers(),
    shown_before_ms=st.none() | st.integers(),
)
FULL = RunSummary(
    *("run", "mode", "reason"),
    {"a": Version("u", 1, 2)},
    *("state of sources", "query", "session", "watermark", "5"),
    Declared({(): "1", (("region", "eu"),): "2"}),
    *("state", "none", "COST", "judged"),
    *(1, 0.5),
    *("input", "keys", "12", "40", "0/16B3748", "3", 1_700_000_000_000, 1_600_000_000_000),
    truncated="7",
    newest_valid_time="8",
    day_texts="lake.ods.orders",
    clock=ClockReading(1_700_000_000_000_000, "Europe/Berlin"),
    cut="build_20261128T083012Z_0a1b",
    where="id > 1",
    forward=ForwardEdit(Version("u", 1, 2), 3, 4),
    promoted={"c": Version("u", 3, 4)},
)


@given(SUMMARIES)
def test_a_record_is_decoded_as_it_was_encoded(summary: RunSummary) -> None:
    assert RunSummary.decode(summary.encode()) == summary


def test_every_key_of_a_run_is_encoded_and_no_other() -> None:
    keys = {name.text for name in STORED_NAMES if "summary of a run's commit to the change table" in name.places}
    assert set(FULL.encode()) == keys


@given(SUMMARIES, SUMMARIES)
def test_an_update_replaces_the_entries_that_it_has(old: RunSummary, new: RunSummary) -> None:
    updated = old.with_entries_from(new)
    assert updated.with_entries_from(new) == updated
    assert RunSummary().with_entries_from(old) == old == old.with_entries_from(RunSummary())


NOON = to_micros(datetime.datetime(2026, 3, 29, 12, tzinfo=datetime.timezone.utc))
HOUR = 3_600_000_000


def test_it_is_read_as_it_was_written() -> None:
    reading = ClockReading(NOON, "Europe/Berlin")
    assert ClockReading.decode(reading.encode()) == reading
    for text in ("", "7", "{}", '{"at": "x", "zone": "UTC"}'):
        with pytest.raises(CorruptState, match="can't be read"):
            ClockReading.decode(text)


@pytest.mark.parametrize(
    ("zone", "hours", "moved"),
    [
        ("UTC", 0, False),
        ("UTC", 11, False),
        ("UTC", 12, True),
        ("UTC", -13, True),
        ("Asia/Tokyo", 2, False),
        ("Asia/Tokyo", 3, True),
        ("America/New_York", 15, False),
        ("America/New_York", 16, True),
        ("Nowhere/At_All", 1, True),
        ("../etc/passwd", 1, True),
    ],
)
def test_a_day_passes_in_the_zone_of_the_session(zone: str, hours: int, moved: bool) -> None:
    reading = ClockReading(NOON, zone)
    assert reading.has_moved(NOON + hours * HOUR, is_by_day=True) is moved
    assert reading.has_moved(NOON + hours * HOUR, is_by_day=False) is (hours != 0)


def test_the_next_day_begins_where_clocks_change_too() -> None:
    before = NOON - 12 * HOUR
    assert ClockReading(before, "Europe/Berlin").count_seconds_to_next_day(before) == 22 * 3600
    assert ClockReading(NOON, "UTC").count_seconds_to_next_day(NOON) == 12 * 3600
    assert ClockReading(NOON, "Nowhere/At_All").count_seconds_to_next_day(NOON) is None


def wal(commit: int, seen: int | None = None) -> str:
    offset = {"lsn": commit, "lsn_commit": commit}
    return Position({}, offset, None if seen is None else {"tx": 7, "lsn": seen}, commit).text


def binlog(file: int, place: int, seen: int | None = None) -> str:
    offset = {"file": f"b.{file:06}", "pos": place}
    row = None if seen is None else {"file": f"b.{file:06}", "pos": seen, "row": 0}
    return Position({}, offset, row, history="definitions").text


def files(number: int) -> str:
    return f'{{"batch": {number}}}'


def kafka(*offsets: int) -> str:
    return encode_offsets({("orders", number): at for number, at in enumerate(offsets)})


def commits(*positions: str | None, partial: tuple[int, ...] = ()) -> list[Commit]:
    made = []
    for number, position in enumerate(positions):
        summary: dict[str, Any] = {} if position is None else {POSITION: position}
        summary |= {POSITION_EVENTS: "3"} if number in partial else {}
        made.append(Commit(Version("t", number, number), None, "append", 1, 1, summary, number))
    return made


def version(commit: Commit | None) -> int | None:
    return None if commit is None else commit.version.snapshot


@pytest.mark.parametrize(
    ("connector", "positions", "at", "expected"),
    [
        ("postgresql", [wal(10), wal(20), wal(30)], wal(20), 1),
        ("postgresql", [wal(10), wal(20), wal(30)], wal(25), 1),
        ("postgresql", [wal(10), wal(20, seen=22)], wal(20), 0),
        ("postgresql", [wal(10), wal(20, seen=0)], wal(20), 1),
        ("postgresql", [wal(10)], wal(10, seen=12), None),
        ("postgresql", [wal(30)], wal(20), None),
        ("postgresql", [INITIAL.text, wal(30)], wal(20), 0),
        ("postgresql", [Position({}, {"lsn": 5}).text, wal(30)], wal(20), 0),
        ("postgresql", [wal(10)], INITIAL.text, None),
        ("postgresql", [wal(10), None, wal(30), None], wal(20), 1),
        ("postgresql", [None, wal(30)], wal(20), None),
        ("postgresql", [binlog(9, 400)], wal(20), None),
        ("mysql", [binlog(9, 400), binlog(10, 4), binlog(10, 90)], binlog(10, 50), 1),
        ("mysql", [binlog(10, 4), binlog(10, 50, seen=70)], binlog(10, 50), 0),
        ("mariadb", [binlog(10, 4)], binlog(10, 50, seen=70), None),
        ("files", [files(1), files(2), files(3)], files(2), 1),
        ("kafka", [kafka(1, 5), kafka(2, 5), kafka(2, 6)], kafka(2, 5, 3), 1),
        ("kafka", [kafka(1, 5, 7)], kafka(2, 5), None),
        ("kafka", [files(1), wal(10), "{}"], kafka(2, 5), None),
        ("kafka", ["1", "2"], "2", None),
        ("of others", [files(1)], files(2), None),
    ],
)
def test_the_version_at_a_place_has_nothing_after_it(
    connector: str, positions: list[str | None], at: str, expected: int | None
) -> None:
    assert version(find_version_at(commits(*positions), at, get_position_parser(connector))) == expected


def test_a_commit_of_a_part_of_a_batch_is_none() -> None:
    parse, parts = get_position_parser("postgresql"), commits(wal(10), wal(10), wal(20), partial=(1,))
    assert version(find_version_at(parts, wal(10), parse)) == 0
    assert version(find_version_at(parts, wal(20), parse)) == 2


@pytest.mark.parametrize(
    ("reason", "table", "sequence"), [("CHANGES", "own", 2), ("RESTORED", "own", 7), ("CHANGES", "origin", 7)]
)
def test_rows_of_a_restore_and_of_a_clone_count_as_those_of_earlier_queries(
    reason: str, table: str, sequence: int
) -> None:
    record = RunSummary(run="token", mode="full", reason=reason, forward=ForwardEdit(Version(table, 1, 2), 3, 4))
    commit = Commit(Version("own", 9, 7), None, "append", 1, 1, record.encode(), 0)
    last = find_last_run(ChangeTableState("own", (), (commit,), {}))
    assert last is not None
    assert last.forward is not None
    assert last.forward.version.sequence == sequence


@pytest.mark.parametrize("text", ["", "{}", '{"version": {}, "at_ms": 1, "rows": 1}', "[]"])
def test_an_edit_that_can_not_be_read_says_what_to_do(text: str) -> None:
    with pytest.raises(CorruptState, match=r"(?s)edit of a query.*--full-refresh"):
        ForwardEdit.decode(text)
