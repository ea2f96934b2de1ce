"""Verification finds what was done behind a table's back, and other readers see the same rows."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.errors import ConfigError
from arctic_runtime.operations import inspect
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.thresholds import MergeThresholds
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, v string, n int"


def built(lake: Warehouse, merge: str = "on_write", nodes: int = 2) -> Model:
    """A table with two versions: rows 2 to 9 as they were, 1 updated, 10 deleted, 11 inserted."""
    model = lake.model("m", "select id, v, n from {s}", primary_key="id", merge=merge, nodes=nodes)
    lake.load("s", [(i, f"v{i}", i) for i in range(1, 11)], COLUMNS)
    lake.run(model)
    lake.load("s", [(1, "new", None), *((i, f"v{i}", i) for i in range(2, 10)), (11, "v11", 11)], COLUMNS)
    lake.run(model)
    return model


BASE_FORGERIES: dict[str, tuple[str, str]] = {
    "the query gives the table": ("update {} set v = 'forged' where id = 3", "'id': 3"),
    "the changes fold to the table": ("delete from {} where id = 5", "'id': 5"),
    "each key stands once in the table": ("insert into {0} select * from {0} where id = 4", "'id': 4"),
}
NOTHING = "cast(null as struct<v:string,n:int>)"
CHANGE_FORGERIES: dict[str, tuple[int, str, str, str]] = {
    "an insert adds a row that did not exist": (2, "v2", "insert", NOTHING),
    "an update changes an existing row": (99, "x", "update", "named_struct('v', 'y', 'n', 1)"),
    "an update has _before": (3, "x", "update", NOTHING),
    "an update changes the row": (11, "v11", "update", "named_struct('v', 'v11', 'n', 1)"),
    "_before equals the row before the change": (4, "x", "update", "named_struct('v', 'y', 'n', 2)"),
    "a delete with _before deletes an existing row": (10, "v10", "delete", "named_struct('v', 'v10', 'n', 10)"),
    "every action is known": (5, "v5", "vanish", NOTHING),
    "each key changes once in a commit": (6, "twice", "update", "named_struct('v', 'v6', 'n', 6)"),
}
"""Promise → a change row that breaks it: key, value, action, and the row before."""


def rolled_back_to(lake: Warehouse, table: str, snapshot: int) -> None:
    lake.spark.sql(f"call lake.system.rollback_to_snapshot('{lake.namespace}.{table}', {snapshot})").collect()


@pytest.mark.in_turn
def test_every_kind_of_corruption_is_found_and_named_with_examples(lake: Warehouse) -> None:
    model = built(lake)
    assert lake.broken(model) == []
    assert lake.left_out(model) == []
    sound = lake.reader.load_table(lake.namespace, "m").current_snapshot()
    assert sound is not None
    for statement, _ in BASE_FORGERIES.values():
        lake.spark.sql(statement.format(lake.sql_name("m")))
    messages = dict(broken.split(": ", 1) for broken in lake.broken(model))
    assert set(messages) == set(BASE_FORGERIES)
    for check, (_, example) in BASE_FORGERIES.items():
        assert example in messages[check]

    rolled_back_to(lake, "m", sound.snapshot_id)
    rows = [f"({key}, '{v}', 1, '{action}', now(), 0L, {was})" for key, v, action, was in CHANGE_FORGERIES.values()]
    lake.spark.sql(f"insert into {lake.sql_name('m__changes')} values {', '.join([*rows, rows[-1]])}")
    messages = dict(broken.split(": ", 1) for broken in lake.broken(model))
    assert set(CHANGE_FORGERIES) <= set(messages)
    for check, (key, _, _, _) in CHANGE_FORGERIES.items():
        assert f"'id': {key}," in messages[check]


@pytest.mark.slow
def test_what_can_not_be_checked_is_said(lake: Warehouse) -> None:
    model = lake.model("m", "select id, v from {s}", primary_key="id")
    lake.load("s", [(1, "a", 1)], COLUMNS)
    assert lake.left_out(model) == ["table: it was not built yet"]
    lake.run(model)
    lake.load("s", [(1, "b", 1)], COLUMNS)
    assert lake.left_out(model) == ["the query gives the table: it is behind its upstreams; run it first"]
    assert lake.broken(model) == []
    unstable = lake.model("u", "select 1 as id, rand() as r", primary_key="id")
    lake.run(unstable)
    assert [text.split(": ")[0] for text in lake.left_out(unstable)] == ["the query gives the table"]


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_versions_status_and_rows_are_reported(lake: Warehouse, merge: str) -> None:
    model = built(lake, merge)
    reader = lake.model("down", "select count(*) as n from {m}", primary_key=[])
    lake.run(reader)
    newest, oldest = inspect.read_history(lake.reader, model)
    assert [(entry.mode, entry.rows) for entry in (newest, oldest)] == [("incremental", 3), ("create", 10)]
    changes = read_changes_between(lake.session_of(model), int(oldest.version), int(newest.version), 10)
    assert [(row["_action"], row["id"]) for row in changes] == [("update", 1), ("delete", 10), ("insert", 11)]
    assert read_changes_between(lake.session_of(model), int(newest.version), int(newest.version), 10) == []
    assert len(read_changes_between(lake.session_of(model), int(oldest.version), int(newest.version), 1)) == 1
    with pytest.raises(ConfigError, match="is newer than"):
        read_changes_between(lake.session_of(model), int(newest.version), int(oldest.version), 10)
    with pytest.raises(ConfigError, match="has no version 1"):
        read_changes_between(lake.session_of(model), 1, int(newest.version), 10)

    status = inspect.read_status(lake.reader, model, [reader])
    assert (status.built, status.rows, status.nodes, status.version) == (True, 10, 2, newest.version)
    assert status.unmerged_commits == 0
    assert [(consumer.model, consumer.behind_commits) for consumer in status.consumers] == [(str(reader.table), 0)]

    rows = {key: look_up_row(lake.reader, model, [key]).row for key in ("1", "2", "10", "11", "12")}
    assert rows == {
        "1": {"id": 1, "v": "new", "n": None},
        "2": {"id": 2, "v": "v2", "n": 2},
        "10": None,
        "11": {"id": 11, "v": "v11", "n": 11},
        "12": None,
    }
    with pytest.raises(ConfigError, match="one value for each"):
        look_up_row(lake.reader, model, [])


@pytest.mark.in_turn
def test_a_small_table_that_is_merged_on_read_is_merged_after_two_commits(lake: Warehouse) -> None:
    lake = lake.under(merge={"unmerged_read_seconds": MergeThresholds.unmerged_read_seconds})
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read")
    rows = {i: (i, f"v{i}") for i in range(100)}
    waiting = []
    for number in range(5):
        rows[1] = (1, f"new{number}")
        lake.load("s", rows.values(), "id int, v string")
        lake.run(model)
        assert lake.rows(model) == sorted(rows.values(), key=repr)
        waiting.append(inspect.read_status(lake.reader, model, []).unmerged_commits)
    assert waiting == [0, 1, 0, 1, 0]


@pytest.mark.in_turn
def test_unmerged_changes_are_counted_and_looked_up(lake: Warehouse) -> None:
    """Few changes of many rows wait in the change table, and are read from there."""
    model = lake.model("m", "select id, v, n from {s}", primary_key="id", merge="on_read", nodes=2)
    rows = {i: (i, f"v{i}", i) for i in range(100)}
    lake.load("s", rows.values(), COLUMNS)
    lake.run(model)
    for number in (1, 2):
        rows[1] = (1, f"new{number}", number)
        del rows[2 + number]
        lake.load("s", rows.values(), COLUMNS)
        lake.run(model)
    status = inspect.read_status(lake.reader, model, [])
    assert (status.unmerged_commits, status.unmerged_rows, status.rows) == (2, 4, len(rows))
    lookups = {key: look_up_row(lake.reader, model, [key]) for key in ("1", "3", "4", "50")}
    assert {key: value.row and value.row["v"] for key, value in lookups.items()} == {
        "1": "new2",
        "3": None,
        "4": None,
        "50": "v50",
    }
    assert lake.rows(model) == sorted(rows.values(), key=repr)
    assert lake.broken(model) == []


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Maps as pyiceberg gives them are lists of pairs, and times have its own zone object."""
    return sorted((tuple(_plain(value) for value in row.values()) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def test_pyiceberg_reads_bases_with_deletion_vectors_and_change_tables_as_spark_does(lake: Warehouse) -> None:
    sql = "select id, v, n, array(id, n) as a, named_struct('x', v) as st, timestamp_seconds(id) as t from {s}"
    model = lake.model("m", sql, primary_key="id", nodes=4, partition_by="truncate(1, v)")
    rows = [(i, f"v{i}", i) for i in range(40)]
    lake.load("s", rows, COLUMNS)
    lake.run(model)
    lake.load("s", [(i, f"w{i}" if i % 3 == 0 else v, n) for i, v, n in rows if i % 7], COLUMNS)
    lake.run(model)
    base = lake.reader.load_table(lake.namespace, "m")
    assert any(task.delete_files for task in base.scan().plan_files())
    for name in ("m", "m__changes"):
        by_spark = [row.asDict(recursive=True) for row in lake.spark.table(lake.sql_name(name)).collect()]
        by_pyiceberg = lake.reader.load_table(lake.namespace, name).scan().to_arrow().to_pylist()
        assert plain(by_pyiceberg) == plain(by_spark), name
