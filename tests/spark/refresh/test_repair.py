"""A full refresh mends what breaks the promises of a table, and those who read it hear of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.refresh.test_verify import CHANGE_FORGERIES
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, v string, n int"
EVENTS = "id int, v string, lsn bigint"
BASE = {"on_write": "m", "on_read": "m__base"}
DAMAGE = {
    "rows twice": "insert into {0} select * from {0} where id < 3",
    "rows that are gone": "delete from {0} where id = 2",
    "rows that are others": "update {0} set n = 1000 where id = 3",
}


def built(lake: Warehouse, merge: str) -> tuple[Model, Model]:
    """A table and one of its sums, and a change that no run has read yet."""
    model = lake.model("m", "select id, v, n from {s}", primary_key="id", merge=merge)
    total = lake.model("total", "select v, sum(n) as n from {m} group by v", primary_key="v")
    lake.load("s", [(i, f"v{i % 2}", i) for i in range(10)], COLUMNS)
    lake.run(model)
    lake.run(total)
    lake.load("s", [(i, f"v{i % 2}", i) for i in range(11)], COLUMNS)
    lake.run(model)
    return model, total


@pytest.mark.parametrize(
    ("merge", "damage"),
    [
        ("on_write", "rows twice"),
        pytest.param("on_read", "rows that are gone", marks=pytest.mark.slow),
        pytest.param("on_read", "rows twice", marks=pytest.mark.slow),
        pytest.param("on_write", "rows that are others", marks=pytest.mark.slow),
    ],
)
def test_a_full_refresh_recreates_a_damaged_base_and_its_readers_compute_in_full(
    lake: Warehouse, merge: str, damage: str
) -> None:
    model, total = built(lake, merge)
    lake.spark.sql(DAMAGE[damage].format(lake.sql_name(BASE[merge])))
    assert lake.broken(model) != []
    outcome = lake.run(model, full_refresh=True)
    assert outcome.because.startswith("mended: ")
    assert lake.actions(outcome) == (0, 0, 0)
    assert lake.rows(model) == [(i, f"v{i % 2}", i) for i in sorted(range(11), key=lambda i: repr((i,)))]
    assert lake.broken(model) == []
    followed = lake.run(total)
    assert (followed.mode, followed.reason) == ("full", "SOURCE_REPAIRED")
    assert lake.rows(total) == [("v0", 30), ("v1", 25)]
    assert lake.run(total).mode == "unchanged"


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_change_rows_that_break_promises_are_repaired_and_later_ones_are_checked_again(
    lake: Warehouse, merge: str
) -> None:
    model, total = built(lake, merge)
    rows = [f"({key}, '{v}', 1, '{action}', now(), 0L, {was})" for key, v, action, was in CHANGE_FORGERIES.values()]
    forge = f"insert into {lake.sql_name('m__changes')} values "
    lake.spark.sql(forge + ", ".join(rows))
    assert len(lake.broken(model)) > 4
    assert lake.run(model, full_refresh=True).because.startswith("mended: ")
    assert lake.rows(model) == [(i, f"v{i % 2}", i) for i in sorted(range(11), key=lambda i: repr((i,)))]
    assert lake.broken(model) == []
    assert lake.run(total).reason == "SOURCE_REPAIRED"
    lake.load("s", [(i, "v1", 100) for i in range(5)], COLUMNS)
    assert lake.actions(lake.run(model)) == (0, 5, 6)
    assert lake.run(total).mode == "incremental"
    assert lake.rows(total) == [("v1", 500)]
    assert [lake.broken(each) for each in (model, total)] == [[], []]
    lake.spark.sql(forge + rows[0])
    assert lake.broken(model) != []


@pytest.mark.slow
def test_a_window_of_events_that_was_committed_twice_is_repaired(lake: Warehouse) -> None:
    config = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "merge": "on_read"}
    model = lake.model("m", "select id, v, lsn from {changes(e)}", **config)
    lake.append("e", [(1, "a", 1), (2, "b", 2)], EVENTS)
    lake.run(model)
    lake.append("e", [(1, "new", 3)], EVENTS)
    lake.run(model)
    log = lake.sql_name("m__changes")
    lake.spark.sql(f"insert into {log} select * from {log} where _action = 'insert'")
    lake.append("e", [(3, "c", 4)], EVENTS)
    lake.run(model)
    assert (1, "a", 1) in lake.rows(model)
    assert lake.run(model, full_refresh=True).because.startswith("mended: ")
    assert lake.rows(model) == [(1, "new", 3), (2, "b", 2), (3, "c", 4)]
    assert lake.broken(model) == []


def test_a_sound_table_is_refreshed_without_a_repair(lake: Warehouse) -> None:
    model, total = built(lake, "on_write")
    assert lake.run(model, full_refresh=True).because == ""
    changes = lake.state(model).changes
    assert changes is not None
    assert not [name for name in (*changes.properties, *changes.commits[-1].summary) if name == "arctic.repaired"]
    assert lake.run(total).mode == "incremental"
