"""`python -m benchmarks [NAME …] [--rows N] [--scale N] [--json FILE]`: one benchmark, or all."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    analysis,
    builds,
    clone,
    compaction,
    diff,
    edits,
    flatness,
    forget,
    handwritten,
    history,
    ingest,
    ingest_latency,
    ingest_peers,
    ingest_rows,
    layers,
    live,
    live_delay,
    live_page,
    live_reads,
    looks,
    lookup,
    many_commits,
    many_models,
    newest,
    night,
    overhead,
    partial,
    planner,
    preview,
    read,
    service_memory,
    split,
    sql,
    startup,
    telemetry,
    tpch,
    upsert,
    why,
    window,
)
from benchmarks.measure import Measurement, table, write_json
from benchmarks.peers import comparison, published

BENCHMARKS: dict[str, Callable[[argparse.Namespace], list[Measurement]]] = {
    "overhead": lambda options: overhead.measure(options.rows),
    "telemetry": lambda options: telemetry.measure(options.rows),
    "upsert": lambda options: upsert.measure(options.rows),
    "read": lambda options: read.measure(options.rows),
    "layers": lambda options: layers.measure(options.rows),
    "newest": lambda options: newest.measure(4 * options.rows),
    "partial": lambda options: partial.measure(options.rows),
    "looks": lambda _: looks.measure(),
    "lookup": lambda options: lookup.measure(options.rows),
    "why": lambda options: why.measure(options.rows),
    "flatness": lambda options: flatness.measure(options.rows),
    "builds": lambda _: builds.measure(),
    "clone": lambda options: clone.measure(options.rows),
    "diff": lambda options: diff.measure(options.rows),
    "edits": lambda options: edits.measure(options.rows),
    "forget": lambda options: forget.measure(options.rows),
    "compaction": lambda options: compaction.measure(options.rows),
    "many_commits": lambda options: many_commits.measure(options.rows),
    "many_models": lambda _: many_models.measure(),
    "history": lambda options: history.measure(options.rows),
    "handwritten": lambda options: handwritten.measure(options.rows),
    "peers": lambda options: comparison.measure(options.rows),
    "peers_changes": lambda options: published.measure(options.rows),
    "window": lambda options: window.measure(options.rows),
    "tpch": lambda options: tpch.measure(options.scale),
    "analysis": lambda _: analysis.measure(),
    "split": lambda options: split.measure(4 * options.rows),
    "sql": lambda options: sql.measure(options.rows),
    "startup": lambda _: startup.measure(),
    "night": lambda _: night.measure(),
    "planner": lambda _: planner.measure(),
    "preview": lambda options: preview.measure(options.rows),
    "live_idle": lambda _: live.measure(),
    "live_delay": lambda options: live_delay.measure(options.minutes),
    "live_reads": lambda options: live_reads.measure(options.minutes),
    "service_memory": lambda options: service_memory.measure(options.minutes, options.progress),
    "live_page": lambda _: live_page.measure(),
    "ingest_files": lambda options: ingest.measure_files(options.rows),
    "ingest_debezium": lambda options: ingest.measure_debezium(options.rows),
    "ingest_rows": lambda options: ingest_rows.measure(options.rows),
    "ingest_peers": lambda options: ingest_peers.measure(options.rows // 20),
    "ingest_latency": lambda options: ingest_latency.measure(options.minutes),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs benchmarks; the exit code is 0 whether targets hold or not, since machines differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table (default: 10,000,000)")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H (default: 1)")
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes of a load that goes on (default: 3)")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results.json"), metavar="FILE")
    parser.add_argument("--progress", type=Path, metavar="FILE", help="what service_memory measures, minute by minute")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    measurements: list[Measurement] = []
    for name in options.names or BENCHMARKS:
        print(f"{name}", flush=True)
        measurements += BENCHMARKS[name](options)
    print(table(measurements))
    write_json(measurements, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
