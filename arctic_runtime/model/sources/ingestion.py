"""Progress of a source of change data, as its dead letter table and the commits of its tables record it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    CAUGHT_UP,
    FAILURE,
    LEFT_STREAM,
    POSITION,
    SOURCE_TABLES,
    SOURCE_TIME,
    WAITING_TABLES,
)
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque


@dataclass(frozen=True)
class ChangeSource:
    """A source of change data: its name in the project, and its dead letter table, which has its progress too.

    Its batches are `trigger_seconds` apart. Whether it `can_load` tables anew, as databases can. `parse_position` reads
    its positions.
    """

    name: str
    dead_letters: TableName
    trigger_seconds: float = 0.0
    can_load: bool = False
    parse_position: ParsePosition = keep_opaque


@dataclass(frozen=True)
class Failure:
    """Why work on a source or a table fails or waits, in words for people, and since when."""

    message: str
    since: datetime

    def encode(self) -> str:
        """The text that a table keeps."""
        return json.dumps({"message": self.message, "since": to_millis(self.since)}, ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Failure | None:
        """The reverse of `encode`; None for an empty text."""
        if not text:
            return None
        fields = json.loads(text)
        return cls(fields["message"], time_of(fields["since"]))


@dataclass(frozen=True)
class Progress:
    """Progress of all tables of a source: a position of its transport, and times in UTC.

    `newest` is when the newest change that they have was made, None if no event tells it. `caught_up` is the newest
    time at which the source is known to have had nothing that they did not get. `tables` are their names in the source,
    with those of a snapshot that is under way; None if these are not known. `left` is as of when other tables, which
    are reloaded beside the stream, show the source. `failure` is why ingestion fails; it stays until a batch
    succeeds, whichever process reads that. `waits` is why tables have left the stream that nobody loads anew yet: they
    miss what comes meanwhile.
    """

    position: str | None = None
    newest: datetime | None = None
    caught_up: datetime | None = None
    tables: frozenset[str] | None = None
    left: Mapping[str, datetime] = field(default_factory=dict)
    failure: Failure | None = None
    waits: Mapping[str, Failure] = field(default_factory=dict)

    @property
    def as_of(self) -> datetime | None:
        """As of when the tables show the source: its newest change, or the last look that found nothing more."""
        return max(filter(None, (self.newest, self.caught_up)), default=None)

    def get_table_progress(self, table: str) -> Progress:
        """Progress of one table, by its name in the source.

        Of one that is loaded beside the stream now, that is the time as of which it left the stream, if it was in it.
        """
        if self.tables is None or table in self.tables:
            return self
        return Progress(caught_up=self.left.get(table), failure=self.failure)

    def set_stream(self, tables: frozenset[str], loaded: frozenset[str] = frozenset()) -> Progress:
        """The progress of a stream that has just these tables from now on; others that it had leave it.

        No table of the stream waits, and none of those that are `loaded` beside it.
        """
        waits = {table: why for table, why in self.waits.items() if table not in tables | loaded}
        left = {table: at for table, at in self.left.items() if table not in tables}
        if self.as_of is not None:
            left |= dict.fromkeys((self.tables or frozenset()) - tables, self.as_of)
        return replace(self, tables=tables, left=left, waits=waits)

    def remove_tables(self, waits: Mapping[str, Failure]) -> Progress:
        """The progress of a stream that some tables leave, to wait until they are reloaded."""
        rest = self.set_stream((self.tables or frozenset()) - frozenset(waits))
        return replace(rest, waits={**rest.waits, **waits})

    def advance_to(self, changes: Iterable[datetime | None], caught_up: datetime | None) -> Progress:
        """The progress with the times of more changes, and of another look at the source, as far as these are newer."""
        newest = max(filter(None, (self.newest, *changes)), default=None)
        return replace(self, newest=newest, caught_up=max(filter(None, (self.caught_up, caught_up)), default=None))

    def compute_lag_seconds(self, now: datetime) -> float | None:
        """Age of the data in seconds; None if nothing tells."""
        return None if self.as_of is None else max(0.0, (now - self.as_of).total_seconds())

    @classmethod
    def decode(cls, properties: Mapping[str, str]) -> Progress:
        """The progress in the properties of a dead letter table."""
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
        )

    def encode(self) -> dict[str, str]:
        """The properties, without those that are None."""
        times = {SOURCE_TIME: self.newest, CAUGHT_UP: self.caught_up}
        texts = {
            POSITION: self.position,
            **{key: None if at is None else str(to_millis(at)) for key, at in times.items()},
        }
        # Also where there is none: a property that is not set keeps what it had.
        texts[FAILURE] = "" if self.failure is None else self.failure.encode()
        if self.tables is not None:
            texts[SOURCE_TABLES] = json.dumps(sorted(self.tables), ensure_ascii=False)
            left = {table: to_millis(at) for table, at in sorted(self.left.items())}
            texts[LEFT_STREAM] = json.dumps(left, ensure_ascii=False)
            waits = {table: why.encode() for table, why in sorted(self.waits.items())}
            texts[WAITING_TABLES] = json.dumps(waits, ensure_ascii=False)
        return {key: text for key, text in texts.items() if text is not None}


@dataclass(frozen=True)
class SourceProgress:
    """The progress of a source, and the number of its dead letters that are kept.

    `ingested_until` is until when the process `ingested_by` may be silent before another one takes over; None if no
    process ever ingested the source. `requested` are the tables, by their names in the source, that somebody asked to
    have reloaded the table.
    """

    progress: Progress
    dead_letters: int
    ingested_by: str = ""
    ingested_until: datetime | None = None
    requested: frozenset[str] = frozenset()


def to_millis(at: datetime) -> int:
    """A time as tables keep it, in milliseconds since 1970."""
    return round(at.timestamp() * 1000)


def time_of(millis_since_1970: int) -> datetime:
    """The reverse of `to_millis`, in UTC."""
    return datetime.fromtimestamp(millis_since_1970 / 1000, timezone.utc)


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else time_of(int(text))
