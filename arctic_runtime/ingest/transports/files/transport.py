"""Reads JSON lines from the files of a folder or bucket, by batch reads of Spark.

Structured Streaming is not used: it keeps its positions in a checkpoint folder, while this transport's positions are
stored in the tables, in the same commits as the rows; and over Spark Connect its `foreachBatch` runs in the server,
without this code.

Files are read in the order of their paths. A file that appears later under a lower name is read when it appears. To
read each file exactly once, the names of a batch's files are written to a table before the files are read, and a
position is the number of a batch. If the process dies, the batch is read again with the same files.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from arctic_runtime.errors import CorruptState, SourceError
from arctic_runtime.ingest.transports.files.connector import format_position, parse_number
from arctic_runtime.ingest.transports.files.listing import Folder, SourceFile
from arctic_runtime.ingest.transports.files.log import FileLog
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, TableEvents
from arctic_runtime.thresholds import TransportThresholds

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FileBatch:
    """A batch of files: its number, from 1, and the files in the order of their paths."""

    number: int
    files: tuple[SourceFile, ...]


class FileBatches:
    """Assigns the new files of a folder to batches; batches up to the number `kept_number` are in all tables already.

    Files that match none of `patterns` are ignored. New files are read in the order of their paths. A new file whose
    path sorts before one that was read is in a later batch.
    """

    def __init__(
        self, folder: Folder, patterns: Collection[str], log: FileLog, limits: TransportThresholds, kept_number: int
    ) -> None:
        """Reads the file log.

        Raises CorruptState if the log is empty although batches were read (`kept_number` is not 0).
        """
        self._folder = folder
        self._patterns = tuple(patterns)
        self._log = log
        self._limits = limits
        noted = log.list_batches()
        if kept_number and not noted:
            raise CorruptState(
                f"It is not known which files of {folder.location} were read.",
                expected=f"the files of {kept_number} batches in the source's file log",
                actual="none",
                fix="bring back the file log, or drop the source's tables, so that all files are read again",
            )
        self._last = max([kept_number, *noted])
        self._read = {file.path: file for files in noted.values() for file in files}
        self._noted = deque(FileBatch(number, files) for number, files in sorted(noted.items()) if number > kept_number)
        self._listed: deque[SourceFile] = deque()

    def take_next(self) -> FileBatch | None:
        """Returns the next batch, after adding it to the file log; None if there is no new file.

        Raises SourceError if a file that was read, or that an unfinished batch needs, was changed or deleted.
        """
        return self._take_noted_batch() if self._noted else self._take_new_batch()

    def _take_noted_batch(self) -> FileBatch:
        """Returns the next batch that an earlier process added to the file log, but did not write to all tables."""
        present = {file.path: file for file in self._folder.list_files()}
        batch = self._noted.popleft()
        for file in batch.files:
            check_unchanged(present.get(file.path), file, self._folder.location)
        return batch

    def _take_new_batch(self) -> FileBatch | None:
        if not self._listed:
            self._listed.extend(list(self._list_unread()))
        files = select_first_files(self._listed, self._limits.batch_files, self._limits.batch_bytes)
        if not files:
            return None
        batch = FileBatch(self._last + 1, files)
        self._log.add_batch(batch.number, files)
        self._last = batch.number
        self._read |= {file.path: file for file in files}
        for _ in files:
            self._listed.popleft()
        return batch

    def _list_unread(self) -> Iterable[SourceFile]:
        for file in self._folder.list_files():
            if file.path in self._read:
                check_unchanged(file, self._read[file.path], self._folder.location)
            elif any(fnmatchcase(file.path, pattern) for pattern in self._patterns):
                yield file


def check_unchanged(current: SourceFile | None, expected: SourceFile, where: str) -> None:
    """Raises SourceError if a file no longer exists (None) or differs from `expected`; `where` names the folder."""
    if current == expected:
        return
    what = "is gone before all of its events were kept" if current is None else "has changed since it was read"
    shown = "no such file" if current is None else _describe_file(current)
    raise SourceError(
        f"A file of the source {what}.",
        where=f"{where}/{expected.path}",
        expected=_describe_file(expected),
        actual=shown,
        fix="bring back the file as it was, and write new events into a file with a new name",
    )


def _describe_file(file: SourceFile) -> str:
    return f"{file.bytes} bytes, modified {file.modified / 1e6:.6f} seconds after 1970"


def select_first_files(files: Iterable[SourceFile], most_files: int, most_bytes: int) -> tuple[SourceFile, ...]:
    """Returns the first files, at most `most_files` and `most_bytes` bytes, but at least one if there are any."""
    chosen: list[SourceFile] = []
    total = 0
    for file in files:
        total += file.bytes
        if chosen and (len(chosen) >= most_files or total > most_bytes):
            break
        chosen.append(file)
    return tuple(chosen)


_ROW_BITS = 33
"""Number of low bits of `monotonically_increasing_id` that hold the number of a row in its partition."""

_GLOB = re.compile(r"([\\*?\[\]{}])")
_PLACES = "uri string, block bigint, path string, first bigint, lines bigint, line bigint, arrival bigint"


@dataclass(frozen=True)
class _Block:
    """A part of a file that one Spark task reads."""

    path: str
    """Path of the file below the source's folder."""

    uri: str
    """Address of the file for Spark."""

    start: int
    """First byte of the block."""

    first: int
    """Number of the block's first row among the task's rows."""

    lines: int
    """Number of lines in the block."""

    events: int
    """Number of lines that are not blank."""

    file_bytes: int
    """Size of the whole file."""


class Files:
    """Reads events from files, one event in each line; blank lines are left out.

    Files may be compressed, as `.gz`. `tables` maps the source's names of tables to patterns of paths below the folder,
    such as `orders/*.json`; `*` also matches `/`. A file belongs to the first pattern that matches; files that match
    none are ignored. `spark` returns the session in which lines are counted. A file has to be complete when its name
    appears.
    """

    initial = format_position(0)

    def __init__(
        self,
        folder: Folder,
        tables: Mapping[str, str],
        log: FileLog,
        spark: Callable[[], SparkSession],
        limits: TransportThresholds,
    ) -> None:
        self._folder = folder
        self._tables = dict(tables)
        self._log = log
        self._spark = spark
        self._limits = limits
        self._closed = threading.Event()
        self._kept = 0
        self._number = 0

    def check_source(self, position: str | None) -> None:
        """Raises SourceError if the folder can't be listed, and CorruptState if the file log is missing."""
        self._build_batches(0 if position is None else parse_number(position))
        self._folder.list_files()

    def open_at(self, position: str) -> None:
        self._closed.clear()
        self._kept = parse_number(position)

    def begins_with_snapshot(self, position: str) -> bool:  # noqa: ARG002 - the interface
        """Returns False: files have no snapshot; reading begins with the first file."""
        return False

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        batches = self._build_batches(self._kept)
        reported = -math.inf
        while not self._closed.is_set():
            now = datetime.now(timezone.utc)
            batch = batches.take_next()
            if batch is not None:
                self._kept = self._number = batch.number
                yield self._build_batch(batch)
            elif until_drained:
                return
            elif time.monotonic() - reported > self._limits.idle_seconds:
                reported = time.monotonic()
                yield Batch((), format_position(self._kept), 0, caught_up=now)
            else:
                self._closed.wait(self._limits.poll_seconds)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        if self._number > parse_number(position):
            return events
        columns = {PAYLOAD: pa.binary(), ORIGIN: pa.string(), ARRIVAL: pa.int64()}
        return replace(events, events=pa.table({name: pa.array([], kind) for name, kind in columns.items()}))

    def acknowledge_batch(self, batch: Batch) -> None:
        """Does nothing: files are never deleted here; users may delete the files of batches that are saved."""

    def close_source(self) -> None:
        self._closed.set()

    def _build_batches(self, kept_number: int) -> FileBatches:
        return FileBatches(self._folder, self._tables.values(), self._log, self._limits, kept_number)

    def _build_batch(self, batch: FileBatch) -> Batch:
        by_table: dict[str, list[SourceFile]] = {}
        for file in batch.files:
            table = next(name for name, pattern in self._tables.items() if fnmatchcase(file.path, pattern))
            by_table.setdefault(table, []).append(file)
        tables, count = [], 0
        for table, own in by_table.items():
            blocks = self._count_blocks(own)
            count += sum(block.events for block in blocks)
            tables.append(
                TableEvents(table, None, partial(_read_events, folder=self._folder, files=own, blocks=blocks))
            )
        return Batch(tuple(tables), format_position(batch.number), count)

    def _count_blocks(self, files: Sequence[SourceFile]) -> tuple[_Block, ...]:
        """Counts the lines and events in each block of the files; returns the blocks in the order of files and lines.

        Raises SourceError if a file has changed since it was listed.
        """
        from pyspark.sql import functions as F

        grouped = _read_lines(self._spark(), self._folder, files).groupBy("uri", "block")
        row, is_event = F.col("row"), _has_text(F.col("value"))
        counted = grouped.agg(F.min(row), F.count(row), F.count_if(is_event), F.max("file_bytes"))
        order = {file.path: place for place, file in enumerate(files)}
        blocks = [_Block(self._folder.to_path(row[0]), *row) for row in counted.collect()]
        bytes_read = {block.path: block.file_bytes for block in blocks}
        for file in files:
            check_unchanged(replace(file, bytes=bytes_read.get(file.path, 0)), file, self._folder.location)
        return tuple(sorted(blocks, key=lambda block: (order[block.path], block.start)))


def _read_lines(spark: SparkSession, folder: Folder, files: Iterable[SourceFile]) -> DataFrame:
    """Reads all lines as unchanged bytes, with the columns `value`, `uri`, `block`, `file_bytes` and `row`.

    `block` is the number of the first byte of the line's block. `row` numbers the rows that a task reads: rows of a
    block are consecutive, in the order of the lines. Only the line feed separates lines: a carriage return before it is
    white space in JSON.
    """
    from pyspark.sql import functions as F

    uris = [_GLOB.sub(r"\\\1", folder.to_uri(file.path)) for file in files]
    return (
        spark.read.option("lineSep", "\n")
        .text(uris)
        .select(
            "value",
            F.col("_metadata.file_path").alias("uri"),
            F.col("_metadata.file_block_start").alias("block"),
            F.col("_metadata.file_size").alias("file_bytes"),
            F.monotonically_increasing_id().bitwiseAND(F.lit(2**_ROW_BITS - 1)).alias("row"),
        )
    )


def _has_text(line: Expression) -> Expression:
    from pyspark.sql import functions as F

    # To trim costs as much as to parse, and hardly any line begins with white space.
    return F.startswith(line, F.lit("{")) | (F.length(F.btrim(line, F.lit(" \t\r"))) > 0)


def _read_events(
    spark: SparkSession, folder: Folder, files: Sequence[SourceFile], blocks: Sequence[_Block]
) -> DataFrame:
    """Reads the events of files, with their ARRIVAL, and file and line as ORIGIN, by the line counts in `blocks`.

    The counts give the number of lines before each block. This relies on Spark splitting the same files into the same
    blocks as when they were counted, so each row is checked, since a file may have been replaced meanwhile.
    """
    from pyspark.sql import functions as F

    rows, arrival, line = [], 0, {block.path: 0 for block in blocks}
    for block in blocks:
        rows.append((block.uri, block.start, block.path, block.first, block.lines, line[block.path], arrival))
        arrival += block.lines
        line[block.path] += block.lines
    places = F.broadcast(spark.createDataFrame(rows, _PLACES))
    placed = _read_lines(spark, folder, files).join(places, ["uri", "block"], "left")
    inside = F.col("row") - F.col("first")
    is_placed = inside.between(F.lit(0), F.col("lines") - 1)
    message = F.concat(F.lit("A file changed while it was read: "), F.col("uri"))
    checked = F.when(is_placed, inside).otherwise(F.raise_error(message).cast("bigint"))
    return (
        placed.where(_has_text(F.col("value")))
        .withColumn("inside", checked)
        .select(
            F.col("value").cast("binary").alias(PAYLOAD),
            F.concat_ws(":", "path", F.col("line") + F.col("inside") + 1).alias(ORIGIN),
            (F.col("arrival") + F.col("inside")).alias(ARRIVAL),
        )
    )
