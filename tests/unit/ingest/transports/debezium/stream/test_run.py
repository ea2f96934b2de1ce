"""Records of an engine become batches of whole transactions, in whatever pieces they come."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.ingest.formats.event_format import NumberedColumns
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.debezium.servers.log_orders import BinlogOrder
from arctic_runtime.ingest.transports.debezium.stream.run import EngineRun, Piece
from arctic_runtime.ingest.transports.transport import PAYLOAD

FILE = "binlog.000009"
STREAM = Position({}, {"file": FILE, "pos": 4})
ROW = {"type": "struct", "fields": [{"field": "id", "type": "int32", "optional": True}]}
ENVELOPE = {"type": "struct", "fields": [{**ROW, "field": "before"}, {**ROW, "field": "after"}]}
SCHEMA = SimpleNamespace(value=json.dumps(ENVELOPE), key=None, has_key=False)
Event = tuple[int, int, str]
"""The begin of an event's transaction, its row there, and its operation."""


class Server:
    order = BinlogOrder()

    def identify_log(self) -> Any:
        return {"server_uuid": "one"}

    def list_columns(self, schema: str, table: str, columns: Any, history: str | None) -> Any:
        return NumberedColumns(columns)

    def get_stream_start(self, first: Any) -> Any:
        return {"file": FILE, "pos": 4}


def a_run(position: Position = STREAM, most_bytes: int = 1 << 20, tables: Sequence[str] = ()) -> Any:
    """A run whose engine gives what `feed` puts there."""
    waiting: list[Any] = []
    engine: Any = SimpleNamespace(
        waiting=waiting,
        take_records=lambda: waiting.pop(0),
        list_tables=lambda: dict.fromkeys(tables, SCHEMA),
    )
    server: Any = Server()
    return EngineRun(engine, tempfile.TemporaryDirectory(), server, position, most_bytes)


def records(events: Sequence[Event], offset: dict[str, Any]) -> Any:
    """Records of table a, as the engine gives them; `offset` is that of the last."""
    payloads = [
        json.dumps({"op": op, "source": {"db": "shop", "table": "a", "file": FILE, "pos": begin + 20, "row": row}})
        for begin, row, op in events
    ]
    places = pa.array(range(len(events)), pa.int64())
    schema_events = SimpleNamespace(schema_id=1, schema=SCHEMA, payload=pa.array(payloads), indexes=places)
    parts = (schema_events,) if events else ()
    return SimpleNamespace(events=parts, partition={}, first={}, offset=offset, receipt="r")


def feed(run: Any, events: Sequence[Event], offset: dict[str, Any]) -> Iterator[Piece]:
    run.engine.waiting.append(records(events, offset))
    yield from run.split_records(run.take_records())


def inside(begin: int, row: int) -> dict[str, Any]:
    """The offset of an event in a transaction, of which more may come."""
    return {"file": FILE, "pos": begin, "event": 2, "row": row + 1}


def after(begin: int) -> dict[str, Any]:
    return {"file": FILE, "pos": begin}


def shown(pieces: Iterator[Piece]) -> list[tuple[list[int], str]]:
    """The rows of each batch, and its position."""
    return [
        (
            [
                json.loads(text)["source"]["row"]
                for part in piece.batch.tables
                for text in part.events[PAYLOAD].to_pylist()
            ],
            piece.batch.position,
        )
        for piece in pieces
    ]


def test_a_transaction_is_held_until_its_end_is_read() -> None:
    run = a_run()
    ((rows, position),) = shown(feed(run, [(4, 0, "c"), (4, 1, "c")], inside(4, 1)))
    assert (rows, json.loads(position)["offset"]) == ([], after(4))
    assert run.is_holding
    ((rows, position),) = shown(feed(run, [(4, 2, "c")], after(500)))
    assert rows == [0, 1, 2]
    assert json.loads(position)["offset"] == after(500)
    assert not run.is_holding


@pytest.mark.parametrize(("last", "rows", "is_holding"), [("c", [0, 1], False), ("d", [0], True)])
def test_a_part_of_a_large_transaction_does_not_wait_for_its_end(last: str, rows: list[int], is_holding: bool) -> None:
    """A delete at its end does: the insert that follows may make a change of the key of it."""
    run = a_run(most_bytes=1)
    ((given, position),) = shown(feed(run, [(4, 0, "c"), (4, 1, last)], inside(4, 1)))
    assert given == rows
    assert json.loads(position)["seen"]["row"] == rows[-1]
    assert run.is_holding is is_holding
    ((rest, _),) = shown(feed(run, [(4, 2, "c")], after(500)))
    assert [*given, *rest] == [0, 1, 2]


def test_a_run_leaves_out_what_was_read_before_it() -> None:
    seen = Position({}, after(4), {"file": FILE, "pos": 24, "row": 1})
    run = a_run(seen)
    assert run.read.seen is None
    assert shown(feed(run, [(4, 0, "c"), (4, 1, "c")], inside(4, 1))) == []
    assert run.position == seen
    ((rows, _),) = shown(feed(run, [(4, 2, "c")], after(500)))
    assert rows == [2]


def test_the_end_of_a_snapshot_is_a_batch_with_the_tables_that_have_no_rows() -> None:
    run = a_run(INITIAL, tables=("shop.a", "shop.b"))
    ((rows, _),) = shown(feed(run, [(4, 7, "r")], {"snapshot": "initial", "file": FILE, "pos": 4}))
    assert (rows, run.position.is_snapshot) == ([7], True)
    end, stream = feed(run, [(4, 8, "r"), (4, 0, "c")], after(500))
    assert end.ends_snapshot
    assert end.receipt is None
    assert [(part.table, part.events.num_rows) for part in end.batch.tables] == [("shop.a", 1), ("shop.b", 0)]
    assert json.loads(end.batch.position)["offset"] == after(4)
    assert (stream.batch.count, stream.receipt) == (1, "r")
    assert run.position.offset == after(500)
