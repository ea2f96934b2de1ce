"""Dead letters of a table without a key are applied: each row that fits now is appended once.

A commit tells in its summary which dead letters it applied, so that one which is still there although it was applied,
since a process died in between, is recognised.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.appended import append_replayed
from arctic_runtime.ingest.writing.decode import PART
from arctic_runtime.ingest.writing.judge import LETTER
from arctic_runtime.ingest.writing.keyed import stored_columns
from arctic_runtime.model.properties import LETTERS
from arctic_runtime.model.run_summary import run_commits
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.spark.tables.frames import to_column
from arctic_runtime.spark.tables.table_session import TableSession

Letter = tuple[int, int, int]
"""What identifies a row of a dead letter: when it was read, in microseconds, its part of the event, its number."""


def append_letters(session: TableSession, state: TableState, sound: DataFrame, schema: SourceSchema) -> int:
    """Appends the rows of dead letters that were not applied before; returns how many these are."""
    rows = sound.select(
        F.unix_micros(F.col(LETTER)["at"]).alias("at"),
        F.coalesce(F.col(PART), F.lit(-1)).alias("part"),
        F.col(ARRIVAL).alias("number"),
        *[to_column(of.name).alias(f"c{i}") for i, of in _numbered(schema)],
    )
    found = {(row[0], row[1], row[2]) for row in rows.select("at", "part", "number").collect()}
    left = sorted(found - _applied(state.log))
    most = session.reader.thresholds.ingest.named_dead_letters
    for start in range(0, len(left), most):
        chosen = left[start : start + most]
        keys = session.spark().createDataFrame(chosen, "at bigint, part int, number bigint")
        own = rows.join(keys, ["at", "part", "number"], "left_semi")
        new = own.select(*[F.col(f"c{i}").alias(of.name) for i, of in _numbered(schema)])
        state = append_replayed(session, state, new, stored_columns(schema), encode_letters(chosen))
    return len(left)


def _numbered(schema: SourceSchema) -> Iterator[tuple[int, SourceColumn]]:
    return enumerate(schema.columns)


def _applied(log: ChangeTableState | None) -> set[Letter]:
    texts = (commit.summary.get(LETTERS) for commit in run_commits(log))
    return {letter for text in texts if text for letter in decode_letters(text)}


def encode_letters(letters: Sequence[Letter]) -> str:
    """Dead letters as a summary keeps them: of each time and part the ranges of numbers."""
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, part, number in sorted(letters):
        numbers[at, part].append(number)
    return json.dumps([[at, part, list(_ranges(of))] for (at, part), of in numbers.items()], separators=(",", ":"))


def decode_letters(text: str) -> set[Letter]:
    """What `encode_letters` wrote."""
    ranges = ((at, part, first, last) for at, part, of in json.loads(text) for first, last in of)
    return {(at, part, number) for at, part, first, last in ranges for number in range(first, last + 1)}


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    places = count()
    for _, run in groupby(numbers, key=lambda number: number - next(places)):
        found = list(run)
        yield found[0], found[-1]
