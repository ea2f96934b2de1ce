"""What it costs to ingest events into a table that has many rows already: their old images are looked up there."""

from __future__ import annotations

import functools
import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import functions as F

from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.writing.keyed import KeyedChanges, KeyedTable
from arctic_runtime.ingest.writing.records import CommitNote, SourcePosition
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.tables.rows.frames import list_frame_columns
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.ingest import COLUMNS, event_text, ingest
from benchmarks.lake import NAMESPACE, Lake, lake
from benchmarks.measure import Measurement, seconds

MUST = 0.9
ROUNDS = 4
EVENTS = 500_000
"""Of a round: inserts of new keys and updates of scattered rows of the large table, as many of each."""

_INITIAL = json.dumps({"batch": 0})
_STRIDE = 7_919


@dataclass
class _Side:
    """Seconds of each round into one kind of table."""

    name: str
    taken: list[float] = field(default_factory=list)


def measure(rows: int) -> list[Measurement]:
    """Events a second into a table of so many rows, divided by those of the same events into an empty one."""
    large, empty = _Side("large"), _Side("empty")
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder, lake(0) as bench:
        print(f"  a table of {rows:,} rows: {seconds(lambda: _fill(bench, rows)):.1f} s", flush=True)
        for turn in range(1, ROUNDS + 2):
            lines = list(_events(rows, turn))
            sources = {
                "large": _written(Path(folder) / "large", "large", lines, turn),
                "empty": _written(Path(folder) / f"empty_{turn}", f"empty_{turn}", lines, turn),
            }
            for side in (large, empty) if turn % 2 else (empty, large):
                side.taken.append(seconds(functools.partial(ingest, bench, sources[side.name])))
                print(f"  round {turn - 1}: {side.name}: {EVENTS / side.taken[-1]:,.0f} events/s", flush=True)
    # The first round warms up and is not counted.
    ratios = [of_empty / of_large for of_large, of_empty in zip(large.taken[1:], empty.taken[1:], strict=True)]
    detail = {"ratios": ratios, "large": large.taken, "empty": empty.taken}
    name = f"ingest_rows: into {rows:,} rows / into an empty table"
    return [Measurement(name, statistics.median(ratios), "x", MUST, True, detail)]


def _fill(bench: Lake, rows: int) -> None:
    """Makes the large table as a load of the source would."""
    table = _table("large")
    session = TableSession(table.to_model(("id",)), bench.reader, functools.cache(bench.spark.newSession))
    key = F.col("id")
    loaded = (
        session.spark()
        .range(rows)
        .select(
            key,
            (key % 1000).cast("int").alias("customer"),
            F.concat(F.lit("item "), key % 97).alias("item"),
            (key % 10_000 / 4).cast("decimal(10,2)").alias("amount"),
            F.lit("o" * 40).alias("note"),
        )
    )
    storage = KeyedTable(session)
    context, shape = storage.prepare_commit(session.observe_state(), list_frame_columns(loaded))
    changes = KeyedChanges(diff_states(loaded, None, shape, keyed=True), shape)
    storage.publish_changes(context, changes, CommitNote(SourcePosition(_INITIAL)))


def _events(rows: int, turn: int) -> Iterator[str]:
    for number in range(EVENTS // 2):
        yield event_text((number * _STRIDE + turn) % rows, turn, "u")
        yield event_text(number, turn, "c")


def _written(folder: Path, table: str, lines: list[str], turn: int) -> IngestSource:
    """The source of a folder that has the events of a turn in a new file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{turn:03}.json").write_text("\n".join(lines))
    ledger = TableName("lake", NAMESPACE, f"{table}__dead_letters")
    made = _table(table)
    return IngestSource(table, "files", {"path": str(folder), "files": {table: "*.json"}}, (made,), ledger)


def _table(name: str) -> IngestedTable:
    return IngestedTable(name, name, TableName("lake", NAMESPACE, name), {"primary_key": "id"}, COLUMNS)
