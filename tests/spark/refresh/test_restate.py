"""A part of a table that a predicate selects is computed anew: it is right afterwards, and the rest is as it was."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.model.table import Model
from arctic_runtime.spark.refresh.restate import RestatedPart, count_restated, restate_part
from tests.crash.dying import dying
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Rows, Warehouse, refuse, sorted_rows

pytestmark = pytest.mark.in_turn

ORDERS = "id bigint, customer int, amount int, day date"
NAMES = "customer int, name string"
SQL = "select o.id, o.amount, o.day, n.name from {orders} o left join {names} n on n.customer = o.customer"
MONTH = "day >= '2026-01-11' and day < '2026-01-21'"


def day(number: int) -> datetime.date:
    return datetime.date(2026, 1, number)


def load(lake: Warehouse, orders: Rows | None = None, names: Rows | None = None) -> None:
    """Lands orders and names, which arctic models with keys follow."""
    for name, rows, columns, key in (
        ("orders", orders or [(i, i % 3, i, day(i + 1)) for i in range(30)], ORDERS, "id"),
        ("names", names or [(i, f"name {i}") for i in range(3)], NAMES, "customer"),
    ):
        lake.load(f"raw_{name}", rows, columns)
        lake.run(lake.model(name, f"select * from {{raw_{name}}}", primary_key=key))


def built(lake: Warehouse, sql: str = SQL, key: Any = "id", **config: Any) -> Model:
    load(lake)
    model = lake.model("m", sql, primary_key=key, **config)
    lake.run(model)
    return model


def damage(lake: Warehouse, model: Model, *statements: str) -> None:
    """Changes rows of the base table behind the back of the change table."""
    for statement in statements:
        lake.spark.sql(statement.format(t=lake.sql_name(model.base.name)))


def restate(lake: Warehouse, model: Model, where: str) -> RestatedPart:
    return restate_part(lake.refresh_of(model), where)


def actions(part: RestatedPart) -> tuple[int, int, int]:
    return part.rows["insert"], part.rows["update"], part.rows["delete"]


DAMAGES = (
    "update {t} set amount = -1 where id in (3, 12)",
    "delete from {t} where id in (4, 13)",
    "insert into {t} select 100, 1, date '2026-01-15', 'x'",
    "insert into {t} select 101, 1, date '2026-01-25', 'x'",
    "update {t} set day = date '2026-01-02' where id = 14",
    "update {t} set day = date '2026-01-12' where id = 25",
)
MENDED = {12, 13, 14, 25, 100}


def mend(damaged: Rows, right: Rows, keys: set[int]) -> Rows:
    """The damaged rows, with those of the given keys as they have to be."""
    return sorted([row for row in damaged if row[0] not in keys] + [row for row in right if row[0] in keys], key=repr)


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_in_the_part_are_right_and_the_others_are_as_they_were(lake: Warehouse, is_known: bool) -> None:
    # The analysis knows no query with a limit.
    model = built(lake, SQL if is_known else f"select * from ({SQL} limit 1000)")
    damage(lake, model, *DAMAGES)
    before = lake.rows(model)
    counted = count_restated(lake.refresh_of(model), MONTH)
    assert lake.rows(model) == before
    done = restate(lake, model, MONTH)
    assert (actions(done), counted.rows, counted.reads) == ((1, 3, 1), done.rows, done.reads)
    assert (done.reads == ("reads its upstreams as they are now",)) is not is_known
    assert lake.rows(model) == mend(before, sorted_rows(lake.spark.sql(model.sql)), MENDED)
    last = lake.log(model)[-5:]
    assert {row["id"] for row in last} == MENDED
    assert restate(lake, model, MONTH).rows == {"insert": 0, "update": 0, "delete": 0, "upsert": 0}
    assert lake.run(model, refuse).mode == "unchanged"


@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.in_turn)])
def test_a_corrected_function_reaches_the_part_and_the_models_below(lake: Warehouse, merge: str) -> None:
    lake.spark.udf.register("price", lambda amount: amount + 1, "int")
    sql = "select id, day, price(amount) as price from {orders}"
    model = built(lake, sql, deterministic_functions=["price"], merge=merge)
    below = lake.model("below", "select day, sum(price) as total from {m} group by day", primary_key="day")
    lake.run(below)
    lake.spark.udf.register("price", lambda amount: amount * 2, "int")
    assert actions(restate(lake, model, MONTH)) == (0, 10, 0)
    assert lake.rows(model) == sorted(((i, day(i + 1), i * 2 if 10 <= i < 20 else i + 1) for i in range(30)), key=repr)
    outcome = lake.run(below)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 10, 0))
    assert lake.rows(below) == sorted_rows(lake.spark.sql(below.sql))
    assert [text for text in lake.broken(model) if "the query gives" not in text] == []


def test_the_part_is_of_the_versions_that_the_last_run_read(lake: Warehouse) -> None:
    model = built(lake)
    right = lake.rows(model)
    damage(lake, model, *DAMAGES)
    before = lake.rows(model)
    orders = [(i, 0, 500 + i, day(i + 1)) for i in range(30) if i != 15]
    load(lake, orders)
    restate(lake, model, MONTH)
    assert lake.rows(model) == mend(before, right, MENDED)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("incremental", "CHANGES")
    assert [row for row in lake.rows(model) if row[0] in MENDED] == [
        row for row in sorted_rows(lake.spark.sql(model.sql)) if row[0] in MENDED
    ]


def test_a_part_that_can_not_be_read_as_of_the_last_run_is_refused(lake: Warehouse) -> None:
    model = built(lake, f"select * from ({SQL} limit 1000)")
    load(lake, [(1, 1, 1, day(1))])
    with pytest.raises(PlanError, match=r"can't be computed as of its last run: .*\n.*orders.*\n.*\n.*dbt run -s m"):
        restate(lake, model, MONTH)
    lake.run(model)
    restate(lake, model, MONTH)


def test_what_can_not_be_restated_is_refused_by_name(lake: Warehouse) -> None:
    model = built(lake)
    for where, message in (
        ("amuont > 1", r"did you mean 'amount'"),
        ("amount", "can't select rows"),
        ("sum(amount) > 1", "an aggregate"),
        ("id in (select id from orders)", "subquery"),
    ):
        with pytest.raises(ConfigError, match=message):
            restate(lake, model, where)
    edited = lake.model("m", SQL.replace("o.amount", "o.amount + 1 as amount"), primary_key="id")
    with pytest.raises(PlanError, match=r"query.*changed.*\n.*\n.*dbt run -s m` first"):
        restate(lake, edited, MONTH)
    with pytest.raises(ConfigError, match="has not been built"):
        restate(lake, lake.model("new", SQL, primary_key="id"), "id = 1")


def test_a_run_that_comes_first_is_restated_as_well(lake: Warehouse) -> None:
    model = built(lake)
    damage(lake, model, "update {t} set amount = -1 where id = 12")
    load(lake, [(i, 0, 500 + i, day(i + 1)) for i in range(30) if i != 12] + [(12, 0, 12, day(13))])
    session = lake.environment.new_session()
    with once_before("commit.publish", lambda: lake.run(model, lambda: session)):
        restate(lake, model, MONTH)
    assert lake.rows(model) == sorted_rows(lake.spark.sql(model.sql))
    assert lake.branches(model) == set()


@pytest.mark.slow
def test_a_death_at_any_effect_leaves_the_part_as_it_was_or_right(lake: Warehouse) -> None:
    model = built(lake)
    right = lake.rows(model)
    last, deaths = 0, 0
    while True:
        damage(lake, model, "update {t} set amount = -1 where id = 12")
        session = lake.environment.new_session()
        refresh = lake.refresh_of(model, lambda session=session: session)  # type: ignore[misc]
        life = dying(last, lambda refresh=refresh: restate_part(refresh, MONTH))  # type: ignore[misc]
        if life is None:
            break
        deaths += 1
        assert [row for row in lake.rows(model) if row[0] != 12] == [row for row in right if row[0] != 12]
        restate(lake, model, MONTH)
        assert lake.rows(model) == right
        last += 1
    assert deaths > 2
    assert lake.rows(model) == right


PREDICATES = (
    "amount > {n}",
    "day < date '2026-01-{n:02}'",
    "id % 3 = {n} % 3 or name is null",
    "name like 'name %' and not amount between {n} and 20",
    "coalesce(name, 'none') <> concat('name ', {n} % 3)",
)
QUERIES = (
    (SQL, "id"),
    ("select day, max(id) as id, sum(amount) as amount, min(n.name) as name from {orders} o "
     "join {names} n on n.customer = o.customer group by day", "day"),
    ("select * from (select id, amount, day, 'a' as name from {orders} union all "
     "select id + 1000, amount, day, 'b' from {orders})", ["id", "name"]),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_parts_of_random_tables_are_right_and_the_rest_is_as_before(lake: Warehouse, seed: int) -> None:
    random = Random(seed)
    sql, key = random.choice(QUERIES)
    load(lake, [(i, random.randrange(4), random.randrange(30), day(random.randrange(1, 20))) for i in range(40)])
    model = lake.model("m", sql, primary_key=key)
    lake.run(model)
    damage(
        lake,
        model,
        f"update {{t}} set amount = amount + {random.randrange(1, 9)} where id % 3 = {random.randrange(3)}",
        f"delete from {{t}} where id % 5 = {random.randrange(5)}",
        f"update {{t}} set name = 'name 0' where id % 4 = {random.randrange(4)}" if "name" not in key else "select 1",
    )
    where = random.choice(PREDICATES).format(n=random.randrange(1, 20))
    table = lake.sql_name("m")
    query = lake.spark.sql(model.sql)
    query.createOrReplaceTempView("wanted")
    names = [key] if isinstance(key, str) else key
    keys = ", ".join(names)
    part = {
        tuple(row)
        for row in lake.spark.sql(
            f"select {keys} from {table} where {where} union select {keys} from wanted where {where}"
        ).collect()
    }
    rows = {name: {tuple(row[part] for part in names): tuple(row) for row in frame.collect()}
            for name, frame in (("before", lake.spark.table(table)), ("wanted", query))}  # fmt: skip
    counted = count_restated(lake.refresh_of(model), where)
    done = restate(lake, model, where)
    assert (counted.rows, done.version) == (done.rows, lake.head(model)), (seed, where)
    expected = {
        **{key: row for key, row in rows["before"].items() if key not in part},
        **{key: row for key, row in rows["wanted"].items() if key in part},
    }
    assert lake.rows(model) == sorted(expected.values(), key=repr), (seed, sql, where)
