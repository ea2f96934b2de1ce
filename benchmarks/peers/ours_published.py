"""Our process of the benchmark of published changes: models over a landing table whose change tables are read."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import NAMESPACE, Lake, events_model, lake
from benchmarks.peers.changes import unfold_changes
from benchmarks.peers.publishing import MEMORY, Publisher, add_arrivals, serve_parent
from benchmarks.peers.work import tell_ready
from benchmarks.rows import COLUMNS

ON_WRITE, ON_READ = "on_write", "on_read"
WAYS = (ON_WRITE, ON_READ)
"""Ways to merge; both look old rows up, so that their change tables are exact."""


def main() -> None:
    """The whole process; its argument is how many rows the tables have at first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()
    with lake(options.rows, {"spark.driver.memory": MEMORY}) as bench:
        tell_ready({"Iceberg": jars.JARS[0].version, "Spark": bench.spark.version})
        bench.fill_events()
        changed = replace(bench, rows=add_arrivals(options.rows))
        serve_parent({way: _make(bench, way) for way in WAYS}, changed.append_changes)


def _make(bench: Lake, way: str) -> Publisher:
    model = events_model(way, compaction="off", merge=way, changelog="lookup")
    bench.run(model)
    return Publisher(
        partial(bench.run, model),
        lambda: bench.spark.table(quoted(*model.table.parts)),
        partial(_find_head, bench, model),
        partial(_read_changes, bench, model),
    )


def _find_head(bench: Lake, model: Model) -> int:
    return int(bench.reader.load_table(NAMESPACE, model.table.changes.name).metadata.current_snapshot_id or 0)


def _read_changes(bench: Lake, model: Model, start: int, end: int) -> DataFrame:
    """Both images of change rows: the row itself, and `_before` with all of the old row but its key.

    The tombstone of a key that the table did not have has neither: it deletes nothing.
    """
    reader = bench.spark.read.option("start-snapshot-id", str(start)).option("end-snapshot-id", str(end))
    rows = reader.table(quoted(*model.table.changes.parts))
    before = F.col("_before")
    old = F.struct("id", *(before[name].alias(name) for name in COLUMNS[1:]))
    new = F.when(F.col("_action") != "delete", F.struct(*COLUMNS))
    return unfold_changes(rows, F.when(before.isNotNull(), old), new)


if __name__ == "__main__":
    main()
