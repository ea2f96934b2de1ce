"""Work on batches as it is shown to people: the batch under way, and the progress of the load that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class LoadPiece:
    """A piece of a load: its number from 1, the rows of the load up to its end, and the number of its tables so far."""

    number: int
    rows: int
    tables: int
    all_tables: int

    def describe_piece(self) -> str:
        """Returns a text for people."""
        return f"load, piece {self.number}: table {self.tables} of {self.all_tables}, {self.rows:,} rows so far"


@dataclass(frozen=True)
class BatchWork:
    """A batch that is about to be published: its tables, number of events, and piece of a load, None for a stream.

    A load alongside the stream `is_background`; it may have a batch under way while the stream has one.
    """

    tables: tuple[TableName, ...]
    count: int
    piece: LoadPiece | None = None
    is_background: bool = False

    def describe_work(self) -> str:
        """Returns a text for people, such as `1,234 events`."""
        events = "1 event" if self.count == 1 else f"{self.count:,} events"
        return events if self.piece is None else f"{events} of a {self.piece.describe_piece()}"


class LoadPieces:
    """Counts the pieces of one load after the other. The piece that ends a load is the first that is no snapshot."""

    def __init__(self) -> None:
        self._piece: LoadPiece | None = None
        self._seen: set[str] = set()

    def count_batch(self, batch: Batch, all_tables: int) -> LoadPiece | None:
        """Returns the piece of a load that a batch is; None for a batch of a stream."""
        if batch.comes_again:
            self._reset_count()
        if not batch.is_snapshot and self._piece is None:
            return None
        last = self._piece or LoadPiece(0, 0, 0, all_tables)
        self._seen |= {events.table for events in batch.tables}
        piece = LoadPiece(last.number + 1, last.rows + batch.count, len(self._seen), all_tables)
        self._piece = piece
        if not batch.is_snapshot:
            self._reset_count()
        return piece

    def _reset_count(self) -> None:
        self._piece = None
        self._seen = set()


def to_batch_work(
    batch: Batch, names: Mapping[str, TableName], piece: LoadPiece | None, is_background: bool
) -> BatchWork:
    """Returns the work of a batch; `names` are tables by their names in the source."""
    written = {names[events.table]: None for events in batch.tables if events.table in names}
    return BatchWork(tuple(written), batch.count, piece, is_background)
