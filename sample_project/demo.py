"""``python -m sample_project.demo``: a month of flights, then more days one at a time, each with a dbt run.

Makes a fresh warehouse, and ends with what each run did and with ``arctic verify``. Exit codes: 0 done, 1 a
step failed or a table is not what its model says, 2 wrong use, or the warehouse is not the demo's own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from sample_project.loader import FIRST_DAY, LAST_DAY, MissingDataError, load_days

PROJECT = Path(__file__).parent.absolute()
WAREHOUSE = PROJECT / "warehouse"
MARK = "made-by-the-demo"
_DIRECTORIES = ("--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT))
_QUIETLY = (
    "--quiet",
    "--log-level",
    "none",
    "--log-level-file",
    "info",
    "--log-path",
    str(PROJECT / "target"),
)
_MODES = {"create": "created", "incremental": "incremental", "full": "full", "unchanged": "nothing new"}


class DemoError(Exception):
    """A step failed; the text is what to tell the user."""


@dataclass(frozen=True)
class Build:
    """What one model did in one run."""

    run: str
    model: str
    mode: str
    reason: str
    inserted: int
    updated: int
    deleted: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.days < 1 or options.more < 0 or options.days + options.more > (LAST_DAY - FIRST_DAY).days:
        parser.error(f"flights are known from {FIRST_DAY} to {LAST_DAY}")
    days = [FIRST_DAY + timedelta(days=n) for n in range(options.days + options.more)]
    began = time.monotonic()
    try:
        make_fresh(WAREHOUSE)
        builds = run_days(days[: options.days], days[options.days :])
        print(f"\nWhat each run did\n\n{table_of(builds)}")
        code = verify()
    except DemoError as error:
        print(f"\nThe demo ends here: {error}", file=sys.stderr)
        return 2 if isinstance(error, _NotOursError) else 1
    seconds = time.monotonic() - began
    print(f"\n{len(days)} days in {seconds:.0f} s. The warehouse stays in {_short(WAREHOUSE)}.")
    return code


def make_fresh(warehouse: Path) -> None:
    """An empty warehouse with the demo's mark; removes only a directory that bears it, or an empty one."""
    if warehouse.exists() and any(warehouse.iterdir()):
        if not (warehouse / MARK).exists():
            raise _NotOursError(f"{_short(warehouse)} holds data that the demo did not make. Move it away first.")
        shutil.rmtree(warehouse)
    warehouse.mkdir(parents=True, exist_ok=True)
    (warehouse / MARK).write_text("The demo removes this directory when it starts.\n")


def run_days(first: list[date], more: list[date]) -> list[Build]:
    """The first days together, with seeds and tests; then each further day by itself; tests again."""
    dbt = Dbt()
    _title(f"{first[0]} to {first[-1]}: {len(first)} days at once")
    _load(first)
    dbt.step("seed", "seeds")
    builds = dbt.run(f"{len(first)} days")
    dbt.step("test", "tests pass")
    for day in more:
        _title(f"{day}: one more day")
        _load([day])
        builds += dbt.run(day.isoformat())
    _title("The same day again: nothing to load, nothing to do")
    _load((first + more)[-1:])
    builds += dbt.run("again")
    _title("All tests")
    dbt.step("test", "tests pass")
    return builds


def verify() -> int:
    """``arctic verify``: recomputes every model and compares; 1 where one differs."""
    from dbt.adapters.arctic import cli

    print("\narctic verify\n", flush=True)
    return int(cli.main(["verify", *_DIRECTORIES]) or 0)


class Dbt:
    """dbt in this process, so that Spark starts once; the project is parsed once as well."""

    def __init__(self) -> None:
        from dbt.cli.main import dbtRunner
        from dbt.contracts.graph.manifest import Manifest

        os.environ["NYC_FLIGHTS_WAREHOUSE"] = str(WAREHOUSE)
        began = time.monotonic()
        parsed = dbtRunner().invoke(["parse", *_QUIETLY, *_DIRECTORIES])
        if not isinstance(parsed.result, Manifest):
            raise DemoError(f"dbt could not read the project: {parsed.exception}")
        self._dbt = dbtRunner(manifest=parsed.result)
        print(f"Project parsed in {time.monotonic() - began:.1f} s")

    def run(self, name: str) -> list[Build]:
        """``dbt run``; prints one line and returns what each model did."""
        began = time.monotonic()
        builds = [_build(name, result) for result in self._invoke("run")]
        rows = [sum(getattr(build, what) for build in builds) for what in ("inserted", "updated", "deleted")]
        changed = f"{rows[0]:+,} ~{rows[1]:,} -{rows[2]:,} rows in {len(builds)} models"
        _report("dbt run", changed, time.monotonic() - began)
        return builds

    def step(self, command: str, what: str) -> None:
        """Another dbt command; prints how many nodes it went through."""
        began = time.monotonic()
        done = self._invoke(command)
        _report(f"dbt {command}", f"{len(done)} {what}", time.monotonic() - began)

    def _invoke(self, command: str) -> list[dict[str, Any]]:
        outcome = self._dbt.invoke([command, *_QUIETLY, *_DIRECTORIES])
        if outcome.exception is not None:
            raise DemoError(f"dbt {command} failed: {outcome.exception}")
        file = PROJECT / "target" / "run_results.json"
        results: list[dict[str, Any]] = json.loads(file.read_text())["results"]
        failed = [result for result in results if result["status"] in ("error", "fail", "runtime error")]
        if failed or not outcome.success:
            told = "\n".join(f"  {_name(result)}: {result['message']}" for result in failed)
            log = _short(PROJECT / "target" / "dbt.log")
            raise DemoError(f"dbt {command} failed.\n{told}\nMore is in {log}.")
        return results


def table_of(builds: Sequence[Build]) -> str:
    """A line per run and model, with a blank line between runs."""
    head = ("run", "model", "what it did", "inserted", "updated", "deleted", "seconds")
    rows = [_cells(build, new=n == 0 or builds[n - 1].run != build.run) for n, build in enumerate(builds)]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [_line(head, widths), "  ".join("-" * width for width in widths)]
    for n, row in enumerate(rows):
        lines += [""] if n and row[0] else []
        lines.append(_line(row, widths))
    return "\n".join(lines)


class _NotOursError(DemoError):
    pass


def _load(days: list[date]) -> None:
    began = time.monotonic()
    try:
        landed = load_days(WAREHOUSE, days)
    except MissingDataError as error:
        raise DemoError(str(error)) from error
    rows = sum(sum(tables.values()) for tables in landed.values())
    _report("landing", f"{rows:,} change events" if rows else "loaded already", time.monotonic() - began)


def _build(run: str, result: dict[str, Any]) -> Build:
    response = result["adapter_response"]
    return Build(
        run=run,
        model=_name(result),
        mode=response.get("mode", ""),
        reason=response.get("reason") or "",
        inserted=int(response.get("inserted") or 0),
        updated=int(response.get("updated") or 0),
        deleted=int(response.get("deleted") or 0),
        seconds=float(result["execution_time"]),
    )


def _name(result: dict[str, Any]) -> str:
    return str(result["unique_id"]).split(".")[2]


def _cells(build: Build, *, new: bool) -> tuple[str, ...]:
    mode = _MODES.get(build.mode, build.mode)
    what = f"{mode} ({build.reason})" if build.reason else mode
    counts = (f"+{build.inserted:,}", f"~{build.updated:,}", f"-{build.deleted:,}")
    return (build.run if new else "", build.model, what, *counts, f"{build.seconds:.2f}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
    return "  ".join([*left, *right]).rstrip()


def _title(text: str) -> None:
    print(f"\n{text}", flush=True)


def _report(step: str, what: str, seconds: float) -> None:
    print(f"  {step:<10} {what:<46} {seconds:6.1f} s", flush=True)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_project.demo", description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="days that are loaded at first (30)")
    parser.add_argument("--more", type=int, default=5, help="days that follow one at a time (5)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
