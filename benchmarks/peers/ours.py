"""Our process: one model over a landing table, merged on read or on write."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import Lake, events_model, lake
from benchmarks.peers.work import Keeper, tell_ready, work

ON_READ, ON_READ_INPUT, ON_WRITE = "on_read", "on_read, changelog input", "on_write"


@dataclass(frozen=True)
class Way:
    """What a user would write, and the mode of compaction that leaves a clean base, whose files hold every change."""

    config: Mapping[str, Any]
    mode: CompactionMode


WAYS = {
    ON_READ: Way({"merge": "on_read"}, "major"),
    ON_READ_INPUT: Way({"merge": "on_read", "changelog": "input"}, "major"),
    ON_WRITE: Way({"merge": "on_write"}, "full"),
}


def main() -> None:
    """The whole process; its arguments are the way to keep the table, and how many rows and rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("rows", type=int)
    parser.add_argument("rounds", type=int)
    options = parser.parse_args()
    with lake(options.rows) as bench:
        tell_ready({"Iceberg": jars.JARS[0].version, "Spark": bench.spark.version})
        bench.fill_events()
        work(options.way, _make(bench, WAYS[options.way]), bench.append_changes, options.rounds)


def _make(bench: Lake, way: Way) -> Keeper:
    model = events_model("kept", compaction="off", **way.config)
    bench.run(model)
    rows = quoted(*model.table.parts)
    return Keeper(partial(bench.run, model), lambda: bench.spark.table(rows), partial(_merge, bench, model, way.mode))


def _merge(bench: Lake, model: Model, mode: CompactionMode) -> None:
    done = compact_table(TableSession(model, bench.reader, lambda: bench.spark), mode)
    if not done.steps:
        raise AssertionError(f"{model.table} had changes to merge, and a {mode} compaction did nothing")


if __name__ == "__main__":
    main()
