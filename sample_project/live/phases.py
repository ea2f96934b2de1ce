"""The phases of the live sample: the tables are loaded, changes are played, all tables catch up and are compared."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from threading import Event

from sample_project.dbt_runs import Dbt, Step, StepError, make_fresh, short
from sample_project.live import screen
from sample_project.live.changes import KEYS, Change, Tables, changes_from, tables_at
from sample_project.live.exactness import compare
from sample_project.live.freshness import Rate
from sample_project.live.pipeline import Pipeline
from sample_project.live.play import Player, make
from sample_project.live.sources import Source, opened
from sample_project.live.worker import Worker
from sample_project.loader import FIRST_DAY

PROJECT = Path(__file__).parent.absolute()
WAREHOUSE = Path(os.environ.get("NYC_FLIGHTS_WAREHOUSE", PROJECT / "warehouse")).absolute()
MARK = "made-by-the-live-sample"

_RATE_SECONDS = 5.0
_STALLED_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_WARM_UP_CHANGES = 100


class Interrupted(Exception):
    """Somebody asked for the end."""


@dataclass(frozen=True)
class Options:
    """How many changes to play in a second, for how long, and how many days of flights are there before.

    `files` plays them into files even where there is a database.
    """

    per_second: float
    seconds: float
    days: int
    files: bool


def live(options: Options, stop: Event) -> bool:
    """All phases, in an empty warehouse; whether every table is exact.

    Raises Interrupted once `stop` is set, and what a phase raises. Nothing that was started runs on then.
    """
    make_fresh(WAREHOUSE, MARK)
    print(f"Flights from New York, live, after the first {options.days} days of 2013\n", flush=True)
    first_day = FIRST_DAY + timedelta(days=options.days)
    tables = tables_at(first_day)
    with ExitStack() as stack:
        source = _source(options.files, tables)
        stack.callback(source.close)
        pipeline = _pipeline(stop)
        stack.callback(pipeline.stop)
        _load(pipeline, len(tables), stop)
        changes = changes_from(first_day)
        _warm_up(pipeline, source, tables, changes, stop)
        player = Player(source, tables, changes, options.per_second, options.seconds)
        _play(player, pipeline, stop)
        pipeline.stop()
        pipeline.check()
        return _is_exact(tables, pipeline, stop)


def _source(files: bool, tables: Tables) -> Source:
    """A source with the rows of tables."""
    source, reason = opened(files)
    try:
        if reason is not None:
            indented = reason.strip().replace("\n", "\n    ")
            print(
                f"  Files take the place of a database, since PostgreSQL can't be used here:\n    {indented}",
                flush=True,
            )
        step = Step("source")
        source.make(list(tables.created()))
    except BaseException:
        source.close()
        raise
    os.environ.update(source.settings)
    step.done(f"{len(tables):,} rows in {source.name}")
    return source


def _pipeline(stop: Event) -> Pipeline:
    _go_on(stop)
    step = Step("dbt parse")
    pipeline = Pipeline(Dbt(PROJECT))
    step.done("project parsed")
    return pipeline


def _load(pipeline: Pipeline, count: int, stop: Event) -> None:
    """Brings the rows that are there into the tables of all layers."""
    _go_on(stop)
    step = Step("ingestion")
    pipeline.ingest()
    pipeline.seed()
    _until(pipeline, count, stop)
    step.done(f"{count:,} rows in {len(KEYS)} tables of ODS")
    _go_on(stop)
    step = Step("models")
    step.done(f"{pipeline.refresh()}")


def _warm_up(pipeline: Pipeline, source: Source, tables: Tables, changes: Iterator[Change], stop: Event) -> None:
    """Makes the first changes, and waits until all tables show them: the first increment prepares those that follow."""
    _go_on(stop)
    step, first = Step("warm-up"), list(islice(changes, _WARM_UP_CHANGES))
    count = pipeline.ods.changes + len(first)
    make(source, tables, first)
    _until(pipeline, count, stop)
    pipeline.refresh()
    step.done(f"{len(first)} changes")


def _until(pipeline: Pipeline, count: int, stop: Event) -> None:
    progress = Progress(pipeline)
    while pipeline.ods.changes < count:
        _go_on(stop, _LOOK_SECONDS)
        progress.check(has_more=True)


def _play(player: Player, pipeline: Pipeline, stop: Event) -> None:
    """Plays changes while the models follow, until the tables of DWS show all of them; prints a line each second."""
    loaded, quiet = pipeline.ods.changes, Event()
    progress, seconds, ages = Progress(pipeline), Seconds(player, pipeline), []
    pipeline.follow()
    playing = Worker("player", lambda: player.run(quiet))
    try:
        while phase := phase_of(playing.is_running, loaded + player.made, pipeline.ods.changes, pipeline.dws.changes):
            _go_on(stop, seconds.to_next())
            playing.check()
            progress.check(has_more=phase == DRAINING)
            age = seconds.show(phase)
            ages += [age] if age is not None and phase == PLAYING else []
        seconds.show(DONE)
    finally:
        quiet.set()
        playing.join()
    playing.check()
    print(
        f"\n{player.made:,} changes, {len(pipeline.passes) - seconds.passes} refreshes of the models{_ages(ages)}",
        flush=True,
    )


PLAYING, DRAINING, REFRESHING, DONE = "playing", "draining", "refreshing", "done"


def phase_of(is_playing: bool, made: int, in_ods: int, in_dws: int) -> str | None:
    """What goes on, by the changes that were made and those that tables have; None where all is done."""
    if is_playing:
        return PLAYING
    if in_ods < made:
        return DRAINING
    return REFRESHING if in_dws < made else None


class Seconds:
    """A line of the screen each second, from now on."""

    def __init__(self, player: Player, pipeline: Pipeline) -> None:
        self._player = player
        self._pipeline = pipeline
        self._loaded = pipeline.ods.changes
        self._rate = Rate(_RATE_SECONDS)
        self._passes = self.passes = len(pipeline.passes)
        self._began = time.monotonic()
        self._next = 1
        print(f"\n{screen.head()}", flush=True)

    def to_next(self) -> float:
        """Seconds until the next line is due; lines that are late are left out."""
        self._next = max(self._next, math.ceil(time.monotonic() - self._began))
        return self._began + self._next - time.monotonic()

    def show(self, phase: str) -> float | None:
        """Prints the line that is due; returns the age of the newest change that the tables of DWS show."""
        elapsed, self._next = time.monotonic() - self._began, self._next + 1
        ingested, age = self._pipeline.ods.changes - self._loaded, self._pipeline.dws.age(datetime.now(timezone.utc))
        rate = self._rate.at(elapsed, ingested)
        ended, self._passes = self._pipeline.passes[self._passes :], len(self._pipeline.passes)
        print(screen.second(elapsed, phase, self._player.made, ingested, rate, age, ended[-1:]), flush=True)
        return age


class Progress:
    """Whether ingestion goes on."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._changes, self._at = pipeline.ods.changes, time.monotonic()

    def check(self, has_more: bool) -> None:
        """Raises what ended a part of the pipeline, and StepError where there is more and nothing came for long."""
        self._pipeline.check()
        if not has_more or self._pipeline.ods.changes != self._changes:
            self._changes, self._at = self._pipeline.ods.changes, time.monotonic()
        if time.monotonic() - self._at > _STALLED_SECONDS:
            raise StepError(f"nothing was ingested for {_STALLED_SECONDS:.0f} s, after {self._changes:,} rows.")


def _is_exact(tables: Tables, pipeline: Pipeline, stop: Event) -> bool:
    _go_on(stop)
    print("\nODS and the source, row by row\n", flush=True)
    is_exact = compare(tables, pipeline.table)
    _go_on(stop)
    print("\narctic verify\n", flush=True)
    is_exact = pipeline.verify() and is_exact
    print(
        f"\n{'Every table is exact' if is_exact else 'NOT EXACT'}. The warehouse stays in {short(WAREHOUSE)}.",
        flush=True,
    )
    return is_exact


def _ages(ages: Sequence[float]) -> str:
    return f"; DWS was {statistics.median(ages):.1f} s old, {max(ages):.1f} s at most" if ages else ""


def _go_on(stop: Event, seconds: float = 0.0) -> None:
    """Waits for some seconds; raises Interrupted where the end is asked for."""
    if stop.wait(max(0.0, seconds)):
        raise Interrupted
