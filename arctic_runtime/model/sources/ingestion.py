"""Progress of ingestion of a source, stored in properties of its dead letter table, and advice if it can't go on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    CAUGHT_UP,
    FAILURE,
    LEFT_STREAM,
    LOADING_TABLES,
    POSITION,
    SOURCE_TABLES,
    SOURCE_TIME,
    WAITING_TABLES,
)
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque


@dataclass(frozen=True)
class ChangeSource:
    """A source of change data, which a process ingests in batches."""

    name: str
    """Name of the source in the project."""

    dead_letters: TableName
    """The source's dead letter table, which also stores its progress."""

    trigger_seconds: float = 0.0
    """Seconds between the begins of two batches."""

    can_load: bool = False
    """True if single tables of the source can be loaded again, as those of a database."""

    parse_position: ParsePosition = keep_opaque
    """Parses positions in the source's changes, to compare and show them."""


@dataclass(frozen=True)
class Failure:
    """Reason for which ingestion of a source or a table fails or waits, as a text for users, and its first time."""

    message: str
    since: datetime
    is_rechecked: bool = False
    """True if ingestion itself finds out that the reason is gone; else the table waits until a user has it loaded."""

    def encode(self) -> str:
        """Returns the failure as JSON, which a table property stores."""
        rechecked = {"rechecked": True} if self.is_rechecked else {}
        fields = {"message": self.message, "since": to_millis(self.since), **rechecked}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Failure | None:
        """Parses JSON of `encode`; None for an empty text."""
        if not text:
            return None
        fields = json.loads(text)
        return cls(fields["message"], time_of(fields["since"]), fields.get("rechecked", False))


@dataclass(frozen=True)
class LoadProgress:
    """Progress of the load of a table: of its first one, or of one that reads all of its rows again."""

    rows: int = 0
    """Number of rows that were read so far."""

    estimate: int | None = None
    """Estimated number of rows that the table has at the source; None if it is not known."""

    shown: datetime | None = None
    """Time as of which the table shows the source until the load ends; None if it has never been loaded in full."""

    def describe_rows(self) -> str:
        """Describes the rows for users, such as `167 of about 1,000 rows`."""
        if self.estimate is None:
            return f"{self.rows:,} rows so far"
        return f"{self.rows:,} of about {self.estimate:,} rows"

    def encode(self) -> list[int | None]:
        """Returns the progress as a list for JSON, which a table property stores."""
        return [self.rows, self.estimate, None if self.shown is None else to_millis(self.shown)]

    @classmethod
    def decode(cls, parts: Sequence[Any]) -> LoadProgress:
        """Reads a list of `encode`."""
        rows, estimate, shown = parts
        return cls(rows, estimate, None if shown is None else time_of(shown))


@dataclass(frozen=True)
class Progress:
    """Progress of the tables of a source; tables are identified by their names in the source, and times are in UTC."""

    position: str | None = None
    """Position up to which the source's stream of changes is committed."""

    newest: datetime | None = None
    """Time of the newest change that the tables contain; None if no event has a time."""

    caught_up: datetime | None = None
    """Newest time at which the tables are known to have contained all changes of the source."""

    tables: frozenset[str] | None = None
    """Tables that the stream keeps up to date, with those of a running snapshot; None if they are not known."""

    left: Mapping[str, datetime] = field(default_factory=dict)
    """Tables that were removed from the stream to be loaded again, with the time up to which each has all changes."""

    failure: Failure | None = None
    """Reason for which ingestion fails; it stays until a batch succeeds in any process."""

    waits: Mapping[str, Failure] = field(default_factory=dict)
    """Tables that were removed from the stream, with the reason.

    They get no changes until a user has them loaded again, or until ingestion finds that the reason is gone.
    """

    loading: Mapping[str, LoadProgress] = field(default_factory=dict)
    """Tables of which a load has not ended, in the stream's snapshot or alongside the stream."""

    @property
    def as_of(self) -> datetime | None:
        """Time up to which the tables have all changes of the source: the later of `newest` and `caught_up`.

        None if both are None.
        """
        return max(filter(None, (self.newest, self.caught_up)), default=None)

    def get_table_progress(self, table: str, newest: datetime | None = None) -> Progress:
        """Returns the progress of one table, by its name in the source; `newest` is the time of its newest change.

        A table that is not in the stream has all changes up to the time at which it was removed from the stream; the
        time is None if it never was in the stream. While a table is loaded, its newest change says nothing, since the
        table lacks rows that the source had before.
        """
        if (load := self.loading.get(table)) is not None:
            return Progress(caught_up=load.shown, failure=self.failure)
        if self.tables is None or table in self.tables:
            return self.advance_to([newest], None)
        return Progress(caught_up=self.left.get(table), failure=self.failure).advance_to([newest], None)

    def set_stream(self, tables: frozenset[str], loaded: frozenset[str] = frozenset()) -> Progress:
        """Returns the progress of a stream of exactly `tables`; other tables move to `left`.

        `tables`, and the tables in `loaded`, which are loaded alongside the stream, are removed from `waits`.
        """
        waits = {table: why for table, why in self.waits.items() if table not in tables | loaded}
        left = {table: at for table, at in self.left.items() if table not in tables}
        if self.as_of is not None:
            left |= dict.fromkeys((self.tables or frozenset()) - tables, self.as_of)
        return replace(self, tables=tables, left=left, waits=waits)

    def remove_tables(self, waits: Mapping[str, Failure]) -> Progress:
        """Returns the progress with the tables in `waits` removed from the stream; they wait to be loaded again.

        `waits` maps their names in the source to the reasons.
        """
        rest = self.set_stream((self.tables or frozenset()) - frozenset(waits))
        return replace(rest, waits={**rest.waits, **waits})

    def remove_unsent(self, unsent: Collection[str], waits: Mapping[str, Failure]) -> Progress:
        """Returns the progress without the tables `unsent`, whose changes the source does not send to the stream.

        Those in `waits` wait for the given reasons, which ingestion checks again, and no other table waits for such a
        reason any more.
        """
        rest = self if self.tables is None else self.set_stream(self.tables - frozenset(unsent))
        kept = {table: wait for table, wait in rest.waits.items() if not wait.is_rechecked}
        since = {table: wait.since for table, wait in rest.waits.items() if wait.is_rechecked}
        new = {table: replace(wait, since=since.get(table, wait.since)) for table, wait in waits.items()}
        return replace(rest, waits={**kept, **new})

    def advance_to(self, changes: Iterable[datetime | None], caught_up: datetime | None) -> Progress:
        """Returns the progress with `newest` and `caught_up` moved forward; times that are older change nothing.

        `changes` are the times of further changes that the tables contain, None for an unknown time. `caught_up` is a
        time at which the tables contained all changes of the source; None if no such time is known.
        """
        newest = max(filter(None, (self.newest, *changes)), default=None)
        return replace(self, newest=newest, caught_up=max(filter(None, (self.caught_up, caught_up)), default=None))

    def compute_lag_seconds(self, now: datetime) -> float | None:
        """Age of the tables' data in seconds at the time `now`: `now` less `as_of`; None if `as_of` is not known."""
        return None if self.as_of is None else max(0.0, (now - self.as_of).total_seconds())

    @classmethod
    def decode(cls, properties: Mapping[str, str]) -> Progress:
        """Reads the progress from the properties of a dead letter table."""
        tables = properties.get(SOURCE_TABLES)
        waits = json.loads(properties.get(WAITING_TABLES, "{}"))
        return cls(
            properties.get(POSITION),
            _parse_time(properties.get(SOURCE_TIME)),
            _parse_time(properties.get(CAUGHT_UP)),
            None if tables is None else frozenset(json.loads(tables)),
            {table: time_of(at) for table, at in json.loads(properties.get(LEFT_STREAM, "{}")).items()},
            Failure.decode(properties.get(FAILURE, "")),
            {table: why for table, text in waits.items() if (why := Failure.decode(text)) is not None},
            {
                table: LoadProgress.decode(parts)
                for table, parts in json.loads(properties.get(LOADING_TABLES, "{}")).items()
            },
        )

    def encode(self) -> dict[str, str]:
        """Returns the progress as properties of a dead letter table, without those that are None."""
        times = {SOURCE_TIME: self.newest, CAUGHT_UP: self.caught_up}
        texts = {
            POSITION: self.position,
            **{key: None if at is None else str(to_millis(at)) for key, at in times.items()},
        }
        # They are also set if there is no failure and no load: a property that is not set keeps its old value.
        texts[FAILURE] = "" if self.failure is None else self.failure.encode()
        texts[LOADING_TABLES] = encode_loading(self.loading)
        if self.tables is not None:
            texts[SOURCE_TABLES] = json.dumps(sorted(self.tables), ensure_ascii=False)
            left = {table: to_millis(at) for table, at in sorted(self.left.items())}
            texts[LEFT_STREAM] = json.dumps(left, ensure_ascii=False)
            waits = {table: why.encode() for table, why in sorted(self.waits.items())}
            texts[WAITING_TABLES] = json.dumps(waits, ensure_ascii=False)
        return {key: text for key, text in texts.items() if text is not None}


@dataclass(frozen=True)
class SourceProgress:
    """Progress of a source, and the process that ingests it."""

    progress: Progress
    dead_letters: int
    """Number of events that could not be applied, and are kept in the source's dead letter table."""

    ingested_by: str = ""
    """The process that ingests the source; empty if no process ever did."""

    ingested_until: datetime | None = None
    """Time at which that process counts as ended, unless it renews its lease; None if no process ever did."""

    requested: frozenset[str] = frozenset()
    """Tables that a user asked to load again, by their names in the source."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which the source was ingested last, with secrets masked; empty if they are not known."""


def encode_loading(loading: Mapping[str, LoadProgress]) -> str:
    """Returns `Progress.loading` as JSON, which a table property stores."""
    return json.dumps({table: load.encode() for table, load in sorted(loading.items())}, ensure_ascii=False)


def to_millis(at: datetime) -> int:
    """Converts a time to milliseconds since 1970, as tables store it."""
    return round(at.timestamp() * 1000)


def time_of(millis_since_1970: int) -> datetime:
    """Converts milliseconds since 1970 to a time in UTC."""
    return datetime.fromtimestamp(millis_since_1970 / 1000, timezone.utc)


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else time_of(int(text))


def advise_resync(table: TableName) -> str:
    """Returns advice to have an ingested table of a database loaded again."""
    return (
        f"`arctic resync {table.name}`, or Resync on the page of the table, has it read again, also while a process "
        "ingests the source; what differs is published"
    )


def advise_reset(table: TableName) -> str:
    """Returns advice to make an ingested table of a database anew, with the columns and the key of its source."""
    return f"`arctic reset {table.name} --yes`, then `arctic resync {table.name}`"
