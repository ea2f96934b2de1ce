"""`python -m tests.fuzz --minutes N --json FILE`: each target for N minutes of a processor, one after the other.

Every target runs in a process of its own, guided by coverage where atheris is installed (it has wheels for CPython on
Linux), else by chance. Ends with 1 if a fault was found; its input belongs into the corpus, with a test of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz.target import Report

INSTRUMENTED = ("arctic_runtime", "dbt.adapters.arctic")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes of a processor for each target")
    parser.add_argument("--json", type=Path, help="file that gets the reports of all targets")
    parser.add_argument("--unguided", action="store_true", help="by chance, even if atheris is installed")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("target", nargs="*", help="names of targets; all by default")
    given = parser.parse_args(arguments)
    is_guided = not given.unguided and find_spec("atheris") is not None
    if given.report is not None:
        _run_one(given.target[0], given.minutes * 60, given.report, is_guided)
        return 0
    reports = [_run_apart(name, given) for name in given.target or _list_names()]
    if given.json is not None:
        given.json.write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 1 if any(report["faults"] for report in reports) else 0


def _list_names() -> list[str]:
    from tests.fuzz.targets.registry import TARGETS

    return [target.name for target in TARGETS]


def _run_apart(name: str, given: argparse.Namespace) -> Mapping[str, Any]:
    """Runs a target in a process of its own; one that ends without its report has crashed, which is a fault."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tests.fuzz", name, "--minutes", str(given.minutes), "--report", str(file)]
        command += ["--unguided"] if given.unguided else []
        ended = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, capture_output=True, check=False
        )
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        last = ended.stderr.decode(errors="replace")[-2000:]
    crashed = Report(name, faults={f"the process ended with {ended.returncode}": last})
    report: Mapping[str, Any] = json.loads(text) if text else asdict(crashed)
    guided = "guided" if report["is_guided"] else "by chance"
    print(
        f"{name}: {report['executions']:,} inputs in {report['processor_seconds']:.0f} s, {guided}, "
        f"{len(report['faults'])} faults",
        flush=True,
    )
    for place, text in report["faults"].items():
        print(f"  {place}\n    {text}".encode("utf-8", "backslashreplace").decode(), flush=True)
    return report


def _run_one(name: str, seconds: float, file: Path, is_guided: bool) -> None:
    with _instrument(is_guided):
        from tests.fuzz.run import run_by_chance, run_guided
        from tests.fuzz.targets.registry import get_target

    def finish(report: Report) -> None:
        file.write_text(json.dumps(asdict(report)), encoding="utf-8")

    if is_guided:
        run_guided(get_target(name), seconds, finish)
    else:
        finish(run_by_chance(get_target(name), seconds))


def _instrument(is_guided: bool) -> contextlib.AbstractContextManager[Any]:
    """Instruments our own modules that are imported inside, so that atheris sees which lines an input reaches."""
    if not is_guided:
        return contextlib.nullcontext()
    import atheris

    context: contextlib.AbstractContextManager[Any] = atheris.instrument_imports(include=list(INSTRUMENTED))
    return context


if __name__ == "__main__":
    sys.exit(main())
