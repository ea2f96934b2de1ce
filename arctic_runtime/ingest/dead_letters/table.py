"""The dead letter table of a source: events that could not be applied, as text, and the progress of the source."""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.lease import walk_main_branch
from arctic_runtime.catalog.observation.manifests import list_upper_bounds, observe_upper_bound
from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect, retry_on_conflict
from arctic_runtime.errors import CommitConflict, DataError
from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode_events import PART, REASON
from arctic_runtime.ingest.writing.records import DeadLetters
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.expiry import ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    FAILURE,
    LOADING_TABLES,
    POSITION,
    RESYNC_PREFIX,
    SOURCE_SETTINGS,
)
from arctic_runtime.model.sources.ingestion import (
    Failure,
    LoadProgress,
    Progress,
    SourceProgress,
    encode_loading,
)
from arctic_runtime.model.version import Version
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, type_name
from arctic_runtime.spark.tables.commit import (
    build_isolation_options,
    build_summary_options,
    perform_statement,
    replace_rows,
    set_properties,
)
from arctic_runtime.spark.tables.internal import InternalTable, create_internal_table
from arctic_runtime.spark.tables.rows.frames import combine_all, conform_frame, read_table
from arctic_runtime.spark.tables.steps import expire_snapshots

if TYPE_CHECKING:
    from pyiceberg.table import Table


DeadLetterId = tuple[int, int, int]
"""The id of a row of a dead letter table: read time in microseconds since 1970, `part`, and `number`.

`part` is the index of the changed row in an event with several rows, else -1; `number` is higher for later events.
"""


def encode_schema(schema: SourceSchema) -> str:
    """Encodes a schema as JSON, to be stored with a dead letter."""
    return json.dumps(asdict(schema), separators=(",", ":"))


def decode_schema(text: str) -> SourceSchema:
    """Decodes a schema from JSON that `encode_schema` wrote."""
    read = json.loads(text)
    columns = tuple(map(_decode_column, read["columns"]))
    return SourceSchema(columns, tuple(read["key"]), read.get("is_key_chosen", False))


def _decode_column(fields: Mapping[str, Any]) -> SourceColumn:
    older = fields.get("older_rows")
    read = {**fields, "labels": tuple(fields["labels"]), "older_rows": OlderRows(**older) if older else None}
    return SourceColumn(**read)


def encode_version(version: Version | None) -> str:
    """Encodes a table's version as text, to be stored with a dead letter; empty for None (the table does not exist)."""
    return "" if version is None else f"{version.table} {version.sequence}"


def decode_version(text: str) -> tuple[str, int] | None:
    """Decodes text of `encode_version` to the table's UUID and the sequence number; None if the table did not exist."""
    table, _, sequence = text.partition(" ")
    return (table, int(sequence)) if table else None


def encode_ids(ids: Sequence[DeadLetterId]) -> str:
    """Encodes the ids of dead letters as JSON for the summary of a commit; consecutive numbers become one range."""
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, part, number in sorted(ids):
        numbers[at, part].append(number)
    entries = [[at, part, list(_to_ranges(own))] for (at, part), own in numbers.items()]
    return json.dumps(entries, separators=(",", ":"))


def decode_ids(text: str) -> set[DeadLetterId]:
    """Decodes the ids of dead letters from JSON that `encode_ids` wrote."""
    ranges = ((at, part, first, last) for at, part, own in json.loads(text) for first, last in own)
    return {(at, part, number) for at, part, first, last in ranges for number in range(first, last + 1)}


def _to_ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and last number of each run of consecutive numbers."""
    indexes = count()
    for _, run in groupby(numbers, key=lambda number: number - next(indexes)):
        members = list(run)
        yield members[0], members[-1]


COLUMNS = (
    Column("table", "string"),
    Column("reason", "string"),
    Column("payload", "binary"),
    Column("origin", "string"),
    Column("at", "timestamp"),
    Column("number", "bigint"),
    Column("part", "int"),
    Column("position", "string"),
    Column("arrival", "bigint"),
    Column("since", "string"),
    Column("schema", "string"),
)
"""Columns of a dead letter table.

`table` is the table's name in the source, `reason` why the event could not be applied, `payload` its bytes, `origin`
its position in the source as text for people, and `at` the time when it was read. The other columns order the event
among others, and are null in rows that are older than these columns. `number` is higher for later events. `part` is the
index of the row that could not be applied, if the event has several. `position` is the end of the event's batch, and
`arrival` the event's number in the batch. `since` is the table's version before the batch (`encode_version`), and
`schema` the event's schema if the transport knew it (`encode_schema`).
"""

_SAME = ("table", "payload", "origin")
"""Columns that identify an event, together with `part`; dead letters of the same event replace one another."""


class DeadLetterTable:
    """The dead letter table of a source, in whose table properties the source's progress is stored.

    The progress (position, tables, failures) is written after the commits to the source's tables.
    """

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark

    def read_progress(self) -> Progress:
        """Reads the progress of the source; it is empty before the first batch. Needs no Spark."""
        return self._observe_source().progress

    def count_dead_letters(self) -> int:
        """Number of dead letters in the table. Needs no Spark."""
        return self._observe_source().dead_letters

    def list_reasons(self, max_reasons: int) -> list[str]:
        """Lists the `max_reasons` most frequent reasons of dead letters, as texts `TABLE: REASON (COUNT)`."""
        _, dead_letters = self.read_dead_letters()
        counts = (
            dead_letters.groupBy("table", "reason")
            .count()
            .orderBy(F.desc("count"), "table", "reason")
            .limit(max_reasons)
        )
        return [f"{table}: {reason} ({count:,})" for table, reason, count in counts.collect()]

    def check_limit(self, source: str, max_letters: int | None, shown: int) -> None:
        """Raises DataError if the table has more than `max_letters` dead letters; None allows any number.

        The error names the source `source` and the `shown` most frequent reasons.
        """
        count = 0 if max_letters is None else self.count_dead_letters()
        if max_letters is not None and count > max_letters:
            raise DataError(
                f"source {source}: events can't be applied, and ingestion stopped; the events before them are applied.",
                expected=f"no more than {max_letters} dead letters (`dead_letters`)",
                actual=f"{count} in {self.table}: {'; '.join(self.list_reasons(shown))}",
                fix=(
                    "correct the source or the declared columns and apply them with "
                    f"`arctic ingest {source} --replay-dead`, delete the rows from that table, or set "
                    "`dead_letters: any` to keep any number of them"
                ),
            )

    def find_newest_number(self) -> int:
        """Returns an upper bound of the numbers of the stored dead letters; 0 if there are none. Needs no Spark."""
        return observe_upper_bound(self._reader, self.table, "number") or 0 if self._load_table() is not None else 0

    def create_or_widen(self) -> None:
        """Creates the dead letter table without rows if it does not exist; otherwise adds its missing columns."""
        retry_on_conflict(self._create_or_widen_once, self._reader.thresholds.commits.attempts)

    def _create_or_widen_once(self) -> None:
        table = self._load_table()
        if table is None or not table.metadata.snapshots:
            empty = self._spark().createDataFrame([], ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS))
            internal = InternalTable(self.table, "dead letters")
            create_internal_table("ingest.create_dead_letters", self._reader, internal, empty)
            return
        for missing in COLUMNS:
            if missing.name not in table.schema().column_names:
                parts = {"table": quote_name(*self.table.parts), "column": quote_name(missing.name)}
                add = fill_statement(
                    "ALTER TABLE {table} ADD COLUMN {column} {kind}", **parts, kind=type_name(missing.type)
                )
                perform_statement("ingest.widen_dead_letters", self._spark(), add)

    def list_requested_tables(self) -> frozenset[str]:
        """Returns the names, in the source, of the tables that a user has requested to load again. Needs no Spark."""
        return self._observe_source().requested

    def save_progress(self, progress: Progress, loaded: frozenset[str] = frozenset()) -> None:
        """Saves the progress of the source, and removes the users' requests to load the tables `loaded` again."""
        answered = self.list_requested_tables() & loaded if loaded else frozenset()
        texts = {**progress.encode(), **{f"{RESYNC_PREFIX}{table}": "" for table in answered}}
        set_properties("ingest.advance", self._spark(), self.table, texts)

    def save_settings(self, settings: Mapping[str, Any]) -> None:
        """Saves the settings with which the source is ingested from now on, which must have no secrets."""
        if settings != self._observe_source().settings:
            text = json.dumps(settings, ensure_ascii=False)
            set_properties("ingest.advance", self._spark(), self.table, {SOURCE_SETTINGS: text})

    def save_loading(self, loading: Mapping[str, LoadProgress]) -> None:
        """Saves the rows of loads under way, which `save_progress` saves too."""
        set_properties("ingest.advance", self._spark(), self.table, {LOADING_TABLES: encode_loading(loading)})

    def save_failure(self, message: str) -> Failure:
        """Saves the message of a failed ingestion until `save_progress` clears it.

        Returns the message with the time of the first failure since the last progress.
        """
        known = self.read_progress().failure
        since = known.since if known is not None else datetime.datetime.now(datetime.timezone.utc)
        failure = Failure(message, since)
        if failure != known:
            set_properties("ingest.fail", self._spark(), self.table, {FAILURE: failure.encode()})
        return failure

    def clear_matching_failure(self, message: str) -> None:
        """Clears the saved failure if its message is `message`; otherwise the failure stays."""
        known = self.read_progress().failure
        if known is not None and known.message == message:
            set_properties("ingest.fail", self._spark(), self.table, {FAILURE: ""})

    def add_dead_letters(self, letters: DeadLetters, source_table: str, position: str, now: datetime.datetime) -> None:
        """Adds to the table those of a batch's decoded events that could not be applied.

        `position` is the end of the batch, `now` the time at which it was read. If a process dies after this, another
        one reads the events again, perhaps in another batch; the same dead letters are then replaced, not added twice.
        If an event truncates the source's table, the dead letters of that table from before the truncate are dropped.
        Old snapshots of the dead letter table are expired if it has many.
        """
        retry_on_conflict(
            lambda: self._add_once(letters, source_table, position, now), self._reader.thresholds.commits.attempts
        )
        self._expire_old_snapshots()

    def _add_once(self, letters: DeadLetters, source_table: str, position: str, now: datetime.datetime) -> None:
        table = self._load_table()
        assert table is not None
        snapshot, stored = self._read_newest(table)
        bounds = list_upper_bounds(table, "number")
        first_number = max((bound for bound in bounds if bound is not None), default=0) + 1
        number = F.col(ARRIVAL) + F.lit(first_number).cast("bigint")
        values = {
            "table": F.lit(source_table),
            "reason": F.col(REASON),
            "payload": F.col(PAYLOAD).cast("binary"),
            "origin": F.col(ORIGIN),
            "at": F.lit(now).cast("timestamp"),
            "number": number,
            "part": F.col(PART),
            "position": F.lit(position),
            "arrival": F.col(ARRIVAL),
            "since": F.lit(encode_version(letters.version_before)),
            "schema": F.lit(None if letters.schema is None else encode_schema(letters.schema)),
        }
        dead = letters.decoded.where(F.col(REASON).isNotNull())
        if letters.truncated_at is not None:
            dead = dead.where(F.col(ARRIVAL) > letters.truncated_at)
        rows = dead.select(*[values[column.name].cast(column.type).alias(column.name) for column in COLUMNS])
        is_same = combine_all([rows[own].eqNullSafe(stored[own]) for own in _SAME])
        is_same &= stored["part"].isNull() | rows["part"].eqNullSafe(stored["part"])
        if self.count_dead_letters() and letters.truncated_at is not None:
            self._overwrite_rows(stored.where(F.col("table") != source_table).unionByName(rows), snapshot)
        elif self.count_dead_letters() and not stored.join(rows, is_same, "left_semi").isEmpty():
            self._overwrite_rows(stored.join(rows, is_same, "left_anti").unionByName(rows), snapshot)
        elif None in bounds:
            # Iceberg can't tell that a file of an earlier version, without numbers, has none of the new ones.
            self._overwrite_rows(stored.unionByName(rows), snapshot)
        else:
            self._append_rows(rows, snapshot, first_number, position)

    def _append_rows(self, rows: DataFrame, snapshot: int, first_number: int, position: str) -> None:
        """Appends `rows`, whose numbers begin with `first_number`.

        Raises CommitConflict if other dead letters were added since `snapshot`. Their numbers begin with the same one,
        so the commit overwrites the rows with such numbers: there are none, and Iceberg refuses it if some were added.
        """
        options = {**build_summary_options({POSITION: position}), **build_isolation_options(snapshot)}
        writer = rows.writeTo(quote_name(*self.table.parts)).options(**options)
        what, is_new = f"append dead letters to {self.table}", F.col("number") >= F.lit(first_number).cast("bigint")
        perform_effect("ingest.append_dead_letters", lambda: writer.overwrite(is_new), what, SPARK)

    def _expire_old_snapshots(self) -> None:
        """Expires old snapshots if there are many; those of branches and tags stay.

        If another writer is faster, the next dead letters expire them.
        """
        limits, table = self._reader.thresholds.ingest, self._load_table()
        if table is None or len(table.metadata.snapshots) <= limits.dead_letter_snapshots:
            return
        newest = [snapshot.snapshot_id for snapshot in walk_main_branch(table)][: limits.kept_dead_letter_snapshots]
        kept = {*newest, *(ref.snapshot_id for ref in table.metadata.refs.values())}
        ids = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
        if old := tuple(snapshot for snapshot in ids if snapshot not in kept):
            with suppress(CommitConflict):
                expire_snapshots(ExpireSnapshots(self.table, old), self._spark())

    def read_dead_letters(self) -> tuple[int, DataFrame]:
        """Returns the id of the table's newest snapshot, and all rows of that snapshot, with all COLUMNS."""
        table = self._load_table()
        assert table is not None
        return self._read_newest(table)

    def _read_newest(self, table: Table) -> tuple[int, DataFrame]:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        rows = read_table(self._spark(), self.table, snapshot.snapshot_id)
        return snapshot.snapshot_id, conform_frame(rows, COLUMNS)

    def replace_dead_letters(self, source_table: str, rows: DataFrame, snapshot: int) -> None:
        """Replaces the dead letters of one source table by `rows`, which have all COLUMNS.

        Raises CommitConflict if dead letters were added or removed since `snapshot`.
        """
        stored = conform_frame(read_table(self._spark(), self.table, snapshot), COLUMNS)
        self._overwrite_rows(stored.where(F.col("table") != source_table).unionByName(rows), snapshot)

    def drop_dead_letters(self, source_tables: Collection[str], until: int | None = None) -> None:
        """Drops the dead letters of `source_tables`, since a new snapshot of these tables replaces them.

        `until` limits this to dead letters with this number or a lower one.
        """
        is_old = F.lit(True) if until is None else F.coalesce(F.col("number"), F.lit(0)) <= until
        is_dropped = F.col("table").isin(*source_tables) & is_old

        def drop_once() -> None:
            snapshot, stored = self.read_dead_letters()
            self._overwrite_rows(stored.where(~is_dropped), snapshot)

        if self.count_dead_letters():
            retry_on_conflict(drop_once, self._reader.thresholds.commits.attempts)

    def _overwrite_rows(self, rows: DataFrame, snapshot: int) -> None:
        replace_rows("ingest.rewrite_dead_letters", rows, self.table, snapshot, f"rewrite {self.table}")

    def _observe_source(self) -> SourceProgress:
        return observe_progress(self._reader, self.table) or SourceProgress(Progress(), 0)

    def _load_table(self) -> Table | None:
        if self._reader.list_relations(self.table.schema).get(self.table.name) != "table":
            return None
        return self._reader.load_table(self.table.schema, self.table.name)
