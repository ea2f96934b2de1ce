"""Events that other programs append: rows that were read may go, and rows that were not never go unnoticed."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.plan.maintenance.landing import describe_landing
from arctic_runtime.spark.maintenance.expiry import expire_landing, plan_landing
from arctic_runtime.spark.refresh.verify import verify_model
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.files.expiry import LandingPlan

COLUMNS = "id int, v string, day int"


def reader(lake: Warehouse, name: str = "m", **config: Any) -> Model:
    sql = "select id, v from {changes(events)}"
    return lake.model(name, sql, primary_key="id", input="changes", **config)


def make(lake: Warehouse, form: int = 3, mode: str = "copy-on-write") -> None:
    """A table of somebody else, of partitions that tell a day."""
    lake.spark.sql(
        f"create table {lake.sql_name('events')} ({COLUMNS}) using iceberg partitioned by (day) "
        f"tblproperties ('format-version' = '{form}', 'write.delete.mode' = '{mode}')"
    )


def put(lake: Warehouse, day: int, *rows: tuple[int, str]) -> None:
    lake.append("events", [(*row, day) for row in rows], COLUMNS)


def sql(lake: Warehouse, text: str) -> None:
    lake.spark.sql(text.format(events=lake.sql_name("events")))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("form", "mode"),
    [
        (3, "merge-on-read"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, "copy-on-write"), (2, "merge-on-read"))),
    ],
)
def test_rows_that_were_read_may_be_deleted_by_anybody(lake: Warehouse, form: int, mode: str) -> None:
    make(lake, form, mode)
    model = reader(lake) if form == 3 else reader(lake, sequence_by="day", exclude_columns=[])
    model = replace(model, sql=model.sql.replace("id, v", "id, v, day"))
    put(lake, 1, (1, "a"), (2, "a"))
    put(lake, 2, (2, "b"), (3, "a"))
    lake.run(model)
    put(lake, 3, (3, "b"))
    sql(lake, "delete from {events} where day = 1")
    if mode == "merge-on-read":
        sql(lake, "delete from {events} where id = 2")
    outcome = lake.run(model)
    assert (outcome.mode, outcome.rows["update"]) == ("incremental", 1)
    assert [row[:2] for row in lake.rows(model)] == [(1, "a"), (2, "b"), (3, "b")]
    sql(lake, "delete from {events} where day < 3")
    assert sum(lake.run(model).rows.values()) == 0
    checks = {check.check: check for check in verify_model(lake.refresh_of(model))}
    assert not [check for check in checks.values() if check.broken]
    assert checks["the query gives the table"].left_out.startswith("events that it has read may have been deleted from")
    put(lake, 4, (4, "a"))
    sql(lake, "delete from {events} where day > 2")
    with pytest.raises(SourceError, match=r"delete in snapshot \d+, which took away 1 row\(s\) that were not read yet"):
        lake.run(model, refuse)


def test_rows_that_are_updated_are_no_events(lake: Warehouse) -> None:
    make(lake)
    model = reader(lake)
    put(lake, 1, (1, "a"))
    lake.run(model)
    sql(lake, "update {events} set v = 'b'")
    with pytest.raises(SourceError, match=r"overwrite in snapshot \d+, which may have changed or taken away rows"):
        lake.run(model, refuse)


def landing(lake: Warehouse, days: int = 7) -> Model:
    config = ModelConfig((), retention=Retention(versions_seconds=60, changes_seconds=days * 86_400))
    return Model(lake.table("events"), "", config, is_landing=True)


def later(days: float) -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)


def expire(lake: Warehouse, models: list[Model], days: float) -> LandingPlan:
    return expire_landing(landing(lake), models, lake.reader, lambda: lake.spark, later(days))


@pytest.mark.in_turn
def test_expiry_deletes_old_rows_that_every_reader_has_read(lake: Warehouse) -> None:
    make(lake)
    models = [reader(lake), reader(lake, "slow"), reader(lake, "new")]
    put(lake, 1, (1, "a"), (2, "a"))
    for model in models[:2]:
        lake.run(model)
    put(lake, 2, (2, "b"))
    lake.run(models[0])
    assert plan_landing(landing(lake), models, lake.reader, later(6)).delete is None
    plan = plan_landing(landing(lake), models, lake.reader, later(8))
    slow, new = (str(model.table) for model in models[1:])
    assert describe_landing(plan, "to go")[0].startswith(f"to go: 2 rows of {lake.table('events')} that were appended")
    assert plan.waits_for == (f"{slow} has not read them",)
    assert plan.unread == (new,)
    assert lake.spark.table(lake.sql_name("events")).count() == 3
    expire(lake, models, 8)
    assert [row.id for row in lake.spark.table(lake.sql_name("events")).collect()] == [2]
    assert lake.run(models[1]).rows["update"] == 1
    put(lake, 3, (1, "c"))
    for model in models[:2]:
        lake.run(model)
        assert lake.rows(model) == [(1, "c"), (2, "b")]
        assert lake.broken(model) == []
    lake.run(models[2])
    assert lake.rows(models[2]) == [(1, "c"), (2, "b")]
    expire(lake, models, 9)
    for model in models:
        assert sum(lake.run(model).rows.values()) == 0
    assert expire(lake, models, 9).delete is None
    table = lake.reader.load_table(lake.namespace, "events")
    assert len(table.snapshots()) == 1
    assert lake.spark.table(lake.sql_name("events")).count() == 0


def test_a_reader_that_nobody_knew_of_is_informed_of_rows_that_it_missed(lake: Warehouse) -> None:
    make(lake)
    model = reader(lake)
    put(lake, 1, (1, "a"))
    lake.run(model)
    put(lake, 2, (2, "a"))
    expire(lake, [], 8)
    put(lake, 3, (3, "a"))
    expire_landing(landing(lake, 30), [], lake.reader, lambda: lake.spark, later(8))
    with pytest.raises(SourceError, match=r"upstream .* no longer keeps all rows since the last run"):
        lake.run(model, refuse)


def test_a_table_of_arctic_is_no_landing_table(lake: Warehouse) -> None:
    make(lake)
    put(lake, 1, (1, "a"))
    model = reader(lake)
    lake.run(model)
    own = replace(landing(lake), table=model.table.changes)
    with pytest.raises(ConfigError, match="can't expire as those of a landing table"):
        plan_landing(own, [], lake.reader)
