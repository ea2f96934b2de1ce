"""How far a source is: what is stored is read back, times only grow, and positions are short for people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.kafka.offsets import encode_offsets
from arctic_runtime.model.sources.ingestion import Failure, Progress, describe_position, strip_definitions

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
TIMES = st.none() | st.integers(0, 10**6).map(lambda n: NOON + timedelta(milliseconds=n))
NAMES = st.frozensets(st.sampled_from(["public.a", "public.b", "ö"]))
FAILURES = st.none() | st.builds(Failure, st.text(), TIMES.filter(lambda at: at is not None))
OF_ANY_TABLES = st.builds(Progress, st.none() | st.text(min_size=1), TIMES, TIMES, failure=FAILURES)
WAITS = NAMES.map(lambda names: {name: Failure(f"{name} waits", NOON) for name in names})
PROGRESS = OF_ANY_TABLES | st.builds(Progress.set_stream, OF_ANY_TABLES, NAMES).flatmap(
    lambda known: NAMES.map(known.set_stream) | WAITS.map(known.remove_tables)
)

WAL = Position({"server": "s"}, {"lsn": 26, "lsn_commit": 26}, {"tx": 1}, (3 << 32) + 0x16B3748)
BINLOG = Position({"server": "s"}, {"file": "b.000003", "pos": 4}, None, ["b.000003", 1234], "definitions" * 1000)


@given(PROGRESS)
def test_a_progress_is_decoded_as_it_was_encoded(progress: Progress) -> None:
    assert Progress.decode(progress.encode()) == progress


@given(PROGRESS, st.lists(TIMES), TIMES)
def test_times_of_a_progress_never_go_back(progress: Progress, changes: list[datetime | None], looked: object) -> None:
    assert isinstance(looked, datetime | None)
    later = progress.advance_to(changes, looked)
    told = [at for at in (progress.as_of, *changes, looked) if at is not None]
    assert later.as_of == max(told, default=None)
    assert later.advance_to([progress.newest], progress.caught_up) == later


@given(OF_ANY_TABLES, NAMES, NAMES, TIMES)
def test_a_table_that_left_the_stream_shows_the_source_as_of_then(
    known: Progress, before: frozenset[str], after: frozenset[str], looked: datetime | None
) -> None:
    stream = known.set_stream(before)
    later = stream.set_stream(after).advance_to([], looked)
    for table in before - after:
        assert later.get_table_progress(table).as_of == known.as_of
        assert later.set_stream(after - {"public.b"}).get_table_progress(table).as_of == known.as_of
    for table in after:
        assert later.get_table_progress(table) == later
    assert later.set_stream(before | after).left == {}
    assert later.get_table_progress("never.was") == Progress(failure=known.failure)


def test_a_source_without_changes_lags_since_it_was_last_looked_at() -> None:
    progress = Progress("1", NOON - timedelta(days=3), NOON - timedelta(seconds=5))
    assert progress.compute_lag_seconds(NOON) == 5
    assert Progress("1").compute_lag_seconds(NOON) is None


@pytest.mark.parametrize(
    ("position", "shown"),
    [
        (WAL.text, "LSN 3/16B3748"),
        (BINLOG.text, "b.000003:1234"),
        (BINLOG.progress, "b.000003:1234"),
        (Position({}, {"file": "b.000003", "pos": 4}).text, "b.000003:4"),
        (INITIAL.text, "a snapshot"),
        (
            encode_offsets({("shop.orders", 0): 7, ("shop.orders", 1): 9, ("items", 0): 1}),
            "items 0:1, shop.orders 0:7 1:9",
        ),
        ('{"batch": 12}', "batch 12 of files"),
        ("3", "3"),
        ("of another kind", "of another kind"),
        ("{}", "{}"),
    ],
)
def test_a_position_is_shown_in_the_terms_of_its_source(position: str, shown: str) -> None:
    assert describe_position(position) == shown


def test_the_end_of_a_long_position_is_left_out() -> None:
    shown = describe_position(encode_offsets({("topic", number): 0 for number in range(100)}))
    assert shown.startswith("topic 0:0 1:0 ")
    assert (len(shown), shown[-1]) == (80, "…")


def test_definitions_of_tables_are_no_part_of_a_plain_position() -> None:
    assert BINLOG.progress is not None
    assert strip_definitions(BINLOG.progress) == BINLOG.text
    assert strip_definitions(WAL.text) == WAL.text


@given(PROGRESS, WAITS, NAMES, NAMES)
def test_a_table_waits_until_it_is_loaded_or_in_the_stream(
    progress: Progress, waits: dict[str, Failure], tables: frozenset[str], loaded: frozenset[str]
) -> None:
    waiting = progress.remove_tables(waits)
    assert not (waiting.tables or frozenset()) & set(waits)
    assert waits.items() <= waiting.waits.items()
    later = waiting.set_stream(tables, loaded)
    assert set(later.waits) == set(waiting.waits) - tables - loaded
    assert Progress.decode(later.encode()) == later
