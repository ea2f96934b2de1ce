"""States of a source, which define how its batches are written: as a snapshot, a first load, or a stream of events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arctic_runtime.ingest.job.batch_writer import BatchWriter
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.ingest.writing.records import TableResult, WriteMode


@dataclass(frozen=True)
class Snapshot:
    """State while a snapshot of tables that already have rows is read: its rows are stored apart until it is complete.

    The rows are then published with the position `initial`, which precedes all events, so that all later events are
    applied.
    """

    initial: str

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Stores the snapshot's rows of a batch.

        With the batch that ends the snapshot, publishes all stored rows, and then the batch's other events.
        """
        results = writer.collect_batch(batch)
        if batch.is_snapshot:
            return results
        results += writer.leave_out(results).end_snapshot(self.initial)
        return results + writer.leave_out(results).write_batch(batch, replace(mode, includes_snapshot_rows=False))


@dataclass(frozen=True)
class Load:
    """State while a snapshot of tables that do not exist yet is read: its rows are inserted as they arrive."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Inserts the rows of a batch into new tables, which had no data of the source before."""
        return writer.write_batch(batch, replace(mode, is_load=True, is_partial=batch.is_snapshot, shown=None))


@dataclass(frozen=True)
class Stream:
    """State while the events after a snapshot, or after the saved position, are read."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the events of a batch."""
        return writer.write_batch(batch, mode)


StreamState = Snapshot | Load | Stream


def find_next_state(state: StreamState, batch: Batch) -> StreamState:
    """Returns the state after `batch`: a snapshot or load ends with the first batch that is not part of a snapshot."""
    return state if batch.is_snapshot else Stream()
