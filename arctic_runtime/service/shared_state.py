"""What the parts of a service share: warehouse, clock, tables, jobs, events, its own state, and pauses by users."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from arctic_runtime.catalog.heads import ObservedHeads, SharedHeads
from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused, ServiceTable
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.service.cron_schedules import Scheduled
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.refreshing.source_relations import FollowedModel, Readings
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.service.view.live_data import ServiceState
from arctic_runtime.spark.engine.session_pool import SessionPool


class SharedState:
    """The tables that a service maintains, the models that it refreshes, and their jobs; may be used by any thread.

    `say` is called with lines for people. Each change of a job, and of the service itself, becomes an event.
    """

    def __init__(
        self, reader: CatalogReader, say: Callable[[str], None] = lambda _: None, project: str = "", version: str = ""
    ) -> None:
        self.reader = reader
        self.heads = SharedHeads(reader)
        self.events = EventLog(reader.thresholds.service.events)
        self.jobs = JobBoard(self.events, reader.thresholds.service)
        self._say = say
        self._lock = threading.RLock()
        self._state = ServiceState(datetime.now(timezone.utc), version, project, "starting")
        self._writing: set[TableName] = set()
        self.models: Mapping[TableName, Model] = {}
        self.followed: tuple[FollowedModel, ...] = ()
        self.scheduled: tuple[Scheduled, ...] = ()
        self.paused = Paused()
        self.readable: Collection[TableName] = ()
        self.held: Collection[TableName] = ()
        self.sources: tuple[ProjectSource, ...] = ()
        self._expected: frozenset[TableName] = frozenset()
        self._absent: frozenset[TableName] = frozenset()
        self._read: tuple[tuple[FollowedModel, ...], Readings] | None = None

    # The service itself

    def get_state(self) -> ServiceState:
        return self._state

    def change_state(self, **changed: Any) -> None:
        """Changes fields of the service's state, updates the list of paused tables in it, and appends an event."""
        with self._lock:
            paused = self.paused
            self._state = replace(
                self._state,
                **changed,
                is_paused=paused.everything,
                paused_tables=self._list_tables_named(paused.tables),
                paused_upkeep=self._list_tables_named(paused.upkeep),
            )
        self.events.append_event("service", self._state)

    def record_check(self, at: datetime) -> None:
        """Records the time at which all tables were last checked; appends no event."""
        with self._lock:
            self._state = replace(self._state, looked_at=at)

    def set_error(self, part: str, message: str, has_ended: bool = False) -> None:
        """Shows the error of a part of the service; an empty `message` clears it.

        `has_ended` is whether the part has ended without being stopped; until its error changes, the service is
        not ready.
        """
        with self._lock:
            errors, ended = dict(self._state.errors), {*self._state.ended_parts}
            known = errors.get(part, ""), part in ended
            if known == (message, has_ended):
                return
            errors[part] = message
            ended = ended | {part} if has_ended else ended - {part}
            shown = {name: text for name, text in errors.items() if text}
            self.change_state(errors=shown, ended_parts=tuple(sorted(ended)))

    def clear_end(self, part: str) -> None:
        """Clears the error of a part that had ended (`has_ended`), and runs again; keeps any other error."""
        with self._lock:
            if part in self._state.ended_parts:
                self.set_error(part, "")

    def report_error(self, part: str, message: str) -> None:
        """Sets the error of a part like `set_error`, and calls `say` with it if it is a new error."""
        if message and self._state.errors.get(part) != message:
            self._say(f"{part}: {message}")
        self.set_error(part, message)

    def _list_tables_named(self, names: Collection[str]) -> tuple[TableName, ...]:
        return tuple(sorted(table for table in self.models if str(table) in names))

    # Tables

    def set_tables(
        self,
        followed: Sequence[FollowedModel],
        others: Sequence[Model],
        sources: Sequence[ProjectSource] = (),
        scheduled: Sequence[Scheduled] = (),
    ) -> None:
        """Replaces the tables of the service: those of refreshed models, and `others` that are only maintained.

        `sources` are those that are ingested, and `scheduled` the models that dbt runs.
        """
        self.models = {model.table: model for model in others} | {model.table: model.model for model in followed}
        self.followed = tuple(followed)
        self.scheduled = tuple(scheduled)
        self.sources = tuple(sources)
        self._expected = frozenset(table for source in sources for table in source.tables)
        self._absent = (self._expected & self.models.keys()) - set(self.readable)

    def has_new_tables(self) -> bool:
        """Whether ingestion has created expected tables, or holds back their first load, since `models` were set."""
        readable = set(self.readable)
        unknown = (self._expected & (readable | set(self.held))) - self.models.keys()
        return bool(unknown or self._absent & readable)

    def list_busy_tables(self) -> Collection[TableName]:
        """Returns the tables to which refreshes are writing at present."""
        with self._lock:
            return tuple(self._writing)

    def begin_writing(self, table: TableName) -> None:
        with self._lock:
            self._writing.add(table)

    def end_writing(self, table: TableName) -> None:
        with self._lock:
            self._writing.discard(table)

    def is_paused(self, table: TableName) -> bool:
        """Whether users paused a table."""
        return self.paused.everything or str(table) in self.paused.tables

    def is_waiting(self, table: TableName) -> bool:
        """Whether a model must not be refreshed: it is paused, or ingestion has not created a table that it reads."""
        if self.is_paused(table):
            return True
        missing = self._expected - set(self.readable)
        return bool(missing) and any(model.table == table and model.declared & missing for model in self.followed)

    def is_upkeep_paused(self, table: TableName) -> bool:
        """Whether users paused a table, or the upkeep of its files."""
        return self.is_paused(table) or str(table) in self.paused.upkeep

    def find_table(self, name: str) -> TableName:
        """Returns the table named `name`, with or without catalog and schema.

        Raises ConfigError if no table or several tables match.
        """
        matches = list_named_tables(name, self.models)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ConfigError(f"{name!r} is the name of several tables: {', '.join(map(str, matches))}")
        raise ConfigError(
            f"no table of the project is named {name!r}{suggest_nearest(name, [table.name for table in self.models])}"
        )

    def list_reads(self) -> Mapping[TableName, Collection[TableName]]:
        """Maps each model to the tables that it reads, directly and through views."""
        followed = self.followed
        if self._read is None or self._read[0] is not followed:
            self._read = (followed, Readings(followed, partial(read_view_sql, self.reader)))
        readings = self._read[1]
        observed = self._observe_heads(readings)
        while readings.resolve_views(observed.heads, observed.views):
            observed = self._observe_heads(readings)
        return {table: reading.tables - {table} for table, reading in readings.by_model.items()}

    def _observe_heads(self, readings: Readings) -> ObservedHeads:
        age = self.reader.thresholds.service.poll_seconds
        return self.heads.get_recent("reads", readings.list_all_relations(), age)


def list_named_tables(name: str, tables: Collection[TableName]) -> list[TableName]:
    """Returns those of `tables` that match `name`, which may leave out the catalog, or the catalog and the schema."""
    matches = [table for table in tables if name in (str(table), f"{table.schema}.{table.name}")]
    return matches or [table for table in tables if name == table.name]


class Repeats:
    """The last message about each subject, to recognise repeated ones; for use by one thread."""

    def __init__(self) -> None:
        self._messages: dict[Hashable, str] = {}

    def is_new(self, subject: Hashable, message: str) -> bool:
        """Records a message; returns whether it differs from the last one about `subject`.

        The first message about a subject, or the first since `clear_subject`, is new.
        """
        is_new = self._messages.get(subject) != message
        self._messages[subject] = message
        return is_new

    def clear_subject(self, subject: Hashable) -> None:
        """Removes the stored message about a subject, since the subject works again."""
        self._messages.pop(subject, None)


@dataclass(frozen=True)
class Clock:
    """Source of the current time; tests pass their own functions.

    `monotonic` returns seconds that never go back, and `time` returns seconds since 1970.
    """

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time

    def read_local(self) -> datetime:
        """Returns the local date and time of the service's machine, without a time zone."""
        return datetime.fromtimestamp(self.time())


SYSTEM_CLOCK = Clock()


@dataclass(frozen=True)
class ServiceWarehouse:
    """The catalog reader, a pool of Spark sessions, and the table in which services store their own state."""

    reader: CatalogReader
    sessions: SessionPool
    service_table: ServiceTable
