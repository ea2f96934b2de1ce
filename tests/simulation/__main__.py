"""Runs the simulation: `python -m tests.simulation --seed 7`, or `--seeds 10000` for many."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from tests.simulation.bugs import BUGS
from tests.simulation.run import Result, prepare, run_seed, summarize
from tests.simulation.shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, with its history if it fails")
    parser.add_argument("--seeds", type=int, default=200, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of these seeds")
    parser.add_argument("--skip", default="", help="ids of faults and transactions to leave out, separated by commas")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug; ends at the first seed that finds it")
    parser.add_argument("--history", action="store_true", help="print the history of the seed in any case")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets would differ from process to process, and with it the order of threads.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    with prepare():
        return run_one(options) if options.seed is not None else run_many(options)


def run_one(options: argparse.Namespace) -> int:
    plant = BUGS[options.bug] if options.bug else None
    skip = frozenset(filter(None, options.skip.split(",")))
    first = run_seed(options.seed, skip, plant)
    if options.history:
        print("\n".join(first.history))
    if not first.problems:
        print(f"seed {options.seed}: no violation; {len(first.injected)} faults")
        return 0
    print_failure(shrink(lambda more: run_seed(options.seed, skip | more, plant), first))
    return 1


def print_failure(result: Result) -> None:
    """Prints the history of a failing run, and what of it was left."""
    print("\n".join(result.history))
    print(f"seed {result.seed} fails with {len(result.injected)} faults, {len(result.transactions)} transactions:")
    for problem in result.problems:
        print(f"  {problem}")


def run_many(options: argparse.Namespace) -> int:
    plant = BUGS[options.bug] if options.bug else None
    began, results = time.monotonic(), []
    for seed in range(options.first, options.first + options.seeds):
        results.append(run_seed(seed, plant=plant))
        if results[-1].problems:
            print(f"seed {seed}: {results[-1].problems[0]}", file=sys.stderr, flush=True)
            if plant is not None:
                break
    seconds = time.monotonic() - began
    summary = {**summarize(results), "seconds": round(seconds, 1)}
    if options.json:
        print(json.dumps(summary))
    else:
        for name, value in summary.items():
            print(f"{name}: {value}")
        print(f"seeds per second: {len(results) / seconds:.1f}")
    return 1 if summary["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
