"""`python -m benchmarks [NAME …] [--rows N] [--json FILE]`: one benchmark, or all."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import layers, overhead, read, upsert
from benchmarks.measure import Measurement, table, write_json

BENCHMARKS: dict[str, Callable[[int], list[Measurement]]] = {
    "overhead": overhead.measure,
    "upsert": upsert.measure,
    "read": read.measure,
    "layers": layers.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs benchmarks; the exit code is 0 whether targets hold or not, since machines differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table (default: 10,000,000)")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    found: list[Measurement] = []
    for name in options.names or BENCHMARKS:
        print(f"{name}", flush=True)
        found += BENCHMARKS[name](options.rows)
    print(table(found))
    write_json(found, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
