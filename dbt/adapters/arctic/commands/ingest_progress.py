"""Output of `arctic ingest` about its batches: JSON, a line for each, or on a terminal one line per source in place."""

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

Say = Callable[[str, "BatchReport"], None]
"""Shows a batch of a source, by the source's name; may be called by several threads."""

_SIGNS = {"insert": "+", "upsert": "+", "update": "~", "delete": "-"}
_RATE_SECONDS = 10.0
"""The time over which events a second are counted."""


@contextmanager
def show_progress(sources: Sequence[str], as_json: bool) -> Iterator[Say]:
    """Shows batches while this lasts: in place on a terminal, else as lines."""
    if as_json:
        yield lambda source, batch: print(format_json_line(source, batch), flush=True)
    elif sys.stdout.isatty():
        with show_in_place(sources) as say:
            yield say
    else:
        yield LineWriter(lambda text: print(text, flush=True)).write_line


class LineWriter:
    """Writes a line for each batch with events that has just ended, and for why a source can't be read if that is new.

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
    """A part of a line that says how many there are; none if there are none."""
    return [f"{count:,} dead letter{'' if count == 1 else 's'}"] if count else []


def format_line(source: str, batch: BatchReport) -> str:
    """A batch for people, such as `shop: 20 events in 0.5 s (40/s), 3.2 s behind, at LSN 0/16B: orders +12 ~8`."""
    tables = "; ".join(
        ", ".join(
            [
                f"{table.table} {'waits' if table.wait else format_counts(table.rows) or 'no change'}",
                *format_dead_letters(table.dead),
            ]
        )
        for table in batch.tables
    )
    rate = batch.count / max(batch.seconds, 1e-3)
    where = ", ".join([f"({rate:,.0f}/s)", *_format_lag(batch), f"at {batch.position.describe_position()}"])
    return f"{source}: {batch.count:,} events in {batch.seconds:.1f} s {where}: {tables}"


def format_json_line(source: str, batch: BatchReport) -> str:
    """A batch as a line of JSON; `progress.position` is up to where all tables of the source are complete."""
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
    """A line per source on a terminal that moves while batches come; other output stands above them."""
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
    """Totals of a source since the process began. Times are seconds of a clock that never goes back."""

    events: int = 0
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    dead: int = 0
    last: BatchReport | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def add_batch(self, batch: BatchReport, now: float) -> None:
        """Counts a batch that has just ended."""
        self.events += batch.count
        self.dead += sum(table.dead for table in batch.tables)
        for table in batch.tables:
            self.rows.setdefault(table.table, Counter()).update(table.rows)
        self._recent.append((now - batch.seconds, batch.count))
        self.last = batch

    def compute_rate(self, now: float) -> float:
        """Events a second of late; that of the last batch where it took longer."""
        while len(self._recent) > 1 and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        return sum(count for _, count in self._recent) / max(now - self._recent[0][0], 1e-3) if self._recent else 0.0

    def describe_totals(self, now: float) -> str:
        """A line for people, the most important first, since a terminal cuts its end."""
        if self.last is None:
            return "no events yet"
        tables = ", ".join(f"{table} {format_counts(rows) or 'no change'}" for table, rows in self.rows.items())
        dead = format_dead_letters(self.dead)
        parts = [f"{self.events:,} events", f"{self.compute_rate(now):,.0f}/s", *_format_lag(self.last), *dead]
        return ", ".join([*parts, f"at {self.last.position.describe_position()}", *([tables] if tables else [])])


def format_counts(rows: Mapping[str, int]) -> str:
    return " ".join(f"{_SIGNS[action]}{count:,}" for action, count in rows.items() if count)


def _format_lag(batch: BatchReport) -> list[str]:
    """Lag of the tables behind the source, in the unit that is known: seconds up to now, events after the batch."""
    seconds = batch.progress.compute_lag_seconds(datetime.now(timezone.utc))
    events = [f"{batch.behind:,} events behind"] if batch.behind else []
    return [*([] if seconds is None else [f"{seconds:,.1f} s behind"]), *events]
