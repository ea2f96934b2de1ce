"""Prints the batches of `arctic ingest`: as JSON, as one line per batch, or as one updated line per source."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport
    from arctic_runtime.ingest.writing.records import TableResult

Say = Callable[[str, "BatchReport"], None]
"""Shows a batch of the source with the given name; may be called by several threads."""

_SIGNS = {"insert": "+", "upsert": "+", "update": "~", "delete": "-"}
_RATE_SECONDS = 10.0
"""Length in seconds of the recent period over which the rate of events is computed."""


@contextmanager
def show_progress(sources: Sequence[str], as_json: bool) -> Iterator[Say]:
    """Yields the function that prints a batch: as JSON, in an updated line on a terminal, else as a line of text."""
    if as_json:
        yield lambda source, batch: print(format_json_line(source, batch), flush=True)
    elif sys.stdout.isatty():
        with show_in_place(sources) as say:
            yield say
    else:
        yield LineWriter(lambda text: print(text, flush=True)).write_line


class LineWriter:
    """Writes a line for each batch with events, and one for each new reason why a source can't be read.

    May be used by several threads.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._failures: dict[str, str] = {}

    def write_line(self, source: str, batch: BatchReport) -> None:
        failure = batch.progress.failure
        message = "" if failure is None else failure.message
        if batch.count:
            self._write(f"{_format_clock()}  {format_line(source, batch)}")
        elif message and self._failures.get(source) != message:
            self._write(f"{_format_clock()}  {source}: {message}")
        self._failures[source] = message


def _format_clock() -> str:
    return f"{datetime.now().astimezone():%H:%M:%S}"


def format_dead_letters(count: int) -> list[str]:
    """Formats the number of dead letters as a list with one text; empty if there are none."""
    return [f"{count:,} dead letter{'' if count == 1 else 's'}"] if count else []


def format_line(source: str, batch: BatchReport) -> str:
    """Formats a batch for people: `shop: 20 events in 0.5 s (40/s), 3.2 s behind, at LSN 0/16B: orders +12 ~8`."""
    results: dict[str, list[TableResult]] = {}
    for result in batch.tables:
        results.setdefault(result.table, []).append(result)
    tables = "; ".join(_format_table(name, parts) for name, parts in results.items())
    rate = batch.count / max(batch.seconds, 1e-3)
    where = ", ".join([f"({rate:,.0f}/s)", *_format_lag(batch), f"at {batch.position.describe_position()}"])
    return f"{source}: {batch.count:,} events in {batch.seconds:.1f} s {where}: {tables}"


def _format_table(name: str, results: Sequence[TableResult]) -> str:
    """Formats what a batch did to a table, as one, also if a load has published it in several steps."""
    rows = Counter[str]()
    for result in results:
        rows.update(result.rows)
    done = "waits" if any(result.wait for result in results) else format_counts(rows) or "no change"
    return ", ".join([f"{name} {done}", *format_dead_letters(sum(result.dead for result in results))])


def format_json_line(source: str, batch: BatchReport) -> str:
    """Formats a batch as a line of JSON; all tables of the source have all events up to its `progress.position`."""
    progress_made = batch.progress
    shown = {
        "position": batch.position.text,
        "newest": progress_made.newest,
        "caught_up": progress_made.caught_up,
    }
    if progress_made.failure is not None:
        shown |= {"failure": progress_made.failure.message, "failing_since": progress_made.failure.since}
    lag = batch.progress.compute_lag_seconds(datetime.now(timezone.utc))
    fields = asdict(batch)
    del fields["position"]
    return json.dumps({"source": source, **fields, "progress": shown, "lag_seconds": lag}, default=str)


@contextmanager
def show_in_place(sources: Sequence[str], console: Console | None = None) -> Iterator[Say]:
    """Yields a function that updates the source's line on a terminal after a batch; other output is printed above."""
    totals = {source: Totals() for source in sources}
    lock = threading.Lock()

    def update_line(source: str, batch: BatchReport) -> None:
        with lock:
            totals[source].add_batch(batch, time.monotonic())
        live.refresh()

    def render_lines() -> Group:
        with lock:
            lines = [f"{source}: {text.describe_totals(time.monotonic())}" for source, text in totals.items()]
        return Group(*(Text(text, no_wrap=True, overflow="ellipsis") for text in lines))

    with Live(get_renderable=render_lines, console=console, refresh_per_second=2) as live:
        yield update_line


@dataclass
class Totals:
    """Totals of a source since the process began. Times are seconds of a monotonic clock.

    `rows` are the changed rows by table and action, and `last` is the newest batch.
    """

    events: int = 0
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    dead: int = 0
    last: BatchReport | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def add_batch(self, batch: BatchReport, now: float) -> None:
        """Adds a batch that ended at the time `now`."""
        self.events += batch.count
        self.dead += sum(table.dead for table in batch.tables)
        for table in batch.tables:
            self.rows.setdefault(table.table, Counter()).update(table.rows)
        self._recent.append((now - batch.seconds, batch.count))
        self.last = batch

    def compute_rate(self, now: float) -> float:
        """Returns the events per second in the last ten seconds, or in the last batch if that took longer."""
        while len(self._recent) > 1 and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        return sum(count for _, count in self._recent) / max(now - self._recent[0][0], 1e-3) if self._recent else 0.0

    def describe_totals(self, now: float) -> str:
        """Formats the totals in a line for people, the most important parts first, since a terminal cuts the end."""
        if self.last is None:
            return "no events yet"
        tables = ", ".join(f"{table} {format_counts(rows) or 'no change'}" for table, rows in self.rows.items())
        dead = format_dead_letters(self.dead)
        parts = [f"{self.events:,} events", f"{self.compute_rate(now):,.0f}/s", *_format_lag(self.last), *dead]
        return ", ".join([*parts, f"at {self.last.position.describe_position()}", *([tables] if tables else [])])


def format_counts(rows: Mapping[str, int]) -> str:
    return " ".join(f"{sign}{rows[action]:,}" for action, sign in _SIGNS.items() if rows.get(action))


def _format_lag(batch: BatchReport) -> list[str]:
    """Formats the lag of the tables behind the source, in seconds and in events; unknown ones are left out."""
    seconds = batch.progress.compute_lag_seconds(datetime.now(timezone.utc))
    events = [f"{batch.behind:,} events behind"] if batch.behind else []
    return [*([] if seconds is None else [f"{seconds:,.1f} s behind"]), *events]
