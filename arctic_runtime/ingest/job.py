"""A source is ingested: batches of its transport are published to its tables until it is drained or stopped."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import Batch, LoadsTables, TableEvents, Transport
from arctic_runtime.ingest.writing.lease import SourceLease, taken
from arctic_runtime.ingest.writing.ledger import Ledger
from arctic_runtime.ingest.writing.letters import Letters
from arctic_runtime.ingest.writing.table_writer import Part, TableWriter, Written
from arctic_runtime.model.ingestion import Progress
from arctic_runtime.profile import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class BatchReport:
    """A batch after all its tables were published: what became of the events of each, and how long that took.

    `progress` is how far all tables of the source are now, `behind` how many events the source had after that, None
    where it does not tell.
    """

    tables: tuple[Written, ...]
    count: int
    seconds: float
    progress: Progress
    behind: int | None = None


class Ingestion:
    """Brings the events of one source into its tables, exactly once, whenever the process may die.

    A batch is published to each of its tables, then the source's progress is noted, and then the source is told. What
    comes again because the process died in between is left out by each table's own position. `session` gives a Spark
    session of its own to each thread that calls it, and `report` gets each batch when it is done.
    """

    def __init__(
        self,
        source: IngestSource,
        transport: Transport,
        form: Format,
        reader: CatalogReader,
        session: Callable[[], SparkSession],
        report: Callable[[BatchReport], None] = lambda _: None,
    ) -> None:
        self.source = source
        self._transport = transport
        self._reader = reader
        self._sessions = threading.local()
        self._session = session
        self._report = report
        self._ledger = Ledger(source.ledger, reader, self._spark)
        self._lease = SourceLease(source.ledger, reader, self._spark)
        self._form = form
        self._writers: dict[str, TableWriter] = {}
        self._tables: dict[str, IngestedTable] = {}
        self._adopt(source.tables)
        self._look_at = 0.0
        self._stopping = threading.Event()
        self._is_staged = False
        self._is_load = False
        self._merging: Future[None] | None = None
        self._unmerged: set[str] = set()
        self._look_at_all = 0.0

    def run(self, once: bool, resync: bool = False, tables: Collection[str] = ()) -> None:
        """Ingests until the source is drained (`once`), or until `stop` is called.

        With `resync` it begins with another snapshot, of which the tables get what differs, and with names of `tables`
        with one of just these.

        While another process ingests the source, this one stands by, and with `once` raises ConfigError. Raises
        SourceError where the source fails, DataError for more dead letters than are allowed, and what writing
        raises; everything up to the batch before is kept then.
        """
        self._reader.create_namespace(self.source.ledger.schema)
        self._ledger.ensure()
        if not self._takes_lease(once):
            return
        try:
            with self._lease.kept(self.stop):
                self._ingest(once, resync, tables)
        finally:
            self._lease.end()

    def _takes_lease(self, once: bool) -> bool:
        """Waits for the lease on the source; False where it is stopped meanwhile. `once` does not wait."""
        while (other := self._lease.take()) is not None:
            if once:
                raise taken(self.source.ledger, other)
            if self._stopping.wait(self._reader.thresholds.ingest.lease_poll_seconds):
                return False
        return True

    def _ingest(self, once: bool, resync: bool, tables: Collection[str]) -> None:
        actions = self._reader.thresholds.engine.parallel_actions
        try:
            with ThreadPoolExecutor(1, "merge") as beside, ThreadPoolExecutor(actions, "ingest") as pool:
                progress = self._begin(resync, tables, pool)
                while not self._stopping.is_set():
                    progress, has_more = self._follow(once, progress, pool, beside)
                    self._merged()
                    if not has_more or self._stopping.is_set():
                        return
                    self._transport.close()
                    progress = self._load(self._new_tables(progress), progress, pool)
        finally:
            self._transport.close()

    def _follow(
        self, once: bool, progress: Progress, pool: ThreadPoolExecutor, beside: Executor
    ) -> tuple[Progress, bool]:
        """Writes batches to the end, or until the source has tables more; returns how far that came, and whether."""
        for writer in self._writers.values():
            writer.forget()
        begun = _now()
        self._transport.open(str(progress.position))
        if self._stopping.is_set():
            return progress, False
        for batch in self._transport.batches(once):
            started = time.monotonic()
            self._lease.renew()
            progress = self._write(batch, progress, pool, started)
            self._merge(beside)
            if self._stopping.is_set():
                break
            if not once:
                if not batch.is_snapshot and self._has_more(progress):
                    return progress, True
                self._stopping.wait(max(0.0, self.source.trigger_seconds - (time.monotonic() - started)))
        if once and not self._stopping.is_set():
            # The transport has read all that the source had when it began.
            progress = replace(progress, caught_up=begun)
            self._ledger.advance(progress)
        return progress, False

    def _merge(self, beside: Executor) -> None:
        """Has bases merged while batches go on; raises what an earlier merge raised.

        Of tables that were written since the last look, and now and then of all: what other processes do to a table may
        call for a merge too.
        """
        if self._merging is not None and self._merging.done():
            self._merged()
        if self._merging is not None:
            return
        if time.monotonic() > self._look_at_all:
            self._look_at_all = time.monotonic() + self._reader.thresholds.ingest.look_seconds
            self._unmerged |= self._writers.keys()
        if self._unmerged:
            due, self._unmerged = self._unmerged, set()
            self._merging = beside.submit(_merge_all, [self._writers[name] for name in sorted(due)])

    def _merged(self) -> None:
        """Waits for a merge under way; raises what it raised."""
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()

    def _begin(self, resync: bool, tables: Collection[str], pool: ThreadPoolExecutor) -> Progress:
        """From where to open the transport; a snapshot of tables that are there already is staged.

        Tables that the stream does not have yet are loaded before it, and so are `tables`.
        """
        initial = self._transport.initial
        can_load = isinstance(self._transport, LoadsTables)
        if (resync and not self._transport.snapshots(initial)) or (tables and not can_load):
            raise ConfigError(
                f"source {self.source.name}: a {self.source.connector} source gives no snapshot to resync by"
            )
        progress = self._ledger.progress()
        if not resync:
            self._transport.check(progress.position)
        is_first = resync or progress.position is None
        self._look(Progress(initial) if is_first else progress)
        if unknown := [name for name in tables if name not in self._writers]:
            raise ConfigError(
                f"source {self.source.name}: it has no table {', '.join(unknown)} to resync"
                f"{nearest(unknown[0], self._writers)}"
            )
        if is_first:
            # From here on, what is made at the source under this source's names is known to be its own.
            progress = Progress(initial, tables=frozenset(self._tables))
            self._ledger.advance(progress)
        if not self._transport.snapshots(str(progress.position)):
            self._check_dead()
            again = [of for of in self._tables.values() if of.name in tables]
            progress = self._load([*again, *self._new_tables(progress)], progress, pool)
            return self._without_others(progress)
        self._ledger.drop(self._tables)
        self._check_dead()
        self._is_staged = any(of.is_loaded for of in self._writers.values())
        if self._is_staged:
            for writer in self._writers.values():
                writer.begin_snapshot()
        self._is_load = not self._is_staged
        return progress

    def _adopt(self, tables: Iterable[IngestedTable]) -> None:
        for table in tables:
            self._tables[table.source_name] = table
            self._writers[table.name] = TableWriter(table, self._reader, self._spark, self._form)

    def _look(self, progress: Progress) -> bool:
        """Adopts the tables of the source that it includes and that are not known yet; whether there are such."""
        if not self.source.include or not isinstance(self._transport, LoadsTables):
            return False
        self._look_at = time.monotonic() + self._reader.thresholds.ingest.look_seconds
        names = {table.full_name for table in self._transport.catalog()}
        if not self._transport.snapshots(str(progress.position)):
            # Of a table that was dropped there may be events to come.
            names |= progress.tables or frozenset()
        new = [of for of in self.source.included(names) if of.source_name not in self._tables]
        self._adopt(new)
        self._transport.take_on([of.source_name for of in new])
        return bool(new)

    def _has_more(self, progress: Progress) -> bool:
        """Whether, where it is time to look, the source has tables more."""
        with suppress(ConnectionLost):  # which whoever reads the stream notices by itself
            return time.monotonic() > self._look_at and self._look(progress)
        return False

    def _new_tables(self, progress: Progress) -> list[IngestedTable]:
        """The tables that the source's stream does not have yet."""
        if progress.tables is None:  # an earlier version kept no list
            return [of for of in self._tables.values() if not self._writers[of.name].is_loaded]
        return [of for of in self._tables.values() if of.source_name not in progress.tables]

    def _without_others(self, progress: Progress) -> Progress:
        """Notes, before the stream goes on without them, that tables are not followed: they miss what comes now."""
        tables = frozenset(self._tables) - {of.source_name for of in self._new_tables(progress)}
        if progress.tables != tables:
            progress = replace(progress, tables=tables)
            self._ledger.advance(progress)
        return progress

    def _load(self, tables: Collection[IngestedTable], progress: Progress, pool: ThreadPoolExecutor) -> Progress:
        """Brings tables up to a snapshot of their own, and returns from where the stream goes on with them.

        Each table's commit has the position of its rows, so that earlier events are left out. Where the process dies
        before the progress is noted, new tables are loaded once more.
        """
        if not tables or not isinstance(self._transport, LoadsTables):
            return progress
        tables = {of.name: of for of in tables}.values()
        writers = [self._writers[of.name] for of in tables]
        for writer in writers:
            writer.begin_snapshot()
        letters = self._ledger.newest()
        with closing(self._transport.load([of.source_name for of in tables], str(progress.position))) as batches:
            for batch in batches:
                started = time.monotonic()
                self._lease.renew()
                written = self._collected(batch, pool)
                if not batch.is_snapshot:
                    self._ledger.drop([of.source_name for of in tables], letters)
                    written += self._all(pool, [partial(self._end_snapshot, of, batch.position) for of in writers])
                    progress = replace(progress, position=batch.progress, tables=frozenset(self._tables))
                    self._ledger.advance(progress)
                self._report(BatchReport(written, batch.count, time.monotonic() - started, progress))
                if self._stopping.is_set():
                    break
        self._check_dead()
        return progress

    def stop(self) -> None:
        """Ends `run` after the batch under way; can be called from another thread or from a signal's handler."""
        self._stopping.set()
        self._transport.close()

    def _write(self, batch: Batch, progress: Progress, pool: ThreadPoolExecutor, started: float) -> Progress:
        written: tuple[Written, ...] = ()
        by_table = self._by_table(batch)
        if batch.comes_again:
            for writer in self._writers.values():
                writer.forget()
        if self._is_staged:
            written = self._collected(batch, pool)
        if self._is_staged and not batch.is_snapshot:
            ended = [partial(self._end_snapshot, of, self._transport.initial) for of in self._writers.values()]
            written += self._all(pool, ended)
        if not self._is_staged or not batch.is_snapshot:
            written += self._all(pool, [partial(self._write_table, table, parts, batch) for table, parts in by_table])
            self._is_staged = False
        self._is_load = self._is_load and batch.is_snapshot
        now = replace(progress, position=batch.progress or batch.position, tables=frozenset(self._tables))
        if not batch.is_snapshot:
            now = now.later([of.newest for of in written], batch.caught_up)
        self._unmerged |= {of.table for of in written}
        self._ledger.advance(now)
        self._transport.acknowledge(batch)
        self._report(BatchReport(written, batch.count, time.monotonic() - started, now, batch.behind))
        if any(of.dead for of in written):
            self._check_dead()
        return now

    def _all(self, pool: ThreadPoolExecutor, tasks: Iterable[Callable[[], list[Written]]]) -> tuple[Written, ...]:
        """Does tasks side by side; raises what the first that failed raised, when all have ended."""
        futures = [pool.submit(task) for task in tasks]
        wait(futures)
        return tuple(one for future in futures for one in future.result())

    def _by_table(self, batch: Batch) -> list[tuple[IngestedTable, list[TableEvents]]]:
        found: dict[str, list[TableEvents]] = {}
        for events in batch.tables:
            if events.table not in self._tables:
                raise SourceError(
                    f"source {self.source.name}: events of {events.table} came, which is none of its tables.\n"
                    f"  expected: {', '.join(sorted(self._tables))}\n"
                    "  what to do: declare the table in the source's YAML, or narrow what the connector sends"
                )
            found.setdefault(events.table, []).append(events)
        return [(self._tables[name], parts) for name, parts in found.items()]

    def _write_table(self, table: IngestedTable, parts: list[TableEvents], batch: Batch) -> list[Written]:
        """Publishes a batch's events of a table. Only the last of several parts has all events up to the position."""
        writer = self._writers[table.name]
        dead = partial(self._take_dead, table, batch.position)
        after, reads = self._transport.after, not self._is_staged
        found = []
        parts = [part for events in parts for part in writer.told(events)]
        for place, events in enumerate(parts):
            is_last = place == len(parts) - 1
            position = batch.position if is_last else None
            part = Part(events, position, tuple(parts[:place]), is_load=self._is_load)
            found.append(writer.write(part, after, dead, reads))
        return found

    def _collected(self, batch: Batch, pool: ThreadPoolExecutor) -> tuple[Written, ...]:
        """Stages the rows of a snapshot in a batch."""
        parts = self._by_table(batch)
        return self._all(pool, [partial(self._collect_table, table, events, batch) for table, events in parts])

    def _collect_table(self, table: IngestedTable, parts: list[TableEvents], batch: Batch) -> list[Written]:
        dead = partial(self._take_dead, table, batch.position)
        writer = self._writers[table.name]
        return [writer.collect(part, dead) for events in parts for part in writer.told(events)]

    def _end_snapshot(self, writer: TableWriter, position: str) -> list[Written]:
        return [writer.end_snapshot(position)]

    def _take_dead(self, table: IngestedTable, position: str, letters: Letters) -> None:
        self._ledger.add(letters, table.source_name, position, _now())

    def _check_dead(self) -> None:
        """Raises DataError where more dead letters are kept than the source allows; sound events are applied then."""
        most = self.source.most_dead
        found = 0 if most is None else self._ledger.dead()
        if most is not None and found > most:
            shown = self._reader.thresholds.reports.dead_letter_reasons
            raise DataError(
                f"source {self.source.name}: events can't be applied, and ingestion stopped; sound events before are "
                f"applied.\n  expected: no more than {most} dead letters (`dead_letters`)\n"
                f"  found: {found} in {self.source.ledger}: {'; '.join(self._ledger.reasons(shown))}\n"
                "  what to do: mend the source or the declared columns and apply them with `arctic ingest "
                f"{self.source.name} --replay-dead`, delete the rows from that table, or set `dead_letters: any` to go "
                "on whatever comes"
            )

    def _spark(self) -> SparkSession:
        if not hasattr(self._sessions, "spark"):
            self._sessions.spark = self._session()
        found: SparkSession = self._sessions.spark
        return found


def _merge_all(writers: Iterable[TableWriter]) -> None:
    for writer in writers:
        writer.merge_base()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
