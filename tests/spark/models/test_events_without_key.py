"""Models without a key: events are appended, each once, and followed downstream."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.spark.maintenance.compaction import compact_table
from tests.crash.dying import dying
from tests.spark.documented import documented
from tests.spark.maintenance.test_expiry import expiring
from tests.spark.warehouse import Rows, Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, at date, n int"


def appended(lake: Warehouse, sql: str = "select id, n, n * 2 as twice from {changes(events)}", **more: Any) -> Model:
    return lake.model("m", sql, **{"primary_key": "none", "input": "changes", "compaction": "off", **more})


def put(lake: Warehouse, *rows: tuple[int, int]) -> None:
    lake.append("events", [(key, None, n) for key, n in rows], EVENTS)


@pytest.mark.in_turn
def test_each_event_is_one_row_once_and_is_followed_downstream(lake: Warehouse) -> None:
    model = appended(lake, partition_by=["bucket(2, id)"], sort_key="n", retention={"versions": "1d"})
    followed = lake.model("sums", "select id, sum(n) as n from {m} group by id", primary_key="id", refresh="strict")
    copied = lake.model(
        "copied", "select id, n from {changes(m)}", primary_key="id", input="changes", sequence_by="n", compaction="off"
    )
    put(lake, (1, 1), (1, 1), (2, 5))
    assert lake.run(model).mode == "create"
    for reader in (followed, copied):
        lake.run(reader)
    put(lake, (1, 7))
    outcome = lake.run(model)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (1, 0, 0))
    assert lake.run(model).mode == "unchanged"
    assert lake.rows(model) == [(1, 1, 2), (1, 1, 2), (1, 7, 14), (2, 5, 10)]
    assert lake.run(followed).mode == "incremental"
    assert lake.run(copied).mode == "incremental"
    assert (lake.rows(followed), lake.rows(copied)) == ([(1, 9), (2, 5)], [(1, 7), (2, 5)])
    assert compact_table(lake.session_of(model), "full").steps
    expiring(lake, model, followed, copied)
    put(lake, (3, 3))
    for item in (model, followed, copied):
        assert lake.run(item).mode == "incremental"
        assert lake.broken(item) == []
    assert lake.rows(followed) == [(1, 9), (2, 5), (3, 3)]


def test_a_run_that_dies_anywhere_neither_repeats_nor_loses_an_event(lake: Warehouse) -> None:
    model = appended(lake)
    session = lake.environment.new_session()
    expected: Rows = []
    for number in (1, 2):
        put(lake, (number, number), (number, number))
        expected += 2 * [(number, number, 2 * number)]
        deaths = 0
        while dying(deaths, lambda: lake.run(model, lambda: session)) is not None:
            deaths += 1
        assert deaths >= 3
    assert lake.rows(model) == expected
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_full_refresh_replaces_rows_and_a_contract_and_new_columns_hold(lake: Warehouse) -> None:
    put(lake, (1, 1), (2, 2))
    lake.run(appended(lake))
    wider = appended(lake, "select id, n, 'x' as note from {changes(events)}", on_schema_change="sync_all_columns")
    put(lake, (3, 3))
    assert lake.run(wider).mode == "incremental"
    assert sorted(row[:2] for row in lake.rows(wider)) == [(1, 1), (2, 2), (3, 3)]
    outcome = lake.run(wider, full_refresh=True)
    assert (outcome.mode, outcome.rows["insert"]) == ("full", 3)
    assert lake.rows(wider) == [(1, 1, "x"), (2, 2, "x"), (3, 3, "x")]
    put(lake, (-4, 4))
    strict = appended(lake, "select id, n, 'x' as note from {changes(events)}", checks=("id > 0",))
    with pytest.raises(DataError, match="id > 0"):
        lake.run(strict)
    assert len(lake.rows(wider)) == 3
    assert lake.run(wider).rows["insert"] == 1
    assert lake.broken(wider) == []
    plan = lake.refresh_of(wider).planner.explain_refresh()
    assert (plan.decision.mode, plan.steps) == ("unchanged", ())
    context = OperationContext(lake.reader, lambda: lake.spark, (wider,))
    assert get_operation("status").run_operation(context, [wider], get_operation("status").read_values({})).lines
    with pytest.raises(ConfigError, match="needs a primary key"):
        get_operation("restore").run_operation(context, [wider], get_operation("restore").read_values({"version": "1"}))


WIDE = "select id, cast(n as bigint) as n, n * 2 as twice, 'x' as note from {changes(events)}"


@pytest.mark.slow
def test_rows_that_were_appended_stay_while_columns_come_and_grow_and_files_are_joined(lake: Warehouse) -> None:
    """Next to a list to which the same batches are added, of which some rows are the same."""
    chance = random.Random(6)
    model = appended(lake, partition_by=["bucket(2, id)"])
    sums = lake.model("sums", "select id, sum(n) as n, count(*) as c from {m} group by id", primary_key="id")
    totals = lake.model(
        "totals",
        "select id, n, 1 as c from {changes(m)}",
        primary_key="id",
        input="changes",
        merge_columns={"n": "sum", "c": "sum"},
    )
    expected: Rows = []
    for turn in range(4):
        batch = [(chance.randrange(4), chance.randrange(3)) for _ in range(6)]
        put(lake, *batch)
        expected += [(key, n, 2 * n, *(() if turn < 2 else ("x",))) for key, n in batch]
        if turn == 2:
            expected = [(*row, None)[:4] for row in expected]
            model = appended(lake, WIDE)
        assert lake.run(model).mode == ("incremental" if turn else "create")
        compact_table(lake.session_of(model), "full")
        assert lake.rows(model) == sorted(expected, key=repr)
        for reader in (sums, totals):
            lake.run(reader)
            numbers = {key: [row[1] for row in expected if row[0] == key] for key in {row[0] for row in expected}}
            assert lake.rows(reader) == sorted(((name, sum(ns), len(ns)) for name, ns in numbers.items()), key=repr)
    assert lake.broken(model) == []
    assert lake.left_out(model) == [
        "the table has each row of its events once: note came later, and may be null in rows of earlier events; "
        "a --full-refresh fills them"
    ]
    lake.run(model, full_refresh=True)
    assert {row[3] for row in lake.rows(model)} == {"x"}
    lake.run(sums)
    for item in (model, sums):
        assert lake.broken(item) == lake.left_out(item) == []
    with pytest.raises(SourceError, match="--full-refresh"):
        lake.run(totals)
    lake.run(totals, full_refresh=True)
    assert lake.rows(totals) == lake.rows(sums)


def test_the_example_of_the_documentation_appends_its_events(lake: Warehouse) -> None:
    model = documented(lake, "configuration.md", "## Events without a key", "appended")
    columns, day = "id int, at timestamp, amount int", datetime.datetime(2026, 1, 1)
    lake.append("payments", [(1, day, 5)], columns)
    lake.run(model)
    lake.append("payments", [(1, day, 5), (2, day, None)], columns)
    lake.run(model)
    assert [(row[0], row[2]) for row in lake.rows(model)] == [(1, 5), (1, 5)]
    assert lake.broken(model) == []
