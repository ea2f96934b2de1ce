"""Each kind of rules of events, run in DuckDB: tables of cases, and histories in batches against a fold in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pytest

from arctic_runtime.model.columns import OWN_PREFIX, POSITION, Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.engine.statement import Sql
from arctic_runtime.spark.events.flows import Flows
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.events.newest import NewestEvent
from arctic_runtime.spark.events.one_by_one import OneByOne
from arctic_runtime.spark.events.rules import EventRules, choose_rules, fold_events, mark_events
from tests.spark.event_fold import EVENTS, KINDS, Event, Kind, Rows, draw_histories, sort_rows
from tests.unit.ivm import duck

ROWS = [
    own
    for own, kind in KINDS.items()
    if not kind.versions
    and not kind.truncates
    and kind.config.get("keep") != "all"
    and "truncate_when" not in kind.config
]
"""Kinds of tables of which the events of a key make one row. DuckDB can't keep the rows after each event."""

TYPES = {
    "id": "int",
    "a": "string",
    "b": "string",
    "n": "int",
    "first": "int",
    "second": "int",
    "sent": "array<string>",
    "seq": "int",
    "op": "string",
    f"{OWN_PREFIX}is_delete": "boolean",
    POSITION: "struct<commit:bigint,row:bigint>",
}


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duck.connect()
    con.execute("create macro array_union(a, b) as if(a is null or b is null, null, list_distinct(list_concat(a, b)))")
    yield con
    con.close()


def make_rules(kind: Kind) -> EventRules:
    config = dict(kind.config)
    order = config.pop("sequence_by", "seq")
    flows = {flow: tuple(own) for flow, own in order.items()} if isinstance(order, Mapping) else {}
    config |= {"sequence_groups": flows, "sequence_by": None if flows else order, "exclude_columns": ("op", "seq")}
    model = Model(
        TableName("lake", "raw", "m"), "", ModelConfig(("id",), input="changes", delete_when="op = 'd'", **config)
    )
    return choose_rules(model, make_shape(kind, is_ordered=model.config.sequence_by is not None))


def list_columns(kind: Kind) -> list[str]:
    """The columns of a kind's query besides those that say what an event is."""
    named = [part.strip().split(" ")[-1] for part in kind.columns.replace(", null)", " null)").split(",")]
    return ["id", *(own for own in named if own in TYPES and own not in ("", "sent", "op"))]


def make_shape(kind: Kind, is_ordered: bool) -> Shape:
    kept = tuple(Column(own, TYPES[own]) for own in list_columns(kind))
    return Shape(kept, ("id",), tuple(column.name for column in kept), "int" if is_ordered else "bigint", is_ordered)


def run_batch(
    con: duckdb.DuckDBPyConnection, kind: Kind, stored: Rows, batch: Sequence[Event], number: int
) -> list[dict[str, Any]]:
    """New rows after a batch of events as `a…`, and whether they are deleted."""
    rules = make_rules(kind)
    landed = [Column(*part.split(" ")) for part in EVENTS.split(", ")]
    duck.load(con, "landed", [*landed, Column("arrival", "int")], [(*event, i) for i, event in enumerate(batch)])
    duck.load(con, "stored", [Column(f"b{i}", own.type) for i, own in enumerate(rules.shape.columns)], stored)
    query = (
        f"select id, {kind.columns}{', ' if kind.columns else ''}seq, op, op = 'd' as {OWN_PREFIX}is_delete, "
        f"struct({number} as commit, arrival as row) as {POSITION} from landed"
    )
    con.execute(f"create or replace table events as {duck.in_duckdb(query)}")
    columns = [
        Column(own, TYPES[own]) for own in (described[0] for described in con.execute("describe events").fetchall())
    ]
    net = fold_events(rules, mark_events(rules, Sql("events"), columns), columns)
    con.execute(f"create or replace table net as {duck.in_duckdb(net)}")
    con.execute(
        "create or replace table joined as "
        "select net.*, stored.*, b0 is not null as has_before from net left join stored on a0 = b0"
    )
    result = con.execute(duck.in_duckdb(f"select * from {rules.blend(Sql('joined'))} as rows order by seq"))
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def run_batches(con: duckdb.DuckDBPyConnection, kind: Kind, batches: Sequence[Sequence[Event]]) -> Rows:
    """The rows of a table after batches of events, one after the other."""
    table: dict[int, tuple[Any, ...]] = {}
    width = len(list_columns(kind))
    for number, batch in enumerate(batches):
        for row in run_batch(con, kind, list(table.values()), batch, number):
            if row["deleted"]:
                table.pop(row["a0"], None)
            else:
                table[row["a0"]] = tuple(row[f"a{i}"] for i in range(width))
    return sort_rows(table.values())


def u(seq: int, a: str | None = None, b: str | None = None, n: int | None = None, at: int = 0) -> Event:
    return Event(1, a, b, n, "u", seq, at)


def d(seq: int) -> Event:
    return Event(1, None, None, None, "d", seq, 0)


@pytest.mark.parametrize(
    ("kind", "batches", "rows"),
    [
        ("replace, net", [[u(2, "y"), u(1, "x")]], [(1, "y", None, None)]),
        ("replace, net", [[u(1, "x", "v", 1)], [u(1, "y")]], [(1, "y", None, None)]),
        ("replace, net", [[u(1, "x")], [u(2, "y"), d(3)]], []),
        ("update, net", [[u(1, "x", "v", 1)], [u(2, None, "w")]], [(1, "x", "w", 1)]),
        ("update, net", [[u(1, "x", "v", 1)], [d(2), u(3, None, "w")]], [(1, None, "w", None)]),
        ("ignore, net", [[u(1, "x")], [u(2, "y")]], [(1, "x", None, None)]),
        ("ignore, net", [[u(1, "x"), d(2), u(3, "y")]], [(1, "y", None, None)]),
        ("functions, net", [[u(1, "x", "v", 1)], [u(2, None, "a", 2)]], [(1, "x", "v", 3)]),
        ("functions, net", [[u(1, None, None, None)]], [(1, None, None, None)]),
        ("ends, net", [[u(1, "x", "v", 1)], [u(2, "y", "a")]], [(1, "x", "a", None)]),
        ("expression, net", [[u(1, n=1), u(2, n=2)], [u(3, n=3)]], [(1, None, None, 11)]),
        ("expression, net", [[u(1, n=1)], [d(2), u(3, n=3)]], [(1, None, None, 3)]),
        ("sent columns", [[u(1, "x", "v", 1)], [u(2, "y", "w", 2, at=1)]], [(1, "y", "v", None)]),
        ("sent columns", [[u(1, "x", "v", 1)], [u(2, at=1)]], [(1, None, "v", None)]),
        ("sent columns, functions", [[u(1, n=1, at=2), u(2, n=5, at=1), u(3, n=2, at=2)]], [(1, None, None, 3)]),
        ("flows", [[u(2, "x", "v", at=1)], [u(1, "y", "w", at=0), u(3, "z", "w", at=2)]], [(1, "x", "w", 2, 3)]),
    ],
)
def test_a_row_is_what_its_events_leave_behind(
    con: duckdb.DuckDBPyConnection, kind: str, batches: list[list[Event]], rows: Rows
) -> None:
    assert run_batches(con, KINDS[kind], batches) == rows


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("runs", [1, 4])
def test_any_split_of_a_history_leaves_what_a_fold_in_python_does(
    con: duckdb.DuckDBPyConnection, kind: str, runs: int
) -> None:
    seed = 20261126 + runs
    batches = draw_histories(seed, keys=40, runs=runs, is_forward=True)
    events = [event for batch in batches for event in batch]
    assert run_batches(con, KINDS[kind], batches) == KINDS[kind].fold(events), f"seed {seed}"


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({}, NewestEvent),
        ({"on_match": "update"}, MergeFunctions),
        ({"merge_columns": {"n": "sum"}}, MergeFunctions),
        ({"columns_to_update": "sent"}, MergeFunctions),
        ({"merge_columns": {"n": "old.n + new.n"}}, OneByOne),
        ({"keep": "all"}, OneByOne),
        ({"sequence_by": {"first": ["a"], "second": ["b"]}}, Flows),
    ],
)
def test_the_configuration_chooses_one_kind_of_rules(config: Mapping[str, Any], kind: type) -> None:
    assert type(make_rules(Kind(config, lambda _: []))) is kind


@pytest.mark.parametrize(
    ("kind", "late_events"),
    [
        ("replace, net", "lose"),
        ("replace, all", "lose"),
        ("update, net", "recompute"),
        ("expression, all", "recompute"),
        ("flows", "fold"),
        ("flows of sent columns", "recompute_by_flow"),
    ],
)
def test_rules_say_what_late_events_do(kind: str, late_events: str) -> None:
    assert make_rules(KINDS[kind]).late_events == late_events
