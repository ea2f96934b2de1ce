"""``python -m sample_project.live``: flights are changed in a database, and all layers follow within seconds.

Starts a PostgreSQL of its own with the flights of some days, ingests it, plays what happened on the days after as
inserts, updates and deletes, and refreshes the models whenever something new was ingested. Says each second how old
the newest change is that the tables of DWS show. In the end all tables catch up, and are compared. Where PostgreSQL
can't be used, changes are written as JSON lines into files, and these are ingested.

Exit codes: 0 every table is exact, 1 a step failed or a table is not exact, 2 wrong use or something is missing,
130 ended by Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

from arctic_runtime.errors import ArcticError, ConfigError
from sample_project.dbt_runs import NotOursError, StepError
from sample_project.live.phases import Interrupted, Options, live
from sample_project.loader import FIRST_DAY, LAST_DAY, MissingDataError
from sample_project.servers import ServerError

_MOST_DAYS = (LAST_DAY - FIRST_DAY).days
_WRONG_USE = (ConfigError, MissingDataError, NotOursError)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the live sample; returns the exit code."""
    options = _options(arguments)
    with _stopped_by_signals() as stop:
        try:
            return 0 if live(options, stop) else 1
        except (Interrupted, KeyboardInterrupt):
            print("\nEnded before its time; the tables were not compared.", file=sys.stderr)
            return 130
        except (ArcticError, MissingDataError, ServerError, StepError) as error:
            print(f"\nThe live sample ends here: {error}", file=sys.stderr)
            return 2 if isinstance(error, _WRONG_USE) else 1


@contextmanager
def _stopped_by_signals() -> Iterator[Event]:
    """An event that the first signal sets; the second one interrupts what is under way."""
    stop = Event()

    def end(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("\nEnds after the step under way; once more to end at once.", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m sample_project.live", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events-per-second", type=float, default=200.0, metavar="N", help="changes a second (200)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="how long changes are made (60)")
    parser.add_argument("--days", type=int, default=7, metavar="N", help="days of flights that are there before (7)")
    parser.add_argument("--files", action="store_true", help="files in the place of a database")
    given = parser.parse_args(arguments)
    if given.events_per_second <= 0 or given.seconds <= 0:
        parser.error("--events-per-second and --seconds must be more than 0")
    if not 0 <= given.days <= _MOST_DAYS:
        parser.error(f"--days must be from 0 to {_MOST_DAYS}: flights are known from {FIRST_DAY} to {LAST_DAY}")
    return Options(given.events_per_second, given.seconds, given.days, given.files)


if __name__ == "__main__":
    raise SystemExit(main())
