"""Ingests a source: publishes the batches of its transport to its tables until none is left or it is stopped."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, SourceError, suggest_nearest
from arctic_runtime.ingest.dead_letters.lease import SourceLease, lease_taken_error
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.job.background_load import BackgroundLoad, LoadListeners
from arctic_runtime.ingest.job.batch_writer import (
    BaseMerges,
    BatchWriter,
    Load,
    Snapshot,
    Stream,
    StreamState,
    find_next_state,
)
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners, Reporter
from arctic_runtime.ingest.job.source_tables import SourceTables
from arctic_runtime.ingest.job.source_watch import LoadCounts, watch_source
from arctic_runtime.ingest.source import IngestionEnded, IngestSource, TablesWait
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import Batch, LoadsTables, TableGone, UnreadableTables
from arctic_runtime.ingest.writing.records import TableResult, WriteMode
from arctic_runtime.model.sources.ingestion import Failure, Progress
from arctic_runtime.profile import mask_text
from arctic_runtime.spark.engine.java.java_errors import explain_damaged_files
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.session_pool import ThreadSessions
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)


_STALLED = (
    "see at the database which query of the reader runs and whether another one holds a lock that it waits for, as "
    "`pg_stat_activity` or `show full processlist` tells; the load goes on by itself"
)


class _WrongUse(ConfigError):
    """Raised for a user's request that the source can't fulfil; not saved as a failure of the source."""


class Ingestion:
    """Writes the events of one source to its tables, each exactly once, even if the process dies at any time.

    A batch is published to each of its tables, then the source's progress is saved, and then the batch is acknowledged
    to the source. If the process dies in between, events are read again; each table then leaves out the events up to
    the position stored with its last commit. `session` opens a new Spark session at each call; each thread opens one.
    """

    def __init__(
        self,
        source: IngestSource,
        connection: SourceConnection,
        reader: CatalogReader,
        session: Callable[[], SparkSession],
        listeners: JobListeners | None = None,
    ) -> None:
        self.source = source
        self._transport = connection.transport
        self._parse_position = connection.parse_position
        self._reader = reader
        self._reporter = Reporter(listeners or JobListeners())
        open_session = ThreadSessions(session).open_session
        self._dead_letters = DeadLetterTable(source.dead_letter_table, reader, open_session)
        self._lease = SourceLease(source.dead_letter_table, reader, open_session)
        self._tables = SourceTables(source, connection, reader, open_session)
        actions = reader.thresholds.engine.parallel_actions
        self._pool = ThreadPoolExecutor(actions, "ingest")
        self._merges = BaseMerges(reader.thresholds.ingest.look_seconds)
        self._loads = ThreadPoolExecutor(1, "load")
        self._writes_of_loads = ThreadPoolExecutor(actions, "load")
        self._stream = self._create_writer((), self._pool)
        self._state: StreamState = Stream()
        self._load: BackgroundLoad | None = None
        self._counts = LoadCounts()
        self._latest = Progress()
        self._stopping = threading.Event()

    def run(self, once: bool, resync: bool = False, tables: Collection[str] = ()) -> None:
        """Ingests until all events of the source are read (`once`), or until `stop` is called.

        With `resync` it begins with another snapshot of all tables, and writes the differences to them. With names of
        `tables` it takes a snapshot of just these. If another process ingests the source, `run` waits for it, or with
        `once` raises ConfigError. Raises SourceError if the source fails, DataError if there are more dead letters than
        allowed, and the errors of writing. After an error, the batches before the failed one stay published.
        """
        self._reader.create_namespace(self.source.dead_letter_table.schema)
        self._dead_letters.create_or_widen()
        if not self._wait_for_lease(once):
            return
        try:
            with (
                explain_damaged_files(f"source {self.source.name}"),
                self._lease.renew_in_background(self.stop),
                nullcontext() if once else watch_source(self._transport, self._note_answer, self._find_stall),
            ):
                self._ingest(once, resync, tables)
        except _WrongUse:
            raise
        except Exception as error:
            self._save_failure(get_message(to_spark_ended(error) or error))
            raise
        finally:
            self._lease.end_lease()
        if once:
            self._check_waits()

    def stop(self) -> None:
        """Stops `run` after the current batch; can be called from another thread or from a signal's handler."""
        self._stopping.set()
        load = self._load
        if load is not None:
            load.stop_load()
        self._transport.close_source()

    def _check_waits(self) -> None:
        """Raises TablesWait if a user has to load tables again; all other tables have the events of the source."""
        waits = self._dead_letters.read_progress().waits
        if names := sorted(name for name in waits if name in self._tables.writers):
            raise TablesWait(f"source {self.source.name}: {describe_waits(waits, names)}")

    def _save_failure(self, message: str) -> Failure | None:
        """Saves and returns the reason why ingestion of the source fails.

        Saves nothing and returns None if the process does not have the lease, or if saving fails.
        """
        with suppress(Exception):
            if self._lease.is_own():
                return self._dead_letters.save_failure(mask_text(message))
        return None

    def _find_stall(self) -> str:
        """Describes since when the first load of the source has got no rows; empty if it gets rows or there is none."""
        since = self._counts.find_stall(self._reader.thresholds.ingest.confirmed_seconds)
        if since is None or isinstance(self._state, Stream):
            return ""
        message = f"source {self.source.name}: its load has got no row since {since.isoformat(' ', 'seconds')}."
        return str(SourceError(message, fix=_STALLED))

    def _note_answer(self, error: str, last: str) -> None:
        """Reports and saves that the source does not answer or stands still, with the reason `error`, or goes on.

        `last` is the reason at the last probe. A batch that is saved meanwhile clears the failure, so each probe saves
        it again.
        """
        error, last = mask_text(error), mask_text(last)
        if error != last:
            LOG.warning("source %s: %s", self.source.name, error or "it answers again")
        self._reporter.report_answer(error)
        with suppress(Exception):  # It is shown to users of this process, even if it can't be saved for others.
            if error:
                self._save_failure(error)
            elif self._lease.is_own():
                self._dead_letters.clear_matching_failure(last)

    def _wait_for_lease(self, once: bool) -> bool:
        """Waits for the lease on the source; returns False if `stop` is called meanwhile.

        With `once` it does not wait, but raises ConfigError if another process has the lease.
        """
        while (other := self._lease.take_lease()) is not None:
            if once:
                raise lease_taken_error(self.source.dead_letter_table, other)
            if self._stopping.wait(self._reader.thresholds.ingest.lease_poll_seconds):
                return False
        return True

    def _ingest(self, once: bool, resync: bool, tables: Collection[str]) -> None:
        try:
            with self._pool, self._merges.pool, self._writes_of_loads, self._loads, self._stop_load_at_end():
                progress = self._begin(resync, tables)
                while not self._stopping.is_set():
                    if self._load is None or (progress.tables and not once):
                        progress = self._write_readable(once, progress)
                        self._merges.wait_for_merge()
                    if self._load is None or self._stopping.is_set():
                        return
                    self._transport.close_source()
                    progress = self._join_loaded(progress)
        finally:
            self._transport.close_source()

    @contextmanager
    def _stop_load_at_end(self) -> Iterator[None]:
        """Stops a load that is still running when the context ends."""
        try:
            yield
        finally:
            if self._load is not None:
                self._load.stop_load()

    def _begin(self, resync: bool, tables: Collection[str]) -> Progress:
        """Prepares the tables, and returns the progress at which the transport is to be opened.

        Sets the state by which the first batches are written. Starts to load the tables that the stream does not have
        yet, and those in `tables`. With `resync` it begins with another snapshot of all tables.
        """
        initial = self._transport.initial
        can_load = isinstance(self._transport, LoadsTables)
        if (resync and not self._transport.begins_with_snapshot(initial)) or (tables and not can_load):
            raise _WrongUse(
                f"source {self.source.name}: a {self.source.connector} source gives no snapshot to resync by"
            )
        known = progress = self._dead_letters.read_progress()
        is_first = resync or progress.position is None
        self._tables.discover_tables(Progress(initial) if is_first else progress)
        self._check_names(tables)
        self._dead_letters.save_settings(self.source.describe_settings())
        is_snapshot = self._transport.begins_with_snapshot(initial if is_first else str(progress.position))
        if is_first:
            progress = Progress(initial, tables=frozenset(self._tables.writers), failure=progress.failure)
        if isinstance(self._transport, LoadsTables) and progress.tables is not None:
            followed = progress.tables & {*self._tables.writers}
            progress = self._hold_unreadable(progress, self._transport.find_unreadable(followed))
            self._transport.follow_tables(followed - {*progress.waits})
        if not resync:
            self._transport.check_source(known.position)
        if is_snapshot:
            self._count_load(self._tables.writers, known)
        if progress != known:
            # From here on, objects at the source under this source's names are known to be its own.
            progress = self._save_progress(progress)
        if is_snapshot:
            return self._begin_snapshot(progress)
        self._check_dead_letters()
        progress = self._remove_unsent(progress)
        requested = self._tables.find_by_model(tables) | self._tables.list_requested(self._dead_letters)
        return self._start_load(requested | self._tables.list_unstreamed(progress), progress)

    def _check_names(self, tables: Collection[str]) -> None:
        names = [writer.table.name for writer in self._tables.writers.values()]
        if unknown := [name for name in tables if name not in names]:
            nearest = suggest_nearest(unknown[0], names)
            raise _WrongUse(f"source {self.source.name}: it has no table {', '.join(unknown)} to resync{nearest}")

    def _begin_snapshot(self, progress: Progress) -> Progress:
        progress = self._follow_tables(progress, frozenset(self._tables.writers) - frozenset(progress.waits))
        self._dead_letters.drop_dead_letters(self._tables.writers)
        self._check_dead_letters()
        if any(writer.is_loaded for writer in self._tables.writers.values()):
            self._state = Snapshot(self._transport.initial)
            self._stream.begin_snapshot()
        else:
            self._state = Load()
        return progress

    def _write_readable(self, once: bool, progress: Progress) -> Progress:
        """Writes the stream like `_write_stream`; excludes tables that can't be read, instead of raising an error."""
        while True:
            try:
                return self._write_stream(once, progress)
            except UnreadableTables as error:
                progress = self._exclude_unreadable(error)

    def _write_stream(self, once: bool, progress: Progress) -> Progress:
        """Writes batches of the stream; returns the progress after the last one.

        Ends when the stream is to take over loaded tables, at `stop`, and with `once` when the source has no more
        events.
        """
        self._stream.invalidate_positions()
        begun = _current_time()
        self._transport.open_at(str(progress.position))
        if self._stopping.is_set() or (self._load is not None and self._load.is_due):
            return progress
        for batch in self._transport.read_batches(once):
            started = time.monotonic()
            self._lease.renew_lease()
            if batch.failure:
                progress = replace(progress, failure=self._save_failure(batch.failure) or progress.failure)
                self._report_batch((), batch, 0.0, progress)
                continue
            progress = self._write_batch(batch, progress, started)
            self._merges.start_merge(self._tables.writers.values())
            if self._stopping.is_set():
                break
            if not once:
                if not batch.is_snapshot:
                    progress = self._load_more(progress)
                self._stopping.wait(max(0.0, self.source.trigger_seconds - (time.monotonic() - started)))
        self._check_end(once)
        if once and not self._stopping.is_set():
            # The transport has read everything that the source had when it began.
            progress = self._save_progress(replace(progress, caught_up=begun, failure=None))
        return progress

    def _check_end(self, once: bool) -> None:
        """Raises IngestionEnded if the stream has ended without being stopped."""
        is_due = self._load is not None and self._load.is_due
        if not once and not is_due and not self._stopping.is_set():
            raise IngestionEnded(f"source {self.source.name}: its stream ended without being stopped.")

    def _write_batch(self, batch: Batch, progress: Progress, started: float) -> Progress:
        self._reporter.announce_batch(batch, self._tables.names, len(self._stream.tables))
        if batch.count:
            self._counts.begin_batch()
        if batch.is_rewound:
            self._stream.invalidate_positions()
        mode = WriteMode(self._transport.select_after, shown=progress.as_of)
        results = self._state.write_batch(self._stream, batch, mode)
        self._state = find_next_state(self._state, batch)
        if batch.is_snapshot:
            self._count_rows(results, batch)
        else:
            self._counts.end_load(self._stream.tables)
        progress, known = self._drop_unfollowed(progress, results), progress
        self._merges.add_tables(result.table for result in results)
        now = self._save_progress(_advance(progress, batch, results))
        if progress is not known:
            self._follow_tables(now, now.tables or frozenset())
        self._transport.acknowledge_batch(batch)
        self._latest = now
        self._report_batch(results, batch, time.monotonic() - started, now)
        if any(result.dead for result in results):
            self._check_dead_letters()
        return now

    def _drop_unfollowed(self, progress: Progress, results: Iterable[TableResult]) -> Progress:
        """Removes from the progress the tables whose results have a `wait`; the stream continues with the others.

        Returns the new progress. Raises SourceError if no table is left, unless ingestion itself loads them again.
        """
        names, since = self._tables.source_names, _current_time()
        waits = {
            names[result.table]: Failure(result.wait, since, result.is_reloaded) for result in results if result.wait
        }
        return self._hold_tables(progress, waits)

    def _hold_unreadable(self, progress: Progress, reasons: Mapping[str, str]) -> Progress:
        """Removes tables that can't be read from the progress, by reasons; raises SourceError if none is left.

        Returns the new progress, which is not saved yet.
        """
        since = _current_time()
        return self._hold_tables(progress, {name: Failure(reason, since) for name, reason in reasons.items()})

    def _hold_tables(self, progress: Progress, waits: Mapping[str, Failure]) -> Progress:
        if not waits:
            return progress
        text = describe_waits(waits, sorted(waits))
        is_empty = not (progress.tables or frozenset()) - frozenset(waits)
        if is_empty and not all(wait.is_rechecked for wait in waits.values()):
            raise SourceError(text)
        LOG.warning("source %s: %s", self.source.name, text)
        return progress.remove_tables(waits)

    def _exclude_unreadable(self, error: UnreadableTables) -> Progress:
        """Excludes from the stream the tables whose events can't be read, since they stop the reading of all tables.

        A snapshot under way begins again. Returns the progress at which the transport is to be opened. Raises `error`
        if the stream has none of these tables.
        """
        self._transport.close_source()
        progress = self._dead_letters.read_progress()
        if not (progress.tables or frozenset()) & frozenset(error.reasons):
            raise error
        progress = self._hold_unreadable(progress, error.reasons)
        self._dead_letters.save_progress(progress)
        if self._transport.begins_with_snapshot(str(progress.position)):
            return self._begin_snapshot(progress)
        return self._follow_tables(progress, progress.tables or frozenset())

    def _follow_tables(
        self, progress: Progress, tables: frozenset[str], loaded: frozenset[str] = frozenset()
    ) -> Progress:
        """Sets the tables that the stream reads, and saves the progress with them; the stream skips other tables.

        The `loaded` tables are loaded alongside the stream, so users' requests to load them are removed. Returns the
        progress.
        """
        now = replace(progress.set_stream(tables, loaded), loading=self._counts.loading)
        if now != progress or loaded:
            progress = self._save_progress(now, loaded)
        writer = self._create_writer(tables, self._pool)
        others = frozenset(self._tables.writers) - tables
        self._stream = replace(writer, ignored=others | frozenset(progress.waits))
        if isinstance(self._transport, LoadsTables):
            self._transport.follow_tables(tables)
        return progress

    def _load_more(self, progress: Progress) -> Progress:
        """Looks for tables that are new at the source or that a user requested, and starts to load them.

        Does nothing if a load is running, or if the last check was a short time ago. Returns the progress of the stream
        without these tables.
        """
        if self._load is not None or not self._tables.is_look_due():
            return progress
        new, known = set[str](), progress
        with suppress(ConnectionLost):  # The reader of the stream notices a lost connection by itself.
            self._tables.discover_tables(progress)
            known = self._remove_unsent(progress)
            new = self._tables.list_unstreamed(known) | self._tables.list_requested(self._dead_letters)
        return self._start_load(new, known) if new or known != progress else progress

    def _remove_unsent(self, progress: Progress) -> Progress:
        """Removes the tables from the progress whose changes the source does not send, such as a recreated table.

        Each of them waits, or if its load makes the source send its changes, is among the tables to load.
        """
        transport = self._transport
        if not isinstance(transport, LoadsTables):
            return progress
        # A table that is included and not declared may be dropped at the source: nobody waits for it then.
        unsent = {
            table: error
            for table, error in transport.find_unsent(self._tables.writers, progress.tables or frozenset()).items()
            if table in self._tables.declared or not isinstance(error, TableGone)
        }
        since = _current_time()
        waits = {table: Failure(str(error), since, True) for table, error in unsent.items() if error is not None}
        if new := sorted(waits.keys() - progress.waits.keys()):
            LOG.warning("source %s: %s", self.source.name, describe_waits(waits, new))
        return progress.remove_unsent(unsent, waits)

    def _start_load(self, tables: Collection[str], progress: Progress) -> Progress:
        """Starts to load `tables` in the background, if there are any, and leaves them out of the stream meanwhile.

        Tables that wait for the source to send them are not loaded. Returns the saved progress of the stream without
        these tables.
        """
        loaded = frozenset(tables) - {table for table, wait in progress.waits.items() if wait.is_rechecked}
        if loaded and isinstance(self._transport, LoadsTables):
            reasons = self._transport.find_unreadable(loaded)
            progress = self._save_progress(self._hold_unreadable(progress, reasons), frozenset(reasons))
            loaded -= frozenset(reasons)
        stream = frozenset(self._tables.writers) - loaded - frozenset(progress.waits)
        if progress.waits and not stream and not loaded:
            raise SourceError(describe_waits(progress.waits, sorted(progress.waits)))
        self._count_load(loaded, progress)
        progress = self._follow_tables(progress, stream, loaded)
        if loaded and isinstance(self._transport, LoadsTables):
            load = self._transport.load_tables(sorted(loaded), str(progress.position))
            writer = self._create_writer(loaded, self._writes_of_loads)
            self._latest = progress
            listeners = LoadListeners(self._announce_load, self._report_load, self._transport.pause_reading)
            self._load = BackgroundLoad(load, writer, listeners, self._reader.thresholds.ingest.join_seconds)
            self._load.start_load(self._loads)
        return progress

    def _announce_load(self, batch: Batch, count: int) -> None:
        self._reporter.announce_batch(batch, self._tables.names, count, is_background=True)

    def _report_load(self, results: tuple[TableResult, ...], batch: Batch, seconds: float) -> None:
        if batch.is_rewound and self._load is not None:
            self._counts.restart_load(self._load.tables)
        if batch.count:
            self._count_rows(results, batch)
            self._dead_letters.save_loading(self._counts.loading)
        failure = self._save_failure(batch.failure) if batch.failure else None
        progress = self._latest if failure is None else replace(self._latest, failure=failure)
        self._report_batch(results, batch, seconds, progress, is_background=True)

    def _report_batch(
        self,
        results: tuple[TableResult, ...],
        batch: Batch,
        seconds: float,
        progress: Progress,
        is_background: bool = False,
    ) -> None:
        position = self._parse_position(progress.position or "")
        report = BatchReport(results, batch.count, seconds, progress, position, batch.behind, is_background)
        self._reporter.report_batch(report)

    def _join_loaded(self, progress: Progress) -> Progress:
        """Waits until a load has ended, and adds its tables to the stream.

        Returns the progress from which the stream continues.
        """
        assert self._load is not None
        assert isinstance(self._transport, LoadsTables)
        self._lease.renew_lease()
        end, tables, waiting = self._load.finish_load(), self._load.tables, self._load.results_of_waiting
        self._load = None
        if end is None and not waiting:
            return progress
        self._counts.end_load(tables)
        refused = {result.table for result in waiting}
        joining = sorted(name for name in tables if self._tables.writers[name].table.name not in refused)
        position = str(progress.position)
        position = self._transport.join_tables(joining, position, end or Batch((), position, 0))
        streamed = (progress.tables or frozenset()) | tables
        joined = self._drop_unfollowed(replace(progress, position=position).set_stream(streamed), waiting)
        joined = self._save_progress(joined)
        progress = self._follow_tables(joined, joined.tables or frozenset())
        self._merges.add_tables(self._tables.writers[name].table.name for name in joining)
        self._check_dead_letters()
        return progress

    def _count_load(self, tables: Collection[str], progress: Progress) -> None:
        """Begins to count the rows of a load of `tables`, with the source's estimates of their rows.

        `progress` is the one before the load.
        """
        transport = self._transport
        estimates = transport.estimate_rows(tables) if tables and isinstance(transport, LoadsTables) else {}
        self._counts.begin_load(tables, estimates, progress)

    def _count_rows(self, results: Iterable[TableResult], batch: Batch) -> None:
        """Counts the rows of a load in the results of a batch."""
        names, rows = self._tables.source_names, Counter[str]()
        for result in results:
            rows[names[result.table]] += result.read
        self._counts.add_rows(rows, batch.is_snapshot)

    def _save_progress(self, progress: Progress, loaded: frozenset[str] = frozenset()) -> Progress:
        """Saves and returns the progress, with the rows of loads under way; see `DeadLetterTable.save_progress`."""
        progress = replace(progress, loading=self._counts.loading)
        self._dead_letters.save_progress(progress, loaded)
        return progress

    def _create_writer(self, tables: Iterable[str], pool: Executor) -> BatchWriter:
        writers = {name: self._tables.writers[name] for name in tables}
        can_wait = isinstance(self._transport, LoadsTables)
        return BatchWriter(self.source.name, writers, self._dead_letters, pool, can_wait=can_wait)

    def _check_dead_letters(self) -> None:
        shown = self._reader.thresholds.reports.dead_letter_reasons
        self._dead_letters.check_limit(self.source.name, self.source.max_dead_letters, shown)


def _advance(progress: Progress, batch: Batch, results: Sequence[TableResult]) -> Progress:
    """Returns the progress after `batch` was published; `results` has the time of the newest change in each table."""
    now = replace(progress, position=batch.progress or batch.position)
    if not batch.is_snapshot:
        now = now.advance_to([result.newest for result in results], batch.caught_up)
    if batch.count or batch.caught_up is not None:
        now = replace(now, failure=None)
    return now


def describe_waits(waits: Mapping[str, Failure], names: Sequence[str] | None = None) -> str:
    """Describes for people why tables wait: a line for each of `names`, by default of all, with its message."""
    return "\n".join(f"{name} waits: {waits[name].message}" for name in (sorted(waits) if names is None else names))


def _current_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
