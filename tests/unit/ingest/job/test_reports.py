"""What is shown of a batch: its events, and which piece of a load it is."""

from __future__ import annotations

import pyarrow as pa

from arctic_runtime.ingest.job.reports import BatchWork, LoadPieces, to_batch_work
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.model.names import TableName

ORDERS = TableName("lake", "ods", "orders")


def batch(table: str, count: int, is_snapshot: bool, **more: bool) -> Batch:
    return Batch((TableEvents(table, None, pa.table({})),), "1", count, is_snapshot, **more)


def test_pieces_of_a_load_are_counted_to_its_end() -> None:
    pieces = LoadPieces()
    load = [batch("a", 100, True), batch("a", 50, True), batch("b", 7, False)]
    described = [piece.describe_piece() for batch in load if (piece := pieces.count_batch(batch, 8))]
    assert described == [
        "load, piece 1: table 1 of 8, 100 rows so far",
        "load, piece 2: table 1 of 8, 150 rows so far",
        "load, piece 3: table 2 of 8, 157 rows so far",
    ]
    assert pieces.count_batch(batch("a", 1, False), 8) is None


def test_a_load_that_restarts_is_counted_again() -> None:
    pieces = LoadPieces()
    pieces.count_batch(batch("a", 100, True), 1)
    pieces.count_batch(batch("a", 0, True, is_rewound=True), 1)
    piece = pieces.count_batch(batch("a", 40, True), 1)
    assert piece is not None
    assert piece.rows == 40


def test_work_names_the_tables_of_the_warehouse() -> None:
    work = to_batch_work(batch("public.orders", 1, False), {"public.orders": ORDERS}, None, is_background=False)
    assert work == BatchWork((ORDERS,), 1)
    assert work.describe_work() == "1 event"
