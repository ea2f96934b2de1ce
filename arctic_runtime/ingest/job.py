"""A source is ingested: batches of its transport are published to its tables until it is drained or stopped."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.transport import Batch, TableEvents, Transport
from arctic_runtime.ingest.writing.lease import Lease, taken
from arctic_runtime.ingest.writing.ledger import Ledger
from arctic_runtime.ingest.writing.letters import Letters
from arctic_runtime.ingest.writing.table_writer import Part, TableWriter, Written
from arctic_runtime.model.ingestion import Progress

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
        self._lease = Lease(source.ledger, reader, self._spark)
        self._writers = {table.name: TableWriter(table, reader, self._spark, form) for table in source.tables}
        self._tables = {table.source_name: table for table in source.tables}
        self._stopping = threading.Event()
        self._is_staged = False
        self._merging: Future[None] | None = None

    def run(self, once: bool, resync: bool = False) -> None:
        """Ingests until the source is drained (`once`), or until `stop` is called.

        With `resync` it begins with another snapshot, of which the tables get what differs.

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
                self._ingest(once, resync)
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

    def _ingest(self, once: bool, resync: bool) -> None:
        progress = self._begin(resync)
        begun = _now()
        actions = self._reader.thresholds.engine.parallel_actions
        try:
            with ThreadPoolExecutor(1, "merge") as beside, ThreadPoolExecutor(actions, "ingest") as pool:
                for batch in self._transport.batches(once):
                    started = time.monotonic()
                    self._lease.renew()
                    progress = self._write(batch, progress, pool, started)
                    self._merge(beside)
                    if self._stopping.is_set():
                        break
                    if not once:
                        self._stopping.wait(max(0.0, self.source.trigger_seconds - (time.monotonic() - started)))
                self._merged()
            if once and not self._stopping.is_set():
                # The transport has read all that the source had when it began.
                self._ledger.advance(replace(progress, caught_up=begun))
        finally:
            self._transport.close()

    def _merge(self, beside: Executor) -> None:
        """Has bases merged while batches go on; raises what an earlier merge raised."""
        if self._merging is not None and self._merging.done():
            self._merged()
        if self._merging is None:
            self._merging = beside.submit(self._merge_all)

    def _merged(self) -> None:
        """Waits for a merge under way; raises what it raised."""
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()

    def _merge_all(self) -> None:
        for writer in self._writers.values():
            writer.merge_base()

    def _begin(self, resync: bool) -> Progress:
        """Opens the transport where the source's tables are; a snapshot of tables that are there already is staged."""
        initial = self._transport.initial
        if resync and not self._transport.snapshots(initial):
            raise ConfigError(
                f"source {self.source.name}: a {self.source.connector} source gives no snapshot to resync by"
            )
        progress = self._ledger.progress()
        if not resync:
            self._transport.check(progress.position)
        if resync or progress.position is None:
            # From here on, what is made at the source under this source's names is known to be its own.
            progress = Progress(initial)
            self._ledger.advance(progress)
        position = str(progress.position)
        if self._transport.snapshots(position):
            self._ledger.drop(self._tables)
        self._check_dead()
        self._is_staged = self._transport.snapshots(position) and any(of.is_loaded for of in self._writers.values())
        if self._is_staged:
            for writer in self._writers.values():
                writer.begin_snapshot()
        self._transport.open(position)
        return progress

    def stop(self) -> None:
        """Ends `run` after the batch under way; can be called from another thread or from a signal's handler."""
        self._stopping.set()
        self._transport.close()

    def _write(self, batch: Batch, progress: Progress, pool: ThreadPoolExecutor, started: float) -> Progress:
        written: tuple[Written, ...] = ()
        by_table = self._by_table(batch)
        if self._is_staged:
            written = self._all(pool, [partial(self._collect_table, table, parts, batch) for table, parts in by_table])
        if self._is_staged and not batch.is_snapshot:
            written += self._all(pool, [partial(self._end_snapshot, writer) for writer in self._writers.values()])
        if not self._is_staged or not batch.is_snapshot:
            written += self._all(pool, [partial(self._write_table, table, parts, batch) for table, parts in by_table])
            self._is_staged = False
        now = replace(progress, position=batch.progress or batch.position)
        if not batch.is_snapshot:
            now = now.later([of.newest for of in written], batch.caught_up)
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
            part = Part(events, batch.position if is_last else None, tuple(parts[:place]))
            found.append(writer.write(part, after, dead, reads))
        return found

    def _collect_table(self, table: IngestedTable, parts: list[TableEvents], batch: Batch) -> list[Written]:
        dead = partial(self._take_dead, table, batch.position)
        writer = self._writers[table.name]
        return [writer.collect(part, dead) for events in parts for part in writer.told(events)]

    def _end_snapshot(self, writer: TableWriter) -> list[Written]:
        return [writer.end_snapshot(self._transport.initial)]

    def _take_dead(self, table: IngestedTable, position: str, letters: Letters) -> None:
        self._ledger.add(letters, table.source_name, position, _now())

    def _check_dead(self) -> None:
        """Raises DataError where more dead letters are kept than the source allows; sound events are applied then."""
        most = self.source.most_dead
        found = 0 if most is None else self._ledger.dead()
        if most is not None and found > most:
            raise DataError(
                f"source {self.source.name}: events can't be applied, and ingestion stopped; sound events before are "
                f"applied.\n  expected: no more than {most} dead letters (`dead_letters`)\n"
                f"  found: {found} in {self.source.ledger}, with the reason of each\n"
                "  what to do: mend the source or the declared columns and apply them with `arctic ingest "
                f"{self.source.name} --replay-dead`, delete the rows from that table, or set `dead_letters: any` to go "
                "on whatever comes"
            )

    def _spark(self) -> SparkSession:
        if not hasattr(self._sessions, "spark"):
            self._sessions.spark = self._session()
        found: SparkSession = self._sessions.spark
        return found


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
