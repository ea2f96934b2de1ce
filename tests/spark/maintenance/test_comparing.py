"""Two tables with one key are compared: every row that differs is counted once, and no other."""

from __future__ import annotations

import collections
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, TableDiff, ValueChange
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.maintenance.reset import reset_model
from arctic_runtime.spark.maintenance.savepoint import make_savepoint
from arctic_runtime.spark.maintenance.table_comparison import compare_versions, compare_with_table
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, v double, s struct<x:int>, m map<string,int>"
MERGES = pytest.mark.parametrize("merge", ["on_write", "on_read"])


@pytest.fixture
def dev(lake: Warehouse) -> Warehouse:
    name = f"{lake.namespace}_dev"
    lake.spark.sql(f"create namespace {lake.environment.profile.catalog}.{name}")
    return replace(lake, namespace=name)


def random_rows(rng: random.Random) -> dict[int, tuple[Any, ...]]:
    def value() -> tuple[Any, ...]:
        amount = rng.choice([None, 0.0, -0.0, 1.5, float("nan")])
        return rng.choice([None, "a", "b"]), amount, rng.choice([None, (1,), (None,)]), rng.choice([None, {"k": 1}])

    return {key: (key, *value()) for key in rng.sample(range(12), rng.randint(0, 12))}


def exact(value: Any) -> str:
    """A text that is the same for equal values only: NaN equals NaN, 0.0 and -0.0 differ."""
    return repr(value)


@pytest.mark.parametrize("seed", range(4))
def test_rows_and_values_are_counted_as_in_python(lake: Warehouse, dev: Warehouse, seed: int) -> None:
    rng = random.Random(seed)
    before, after = random_rows(rng), random_rows(rng)
    for place, rows in ((lake, before), (dev, after)):
        place.frame(rows.values(), COLUMNS).writeTo(place.sql_name("m")).using("iceberg").create()
    model = dev.model("m", "select 1", primary_key="id")
    diff = compare_with_table(dev.session_of(model), lake.table("m"))
    both = before.keys() & after.keys()
    changed = {key for key in both if exact(before[key]) != exact(after[key])}
    assert diff.counts == {
        "added": len(after.keys() - both),
        "removed": len(before.keys() - both),
        "changed": len(changed),
    }
    assert diff.other_rows == len(before)
    cells = collections.Counter(
        name
        for key in changed
        for name, old, new in zip("gvsm", before[key][1:], after[key][1:], strict=True)
        if exact(old) != exact(new)
    )
    assert {column.name: column.rows for column in diff.columns} == dict(cells)
    assert all(sum(value.rows for value in column.values) <= column.rows for column in diff.columns)
    assert (diff.added_columns, diff.removed_columns, diff.retyped_columns) == ((), (), ())
    assert not diff.reads_changes
    assert (
        len({(row.kind, row.key["id"]) for row in diff.examples})
        == len(diff.examples)
        == sum(min(3, count) for count in diff.counts.values())
    )


def test_columns_that_came_went_or_have_another_type_are_named(lake: Warehouse, dev: Warehouse) -> None:
    lake.frame([(1, 1, "x"), (2, 2, "x")], "id int, n int, old string").writeTo(lake.sql_name("m")).using(
        "iceberg"
    ).create()
    dev.frame([(1, "1", 5), (2, "3", 5)], "ID bigint, n string, more int").writeTo(dev.sql_name("m")).using(
        "iceberg"
    ).create()
    diff = compare_with_table(dev.session_of(dev.model("m", "select 1", primary_key="id")), lake.table("m"))
    assert [column.name for column in diff.added_columns] == ["more"]
    assert [column.name for column in diff.removed_columns] == ["old"]
    assert diff.retyped_columns == (("ID", "int", "bigint"), ("n", "int", "string"))
    assert diff.columns == (ColumnDiff("n", 1, (ValueChange("2", "3", 1),)),)
    assert diff.examples == (
        RowExample("changed", {"id": 2}, {"id": 2, "n": 2, "old": "x"}, {"ID": 2, "n": "3", "more": 5}),
    )
    other_key = dev.model("m", "select 1", primary_key="more")
    with pytest.raises(ConfigError, match="lacks a column of its primary key"):
        compare_with_table(dev.session_of(other_key), lake.table("m"))


def built(lake: Warehouse, dev: Warehouse, merge: str) -> tuple[Model, Model]:
    """A model, and its clone."""
    lake.load("s", [(i, i % 3, i * 10) for i in range(20)], "id int, g int, v int")
    model = lake.model("m", "select id, g, v from {s}", primary_key="id", merge=merge)
    lake.run(model)
    own = replace(model, table=dev.table("m"))
    clone_model(dev.session_of(own), CloneRequest(model.table, round(1000 * time.time()), "s", "me"))
    return model, own


def compare_both_ways(dev: Warehouse, own: Model, other: Model) -> TableDiff:
    """The comparison of a clone by its changes; it must equal that of all rows."""
    diff = compare_with_table(dev.session_of(own), other.table)
    assert diff.reads_changes
    copy = dev.table("copy")
    dev.spark.table(f"`{dev.namespace}`.`m`").writeTo(dev.sql_name("copy")).using("iceberg").createOrReplace()
    whole = compare_with_table(dev.session_of(replace(own, table=copy)), other.table)
    assert not whole.reads_changes
    assert replace(whole, table=own.table, reads_changes=True) == diff
    return diff


@MERGES
def test_a_clone_is_compared_by_the_keys_that_changed(lake: Warehouse, dev: Warehouse, merge: str) -> None:
    model, own = built(lake, dev, merge)
    assert not compare_both_ways(dev, own, model).differs
    other = replace(own, sql=own.sql.replace("v from", "if(id % 5 = 0, v + 1, v) as v from") + " where id > 1")
    dev.run(other)
    assert compare_both_ways(dev, other, model).counts == {"added": 0, "removed": 2, "changed": 3}
    lake.load("s", [(i, i % 3, i * 10) for i in range(1, 22)], "id int, g int, v int")
    lake.run(model)
    assert compare_both_ways(dev, other, model).counts == {"added": 0, "removed": 3, "changed": 3}
    dev.run(other)
    assert compare_both_ways(dev, other, model).counts == {"added": 0, "removed": 1, "changed": 4}


def test_the_command_compares_clones_and_says_if_limits_are_exceeded(lake: Warehouse, dev: Warehouse) -> None:
    model, own = built(lake, dev, "on_write")
    other = replace(own, sql=own.sql + " where id > 0")
    dev.run(other)
    context = OperationContext(dev.reader, lambda: dev.spark, (other,))

    def answer(**given: Any) -> Any:
        return DIFF.run_operation(context, [other], DIFF.read_values(given))

    assert answer().differs
    assert answer().lines[0].startswith(f"{own.table} beside {model.table} (from change rows, ")
    assert answer().lines[1] == "  rows: 0 added, 1 removed, 0 changed, of 20"
    assert answer(other_schema=lake.namespace).data[0]["counts"]["removed"] == 1
    assert not answer(fail_on="removed>5%").differs
    assert answer(fail_on="removed>4%").lines[-1] == f"{own.table}: more than allowed: removed>4%"
    assert answer(markdown=True).lines[2] == "| m | 0 | 1 | 0 |  |"
    with pytest.raises(ConfigError, match="nothing to compare"):
        DIFF.run_operation(context, [model], DIFF.read_values({}))
    with pytest.raises(ConfigError, match="nothing to compare"):
        answer(other_schema="nowhere")
    reset_model(lake.session_of(model))
    with pytest.raises(ConfigError, match="dropped or renamed"):
        answer()


@pytest.mark.parametrize("seed", range(3))
@MERGES
def test_versions_are_compared_by_change_rows(lake: Warehouse, merge: str, seed: int) -> None:
    rng = random.Random(seed)
    model = lake.model("m", "select * from {s}", primary_key="id", merge=merge)
    versions, states = list[str](), list[dict[int, tuple[Any, ...]]]()
    for _ in range(5):
        states.append(random_rows(rng))
        lake.load("s", list(states[-1].values()), COLUMNS)
        outcome = lake.run(model)
        versions.append(str(outcome.version))
    session = lake.session_of(model)
    for first, last in [(0, 4), (1, 3), (3, 4), (2, 2)]:
        before, after = states[first], states[last]
        diff = compare_versions(session, versions[first], versions[last])
        both = before.keys() & after.keys()
        assert diff.counts == {
            "added": len(after.keys() - both),
            "removed": len(before.keys() - both),
            "changed": sum(exact(before[key]) != exact(after[key]) for key in both),
        }
        assert diff.other_rows == len(before)
        assert diff.reads_changes
    assert compare_versions(session, versions[0], None).counts == compare_versions(session, *versions[::4]).counts


def test_change_rows_without_the_rows_before_are_refused(lake: Warehouse) -> None:
    lake.append_v2("landed", [(1, 1, 1)], "id int, v int, lsn int")
    sql = "select id, v, lsn from {changes(landed)}"
    model = lake.model("m", sql, primary_key="id", input="changes", sequence_by="lsn", changelog="input")
    first = lake.run(model).version
    lake.append_v2("landed", [(1, 2, 2)], "id int, v int, lsn int")
    lake.run(model)
    with pytest.raises(ConfigError, match="`changelog: input`"):
        compare_versions(lake.session_of(model), str(first), None)


def test_the_command_compares_versions_states_and_models_below(lake: Warehouse, tmp_path: Path) -> None:
    lake.load("s", [(i, i % 3, f"secret{i}") for i in range(6)], "id int, g int, name string")
    top = replace(
        lake.model("m", "select id, g, name from {s}", primary_key="id"), masked=("Name",), node="model.shop.m"
    )
    below = lake.model("n", "select g, count(*) as n from {m} group by g", primary_key="g")
    other = lake.model("o", "select id from {s}", primary_key="id")
    first = str(lake.run(top).version)
    make_savepoint(lake.session_of(top), "cut", first)
    lake.run(below)
    lake.run(other)
    make_savepoint(lake.session_of(below), "cut")
    lake.load("s", [(i, i % 2, f"secret{9 - i}") for i in range(5)], "id int, g int, name string")
    lake.run(top)
    lake.run(below)
    context = OperationContext(lake.reader, lambda: lake.spark, (top, below, other))

    def answer(*models: Model, **given: Any) -> Any:
        return DIFF.run_operation(context, models, DIFF.read_values(given))

    whole = answer(top, start="cut")
    assert [diff["table"] for diff in whole.data] == [str(top.table), str(below.table)]
    assert whole.data[0]["counts"] == {"added": 0, "removed": 1, "changed": 5}
    assert whole.data[1]["counts"] == {"added": 0, "removed": 1, "changed": 1}
    assert whole.lines[0].startswith(f"{top.table} from cut to the newest version (from change rows, ")
    assert "secret" not in json.dumps(whole.data) + str(whole)
    assert whole.data[0]["examples"][0]["after"] is None or whole.data[0]["examples"][0]["after"]["name"][0] == "#"
    assert answer(top, start=first, end=first).data[0]["counts"]["changed"] == 0
    by_column = answer(top, start="cut", column="G")
    assert [example["kind"] for example in by_column.data[0]["examples"]] == ["changed"] * 3
    assert all(example["before"]["g"] != example["after"]["g"] for example in by_column.data[0]["examples"])
    with pytest.raises(ConfigError, match="no column x"):
        answer(top, start="cut", column="x")
    node = {"database": "lake", "schema": lake.namespace, "alias": "o", "resource_type": "model", "config": {}}
    (tmp_path / "manifest.json").write_text(json.dumps({"nodes": {"model.shop.m": node}}))
    by_state = answer(top, state=str(tmp_path))
    assert by_state.data[0]["other"] == str(other.table)
    assert [column["name"] for column in by_state.data[0]["added_columns"]] == ["g", "name"]
    node["database"] = "elsewhere"
    (tmp_path / "manifest.json").write_text(json.dumps({"nodes": {"model.shop.m": node}}))
    with pytest.raises(ConfigError, match="in another catalog"):
        answer(top, state=str(tmp_path))
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ConfigError, match="can't be read"):
        answer(top, state=str(tmp_path))
    with pytest.raises(ConfigError, match="not both"):
        answer(top, start="cut", state=str(tmp_path))
