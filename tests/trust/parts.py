"""The parts of `make trust`: what is run, and what its report says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Size:
    """How much of each part is run: seeds, minutes of a processor for each target of fuzzing, minutes, builds.

    `has_slow` says whether the slow tests run too.
    """

    seeds: int
    fuzz_minutes: float
    soak_minutes: float
    builds: int
    has_slow: bool


SIZES: Mapping[str, Size] = {
    "quick": Size(seeds=200, fuzz_minutes=0.2, soak_minutes=3, builds=10, has_slow=False),
    "full": Size(seeds=2_000, fuzz_minutes=10, soak_minutes=30, builds=100, has_slow=True),
    "night": Size(seeds=10_000, fuzz_minutes=30, soak_minutes=120, builds=1_000, has_slow=True),
}


@dataclass(frozen=True)
class Figures:
    """What a part has done: counts by name, and how many of them went wrong."""

    counts: Mapping[str, float]
    faults: int


Read = Callable[[Path, str], Figures]
"""Reads the report that a part wrote in a file, or else printed."""


@dataclass(frozen=True)
class Part:
    """A part: its name, the words after `python -m`, with `{file}` for its report, and how this is read."""

    name: str
    words: tuple[str, ...]
    read: Read
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a part ended: its figures, None if it has no report, its exit code, and the seconds that it took."""

    name: str
    figures: Figures | None
    code: int
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.figures is not None and self.figures.faults == 0 and self.code == 0


def list_parts(size: Size) -> tuple[Part, ...]:
    """Lists all parts, those that take least time first."""
    seeds = ("tests.simulation", "--json", "--seeds", str(size.seeds))
    fuzz = ("tests.fuzz", "--minutes", str(size.fuzz_minutes), "--json", "{file}")
    soak = ("tests.soak", "--minutes", str(size.soak_minutes), "--json", "{file}")
    marks = () if size.has_slow else ("-m", "not slow")
    return (
        _build_tests("hostile values", *marks, "tests/unit/fuzz", "tests/spark/tables/test_hostile.py"),
        _build_tests("interleavings", *marks, "tests/unit/spark/test_interleavings.py"),
        Part("simulation", seeds, read_simulation, {}),
        Part("fuzzing", fuzz, read_fuzzing, {}),
        _build_tests("deaths at effects, lost answers, pauses, damage", *marks, "tests/crash"),
        _build_tests("bad networks", *marks, "tests/ingest/test_network.py", "tests/spark/tables/test_rest_network.py"),
        _build_tests("builds", "tests/adapter/test_random_builds.py", ARCTIC_BUILDS=str(size.builds)),
        Part("soak", soak, read_soak, {}),
    )


def run_part(part: Part, folder: Path) -> Outcome:
    """Runs a part in a process of its own; what it prints is in a file of the folder."""
    file, log = folder / f"{part.name}.report", folder / f"{part.name}.log"
    words = [word.replace("{file}", str(file)) for word in part.words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **part.environment}
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT,
            check=False,
        ).returncode  # fmt: skip
    try:
        figures = part.read(file, log.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, IndexError, ElementTree.ParseError):
        figures = None
    return Outcome(part.name, figures, code, time.monotonic() - began)


def read_simulation(_: Path, text: str) -> Figures:
    """Reads the last line, which is JSON."""
    report: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    faults = int(report["losses"]) + int(report["false_claims_of_freshness"])
    injected = sum(report["faults"].values())
    counts = {"seeds": report["seeds"], "simulated days": report["simulated_days"], "faults injected": injected}
    return Figures({**counts, "false claims of freshness": report["false_claims_of_freshness"]}, faults)


def read_fuzzing(file: Path, _: str) -> Figures:
    reports = json.loads(file.read_text(encoding="utf-8"))
    minutes = sum(report["processor_seconds"] for report in reports) / 60
    counts = {
        "targets": len(reports),
        "inputs": sum(report["executions"] for report in reports),
        "processor minutes": round(minutes, 1),
    }
    return Figures(counts, sum(len(report["faults"]) for report in reports))


def read_soak(file: Path, _: str) -> Figures:
    report = json.loads(file.read_text(encoding="utf-8"))
    counts = {
        "minutes": report["minutes"],
        "changed rows": report["changed_rows"],
        "faults injected": sum(report["faults"].values()),
        "reads": sum(report["reads"].values()),
        "commands beside": sum(report["commands"].values()),
    }
    return Figures(counts, len(report["wrong"]))


def read_tests(file: Path, _: str) -> Figures:
    """Reads the report of pytest, in the format of JUnit."""
    suites = list(ElementTree.parse(file).iter("testsuite"))
    wrong = sum(int(suite.get(kind, 0)) for suite in suites for kind in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    return Figures({"tests": sum(int(suite.get("tests", 0)) for suite in suites) - skipped}, wrong)


def _build_tests(name: str, *words: str, **environment: str) -> Part:
    return Part(name, ("pytest", "-q", "--junit-xml={file}", *words), read_tests, environment)
