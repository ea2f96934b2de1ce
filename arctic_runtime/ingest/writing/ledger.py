"""The dead letter table of a source: events that could not be applied, and how far all of its tables are."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.manifests import observe_upper_bound
from arctic_runtime.catalog.observe import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect, retry_on_conflict
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode import PART, REASON
from arctic_runtime.ingest.writing.letters import Letters, schema_text, since_text
from arctic_runtime.model.columns import Column
from arctic_runtime.model.ingestion import Failure, Progress
from arctic_runtime.model.layout import KEPT_METADATA
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FAILURE, POSITION, RESYNC_PREFIX
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, type_name
from arctic_runtime.spark.tables.commit import (
    build_isolation_options,
    build_summary_options,
    perform_statement,
    set_properties,
)
from arctic_runtime.spark.tables.frames import combine_all, conform_frame, read_table
from arctic_runtime.spark.tables.internal import create_internal_writer

if TYPE_CHECKING:
    from pyiceberg.table import Table

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
"""Columns of a dead letter table: the source's table, why the event could not be applied, its bytes as they came, where
the source has them, and when they were read. The others tell its place among events, and are null where a table was
made without them: a number that is higher for later ones, which row of an event of several is meant, the position of
its batch and its place there, the table's version before it (`since_text`), and its schema where its transport told it
(`schema_text`)."""

_SAME = ("table", "payload", "origin")
"""What identifies an event, with `part`."""


class Ledger:
    """The dead letter table of a source. Its properties hold the progress, which is written after every table's."""

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark

    def progress(self) -> Progress:
        """The progress of the source; none before the first batch. Needs no Spark."""
        found = observe_progress(self._reader, self.table)
        return found.progress if found else Progress()

    def dead(self) -> int:
        """The number of dead letters that are kept. Needs no Spark."""
        found = observe_progress(self._reader, self.table)
        return found.dead_letters if found else 0

    def reasons(self, most: int) -> list[str]:
        """The most frequent reasons of dead letters, as `TABLE: REASON (COUNT)`."""
        _, kept = self.read()
        found = kept.groupBy("table", "reason").count().orderBy(F.desc("count"), "table", "reason").limit(most)
        return [f"{table}: {reason} ({count:,})" for table, reason, count in found.collect()]

    def newest(self) -> int:
        """A number that no dead letter has a higher one than; 0 for none. Needs no Spark."""
        return observe_upper_bound(self._reader, self.table, "number") or 0 if self._load() is not None else 0

    def ensure(self) -> None:
        """Creates the table, without rows, where there is none; adds columns that it was made without."""
        table = self._load()
        if table is None:
            empty = self._spark().createDataFrame([], ", ".join(f"`{of.name}` {of.type}" for of in COLUMNS))
            writer = create_internal_writer(empty.writeTo(quote_name(*self.table.parts)), "dead letters", KEPT_METADATA)
            perform_effect("ingest.create_dead_letters", writer.createOrReplace, f"create {self.table}", SPARK)
            return
        for missing in COLUMNS:
            if missing.name not in table.schema().column_names:
                parts = {"table": quote_name(*self.table.parts), "column": quote_name(missing.name)}
                add = fill_statement(
                    "ALTER TABLE {table} ADD COLUMN {column} {kind}", **parts, kind=type_name(missing.type)
                )
                perform_statement("ingest.widen_dead_letters", self._spark(), add)

    def requested(self) -> frozenset[str]:
        """The tables that somebody asked to have loaded anew, by their names in the source. Needs no Spark."""
        found = observe_progress(self._reader, self.table)
        return found.requested if found else frozenset()

    def advance(self, progress: Progress, loaded: frozenset[str] = frozenset()) -> None:
        """Says that all tables have everything up to a position, and that some are about to be `loaded` anew."""
        answered = self.requested() & loaded if loaded else frozenset()
        texts = {**progress.encode(), **{f"{RESYNC_PREFIX}{table}": "" for table in answered}}
        set_properties("ingest.advance", self._spark(), self.table, texts)

    def fail(self, message: str) -> Failure:
        """Says why ingestion fails, until `advance` says that it no longer does; returns that, with since when."""
        known = self.progress().failure
        since = known.since if known is not None else datetime.datetime.now(datetime.timezone.utc)
        failure = Failure(message, since)
        if failure != known:
            set_properties("ingest.fail", self._spark(), self.table, {FAILURE: failure.encode()})
        return failure

    def add(self, letters: Letters, source_table: str, position: str, now: datetime.datetime) -> None:
        """Keeps the dead letters among decoded events, read up to a position.

        A process that died after it had kept them reads them once more, perhaps in another batch: they take the place
        of those that are there. Where an event empties the table, those before it are dropped.
        """
        retry_on_conflict(
            lambda: self._add(letters, source_table, position, now), self._reader.thresholds.commits.attempts
        )

    def _add(self, letters: Letters, source_table: str, position: str, now: datetime.datetime) -> None:
        number = F.col(ARRIVAL) + F.lit(self.newest() + 1).cast("bigint")
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
            "since": F.lit(since_text(letters.since)),
            "schema": F.lit(None if letters.schema is None else schema_text(letters.schema)),
        }
        dead = letters.decoded.where(F.col(REASON).isNotNull())
        if letters.emptied_at is not None:
            dead = dead.where(F.col(ARRIVAL) > letters.emptied_at)
        rows = dead.select(*[values[of.name].cast(of.type).alias(of.name) for of in COLUMNS])
        snapshot, kept = self.read()
        is_same = combine_all([rows[own].eqNullSafe(kept[own]) for own in _SAME])
        is_same &= kept["part"].isNull() | rows["part"].eqNullSafe(kept["part"])
        if self.dead() and letters.emptied_at is not None:
            self._replace(kept.where(F.col("table") != source_table).unionByName(rows), snapshot)
        elif self.dead() and not kept.join(rows, is_same, "left_semi").isEmpty():
            self._replace(kept.join(rows, is_same, "left_anti").unionByName(rows), snapshot)
        else:
            writer = rows.writeTo(quote_name(*self.table.parts)).options(**build_summary_options({POSITION: position}))
            perform_effect("ingest.append_dead_letters", writer.append, f"append dead letters to {self.table}", SPARK)

    def read(self) -> tuple[int, DataFrame]:
        """The newest snapshot of the table, and all its rows there, with all COLUMNS."""
        table = self._load()
        snapshot = table.current_snapshot() if table is not None else None
        assert snapshot is not None
        rows = read_table(self._spark(), self.table, snapshot.snapshot_id)
        return snapshot.snapshot_id, conform_frame(rows, COLUMNS)

    def keep(self, source_table: str, rows: DataFrame, snapshot: int) -> None:
        """Puts `rows`, with all COLUMNS, in the place of the dead letters that a table has at a snapshot.

        Raises CommitConflict where dead letters came or went since.
        """
        kept = conform_frame(read_table(self._spark(), self.table, snapshot), COLUMNS)
        self._replace(kept.where(F.col("table") != source_table).unionByName(rows), snapshot)

    def drop(self, source_tables: Collection[str], until: int | None = None) -> None:
        """Drops the dead letters of tables that get the rows of a snapshot; with `until` those up to a number."""
        is_old = F.lit(True) if until is None else F.coalesce(F.col("number"), F.lit(0)) <= until
        is_dropped = F.col("table").isin(*source_tables) & is_old

        def attempt() -> None:
            snapshot, kept = self.read()
            self._replace(kept.where(~is_dropped), snapshot)

        if self.dead():
            retry_on_conflict(attempt, self._reader.thresholds.commits.attempts)

    def _replace(self, rows: DataFrame, snapshot: int) -> None:
        writer = rows.writeTo(quote_name(*self.table.parts)).options(**build_isolation_options(snapshot))
        what = f"rewrite {self.table}"
        perform_effect("ingest.rewrite_dead_letters", lambda: writer.overwrite(F.lit(True)), what, SPARK)

    def _load(self) -> Table | None:
        if self._reader.list_relations(self.table.schema).get(self.table.name) != "table":
            return None
        return self._reader.load_table(self.table.schema, self.table.name)
