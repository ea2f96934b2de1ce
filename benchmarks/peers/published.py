"""Writing 1% of scattered changes, and reading what they changed, by us and by engines that publish changes, too.

The work of each side ends with a table that holds the new rows, and with its exact changes read once: inserts, both
images of updates, and deletes. A MERGE alone is less work, since nothing tells the next layer what it changed.

- Ours: change tables with old rows looked up, and a base that is merged on write, or a view that merges on read.
- Iceberg's MERGE, copy-on-write, and `create_changelog_view` between the two snapshots, with `identifier_columns` and
  `compute_updates`. Of that procedure, Iceberg 1.12 refuses `net_changes` together with `compute_updates`; one MERGE in
  each round makes them the same. On delete files and deletion vectors it fails, so after a MERGE with merge-on-read
  the two versions of the table are compared, by a full outer join.
- Delta Lake's MERGE with deletion vectors and the change data feed, and `readChangeFeed`.
- Hudi's upserts, copy-on-write and merge-on-read, with logged images and an incremental query in the format `cdc`.
- Paimon with the changelog producer `lookup`, with and without deletion vectors, and its audit log between two
  snapshots. The producer `input` is not measured: it publishes what a writer says, right or wrong.

After both, the table itself is read.

All processes are there at once and take turns in each round, so that a machine that drifts drifts for all. In each
round all sides must publish the same changes, by number and hash for each kind. On each side these must explain how the
number and the hash of all rows have changed from the first round to the last.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from arctic_runtime.spark.engine.java import jars
from benchmarks.measure import Measurement, ratio
from benchmarks.peers import comparison, iceberg, ours_published
from benchmarks.peers.changes import AFTER, BEFORE, DELETE, INSERT, KINDS, Counts
from benchmarks.peers.comparison import Absent
from benchmarks.peers.publishing import READ, TABLE, WRITE

BOTH = "both"
FIGURES = {
    WRITE: "write 1%",
    READ: "read its changes",
    BOTH: "write 1% and read its changes",
    TABLE: "read the table after it",
}
"""Action → how it is called."""
TARGET = 1.0
OURS = "dbt-arctic"
_ERROR_LINES = 25


@dataclass
class Side:
    """What a table did: changes and seconds of each round, of which the first has no seconds; rows before and after."""

    versions: Mapping[str, str]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {action: [] for action in FIGURES})
    changes: list[Counts] = field(default_factory=list)
    held: list[Sequence[int]] = field(default_factory=list)


class Running:
    """A process of one engine, which is asked for a round by a line on its standard input."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.versions: Mapping[str, str] = {}
        self.sides: dict[str, Side] = {}
        self._command, self._errors = command, folder / name
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=comparison.ROOT,
                env=comparison.build_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def fill_tables(self) -> None:
        """Waits until the tables have their rows. Raises Absent where the process ends before it is ready."""
        for report in self._hear():
            if "ready" in report:
                self.versions = report["ready"]
                print(f"  {self.name}: {', '.join(map(' '.join, self.versions.items()))}", flush=True)
            if "held" in report:
                self.sides = {name: Side(self.versions, held=[held]) for name, held in report["held"].items()}
                return
        if not self.versions:
            raise Absent(f"its process ended with code {self.process.wait()} before it was ready:\n{self._said()}")
        raise self._failure("tables with rows")

    def run_round(self, turn: int) -> None:
        """Has every table of the process do its work."""
        self._ask(f"{turn}\n")
        for report in self._hear():
            if "round" in report:
                for name, done in report["round"].items():
                    self._note(turn, name, done["seconds"], done["changes"])
                return
        raise self._failure(f"the figures of round {turn}")

    def finish(self) -> None:
        """Has the process tell which rows its tables hold, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        for report in self._hear():
            for name, held in report.get("held", {}).items():
                self.sides[name].held.append(held)
        if self.process.wait() or any(len(side.held) < 2 for side in self.sides.values()):
            raise self._failure("the rows at the end")

    def _note(self, turn: int, name: str, seconds: Mapping[str, float], changes: Mapping[str, Any]) -> None:
        side = self.sides[name]
        taken = {**seconds, BOTH: seconds[WRITE] + seconds[READ]}
        side.changes.append({kind: tuple(counted) for kind, counted in changes.items()})
        for action, spent in taken.items():
            side.seconds[action] += [spent] if turn else []
        title = f"round {turn}" if turn else "warm-up"
        shown = ", ".join(f"{action} {taken[action]:.2f} s" for action in (WRITE, READ, TABLE))
        print(f"  {title}: {name}: {shown}", flush=True)

    def _ask(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure("a process that answers") from error

    def _hear(self) -> Iterator[Mapping[str, Any]]:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("{"):
                yield json.loads(line)

    def _failure(self, expected: str) -> RuntimeError:
        return RuntimeError(
            f"The work of {self.name} failed.\n  where: {' '.join(self._command)}\n  expected: {expected}\n"
            f"  found: code {self.process.wait()}\n{self._said()}\n  what to do: run that command alone"
        )

    def _said(self) -> str:
        return "\n".join(f"    {line}" for line in self._errors.read_text().splitlines()[-_ERROR_LINES:])


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """Ours / theirs, of each action. Raises AssertionError where rows or changes differ."""
    with ExitStack() as stack:
        engines = list(_start_engines(rows, stack))
        for turn in range(rounds + 1):
            for engine in engines:
                engine.run_round(turn)
        for engine in engines:
            engine.finish()
    sides = {name: side for engine in engines for name, side in engine.sides.items()}
    check_same_changes(sides)
    check_rows(sides)
    return compute_ratios(sides)


def check_same_changes(sides: Mapping[str, Side]) -> None:
    """Raises AssertionError unless all sides published the same changes in each round, and some of each kind."""
    for turn, published in enumerate(zip(*(side.changes for side in sides.values()), strict=True)):
        if any(counts != published[0] for counts in published) or set(published[0]) != set(KINDS):
            shown = "\n".join(f"  {name}: {counts}" for name, counts in zip(sides, published, strict=True))
            raise AssertionError(f"Changes that must be the same differ in round {turn} (number, hash):\n{shown}")


def check_rows(sides: Mapping[str, Side]) -> None:
    """Raises AssertionError unless all tables hold the same rows, which are those that their changes explain."""
    for name, side in sides.items():
        before, after = side.held
        explained = [held + sum(_net(counts)[i] for counts in side.changes) for i, held in enumerate(before)]
        if explained != list(after) or side.held != next(iter(sides.values())).held:
            shown = "\n".join(f"  {other}: {value.held}" for other, value in sides.items())
            raise AssertionError(
                f"Rows differ from those of other sides, or from {name}'s changes, which lead to {explained} "
                f"(number and hash, before and after):\n{shown}"
            )


def compute_ratios(sides: Mapping[str, Side]) -> list[Measurement]:
    """One figure for each action, way of ours and other side; below one we are ahead."""
    ways = [name for name in sides if name in ours_published.WAYS]
    return [
        _compare(f"{label}: {way} / {name}", {way: sides[way], name: side}, action)
        for way in ways
        for name, side in sides.items()
        if name not in ways
        for action, label in FIGURES.items()
    ]


def _compare(label: str, sides: Mapping[str, Side], action: str) -> Measurement:
    times = {name: side.seconds[action] for name, side in sides.items()}
    detail = {
        name: {
            "seconds": [round(value, 2) for value in times[name]],
            "versions": side.versions,
            "changes": side.changes,
        }
        for name, side in sides.items()
    }
    return Measurement(label, ratio(times, *sides), "x", TARGET, False, detail)


def _net(counts: Counts) -> list[int]:
    """By how much changes move the number of rows and the sum of their hashes."""
    signs = {INSERT: 1, BEFORE: -1, AFTER: 1, DELETE: -1}
    return [sum(signs[kind] * counted[i] for kind, counted in counts.items()) for i in range(2)]


def _start_engines(rows: int, stack: ExitStack) -> Iterator[Running]:
    """Processes whose tables are filled, one after the other; others than ours may be absent."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name, command in ENGINES.items():
        try:
            engine = Running(name, command(rows), folder)
            stack.callback(end_process, engine.process)
            engine.fill_tables()
        except Absent as absent:
            if name == OURS:
                raise
            print(f"  {name} is not measured: {absent}", flush=True)
        else:
            yield engine


def end_process(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.terminate()
    process.wait()


def _ours(rows: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peers.ours_published", str(rows)]


def _build_peer_command(name: str, rows: int) -> list[str]:
    return [*comparison.PEERS[name]([str(rows)]), *_publishing(jars.JARS[-1:])]


def _iceberg(rows: int) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.peers.iceberg", str(rows)]
    return [*command, *_publishing(jars.JARS)]


def _publishing(wanted: Sequence[jars.Jar]) -> list[str]:
    return ["--class-path", ":".join(map(str, jars.resolve_jar_paths(wanted)))]


ENGINES: Mapping[str, Callable[[int], list[str]]] = {
    OURS: _ours,
    iceberg.NAME: _iceberg,
    **{name: partial(_build_peer_command, name) for name in comparison.PEERS},
}
"""Engine → the command of its process by the number of rows; others than ours may raise Absent."""
