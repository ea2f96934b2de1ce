"""``python -m sample_project.demo``: a month of flights, then more days one at a time, each with a dbt run.

Makes a fresh warehouse, and ends with what each run did and with ``arctic verify``. Exit codes: 0 done, 1 a
step failed or a table is not what its model says, 2 wrong use, or the warehouse is not the demo's own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from sample_project.dbt_runs import (
    Build,
    Dbt,
    NotOursError,
    Step,
    StepError,
    changed_rows,
    make_fresh,
    short,
    table_of,
)
from sample_project.loader import FIRST_DAY, LAST_DAY, MissingDataError, load_days

PROJECT = Path(__file__).parent.absolute()
WAREHOUSE = PROJECT / "warehouse"
MARK = "made-by-the-demo"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.days < 1 or options.more < 0 or options.days + options.more > (LAST_DAY - FIRST_DAY).days:
        parser.error(f"flights are known from {FIRST_DAY} to {LAST_DAY}")
    days = [FIRST_DAY + timedelta(days=n) for n in range(options.days + options.more)]
    began = time.monotonic()
    try:
        make_fresh(WAREHOUSE, MARK)
        dbt = _parsed()
        builds = run_days(dbt, days[: options.days], days[options.days :])
        print(f"\nWhat each run did\n\n{table_of(builds)}")
        print("\narctic verify\n", flush=True)
        code = dbt.verify()
    except StepError as error:
        print(f"\nThe demo ends here: {error}", file=sys.stderr)
        return 2 if isinstance(error, NotOursError) else 1
    seconds = time.monotonic() - began
    print(f"\n{len(days)} days in {seconds:.0f} s. The warehouse stays in {short(WAREHOUSE)}.")
    return code


def run_days(dbt: Dbt, first: list[date], more: list[date]) -> list[Build]:
    """The first days together, with seeds and tests; then each further day by itself; tests again."""
    _title(f"{first[0]} to {first[-1]}: {len(first)} days at once")
    _load(first)
    _step(dbt, "seed", "seeds")
    builds = _run(dbt, f"{len(first)} days")
    _step(dbt, "test", "tests pass")
    for day in more:
        _title(f"{day}: one more day")
        _load([day])
        builds += _run(dbt, day.isoformat())
    _title("The same day again: nothing to load, nothing to do")
    _load((first + more)[-1:])
    builds += _run(dbt, "again")
    _title("All tests")
    _step(dbt, "test", "tests pass")
    return builds


def _parsed() -> Dbt:
    began = time.monotonic()
    dbt = Dbt(PROJECT)
    print(f"Project parsed in {time.monotonic() - began:.1f} s")
    return dbt


def _run(dbt: Dbt, name: str) -> list[Build]:
    step = Step("dbt run")
    builds = dbt.run(name)
    step.done(f"{changed_rows(builds)} in {len(builds)} models")
    return builds


def _step(dbt: Dbt, command: str, what: str) -> None:
    """Another dbt command; prints how many nodes it went through."""
    step = Step(f"dbt {command}")
    step.done(f"{len(dbt.invoke(command))} {what}")


def _load(days: list[date]) -> None:
    step = Step("landing")
    try:
        landed = load_days(WAREHOUSE, days)
    except MissingDataError as error:
        raise StepError(str(error)) from error
    rows = sum(sum(tables.values()) for tables in landed.values())
    step.done(f"{rows:,} change events" if rows else "loaded already")


def _title(text: str) -> None:
    print(f"\n{text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_project.demo", description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="days that are loaded at first (30)")
    parser.add_argument("--more", type=int, default=5, help="days that follow one at a time (5)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
