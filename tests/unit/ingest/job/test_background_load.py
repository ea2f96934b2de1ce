"""A load is kept up until it is near its source, begins anew where it must, and tells of its failure."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.job.background_load import BackgroundLoad, LoadListeners
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.ingest.writing.records import TableResult, WriteMode

ROWS = Batch((), "1", 2, is_snapshot=True)
END = Batch((), "2", 1)


@dataclass
class Writer:
    """A batch writer, and its table of dead letters, that only notes what is asked of it."""

    calls: list[str] = field(default_factory=list)
    tables: tuple[str, ...] = ("shop.orders",)
    waiting: str = ""

    @property
    def dead_letters(self) -> Writer:
        return self

    def find_newest_number(self) -> int:
        return 7

    def begin_snapshot(self) -> None:
        self.calls.append("begin")

    def collect_batch(self, batch: Batch) -> tuple[Any, ...]:
        self.calls.append(f"collect {batch.position}")
        return (TableResult(self.waiting, {}, 0, 0, 0, 0, None, "a name"),) if self.waiting in self.tables else ()

    def leave_out(self, results: tuple[TableResult, ...]) -> Writer:
        gone = {result.table for result in results}
        return replace(self, tables=tuple(table for table in self.tables if table not in gone))

    def drop_dead_letters(self, tables: frozenset[str], until: int) -> None:
        self.calls.append(f"drop {', '.join(tables)} {until}")

    def end_snapshot(self, position: str) -> tuple[Any, ...]:
        self.calls.append(f"end {position} of {', '.join(self.tables)}")
        return ()

    def write_batch(self, batch: Batch, _: WriteMode) -> tuple[Any, ...]:
        self.calls.append(f"write {batch.position}")
        return ()


@dataclass
class Load:
    """A load that gives batches, and then fails, ends, or waits until it is to finish or is closed."""

    given: list[Batch]
    error: Exception | None = None
    waits: bool = True
    is_read: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)

    def read_batches(self) -> Generator[Batch]:
        yield from self.given
        if self.error is not None:
            raise self.error
        self.is_read.set()
        assert not self.waits or self.ending.wait(10)

    def select_after(self, events: TableEvents, _: str) -> TableEvents:
        return events

    def acknowledge_batch(self, _: Batch) -> None:
        pass

    def finish_load(self) -> None:
        self.ending.set()

    def close_source(self) -> None:
        self.ending.set()


def aged(position: str, seconds: float) -> Batch:
    """A batch after which the source had nothing more that many seconds ago."""
    return Batch((), position, 0, caught_up=datetime.now(timezone.utc) - timedelta(seconds=seconds))


def started(load: Load, writer: Writer, pool: ThreadPoolExecutor) -> tuple[BackgroundLoad, threading.Event]:
    due = threading.Event()
    listeners = LoadListeners(lambda *_: None, lambda *_: None, due.set)
    loading = BackgroundLoad(load, writer, listeners, 5.0)  # type: ignore[arg-type]
    loading.start_load(pool)
    return loading, due


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def test_rows_are_published_when_all_are_there_and_changes_as_they_come(pool: ThreadPoolExecutor) -> None:
    writer = Writer()
    last = Batch((), "4", 1)
    loading, due = started(Load([ROWS, END, Batch((), "3", 1), last]), writer, pool)
    assert loading.finish_load() == last
    assert writer.calls == [
        "begin", "collect 1", "collect 2", "drop shop.orders 7", "end 2 of shop.orders", "write 3", "write 4",
    ]  # fmt: skip
    assert not due.is_set()


def test_a_load_that_restarts_forgets_what_it_collected(pool: ThreadPoolExecutor) -> None:
    writer = Writer()
    again = Batch((), "0", 0, is_snapshot=True, is_rewound=True)
    loading, _ = started(Load([ROWS, END, Batch((), "3", 1), again, ROWS, END]), writer, pool)
    assert loading.finish_load() == END
    assert writer.calls.count("begin") == 2
    assert writer.calls[-4:] == ["collect 1", "collect 2", "drop shop.orders 7", "end 2 of shop.orders"]


@pytest.mark.parametrize(
    ("ages", "is_due"), [([4.0], True), ([600.0], False), ([600.0, 60.0], False), ([600.0, 60.0, 40.0], True)]
)
def test_tables_join_when_they_are_near_the_source_or_come_no_nearer(
    pool: ThreadPoolExecutor, ages: list[float], is_due: bool
) -> None:
    load = Load([END, *(aged(str(place), age) for place, age in enumerate(ages, 3))])
    loading, due = started(load, Writer(), pool)
    assert load.is_read.wait(10)
    assert (loading.is_due, due.is_set()) == (is_due, is_due)
    loading.finish_load()


def test_a_load_that_fails_is_due_and_raises_its_error(pool: ThreadPoolExecutor) -> None:
    loading, due = started(Load([ROWS], SourceError("there is no table")), Writer(), pool)
    assert due.wait(10)
    assert loading.is_due
    with pytest.raises(SourceError, match="there is no table"):
        loading.finish_load()


def test_a_load_that_is_closed_gives_nothing_to_join(pool: ThreadPoolExecutor) -> None:
    loading, _ = started(Load([ROWS, END]), Writer(), pool)
    loading.stop_load()
    assert loading.finish_load() is None


def test_a_load_that_ends_by_itself_is_due_and_an_error(pool: ThreadPoolExecutor) -> None:
    """Otherwise its tables would get nothing from then on, and nobody would know."""
    loading, due = started(Load([ROWS, END], waits=False), Writer(), pool)
    assert due.wait(10)
    with pytest.raises(SourceError, match=r"the load of shop\.orders ended before the stream had its tables"):
        loading.finish_load()


def test_a_load_that_is_being_finished_asks_for_nothing_any_more(pool: ThreadPoolExecutor) -> None:
    finishing, asked = threading.Event(), threading.Event()
    load = Load([END, aged("3", 4.0)])
    listeners = LoadListeners(lambda *_: finishing.wait(10), lambda *_: None, asked.set)
    loading = BackgroundLoad(load, Writer(), listeners, 5.0)  # type: ignore[arg-type]
    loading.start_load(pool)
    with ThreadPoolExecutor(1) as other:
        last = other.submit(loading.finish_load)
        assert load.ending.wait(10)
        finishing.set()
        assert (last.result(10) or END).position == "3"
    assert not asked.is_set()


def test_a_table_that_has_to_wait_is_left_out_of_the_snapshot_and_of_what_follows(pool: ThreadPoolExecutor) -> None:
    writer = Writer(tables=("shop.orders", "shop.log"), waiting="shop.log")
    loading, _ = started(Load([END, Batch((), "3", 1)]), writer, pool)
    assert loading.finish_load() is not None
    assert [result.table for result in loading.results_of_waiting] == ["shop.log"]
    assert writer.calls == ["begin", "collect 2", "drop shop.orders 7", "end 2 of shop.orders", "write 3"]
