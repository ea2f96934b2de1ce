"""Adopting a table: no row is copied, runs publish real differences alone, and the table can be given back."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from arctic_runtime.effects import parse_failpoints, set_failpoint
from arctic_runtime.errors import CatalogError, ConfigError, DataError
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.maintenance.adoption import adopt_table, undo_adoption
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, v int"
RIGHT = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
WRONG = [(1, "a", 10), (2, "b", 21), (4, "c", 40)]
"""Rows that an incremental model got wrong: one is stale, one is missing, one is left over."""


def make_table(lake: Warehouse, rows: list[tuple[Any, ...]] = WRONG, clause: str = "", version: int = 2) -> None:
    """Makes the table `m` as a dbt model of another adapter leaves it."""
    lake.frame(rows, COLUMNS).createOrReplaceTempView("others_rows")
    lake.spark.sql(
        f"create table {lake.sql_name('m')} using iceberg {clause} tblproperties "
        f"('format-version' = '{version}', 'read.split.target-size' = '1000000') as select * from others_rows"
    )


def model_of(lake: Warehouse, **config: Any) -> Model:
    return lake.model("m", "select id, g, v from {source}", **{"primary_key": "id", **config})


def list_files(lake: Warehouse, name: str = "m") -> set[str]:
    return {row[0] for row in lake.spark.table(f"{lake.sql_name(name)}.all_data_files").select("file_path").collect()}


@pytest.mark.in_turn
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("clause", ["", pytest.param("partitioned by (g)", marks=pytest.mark.slow)])
def test_only_differences_are_published(lake: Warehouse, version: int, clause: str) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake, clause=clause, version=version)
    before = list_files(lake)
    model = model_of(lake, partition_by=["g"] if clause else [])
    adopt_table(lake.session_of(model))
    assert list_files(lake) == before
    assert lake.log(model) == []
    assert lake.rows(model) == sorted(WRONG)
    first = lake.run(model)
    assert (first.mode, first.reason, lake.actions(first)) == ("full", "FIRST_RUN", (1, 1, 1))
    assert lake.rows(model) == RIGHT
    assert lake.broken(model) == []
    assert lake.run(model, refuse).mode == "unchanged"
    lake.load("source", [*RIGHT[:2], (3, "b", 31), (5, "e", 50)], COLUMNS)
    second = lake.run(model)
    assert lake.actions(second) == (1, 1, 0)
    assert lake.rows(model) == [*RIGHT[:2], (3, "b", 31), (5, "e", 50)]
    assert lake.broken(model) == []


def test_readers_of_changes_and_of_versions_see_the_rows_of_before(lake: Warehouse) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake)
    model = model_of(lake)
    above = lake.model("n", "select g, sum(v) as total from {m} group by g", primary_key="g")
    log = lake.model(
        "log",
        "select id, v, cast(_ts as string) as at, _action as what from {changes(m)}",
        primary_key=["id", "at"],
        input="changes",
    )
    adopt_table(lake.session_of(model))
    adopted = lake.head(model)
    lake.run(above)
    lake.run(log)
    lake.run(model)
    assert lake.actions(lake.run(above)) == (0, 2, 1)
    assert lake.rows(above) == [("a", 40), ("b", 20)]
    lake.run(log)
    assert sorted((row[0], row[-1]) for row in lake.rows(log)) == [
        *[(1, "insert"), (2, "insert"), (2, "update"), (3, "insert"), (4, "delete"), (4, "insert")]
    ]
    late = lake.model(
        "late",
        "select id, v, _action from {changes(m)}",
        primary_key="id",
        input="changes",
        delete_when="_action = 'delete'",
        exclude_columns=["_action"],
    )
    lake.run(late)
    assert lake.rows(late) == [(row[0], row[2]) for row in RIGHT]
    assert restore_version(lake.session_of(model), adopted) == {"insert": 1, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == sorted(WRONG)
    assert lake.broken(model) == []


def test_the_layout_follows_with_compaction(lake: Warehouse) -> None:
    rows = [(i, "ab"[i % 2], i) for i in range(2000)]
    lake.load("source", rows, COLUMNS)
    make_table(lake, rows, "partitioned by (g)")
    model = model_of(lake, partition_by=["g"], nodes=4, sort_key=["v"])
    small = lake.under(merge={"overwritten_base_rows": 0, "overwritten_base_values": 0, "overwritten_share": 100.0})
    adopt_table(small.session_of(model))
    small.run(model)
    lake.load("source", [(i, "ab"[i % 2], i + i % 2) for i in range(2100)], COLUMNS)
    small.run(model)
    assert small.broken(model) == []
    compact_table(small.session_of(model), "full")
    files = small.spark.table(f"{small.sql_name('m')}.files").select("partition.id_bucket_4").distinct().collect()
    assert {row[0] for row in files} == {0, 1, 2, 3}
    assert small.broken(model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("changed", [{"partition_by": ["g"]}, {"nodes": 2}])
def test_another_layout_keeps_the_rows_of_before(lake: Warehouse, changed: dict[str, Any]) -> None:
    lake.load("source", WRONG, COLUMNS)
    make_table(lake)
    model = model_of(lake)
    adopt_table(lake.session_of(model))
    lake.run(model)
    lake.load("source", [*WRONG[:2], (7, "g", 7)], COLUMNS)
    other = model_of(lake, **changed)
    lake.run(other)
    assert lake.rows(other) == [*WRONG[:2], (7, "g", 7)]
    assert lake.broken(other) == []
    lake.run(other, full_refresh=True)
    assert lake.broken(other) == []


@pytest.mark.in_turn
def test_forgotten_rows_are_gone_from_the_rows_of_before(lake: Warehouse) -> None:
    lake.load("source", WRONG, COLUMNS)
    make_table(lake)
    model = model_of(lake)
    adopt_table(lake.session_of(model))
    lake.run(model)
    lake.load("source", WRONG[1:], COLUMNS)
    lake.run(model)
    Forgetting(model, (model,), lake.reader, lambda: lake.spark, Forget(keys=("1",))).run_forget()
    assert lake.broken(model) == []
    assert lake.rows(model) == sorted(WRONG[1:])
    kept = lake.spark.table(f"{lake.sql_name('m')}.all_data_files").select("file_path").collect()
    for (path,) in kept:
        assert 1 not in pq.read_table(path.removeprefix("file:"))["id"].to_pylist()


def test_undo_gives_the_table_back(lake: Warehouse) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake, clause="partitioned by (g)")
    theirs = lake.reader.load_table(lake.namespace, "m")
    model = lake.model("m", "select id, g, v, v * 2 as w from {source}", primary_key="id", sort_key=["v"])
    adopt_table(lake.session_of(model))
    lake.run(model)
    assert lake.rows(model) == [(*row, row[2] * 2) for row in RIGHT]
    undo_adoption(lake.session_of(model))
    assert lake.rows(model) == sorted(WRONG)
    ours = lake.reader.load_table(lake.namespace, "m")
    assert ours.properties == theirs.properties
    assert ours.sort_order().order_id == 0
    assert [field.name for field in ours.spec().fields] == ["g"]
    assert ours.metadata.refs.keys() == {"main"}
    assert not lake.reader.catalog.table_exists((lake.namespace, "m__changes"))
    with pytest.raises(ConfigError, match="was not adopted"):
        undo_adoption(lake.session_of(model))


@pytest.mark.parametrize(
    ("config", "rows", "says"),
    [
        ({"primary_key": "g"}, [*WRONG, (9, "a", 1)], "occurs more than once"),
        ({"primary_key": "v"}, [(1, "a", None)], "is null"),
        ({"primary_key": "nothing"}, WRONG, "no column nothing"),
        ({"merge": "on_read"}, WRONG, "`merge: on_read`"),
        ({"history": "scd2"}, WRONG, "`history: scd2`"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    lake: Warehouse, config: dict[str, Any], rows: list[tuple[Any, ...]], says: str
) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake, rows)
    with pytest.raises((ConfigError, DataError), match=says):
        adopt_table(lake.session_of(model_of(lake, **config)))
    assert not lake.reader.catalog.table_exists((lake.namespace, "m__changes"))


EFFECTS = [
    *["changes.create", "base.adopt.tag", "commit.branch", "base.adopt.record", "commit.publish"],
    *["base.adopt.partition", "base.write_order", "base.adopt.properties"],
]


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", ["raise", "raise-after"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_an_adoption_that_died_goes_on(lake: Warehouse, effect: str, mode: str) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake)
    model = model_of(lake, sort_key=["v"])
    # An answer that is lost after the publication is looked for, and found.
    is_noticed = nullcontext() if (effect, mode) == ("commit.publish", "raise-after") else pytest.raises(CatalogError)
    with set_failpoint(parse_failpoints(f"{effect}={mode}@1")), is_noticed:
        adopt_table(lake.session_of(model))
    assert lake.rows(model) == sorted(WRONG)
    if effect == "changes.create" and mode == "raise":
        adopt_table(lake.session_of(model))
    assert lake.actions(lake.run(model)) == (1, 1, 1)
    assert lake.rows(model) == RIGHT
    assert lake.broken(model) == []


RELEASES = ["base.release.properties", "base.release.rollback", "base.release.schema", "base.release.tag", "reset.drop"]


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", ["raise", "raise-after"])
@pytest.mark.parametrize("effect", RELEASES)
def test_an_undo_that_died_goes_on(lake: Warehouse, effect: str, mode: str) -> None:
    lake.load("source", RIGHT, COLUMNS)
    make_table(lake)
    model = model_of(lake, sort_key=["v"])
    adopt_table(lake.session_of(model))
    lake.run(model)
    with set_failpoint(parse_failpoints(f"{effect}={mode}@1")), pytest.raises(CatalogError):
        undo_adoption(lake.session_of(model))
    if (effect, mode) == ("reset.drop", "raise-after"):
        return
    other = model_of(lake)
    lake.run(other)
    assert lake.rows(other) == RIGHT
    assert lake.broken(other) == []
    undo_adoption(lake.session_of(other))
    assert lake.rows(other) == sorted(WRONG)
