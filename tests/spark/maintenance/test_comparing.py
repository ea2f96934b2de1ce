"""Two tables with one key are compared: every row that differs is counted once, and no other."""

from __future__ import annotations

import collections
import json
import random
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table_diff import ColumnDiff, Counterpart, RowExample, TableDiff, ValueChange
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.cloning import clone_model, reset_model
from arctic_runtime.spark.maintenance.paired_rows import DiffRequest
from arctic_runtime.spark.maintenance.savepoint import make_savepoint
from arctic_runtime.spark.maintenance.table_comparison import compare_versions, compare_with_table
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, v double, s struct<x:int>, m map<string,int>"
MERGES = pytest.mark.parametrize("merge", [pytest.param("on_write", marks=pytest.mark.slow), "on_read"])


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


@pytest.mark.in_turn
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
    rows = dev.spark.table(quote_name(*other.table.parts)).count()
    assert {diff.other_rows, whole.other_rows} <= {None, rows}
    counted = compare_with_table(dev.session_of(own), other.table, DiffRequest(needs_rows=True))
    assert counted == replace(diff, other_rows=rows)
    assert replace(whole, table=own.table, reads_changes=True) == diff
    return diff


@pytest.mark.in_turn
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


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(2))
@MERGES
def test_versions_of_a_query_differ_as_their_rows_do(lake: Warehouse, merge: str, seed: int) -> None:
    rng = random.Random(seed)
    model = lake.model("m", "select * from {s}", primary_key="id", merge=merge)
    versions, states = list[str](), list[dict[int, tuple[Any, ...]]]()
    for _ in range(5):
        states.append(random_rows(rng))
        lake.load("s", list(states[-1].values()), COLUMNS)
        versions.append(str(lake.run(model).version))
    session = lake.session_of(model)
    for first, last in [(0, 4), (1, 3), (3, 4), (2, 2)]:
        before, after = states[first], states[last]
        diff = compare_versions(session, versions[first], versions[last], DiffRequest(needs_rows=True))
        both = before.keys() & after.keys()
        assert diff.counts == {
            "added": len(after.keys() - both),
            "removed": len(before.keys() - both),
            "changed": sum(exact(before[key]) != exact(after[key]) for key in both),
        }
        assert diff.other_rows == len(before)
        assert diff.reads_changes
    make_savepoint(session, "good", versions[0])
    named = compare_versions(session, "good", None)
    assert named.counts == compare_versions(session, versions[0], versions[4]).counts
    assert named.versions == ("good", versions[4])


EVENTS = "id int, lsn int, op string, g string, v double"
EVENT_WAYS = [
    {"merge": "on_write"},
    {"merge": "on_read", "keep": "all"},
    {"merge": "on_read", "changelog": "input"},
]


def random_events(rng: random.Random, lsn: int) -> list[tuple[Any, ...]]:
    return [
        (rng.randint(0, 9), lsn + i, rng.choice("uud"), rng.choice([None, "a", "b"]), rng.choice([0.0, -0.0, 1.5]))
        for i in range(rng.randint(1, 12))
    ]


def build_events(place: Warehouse, **config: Any) -> Model:
    sql = "select id, lsn, op, g, v from {changes(e)}"
    keys = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'"}
    return place.model("m", sql, **keys, exclude_columns=["op"], **config)


@pytest.mark.slow
@pytest.mark.parametrize("config", EVENT_WAYS, ids=lambda config: "-".join(config.values()))
def test_versions_and_clones_of_events_differ_as_their_rows_do(
    lake: Warehouse, dev: Warehouse, config: dict[str, Any]
) -> None:
    rng = random.Random(17)
    model, lsn = build_events(lake, **config), 0
    heads: list[int] = []
    states: list[dict[int, tuple[Any, ...]]] = []

    def follow(place: Warehouse, own: Model) -> None:
        nonlocal lsn
        lake.append("e", random_events(rng, lsn), EVENTS)
        lsn += 100
        place.run(own)

    for _ in range(4):
        follow(lake, model)
        heads.append(lake.head(model))
        states.append({row[0]: row for row in lake.rows(model)})
    session = lake.session_of(model)
    for start in range(4):
        for end in range(start, 4):
            diff = compare_versions(session, heads[start], heads[end], DiffRequest(needs_rows=True))
            before, after = states[start], states[end]
            both = before.keys() & after.keys()
            assert diff.counts == {
                "added": len(after.keys() - both),
                "removed": len(before.keys() - both),
                "changed": sum(exact(before[key]) != exact(after[key]) for key in both),
            }
            assert diff.other_rows == len(before)
            assert diff.differs == any(diff.counts.values())
    own = replace(model, table=dev.table("m"))
    clone_model(dev.session_of(own), CloneRequest(model.table, round(1000 * time.time()), "s", "me"))
    assert not compare_both_ways(dev, own, model).differs
    follow(dev, own)
    compare_both_ways(dev, own, model)
    follow(lake, model)
    assert compare_both_ways(dev, own, model).differs
    follow(dev, own)
    compare_both_ways(dev, own, model)


def test_a_diff_of_equal_versions_and_clones_asks_nothing_of_spark(lake: Warehouse, dev: Warehouse) -> None:
    model, own = built(lake, dev, "on_write")
    same = compare_versions(lake.session_of(model, refuse), lake.head(model), None)
    assert not same.differs
    assert same.versions == (str(lake.head(model)), str(lake.head(model)))
    clone = compare_with_table(dev.session_of(own), model.table)
    assert (clone.other_rows, clone.cost.rows, clone.cost.bytes) == (20, 0, 0)  # type: ignore[union-attr]


def test_columns_of_versions_are_compared_as_they_were(lake: Warehouse) -> None:
    lake.load("s", [(1, 1, "x"), (2, 2, "y"), (3, 3, "z")], "id int, n int, old string")
    model = lake.model("m", "select id, n, old from {s}", primary_key="id", on_schema_change="sync_all_columns")
    lake.run(model)
    start = lake.head(model)
    other = replace(
        model, sql=model.sql.replace("n, old", "cast(n * 10 as bigint) as n, 'w' as more") + " where id > 1"
    )
    lake.run(other)
    diff = compare_versions(lake.session_of(other), start, None)
    assert diff.counts == {"added": 0, "removed": 1, "changed": 2}
    assert [column.name for column in diff.added_columns] == ["more"]
    assert [column.name for column in diff.removed_columns] == ["old"]
    assert diff.retyped_columns == (("n", "int", "bigint"),)
    assert [(column.name, column.rows) for column in diff.columns] == [("n", 2)]


@pytest.mark.in_turn
@pytest.mark.parametrize("change", ["'x' as more, v", "v as renamed", "cast(v as bigint) as v", "v"])
def test_a_clone_with_other_columns_is_compared_as_its_rows_are(lake: Warehouse, dev: Warehouse, change: str) -> None:
    model, own = built(lake, dev, "on_write")
    other = replace(own, sql=own.sql.replace("v from", f"{change} from") + " where id > 2")
    dev.run(replace(other, config=replace(own.config, on_schema_change="sync_all_columns")))
    assert compare_both_ways(dev, other, model).counts["removed"] == 3


def test_examples_of_a_column_are_rows_in_which_it_changed(lake: Warehouse, dev: Warehouse) -> None:
    model, own = built(lake, dev, "on_write")
    other = replace(own, sql=own.sql.replace("g, v from", "if(id = 7, 9, g) as g, v + id % 2 as v from"))
    dev.run(other)
    session = dev.session_of(other)
    diff = compare_with_table(session, model.table, DiffRequest(column="G"))
    assert [(row.kind, row.key) for row in diff.examples] == [("changed", {"id": 7})]
    diff = compare_with_table(session, model.table, DiffRequest(column="v", examples=50))
    assert [row.key["id"] for row in diff.examples] == list(range(1, 20, 2))
    assert compare_with_table(session, model.table, DiffRequest(column="id")).examples == ()


@pytest.mark.in_turn
def test_a_masked_value_is_shown_by_no_way(lake: Warehouse, dev: Warehouse, monkeypatch: Any) -> None:
    canary, secret = "canary-4711", "hunter2-4712"
    rows = [(f"{canary}-{i}", f"{canary}-{i % 2}", f"x {secret}") for i in range(4)]
    lake.load("s", rows, "id string, mail string, note string")
    model = lake.model("m", "select id, mail, note from {s}", primary_key="id")
    lake.run(model)
    start = lake.head(model)
    own = replace(model, table=dev.table("m"), masks={"id": True})
    clone_model(dev.session_of(own), CloneRequest(model.table, round(1000 * time.time()), "s", "me"))
    changed = "select id, concat(mail, '!') as mail, concat(note, '!') as note from {s}".format(s=lake.sql_name("s"))
    other = replace(own, sql=changed.replace("!", "?") + f" where id <> '{canary}-0'")
    dev.run(other)
    lake.run(replace(model, sql=changed))
    monkeypatch.setenv("DBT_ENV_SECRET_NOTE", secret)
    others = {own.table: Counterpart(model.table, {"mail": True})}
    context = OperationContext(dev.reader, lambda: dev.spark, (other,), find_counterparts=lambda *_: others)
    masked = replace(model, masks={"id": True, "mail": True})
    for markdown in (False, True):
        given: dict[str, Any] = {"markdown": markdown, "limit": 9}
        answers = [
            DIFF.run_operation(context, [other], DIFF.read_values({**given, "state": "prod"})),
            DIFF.run_operation(context, [other], DIFF.read_values({**given, "state": "prod", "column": "mail"})),
            DIFF.run_operation(context, [masked], DIFF.read_values({**given, "start": start})),
        ]
        for answer in answers:
            shown = f"{answer} {json.dumps(answer.data, default=str)} {encode_json(answer.data).decode()} {answer!r}"
            assert answer.differs
            assert "masked:" in shown
            assert canary not in shown
            assert secret not in shown
            assert answer.data[0]["masked_columns"] == ("id", "mail")


@pytest.mark.in_turn
def test_the_command_compares_what_is_below_too(lake: Warehouse, dev: Warehouse) -> None:
    _, own = built(lake, dev, "on_write")
    below = lake.model("sums", "select g, count(*) as n from {m} group by g", primary_key="g")
    lake.run(below)
    own_below = dev.model("sums", "select g, count(*) as n from {m} group by g", primary_key="g")
    clone_model(dev.session_of(own_below), CloneRequest(below.table, round(1000 * time.time()), "s", "me"))
    names = {own.table: [own_below.table]}
    context = OperationContext(
        dev.reader,
        lambda: dev.spark,
        (own, own_below),
        list_descendants=lambda tables: [below for table in tables for below in names.get(table, ())],
    )

    def answer(**given: Any) -> Any:
        return DIFF.run_operation(context, [own], DIFF.read_values(given))

    assert answer().lines == (f"no differences: {own.table}, {own_below.table}",)
    assert answer(only=True).lines == (f"no differences: {own.table}",)
    dev.run(replace(own, sql=own.sql + " where id > 0"))
    dev.run(own_below)
    assert [diff["counts"]["changed"] for diff in answer().data] == [0, 1]
    with pytest.raises(ConfigError, match="No compared table has a column"):
        answer(column="vv")
    with pytest.raises(ConfigError, match="A version to compare with is missing"):
        answer(end="1")
    with pytest.raises(ConfigError, match="not both"):
        answer(start="1", other_schema="x")


@pytest.mark.in_turn
def test_the_command_compares_clones_and_says_if_limits_are_exceeded(lake: Warehouse, dev: Warehouse) -> None:
    model, own = built(lake, dev, "on_write")
    other = replace(own, sql=own.sql + " where id > 0")
    dev.run(other)
    context = OperationContext(dev.reader, lambda: dev.spark, (other,))

    def answer(**given: Any) -> Any:
        return DIFF.run_operation(context, [other], DIFF.read_values(given))

    assert answer().differs
    assert answer().lines[1] == "  rows: 0 added, 1 removed, 0 changed, of 20"
    assert answer(other_schema=lake.namespace).data[0]["counts"]["removed"] == 1
    assert not answer(fail_on="removed>5%").differs
    assert answer(fail_on="removed>4%").lines[-1] == f"{own.table}: more than allowed: removed>4%"
    assert answer(markdown=True).lines[2] == "| m | 0 | 1 | 0 |  |"
    assert re.fullmatch(r"  compared in \d+\.\d s, files of 1 rows and [\d,]+ bytes, change rows", answer().lines[-1])
    with pytest.raises(ConfigError, match="nothing to compare"):
        DIFF.run_operation(context, [model], DIFF.read_values({}))
    with pytest.raises(ConfigError, match="nothing to compare"):
        answer(other_schema="nowhere")
    reset_model(lake.session_of(model))
    with pytest.raises(ConfigError, match="dropped or renamed"):
        answer()
