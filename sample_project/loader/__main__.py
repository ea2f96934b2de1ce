"""``python -m sample_project.loader --warehouse DIR --days N [--from DAY]``: lands days of flights."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from sample_project.loader import FIRST_DAY, LAST_DAY, MissingDataError, load_days


def main(arguments: Sequence[str] | None = None) -> int:
    """Lands the days and prints a line for each; exit code 0, or 2 where there is no data to load."""
    options = _parser().parse_args(arguments)
    last = options.first + timedelta(days=options.days - 1)
    if options.days < 1 or options.first < FIRST_DAY or last > LAST_DAY:
        print(
            f"There are flights from {FIRST_DAY} to {LAST_DAY}; asked for {options.first} to {last}.",
            file=sys.stderr,
        )
        return 2
    try:
        for n in range(options.days):
            day = options.first + timedelta(days=n)
            print(describe(day, load_days(options.warehouse, [day])[day]), flush=True)
    except MissingDataError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def describe(day: date, landed: dict[str, int]) -> str:
    """One line about one day."""
    if not any(landed.values()):
        return f"{day}  nothing new: this day is loaded already"
    return f"{day}  " + ", ".join(f"{rows:,} {name.replace('_', ' ')}" for name, rows in landed.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_project.loader", description=__doc__)
    parser.add_argument("--warehouse", type=Path, required=True, help="directory of the Iceberg warehouse")
    parser.add_argument("--days", type=int, default=1, help="how many days (default: 1)")
    parser.add_argument(
        "--from",
        dest="first",
        type=date.fromisoformat,
        default=FIRST_DAY,
        help="first day (default: 2013-01-01)",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
