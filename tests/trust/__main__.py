"""`python -m tests.trust --size quick|full|night [PART …]`: all that proves the guarantees, and one table of it.

Ends with 1 if a part failed; the folder that is named then has what each part printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.trust.parts import ROOT, SIZES, Outcome, list_parts, run_part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trust", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--json", type=Path, help="file that gets the outcomes, also of a part of a run")
    parser.add_argument("part", nargs="*", help="names of parts; all by default")
    given = parser.parse_args(arguments)
    parts = list_parts(SIZES[given.size])
    strange = set(given.part) - {part.name for part in parts}
    if strange:
        parser.error(f"no such part: {', '.join(sorted(strange))}; there are {', '.join(part.name for part in parts)}")
    folder = Path(tempfile.mkdtemp(prefix="arctic-trust-"))
    outcomes = []
    for part in parts:
        if not given.part or part.name in given.part:
            print(f"{part.name} …", file=sys.stderr, flush=True)
            outcomes.append(run_part(part, folder))
            print(format_line(outcomes[-1]), file=sys.stderr, flush=True)
            if given.json is not None:
                text = json.dumps([asdict(outcome) for outcome in outcomes], indent=2)
                given.json.write_text(text + "\n", encoding="utf-8")
    print(format_table(outcomes, read_commit()))
    if all(outcome.is_good for outcome in outcomes):
        return 0
    print(f"what the parts printed: {folder}", file=sys.stderr)
    return 1


def format_table(outcomes: Sequence[Outcome], commit: str) -> str:
    """Formats outcomes as a table in Markdown."""
    lines = [f"At commit {commit}:", "", "| part | done | faults | minutes |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(format_line, outcomes)])


def format_line(outcome: Outcome) -> str:
    """Formats an outcome as a line of the table; a part without a report has a dash for its faults."""
    figures = outcome.figures
    done = "" if figures is None else ", ".join(f"{value:,} {name}" for name, value in figures.counts.items())
    faults = "–" if figures is None else str(figures.faults)
    ended = done if outcome.code == 0 or (figures and figures.faults) else f"{done} (ended with {outcome.code})"
    return f"| {outcome.name} | {ended.strip()} | {faults} | {outcome.seconds / 60:.1f} |"


def read_commit() -> str:
    """Returns the short name of the commit of this checkout; `unknown` without git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
