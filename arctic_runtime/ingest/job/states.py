"""How batches of a source are written to its tables: as a snapshot, a first load, or the stream of events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arctic_runtime.ingest.job.batch_writer import BatchWriter
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.ingest.writing.records import TableResult, WriteMode


@dataclass(frozen=True)
class Snapshot:
    """Reading a snapshot of tables that already have rows: the snapshot's rows are stored apart until all are there.

    They are published with the position `initial`, which precedes all events, so that all later events are applied.
    """

    initial: str

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Stores the snapshot's rows of a batch.

        After the last ones, publishes them, and then the batch's other events.
        """
        results = writer.collect_batch(batch)
        if batch.is_snapshot:
            return results
        results += writer.end_snapshot(self.initial)
        return results + writer.write_batch(batch, replace(mode, reads=False))


@dataclass(frozen=True)
class Load:
    """Reading a snapshot of tables that do not exist yet: its rows are inserted as they arrive."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Inserts the rows of a batch into new tables, which had no data of the source before."""
        return writer.write_batch(batch, replace(mode, is_load=True, shown=None))


@dataclass(frozen=True)
class Stream:
    """Reading the events after a snapshot, or after the saved position."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the events of a batch."""
        return writer.write_batch(batch, mode)


StreamState = Snapshot | Load | Stream


def find_next_state(state: StreamState, batch: Batch) -> StreamState:
    """Returns the state after `batch`: a snapshot or load ends with the first batch that is not part of a snapshot."""
    return state if batch.is_snapshot else Stream()
