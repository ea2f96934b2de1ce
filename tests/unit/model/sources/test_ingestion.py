"""How far a source is: what is stored is read back, and times only grow."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.sources.ingestion import Failure, Progress

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
TIMES = st.none() | st.integers(0, 10**6).map(lambda n: NOON + timedelta(milliseconds=n))
NAMES = st.frozensets(st.sampled_from(["public.a", "public.b", "ö"]))
FAILURES = st.none() | st.builds(Failure, st.text(), TIMES.filter(lambda at: at is not None))
OF_ANY_TABLES = st.builds(Progress, st.none() | st.text(min_size=1), TIMES, TIMES, failure=FAILURES)
WAITS = NAMES.map(lambda names: {name: Failure(f"{name} waits", NOON) for name in names})
PROGRESS = OF_ANY_TABLES | st.builds(Progress.set_stream, OF_ANY_TABLES, NAMES).flatmap(
    lambda known: NAMES.map(known.set_stream) | WAITS.map(known.remove_tables)
)


@given(PROGRESS)
def test_a_progress_is_decoded_as_it_was_encoded(progress: Progress) -> None:
    assert Progress.decode(progress.encode()) == progress


@given(PROGRESS, st.lists(TIMES), TIMES)
def test_times_of_a_progress_never_go_back(progress: Progress, changes: list[datetime | None], looked: object) -> None:
    assert isinstance(looked, datetime | None)
    later = progress.advance_to(changes, looked)
    times = [at for at in (progress.as_of, *changes, looked) if at is not None]
    assert later.as_of == max(times, default=None)
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
