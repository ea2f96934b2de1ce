"""States of the stream of a source: how its batches are written to tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arctic_runtime.ingest.job.batch_writer import BatchWriter
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.ingest.writing.records import TableResult, WriteMode


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of tables that already have rows: its rows are collected, and published when all are there.

    They are published as of `initial`, the position before all events, so that all later events are applied.
    """

    initial: str

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Collects a batch; at the end of the snapshot, publishes it and the batch's events that are not its rows."""
        results = writer.collect_batch(batch)
        if batch.is_snapshot:
            return results
        results += writer.end_snapshot(self.initial)
        return results + writer.write_batch(batch, replace(mode, reads=False))


@dataclass(frozen=True)
class Load:
    """A snapshot of tables that do not exist yet: its rows are inserted as they arrive."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the rows of a batch as those of new tables, which have shown no time of their source yet."""
        return writer.write_batch(batch, replace(mode, is_load=True, shown=None))


@dataclass(frozen=True)
class Stream:
    """The events after the snapshot, or from the saved position on."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the events of a batch."""
        return writer.write_batch(batch, mode)


StreamState = Snapshot | Load | Stream


def find_next_state(state: StreamState, batch: Batch) -> StreamState:
    """Returns the state after `batch`: a snapshot or load ends with the first batch that is not part of a snapshot."""
    return state if batch.is_snapshot else Stream()
