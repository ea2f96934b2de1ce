"""The same work by us and by Delta Lake, Hudi and Paimon, one after the other, and its ratios: theirs to ours.

Each engine has a process of its own, since each has other JARs, and Hudi an older Spark, which is installed where
the project keeps its JARs when it is first asked for. What can't be had is said, and the others are measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from arctic_runtime.spark.engine.java import jars
from benchmarks.measure import Measurement, ratio
from benchmarks.peers import delta, hudi, paimon
from benchmarks.peers.ours import ON_READ, ON_READ_INPUT, ON_WRITE, WAYS
from benchmarks.peers.work import MERGE, READ, WRITE

FIGURES = {
    WRITE: ("write 1%", (ON_READ_INPUT, ON_READ, ON_WRITE)),
    READ: ("read, 10% unmerged", (ON_READ, ON_WRITE)),
    MERGE: ("merge 10%", (ON_READ,)),
}
"""What is done → how it is called, and our ways to keep a table that it is compared with."""
TARGET = 1.0
ROOT = Path(__file__).parents[2]
OLDER_PYSPARK = "3.5.9"
"""The Spark of Hudi, whose JAR for ours is not in every repository."""
_ERROR_LINES = 25


class Absent(Exception):
    """An engine's JARs or environment can't be had here."""


@dataclass
class Found:
    """What a process told: its versions, the seconds of each round by action, and what its table holds."""

    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    rows: Sequence[int] = ()


def measure(rows: int, rounds: int = 2) -> list[Measurement]:
    """Theirs / ours, of each action and each way of ours to keep a table. Raises AssertionError where tables differ."""
    ours = {
        way: follow(way, [sys.executable, "-m", "benchmarks.peers.ours", way, str(rows), str(rounds)]) for way in WAYS
    }
    theirs: dict[str, Found] = {}
    for name, command in PEERS.items():
        try:
            theirs[name] = follow(name, command([str(rows), "--rounds", str(rounds)]))
        except Absent as absent:
            print(f"  {name} is not measured: {absent}", flush=True)
    check_same({**ours, **theirs})
    return [figure for name, side in theirs.items() for figure in ratios(name, side, ours)]


def follow(name: str, command: Sequence[str]) -> Found:
    """Runs an engine's process and shows what it says.

    Raises Absent where it ends before it is ready, and RuntimeError where it fails later.
    """
    with tempfile.TemporaryFile("w+") as errors:
        side, code = _follow(name, command, errors)
        errors.seek(0)
        said = "\n".join(f"    {line.rstrip()}" for line in errors.readlines()[-_ERROR_LINES:])
    if not side.versions:
        raise Absent(f"its process ended with code {code} before it was ready:\n{said}")
    if code or not side.rows:
        raise RuntimeError(
            f"The work of {name} failed.\n  where: {' '.join(command)}\n  expected: figures\n"
            f"  found: code {code}\n{said}\n  what to do: run that command alone"
        )
    return side


def check_same(sides: Mapping[str, Found]) -> None:
    """Raises AssertionError unless all tables hold the same rows."""
    if len({tuple(side.rows) for side in sides.values()}) > 1:
        shown = "\n".join(f"  {name}: {list(value.rows)}" for name, value in sides.items())
        raise AssertionError(f"Tables that must be the same differ (rows; sums of id, a, b and of hashes):\n{shown}")


def ratios(name: str, theirs: Found, ours: Mapping[str, Found]) -> list[Measurement]:
    """One figure for each action and way of ours; above one we are ahead."""
    return [
        _measurement(f"{label}: {name} / {way}", {name: theirs, way: ours[way]}, action)
        for action, (label, ways) in FIGURES.items()
        for way in ways
    ]


def _measurement(label: str, sides: Mapping[str, Found], action: str) -> Measurement:
    times = {name: side.seconds[action] for name, side in sides.items()}
    detail = {
        name: {"seconds": [round(value, 2) for value in side.seconds[action]], "versions": side.versions}
        for name, side in sides.items()
    }
    return Measurement(label, ratio(times, *sides), "x", TARGET, True, detail)


def _follow(name: str, command: Sequence[str], errors: IO[str]) -> tuple[Found, int]:
    """What a process told, and its exit code; of what it prints, only lines of JSON are its own."""
    side = Found()
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        env=build_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    with running as process:
        assert process.stdout is not None
        for line in process.stdout:
            _hear(name, json.loads(line) if line.startswith("{") else {}, side)
    return side, process.returncode


def _hear(name: str, report: Mapping[str, Any], side: Found) -> None:
    match report:
        case {"ready": versions}:
            side.versions = versions
            print(f"  {name}: {', '.join(' '.join(version) for version in versions.items())}", flush=True)
        case {"said": text}:
            print(f"  {text}", flush=True)
        case {"found": {"seconds": taken, "rows": rows}}:
            side.seconds, side.rows = taken, rows


def build_environment() -> dict[str, str]:
    """The Java that was found; a Spark that the user has elsewhere must not be taken for the engine's own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    return {**kept, "JAVA_HOME": str(jars.find_java().executable.parent.parent)}


def _delta(work: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peers.delta", *work, "--cache", str(_cache("delta"))]


def _hudi(work: Sequence[str]) -> list[str]:
    return [str(find_older_python()), "-m", "benchmarks.peers.hudi", *work, "--cache", str(_cache("hudi"))]


def _paimon(work: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peers.paimon", *work, "--cache", str(_cache("paimon"))]


PEERS: Mapping[str, Callable[[Sequence[str]], list[str]]] = {
    delta.NAME: _delta,
    hudi.NAME: _hudi,
    paimon.NAME: _paimon,
}
"""Another engine → the command of its process; it may raise Absent."""


def _cache(name: str) -> Path:
    return jars.get_cache_directory() / "peers" / name


def find_older_python() -> Path:
    """The Python of an environment with `OLDER_PYSPARK`, made first where there is none yet."""
    folder = _cache(f"pyspark-{OLDER_PYSPARK}")
    python, installed = folder / "bin" / "python", folder / ".installed"
    if not installed.exists():
        print(f"  Installing pyspark {OLDER_PYSPARK}", flush=True)
        try:
            venv.create(folder, clear=True, with_pip=True)
            install_requirement(python, f"pyspark=={OLDER_PYSPARK}")
            installed.touch()
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stdout", None) or ""
            raise Absent(f"no environment could be made in {folder}: {error}\n{said}".rstrip()) from error
    return python


def install_requirement(python: Path, requirement: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    output = subprocess.PIPE
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True, check=True)
