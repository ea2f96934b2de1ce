"""Edits random queries in DuckDB and counts the rules: `python -m tests.unit.ivm.edits --seeds 3000`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.unit.ivm.edits.seeds import edit_seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.ivm.edits", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3000, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of these seeds")
    options = parser.parse_args()
    began = time.monotonic()
    counts = edit_seeds(range(options.first, options.first + options.seeds))
    refused = sum(counts.reasons.values())
    planned = sum(counts.read.values())
    print(f"{counts.seeds} seeds, {counts.edits} edits in {time.monotonic() - began:.0f} s")
    print(f"{planned} followed a rule, {refused} were refused: {planned / (planned + refused):.1%}")
    for name in ("read", "planned", "refused", "reasons", "impossible"):
        print(f"{name}:")
        for kind, number in getattr(counts, name).most_common():
            print(f"  {number:6} {kind}")
    print(f"wrong: {len(counts.wrong)}", *counts.wrong, sep="\n  ")
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
