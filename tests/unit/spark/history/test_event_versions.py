"""Versions that follow from events, computed in DuckDB and compared with a fold in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest

from arctic_runtime.model.columns import OWN_PREFIX, POSITION, Column, build_history_columns
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import ModelConfig
from arctic_runtime.spark.engine.statement import Sql
from arctic_runtime.spark.history.event_versions import fold_points, select_event_points, select_stored_points
from arctic_runtime.spark.history.versions import Positions
from tests.spark.event_fold import EVENTS, KINDS, Event, Kind, Rows, draw_histories, sort_rows
from tests.unit.ivm import duck

VERSIONS = [own for own, kind in KINDS.items() if kind.versions]
COLUMNS = [Column("id", "int"), Column("a", "string"), Column("b", "string"), Column("n", "int")]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duck.connect()
    yield con
    con.close()


def make_config(kind: Kind) -> ModelConfig:
    known = {"primary_key": ("id", "_valid_from"), "input": "changes", "sequence_by": "seq", "delete_when": "op = 'd'"}
    return ModelConfig(**{**known, **kind.config})


def make_shape(config: ModelConfig) -> Shape:
    columns = (*COLUMNS, *build_history_columns("int", config.valid_time is not None))
    return Shape(columns, config.primary_key, tuple(column.name for column in COLUMNS), "int", is_ordered=True)


def run_batch(
    con: duckdb.DuckDBPyConnection, kind: Kind, stored: Rows, batch: Sequence[Event], number: int
) -> list[dict[str, Any]]:
    """Images of versions after a batch of events, beside the stored versions."""
    config = make_config(kind)
    shape = make_shape(config)
    positions = Positions.find(config, shape)
    landed = [Column(*part.split(" ")) for part in EVENTS.split(", ")]
    duck.load(con, "landed", [*landed, Column("arrival", "int")], [(*event, i) for i, event in enumerate(batch)])
    duck.load(con, "stored", shape.columns, stored)
    is_delete = "op = 'd'" if config.delete_when else "false"
    events = Sql(
        f"(select *, {is_delete} as {OWN_PREFIX}is_delete, true as {OWN_PREFIX}is_new, "
        f"struct({number} as commit, arrival as row) as {POSITION} from landed)"
    )
    names = [*(column.name for column in landed), POSITION]
    own = [column.name for column in shape.columns]
    points = select_event_points(events, names, shape, config, rank=3)
    known = select_stored_points(Sql("stored"), own, shape, positions, rank=2)
    con.execute(f"create or replace table points as {duck.in_duckdb(str(points))}")
    con.execute(f"insert into points by name {duck.in_duckdb(str(known))}")
    result = con.execute(duck.in_duckdb(fold_points(Sql("points"), shape, positions, config)))
    columns = [column[0] for column in result.description or []]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def run_batches(con: duckdb.DuckDBPyConnection, kind: Kind, batches: Sequence[Sequence[Event]]) -> Rows:
    """The versions of a table after batches of events, without the times of its runs."""
    table: set[tuple[Any, ...]] = set()
    width = len(make_shape(make_config(kind)).columns)
    for number, batch in enumerate(batches):
        for row in run_batch(con, kind, list(table), batch, number):
            before, after = (tuple(row[f"{prefix}{i}"] for i in range(width)) for prefix in "ba")
            table -= {before} if row["has_before"] else set()
            table |= {after} if row["has_after"] else set()
    return sort_rows(row[:7] for row in table)


def u(seq: int, a: str | None = None) -> Event:
    return Event(1, a, None, None, "u", seq, seq)


def d(seq: int) -> Event:
    return Event(1, None, None, None, "d", seq, seq)


@pytest.mark.parametrize(
    ("kind", "batches", "rows"),
    [
        ("history", [[u(1, "x"), u(2, "x"), u(3, "y")]], [("x", 1, 3, False), ("y", 3, None, True)]),
        ("history", [[u(1, "x")], [u(3, "y")]], [("x", 1, 3, False), ("y", 3, None, True)]),
        (
            "history",
            [[u(1, "x"), u(3, "z")], [u(2, "y")]],
            [("x", 1, 2, False), ("y", 2, 3, False), ("z", 3, None, True)],
        ),
        ("history", [[u(1, "x")], [d(3)]], [("x", 1, 3, False)]),
        ("history", [[u(1, "x")], [d(3)], [u(5, "x")]], [("x", 1, 3, False), ("x", 5, None, True)]),
        ("history", [[u(1, "x")], [u(1, "y")]], [("y", 1, None, True)]),
        ("history of rows that are there", [[u(1, "x"), d(2), u(3, "y")]], [("y", 3, None, True)]),
        ("two times", [[u(2, "y"), u(1, "x")]], [("x", 1, 2, False), ("y", 2, None, True)]),
    ],
)
def test_versions_are_what_events_leave_behind(
    con: duckdb.DuckDBPyConnection, kind: str, batches: list[list[Event]], rows: Rows
) -> None:
    versions = run_batches(con, KINDS[kind], batches)
    assert [(row[1], *row[4:]) for row in versions] == rows


@pytest.mark.parametrize(("kind", "runs"), [*((kind, 1) for kind in VERSIONS), ("history", 4)])
def test_any_split_of_a_history_gives_the_versions_of_a_fold_in_python(
    con: duckdb.DuckDBPyConnection, kind: str, runs: int
) -> None:
    seed = 20261126 + runs
    batches = draw_histories(seed, keys=30, runs=runs, is_forward=True)
    events = [event for batch in batches for event in batch]
    assert run_batches(con, KINDS[kind], batches) == KINDS[kind].fold(events), f"seed {seed}"
