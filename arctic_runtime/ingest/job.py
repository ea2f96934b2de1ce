"""A source is ingested: batches of its transport are published to its tables until it is drained or stopped."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.ingest.batch_work import BatchWork, LoadPieces, to_work
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.loading import Loading
from arctic_runtime.ingest.source import IngestedTable, IngestSource, TablesWait
from arctic_runtime.ingest.transports.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import Batch, LoadsTables, Transport
from arctic_runtime.ingest.writing.batch_writer import BatchWriter
from arctic_runtime.ingest.writing.lease import SourceLease, taken
from arctic_runtime.ingest.writing.ledger import Ledger
from arctic_runtime.ingest.writing.table_writer import TableWriter, Written
from arctic_runtime.model.ingestion import Failure, Progress
from arctic_runtime.profile import mask_text, suggest_nearest
from arctic_runtime.spark.engine.ended import to_spark_ended
from arctic_runtime.spark.engine.messages import get_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchReport:
    """A batch after all its tables were published: what became of the events of each, and how long that took.

    `progress` is how far all tables of the source are now, `behind` how many events the source had after that, None
    where it does not tell. While the source can't be read there is a report without events, whose progress has the
    failure. `is_beside` as of `BatchWork`.
    """

    tables: tuple[Written, ...]
    count: int
    seconds: float
    progress: Progress
    behind: int | None = None
    is_beside: bool = False


class _WrongUse(ConfigError):
    """Something is asked that the source does not have; it says nothing of how the source is."""


class Ingestion:
    """Brings the events of one source into its tables, exactly once, whenever the process may die.

    A batch is published to each of its tables, then the source's progress is noted, and then the source is told. What
    comes again because the process died in between is left out by each table's own position. `session` gives a Spark
    session of its own to each thread that calls it. `begin` gets each batch with events before it is published, and
    `report` each batch when it is done.
    """

    def __init__(
        self,
        source: IngestSource,
        transport: Transport,
        form: Format,
        reader: CatalogReader,
        session: Callable[[], SparkSession],
        report: Callable[[BatchReport], None] = lambda _: None,
        begin: Callable[[BatchWork], None] = lambda _: None,
    ) -> None:
        self.source = source
        self._transport = transport
        self._reader = reader
        self._sessions = threading.local()
        self._session = session
        self._report = report
        self._begin_work = begin
        self._pieces = {is_beside: LoadPieces() for is_beside in (False, True)}
        self._ledger = Ledger(source.ledger, reader, self._spark)
        self._lease = SourceLease(source.ledger, reader, self._spark)
        self._form = form
        self._known: dict[str, tuple[IngestedTable, TableWriter]] = {}
        self._adopt(source.tables)
        actions = reader.thresholds.engine.parallel_actions
        self._pool = ThreadPoolExecutor(actions, "ingest")
        self._merges = ThreadPoolExecutor(1, "merge")
        self._loads = ThreadPoolExecutor(1, "load")
        self._writes_of_loads = ThreadPoolExecutor(actions, "load")
        self._stream = self._writer((), self._pool)
        self._loading: Loading | None = None
        self._told = Progress()
        self._saying = threading.Lock()
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
        except _WrongUse:
            raise
        except Exception as error:
            self._note_failure(get_message(to_spark_ended(error) or error))
            raise
        finally:
            self._lease.end()
        if once:
            self._check_waits()

    def _check_waits(self) -> None:
        """Raises TablesWait if tables wait to be loaded anew; all others have what the source had."""
        waits = self._ledger.progress().waits
        if names := sorted(name for name in waits if name in self._known):
            raise TablesWait(f"source {self.source.name}: {waiting_text(waits, names)}")

    def _note_failure(self, message: str) -> Failure | None:
        """Notes why the source is not ingested, for every process to see, as far as that can be done now."""
        with suppress(Exception):
            if self._lease.is_own():
                return self._ledger.fail(mask_text(message))
        return None

    def _takes_lease(self, once: bool) -> bool:
        """Waits for the lease on the source; False where it is stopped meanwhile. `once` does not wait."""
        while (other := self._lease.take()) is not None:
            if once:
                raise taken(self.source.ledger, other)
            if self._stopping.wait(self._reader.thresholds.ingest.lease_poll_seconds):
                return False
        return True

    def _ingest(self, once: bool, resync: bool, tables: Collection[str]) -> None:
        try:
            with self._pool, self._merges, self._writes_of_loads, self._loads, self._ends_load():
                progress = self._begin(resync, tables)
                while not self._stopping.is_set():
                    if self._loading is None or (progress.tables and not once):
                        progress = self._follow(once, progress)
                        self._merged()
                    if self._loading is None or self._stopping.is_set():
                        return
                    self._transport.close()
                    progress = self._joined(progress)
        finally:
            self._transport.close()

    @contextmanager
    def _ends_load(self) -> Iterator[None]:
        """Ends a load that is under way when ingestion ends."""
        try:
            yield
        finally:
            if self._loading is not None:
                self._loading.close()

    def _follow(self, once: bool, progress: Progress) -> Progress:
        """Writes batches to the end, or until tables that were loaded are to join; returns how far that came."""
        self._stream.forget()
        begun = _now()
        self._transport.open(str(progress.position))
        if self._stopping.is_set() or (self._loading is not None and self._loading.is_due):
            return progress
        for batch in self._transport.batches(once):
            started = time.monotonic()
            self._lease.renew()
            if batch.failure:
                progress = replace(progress, failure=self._note_failure(batch.failure) or progress.failure)
                self._say(BatchReport((), 0, 0.0, progress))
                continue
            progress = self._write(batch, progress, started)
            self._merge()
            if self._stopping.is_set():
                break
            if not once:
                if not batch.is_snapshot:
                    self._load_more(progress)
                self._stopping.wait(max(0.0, self.source.trigger_seconds - (time.monotonic() - started)))
        if once and not self._stopping.is_set():
            # The transport has read all that the source had when it began.
            progress = replace(progress, caught_up=begun, failure=None)
            self._ledger.advance(progress)
        return progress

    def _merge(self) -> None:
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
            self._unmerged |= {table.name for table, _ in self._known.values()}
        if self._unmerged:
            due, self._unmerged = self._unmerged, set()
            writers = [writer for table, writer in self._known.values() if table.name in due]
            self._merging = self._merges.submit(_merge_all, writers)

    def _merged(self) -> None:
        """Waits for a merge under way; raises what it raised."""
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()

    def _begin(self, resync: bool, tables: Collection[str]) -> Progress:
        """From where to open the transport; a snapshot of tables that are there already is staged.

        The load of tables that the stream does not have yet, and of `tables`, begins.
        """
        initial = self._transport.initial
        can_load = isinstance(self._transport, LoadsTables)
        if (resync and not self._transport.snapshots(initial)) or (tables and not can_load):
            raise _WrongUse(
                f"source {self.source.name}: a {self.source.connector} source gives no snapshot to resync by"
            )
        progress = self._ledger.progress()
        if not resync:
            self._transport.check(progress.position)
        is_first = resync or progress.position is None
        self._look(Progress(initial) if is_first else progress)
        names = [table.name for table, _ in self._known.values()]
        if unknown := [name for name in tables if name not in names]:
            raise _WrongUse(
                f"source {self.source.name}: it has no table {', '.join(unknown)} to resync"
                f"{suggest_nearest(unknown[0], names)}"
            )
        if is_first:
            # From here on, what is made at the source under this source's names is known to be its own.
            progress = Progress(initial, tables=frozenset(self._known), failure=progress.failure)
            self._ledger.advance(progress)
        if not self._transport.snapshots(str(progress.position)):
            self._check_dead()
            again = {name for name, (table, _) in self._known.items() if table.name in tables}
            return self._load(again | self._new_tables(progress) | self._requested(), progress)
        progress = self._followed(progress, frozenset(self._known))
        self._ledger.drop(self._known)
        self._check_dead()
        self._is_staged = any(of.is_loaded for _, of in self._known.values())
        if self._is_staged:
            self._stream.begin_snapshot()
        self._is_load = not self._is_staged
        return progress

    def _adopt(self, tables: Iterable[IngestedTable]) -> None:
        for table in tables:
            self._known[table.source_name] = table, TableWriter(table, self._reader, self._spark, self._form)

    def _look(self, progress: Progress) -> None:
        """Adopts the tables of the source that it includes and that are not known yet."""
        if not isinstance(self._transport, LoadsTables):
            return
        self._look_at = time.monotonic() + self._reader.thresholds.ingest.look_seconds
        if not self.source.include:
            return
        names = {table.full_name for table in self._transport.catalog()}
        if not self._transport.snapshots(str(progress.position)):
            # Of a table that was dropped there may be events to come.
            names |= progress.tables or frozenset()
        self._adopt([of for of in self.source.included(names) if of.source_name not in self._known])

    def _load_more(self, progress: Progress) -> None:
        """Begins to load what the source has more by now, where it is time to look and no load is under way."""
        if self._loading is None and time.monotonic() > self._look_at:
            with suppress(ConnectionLost):  # which whoever reads the stream notices by itself
                self._look(progress)
                if new := self._new_tables(progress) | self._requested():
                    self._load(new, progress)

    def _new_tables(self, progress: Progress) -> set[str]:
        """The tables that the source's stream does not have yet, of which it has snapshots."""
        if not isinstance(self._transport, LoadsTables):
            return set()
        if progress.tables is None:  # an earlier version kept no list
            return {name for name, (_, writer) in self._known.items() if not writer.is_loaded}
        return {*self._known} - progress.tables - {*progress.waits}

    def _requested(self) -> set[str]:
        """The tables that somebody asked to have loaded anew."""
        return {*self._known} & self._ledger.requested() if isinstance(self._transport, LoadsTables) else set()

    def _followed(self, progress: Progress, tables: frozenset[str], loaded: frozenset[str] = frozenset()) -> Progress:
        """Has the stream read just these tables, once this is noted: the others miss what comes then.

        Those that are `loaded` beside it no longer wait for that.
        """
        now = progress.set_stream(tables, loaded)
        if now != progress or loaded:
            progress = now
            self._ledger.advance(progress, loaded)
        writer = self._writer(tables, self._pool)
        can_load = isinstance(self._transport, LoadsTables)
        self._stream = replace(writer, ignored=frozenset(progress.waits), can_wait=can_load)
        if isinstance(self._transport, LoadsTables):
            self._transport.follow(tables)
        return progress

    def _load(self, tables: Collection[str], progress: Progress) -> Progress:
        """Begins to load tables, if there are any, which the stream does not have meanwhile.

        Their commits have the position of their rows, so that earlier events are left out.
        """
        loaded = frozenset(tables)
        stream = frozenset(self._known) - loaded - frozenset(progress.waits)
        if progress.waits and not stream and not loaded:
            raise SourceError(waiting_text(progress.waits, sorted(progress.waits)))
        progress = self._followed(progress, stream, loaded)
        if tables and isinstance(self._transport, LoadsTables):
            load = self._transport.load(sorted(tables), str(progress.position))
            writer = self._writer(tables, self._writes_of_loads)
            self._told = progress
            near, begin = self._reader.thresholds.ingest.join_seconds, partial(self._announce, is_beside=True)
            self._loading = Loading(load, writer, self._loaded, self._transport.pause, near, begin)
            self._loading.start(self._loads)
        return progress

    def _loaded(self, written: tuple[Written, ...], batch: Batch, seconds: float) -> None:
        failure = self._note_failure(batch.failure) if batch.failure else None
        progress = self._told if failure is None else replace(self._told, failure=failure)
        self._say(BatchReport(written, batch.count, seconds, progress, is_beside=True))

    def _joined(self, progress: Progress) -> Progress:
        """Waits for a load, and returns from where the stream goes on with its tables."""
        assert self._loading is not None
        assert isinstance(self._transport, LoadsTables)
        self._lease.renew()
        end, tables = self._loading.finish(), self._loading.tables
        self._loading = None
        if end is None:
            return progress
        position = self._transport.join(sorted(tables), str(progress.position), end)
        progress = self._followed(replace(progress, position=position), (progress.tables or frozenset()) | tables)
        self._unmerged |= {self._known[name][0].name for name in tables}
        self._check_dead()
        return progress

    def _writer(self, tables: Iterable[str], pool: Executor) -> BatchWriter:
        return BatchWriter(self.source.name, {name: self._known[name] for name in tables}, self._ledger, pool)

    def stop(self) -> None:
        """Ends `run` after the batch under way; can be called from another thread or from a signal's handler."""
        self._stopping.set()
        loading = self._loading
        if loading is not None:
            loading.close()
        self._transport.close()

    def _write(self, batch: Batch, progress: Progress, started: float) -> Progress:
        written: tuple[Written, ...] = ()
        self._announce(batch, is_beside=False)
        if batch.comes_again:
            self._stream.forget()
        if self._is_staged:
            written = self._stream.collect(batch)
        if self._is_staged and not batch.is_snapshot:
            written += self._stream.end_snapshot(self._transport.initial)
        if not self._is_staged or not batch.is_snapshot:
            shown = None if self._is_load else progress.as_of
            written += self._stream.write(batch, self._transport.after, not self._is_staged, self._is_load, shown)
            self._is_staged = False
        self._is_load = self._is_load and batch.is_snapshot
        progress, known = self._without_unfollowed(progress, written), progress
        now = replace(progress, position=batch.progress or batch.position)
        if not batch.is_snapshot:
            now = now.advance_to([of.newest for of in written], batch.caught_up)
        if batch.count or batch.caught_up is not None:
            now = replace(now, failure=None)
        self._unmerged |= {of.table for of in written}
        self._ledger.advance(now)
        if progress is not known:
            self._followed(now, now.tables or frozenset())
        self._transport.acknowledge(batch)
        self._told = now
        self._say(BatchReport(written, batch.count, time.monotonic() - started, now, batch.behind))
        if any(of.dead for of in written):
            self._check_dead()
        return now

    def _announce(self, batch: Batch, is_beside: bool) -> None:
        """Tells of a batch with events that is about to be published."""
        loading = self._loading
        tables = len(loading.tables if is_beside and loading is not None else self._stream.tables)
        piece = self._pieces[is_beside].take(batch, tables)
        if batch.count:
            names = {name: table.table for name, (table, _) in self._known.items()}
            with self._saying:
                self._begin_work(to_work(batch, names, piece, is_beside))

    def _without_unfollowed(self, progress: Progress, written: Iterable[Written]) -> Progress:
        """The progress of a stream that tables leave, if any of them can't be followed; the others go on.

        Raises SourceError if none is left.
        """
        names = {table.name: name for name, (table, _) in self._known.items()}
        since = _now()
        waits = {names[of.table]: Failure(of.wait, since) for of in written if of.wait}
        if not waits:
            return progress
        text = waiting_text(waits, sorted(waits))
        if not (progress.tables or frozenset()) - frozenset(waits):
            raise SourceError(text)
        LOG.warning("source %s: %s", self.source.name, text)
        return progress.remove_tables(waits)

    def _say(self, report: BatchReport) -> None:
        with self._saying:
            self._report(report)

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


def waiting_text(waits: Mapping[str, Failure], names: Sequence[str]) -> str:
    """Why some tables wait, for people."""
    return "\n".join(f"{name} waits: {waits[name].message}" for name in names)


def _merge_all(writers: Iterable[TableWriter]) -> None:
    for writer in writers:
        writer.merge_base()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
