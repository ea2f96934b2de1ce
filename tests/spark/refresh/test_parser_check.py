"""Spark compares queries with what our parser writes back of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.ivm.frontend import functions
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import GIVEN_UP, JUDGED
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh import fingerprint
from arctic_runtime.spark.refresh import increments
from arctic_runtime.spark.refresh import query_analysis as judging
from arctic_runtime.spark.refresh.query_analysis import compare_with_spark
from arctic_runtime.sql.spark_sql import write_sql
from tests.spark.warehouse import Warehouse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAITHFUL = [
    "select name = 'O''Brien' as a, ts - interval 1 day 2 hours as b, 'a' 'b' as c from judged",
    r"""select "it's" as a, r'\d' as b, 'it\'s' as c, '\\' as d""",
    "select -128Y as a, -9223372036854775808L as b, - 5 as c, 1 - -5 as d, - -id as e, 5D as f, .5 as h from judged",
    "select timestamp '2020-01-01 10:00:00' :: date :: string as a, date '2020-01-01' + 1 as b, -5::string as c",
    "select 1 & 2 >> 1 | 3 ^ 4 << 2 as a, name || name collate utf8_lcase as b, id + 1 || name as c from judged",
    "select concat(+'7', name) as a, interval '1-2' year to month as b, dateadd(day, 1, ts) as c from judged",
    "select name is not null as a, not name is null as b, id not in (1, 2) as c, id <=> g as d from judged",
    "select 2 - (1 - id) as a, 8 / (4 / id) as b, not (true and id = 1) or id = g = false as c from judged",
    "with a as (with b as (select id from judged) select * from b), c as (select a.id, g from a, judged j) "
    "select * from c union all select * from c",
    "with a as (select id, count(*) as n from judged group by id having count(*) > 1) "
    "select a.*, b.n as m from a join a b using (id)",
    "select a.id from judged a, judged b join judged c on b.id = c.id left join "
    "(judged d join judged e on d.g = e.g) on d.id = b.id",
    "select sum(id) over (partition by g order by ts range between interval 1 day 2 hours preceding and current row) "
    "as a, count(*) over () as b from judged",
    "select count(*) filter (where id > 1) as a, first(id) ignore nulls as b, max(struct(id, g)).g as c from judged",
    "select transform(array(id), x -> x + 1) as a, named_struct('a', id).a as b, array(id)[0] as c from judged",
    "select (id, g) as a, struct((id), (name)) as b, ((id, g)).g as c, ((id, name), id + 1) as d, "
    "(g, g) = (1, 1) as e, (g, g) in ((1, 1)) as f, transform(array(id), x -> (x, id)) as h from judged",
    "select id from judged j where exists (select 1 from judged k where k.id = j.id) and g not in (select 1)",
    "select position('a' in name), extract(week from ts), substr(name, 1) from judged",
    "select first_value(id), var_samp(id), approx_top_k(id, 2) from judged",
    "select id from judged union select g from judged except select 1 intersect select 2",
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> SparkSession:
    """A session with the view that the queries read."""
    values = "values (1L, 1, 'a', timestamp '2020-01-01 10:00:00') as t(id, g, name, ts)"
    spark.sql(f"create or replace temporary view judged as select * from {values}")
    return spark


def test_what_is_written_back_of_a_query_is_the_same_to_spark_by_its_plan_alone(
    judged: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "explain_plans", lambda *_: {})
    assert {sql: verdict.because for sql in FAITHFUL if not (verdict := compare_with_spark(judged, sql)).is_same} == {}


@pytest.mark.parametrize(
    "sql",
    [
        "with a as (select id, g from judged), b as (with c as (select id + 1 as i from a) select * from c) "
        "select * from b",
        "with a as (select id from judged), b as (select * from (with c as (select * from a) select * from c)) "
        "select a.id, b.id as other from a join b on a.id = b.id",
        "with a as (select g from judged) "
        "select id, (with c as (select max(g) as m from a) select m from c) as m from judged",
    ],
)
def test_a_with_inside_another_one_may_read_what_the_outer_one_names(judged: SparkSession, sql: str) -> None:
    assert compare_with_spark(judged, sql) == judging.Verdict(True)


@pytest.mark.parametrize(
    ("sql", "written", "named"),
    [
        (
            "select id, name = 'O''Brien' as a from judged",
            "select id, name = concat('O', 'Brien') as a from judged",
            "Brien",
        ),
        ("select id from judged where g - 1 > 2", "select id from judged where g > 2 - 1", "g"),
        ("select id from judged", "select g as id from judged", "id bigint"),
        ("select id from judged", "select x from judged", "does not take it"),
        ("select id from (values (1), (2)) as t(id)", "select id from (values (1), (3)) as t(id)", "Spark reads"),
        (
            "with a as (select g from judged) select * from a",
            "with a as (select g + 0 as g from judged) select * from a",
            "g",
        ),
        (
            "with a as (select g from judged), b as (with c as (select * from a) select * from c) select * from b",
            "with a as (select g from judged), b as (with c as (select * from a) select 0 as g from c) select * from b",
            "g",
        ),
    ],
)
def test_a_query_that_is_regenerated_differently_is_reported_with_the_expression(
    judged: SparkSession, monkeypatch: pytest.MonkeyPatch, sql: str, written: str, named: str
) -> None:
    monkeypatch.setattr(judging, "write_sql", lambda _: written)
    verdict = compare_with_spark(judged, sql)
    assert not verdict.is_same
    assert named in verdict.because


def test_plans_that_differ_are_the_same_where_the_optimizer_leaves_the_same(
    judged: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "write_sql", lambda _: "select id, not (name is null) as a from judged where id = 1")
    assert compare_with_spark(judged, "select id, name is not null as a from judged where id = 1").is_same


def test_a_fault_of_the_parser_is_caught(judged: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_parentheses(sql: str) -> exp.Query:
        return functions.parse_query(sql.replace("(", "").replace(")", ""))

    monkeypatch.setattr(judging, "parse_query", without_parentheses)
    verdict = compare_with_spark(judged, "select g - (id - 1) as a from judged")
    assert not verdict.is_same
    assert "id" in verdict.because


def test_the_settings_of_a_session_are_as_before(judged: SparkSession) -> None:
    before = dict(judged.conf.getAll)
    compare_with_spark(judged, FAITHFUL[0])
    assert dict(judged.conf.getAll) == before


EVENTS = "id int, name string, ts timestamp, g int, small tinyint"


def event(key: int, name: str) -> tuple[object, ...]:
    return (key, name, datetime.datetime(2024, 1, 10, tzinfo=datetime.timezone.utc), key, key)


def summary(lake: Warehouse, model: Model) -> Mapping[str, str]:
    changes = lake.state(model).changes
    assert changes is not None
    return changes.commits[-1].summary


def test_literals_and_operators_mean_in_an_increment_what_they_mean_in_the_query(lake: Warehouse) -> None:
    lake.append("events", [event(1, "O'Brien"), event(2, "OBrien")], EVENTS)
    model = lake.model(
        "read",
        "select id, name = 'O''Brien' as is_ob, ts - interval 1 day 2 hours as t0, small - -128Y as y, "
        "-9223372036854775808L as least, 1 & 2 >> id as bits, concat(+'7', name) as plus, "
        "timestamp '2020-01-01 10:00:00' :: date :: string as day, r'\\d' as raw from {events}",
        primary_key="id",
        refresh="strict",
    )
    assert lake.run(model).mode == "create"
    lake.append("events", [event(3, "O'Brien")], EVENTS)
    assert lake.run(model).mode == "incremental"
    assert lake.rows(model) == sorted_rows(lake.spark.sql(model.sql))
    assert lake.broken(model) == []


def test_spark_is_asked_about_a_query_and_its_views_once(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plainly = compare_with_spark

    def counted(spark: SparkSession, sql: str, *at: TableName) -> judging.Verdict:
        asked.append(sql)
        return plainly(spark, sql, *at)

    monkeypatch.setattr(judging, "compare_with_spark", counted)
    lake.append("events", [event(1, "a")], EVENTS)
    lake.spark.sql(f"create view {lake.sql_name('seen')} as select id, name from {lake.sql_name('events')}")
    model = lake.model("read", "select id, upper(name) as name from {seen}", primary_key="id")
    for key in (2, 3):
        lake.run(model)
        assert JUDGED in summary(lake, model)
        lake.append("events", [event(key, "b")], EVENTS)
    assert lake.run(model).mode == "incremental"
    assert len(asked) == 2
    assert asked[0] == model.sql
    changed = lake.model("read", "select id, lower(name) as name from {seen}", primary_key="id")
    lake.run(changed)
    assert asked[2] == changed.sql


def test_a_query_that_is_another_one_to_spark_is_computed_in_full(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("events", [event(1, "a")], EVENTS)
    model = lake.model("read", "select id, g - (small - 1) as d from {events}", primary_key="id")
    lake.run(model)
    monkeypatch.setattr(fingerprint, "WRITTEN_VERSION", 0)
    monkeypatch.setattr(judging, "write_sql", lambda query: write_sql(query).replace("(", "").replace(")", ""))
    lake.append("events", [event(2, "b")], EVENTS)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "NOT_SAME_TO_SPARK")
    assert "small" in outcome.because
    assert lake.rows(model) == [(1, 1), (2, 1)]
    lake.append("events", [event(3, "c")], EVENTS)
    explained = lake.refresh_of(model).planner.explain_refresh().decision
    assert (explained.mode, explained.because) == ("full", outcome.because)
    strict = lake.model("strict", "select id, g - (small - 1) as d from {events}", primary_key="id", refresh="strict")
    with pytest.raises(PlanError, match="NOT_SAME_TO_SPARK"):
        lake.run(strict)
    assert lake.state(strict).changes is None


def test_a_query_with_a_nested_with_is_created_and_followed(lake: Warehouse) -> None:
    lake.append("events", [event(1, "a")], EVENTS)
    model = lake.model(
        "nested",
        "with first as (select id, name from {events}), second as (with third as (select * from first) "
        "select id, upper(name) as name from third) select * from second",
        primary_key="id",
        refresh="strict",
    )
    assert lake.run(model).mode == "create"
    lake.append("events", [event(2, "b")], EVENTS)
    assert lake.run(model).mode == "incremental"
    assert lake.rows(model) == [(1, "A"), (2, "B")]


def test_a_script_is_run_by_every_run_and_never_followed(lake: Warehouse) -> None:
    lake.append("events", [event(1, "a")], EVENTS)
    script = "select transform(id, name) using 'cat' as (id int, name string) from {events}"
    model = lake.model("scripted", script, primary_key="id")
    assert lake.run(model).mode == "create"
    for rows, expected in (([], [(1, "a")]), ([event(2, "b")], [(1, "a"), (2, "b")])):
        lake.append("events", rows, EVENTS)
        outcome = lake.run(model)
        assert (outcome.mode, outcome.reason, outcome.because) == ("full", "NON_DETERMINISTIC", "TRANSFORM … USING")
        assert lake.rows(model) == expected
    with pytest.raises(PlanError, match="NON_DETERMINISTIC"):
        lake.run(lake.model("strict", script, primary_key="id", refresh="strict"))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (lambda tree: tree.replace("`g` AS", "cast(`g` as bigint) AS"), "column n is a int in the query"),
        (lambda tree: tree.replace("`g`", "`nothing`"), "Spark does not take the tree of the query"),
        (lambda tree: tree.replace("SELECT", "SELEC"), "Spark does not take the tree of the query"),
    ],
    ids=["type", "name", "syntax"],
)
def test_a_tree_that_is_another_query_to_spark_is_refused_before_it_is_run(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, changed: Callable[[str], str], named: str
) -> None:
    """It is refused when the table is created, so what else reads the tree (upkeep, forgetting) never runs it."""
    lake.append("events", [event(1, "a")], EVENTS)
    model = lake.model("read", "select id, g as n from {events}", primary_key="id")
    monkeypatch.setattr(judging, "render_sql", lambda tree: changed(render_sql(tree)))
    assert lake.run(model).mode == "create"
    assert summary(lake, model)[GIVEN_UP].startswith("NOT_SAME_TO_SPARK")
    assert named in summary(lake, model)[GIVEN_UP]
    lake.append("events", [event(2, "b")], EVENTS)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "NOT_SAME_TO_SPARK")
    assert lake.rows(model) == [(1, 1), (2, 2)]
    with pytest.raises(PlanError, match="NOT_SAME_TO_SPARK"):
        lake.run(lake.model("strict", "select id, g as n from {events}", primary_key="id", refresh="strict"))


def test_a_text_that_spark_takes_only_inside_the_query_is_computed_in_full(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> judging.Verdict:
        lake.spark.sql("select nothing")
        raise AssertionError

    monkeypatch.setattr(judging, "compare_with_spark", fail)
    lake.append("events", [event(1, "a")], EVENTS)
    model = lake.model("read", "select id, g as n from {events}", primary_key="id")
    assert lake.run(model).mode == "create"
    assert "Spark does not take it by itself: [UNRESOLVED_COLUMN" in summary(lake, model)[GIVEN_UP]


def test_a_column_of_another_type_than_the_querys_is_never_written(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("events", [event(1, "a")], EVENTS)
    model = lake.model("read", "select id, g as n from {events}", primary_key="id")
    lake.run(model)
    monkeypatch.setattr(
        increments, "render_sql", lambda tree: render_sql(tree).replace("`g` AS", "cast(`g` as bigint) AS")
    )
    lake.append("events", [event(2, "b")], EVENTS)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "NOT_SAME_TO_SPARK")
    assert "column n is a int in the query" in outcome.because
    assert lake.rows(model) == [(1, 1), (2, 2)]
    assert summary(lake, model)[GIVEN_UP].startswith("NOT_SAME_TO_SPARK")


def test_a_check_that_is_another_one_to_spark_is_refused_and_nothing_is_written(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.load("s", [(1, "O'Brien"), (2, "b")], "id int, v string")
    checks = ("v <> 'O''Neil' -- never", "id < 3L and v rlike '[a-zA-Z]'")
    good = lake.model("m", "select id, v from {s}", primary_key="id", checks=checks)
    assert lake.actions(lake.run(good)) == (2, 0, 0)
    assert lake.broken(good) == []
    monkeypatch.setattr(judging, "write_sql", lambda query: write_sql(query).replace("3L", "30L"))
    bad = lake.model("n", "select id, v from {s}", primary_key="id", checks=checks)
    with pytest.raises(ConfigError, match=r"(?s)read a check constraint differently.*constraint: id < 3L.*what to do"):
        lake.run(bad)
    assert lake.state(bad).changes is None
