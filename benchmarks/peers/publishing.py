"""The work of a process whose tables publish their changes: rounds when the parent asks for them, told as JSON.

A round is to bring in what has landed, to read the changes that this made, and to read the table. Where the last round
ended in the table's history, which a next layer would keep with its own commit, is looked up between these, and not
timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.measure import seconds
from benchmarks.peers.changes import consume_changes, hash_rows
from benchmarks.peers.work import tell
from benchmarks.rows import total

WRITE, READ, TABLE = "write", "read", "table"
FRACTION = 0.01
MEMORY = "4g"
"""Heap of each process, since the processes of all engines are there at once."""


@dataclass(frozen=True)
class Publisher:
    """A table and its changes.

    `bring_in` applies the changes that have landed, `rows` reads the table, `head` is its newest version, and `changes`
    are those of the versions after the first one and up to the second, as `benchmarks.peers.changes` has them.
    """

    bring_in: Callable[[], object]
    rows: Callable[[], DataFrame]
    head: Callable[[], int]
    changes: Callable[[int, int], DataFrame]


@dataclass
class Round:
    """What a table did in one round: the seconds of each action, and its changes by kind."""

    seconds: dict[str, float] = field(default_factory=dict)
    changes: dict[str, tuple[int, int]] = field(default_factory=dict)


def add_arrivals(rows: int) -> int:
    """Number of keys of which some change: those of a table of `rows`, and a tenth more that it has not yet."""
    return rows + rows // 10


def serve_rounds(publishers: Mapping[str, Publisher], land: Callable[[float, int], None], asked: TextIO) -> None:
    """One round of every table for each line of `asked`; before and after, the number and the hash of all rows."""
    tell("held", {name: hold(publisher.rows()) for name, publisher in publishers.items()})
    for turn, _ in enumerate(asked, 1):
        land(FRACTION, turn)
        tell("round", {name: vars(run_round(publisher)) for name, publisher in publishers.items()})
    tell("held", {name: hold(publisher.rows()) for name, publisher in publishers.items()})


def serve_parent(publishers: Mapping[str, Publisher], land: Callable[[float, int], None]) -> None:
    serve_rounds(publishers, land, sys.stdin)


def run_round(publisher: Publisher) -> Round:
    done = Round()
    start = publisher.head()
    done.seconds[WRITE] = seconds(publisher.bring_in)
    end = publisher.head()
    done.seconds[READ] = seconds(lambda: done.changes.update(consume_changes(publisher.changes(start, end))))
    done.seconds[TABLE] = seconds(lambda: total(publisher.rows()))
    return done


def hold(rows: DataFrame) -> list[int]:
    """The number of rows, and the sum of their hashes."""
    row: Any = rows.agg(F.count(F.lit(1)), hash_rows()).collect()[0]
    return [int(figure) for figure in row]
