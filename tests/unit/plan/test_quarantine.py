"""A model and its quarantine: each row of the query is in one of the two, by the tests that it fails."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_columns
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_condition import RowCondition
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.quarantine import FAILED_TESTS, list_parts, split_model
from arctic_runtime.sql.types import quote_field
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, in_duckdb, load, rows
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images

ORDERS = TableName(CATALOG, SCHEMA, "orders")
TABLE = TableName(CATALOG, SCHEMA, "m")
CONFIG = ModelConfig(("id",), on_failed_row="quarantine")
STATE = RowCondition("state_known", "coalesce((m.state) IN ('paid', 'open'), TRUE)")
AMOUNT = RowCondition("amount_known", "((amount) IS NOT NULL)")
SQL = "with o as (select * from orders)\nselect id, amount, state from o where id < 10 -- a few"


def split(*tests: RowCondition, sql: str = SQL, **fields: Any) -> tuple[Model, Model]:
    model = split_model(Model(TABLE, sql, CONFIG, **fields), tests)
    assert model.quarantine is not None
    return model, model.quarantine


def put(con: Any, content: dict[str, list[tuple[Any, ...]]]) -> None:
    for name, held in content.items():
        load(con, TableName(CATALOG, SCHEMA, name), RELATIONS[f"lake.raw.{name}"].columns, held)
    con.execute("create or replace view paid as select id, customer, amount from orders where state = 'paid'")
    con.execute("create or replace macro array_compact(held) as list_filter(held, x -> x is not null)")
    con.execute("create or replace view named(item, cost) as select id, price from items")


@pytest.mark.parametrize("tests", [(), (STATE,), (AMOUNT,), (STATE, AMOUNT), (AMOUNT, STATE)])
def test_each_row_is_in_one_of_both(tests: tuple[RowCondition, ...]) -> None:
    model, failed = split(*tests)
    with connect() as con:
        put(con, random_rows(Random(1)))
        wanted = Counter[tuple[Any, ...]]()
        for row in rows(con, SQL).elements():
            fails = {"amount_known": row[1] is None, "state_known": row[2] not in ("paid", "open")}
            names = [test.test for test in sorted(tests, key=lambda test: test.test) if fails[test.test]]
            wanted[(*row, *([names] if names else []))] += 1
        made = Counter((*row[:3], *map(list, row[3:])) for part in model.parts for row in _fetch(con, part.sql))
    assert {repr(row): count for row, count in made.items()} == {repr(row): count for row, count in wanted.items()}
    assert FAILED_TESTS in failed.sql


def _fetch(con: Any, sql: str) -> list[tuple[Any, ...]]:
    return list(con.execute(in_duckdb(sql)).fetchall())


@pytest.mark.parametrize(("seed", "every"), [pytest.param(0, 37), pytest.param(1, 1, marks=pytest.mark.slow)])
def test_both_follow_changes(seed: int, every: int) -> None:
    """Every query that is followed by changes is followed with conditions of its rows, in both tables."""
    draw = Random(seed)
    followed = Counter[str]()
    for place, sql in enumerate(QUERIES[::every]):
        analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
        names = tuple(name for name, _ in analysed.outputs)
        if not all(names) or len(set(names)) < len(names) or "lateral view outer" in sql or "size(" in sql:
            continue
        column = quote_field(draw.choice(names))
        condition = RowCondition("t", f"({column} IS NOT NULL AND coalesce(cast({column} as string) <> '1', TRUE))")
        for number, part in enumerate(split(condition, sql=sql)):
            made = analyse_query(part.sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
            outputs = tuple(name for _, name in made.outputs)
            if list_columns(made.tree) != outputs:
                continue
            with connect() as con:
                content = random_rows(draw)
                put(con, content)
                con.execute(in_duckdb(f"create or replace view over_views as {_OVER_VIEWS}"))
                kept = Kept(2 * place + number, in_duckdb(part.sql), made, Facts(types=made.types), outputs[:1])
                compute(con, kept)
                for _ in range(2):
                    keep_old(con, content)
                    content |= dict(draw.sample(sorted(random_rows(draw).items()), 2))
                    put(con, content)
                    followed[follow(con, kept, make_images(con, content)).split()[0]] += 1
                    assert differing(con, kept) == 0, part.sql
    assert followed["units"] + followed["deltas"] > 5


_OVER_VIEWS = "select p.id, n.cost from paid p, named n where p.id = n.item"


def plan_strategy(sql: str, key: str, few_rows: bool) -> str:
    """The strategy by which a query is maintained, or the reason for which it is not."""
    analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
    names = dict(analysed.outputs)
    changed = frozenset(TableName(*name.split(".")) for name in RELATIONS)
    try:
        facts = Facts(types=analysed.types, few_rows=few_rows)
        return type(plan_maintenance(analysed.tree, (names[key],), changed, facts)).__name__
    except NotMaintained as refused:
        return refused.reason


@pytest.mark.parametrize("few_rows", [False, True])
def test_conditions_change_no_strategy(few_rows: bool) -> None:
    """So the runs of both tables cost what a run of the query costs."""
    strategies = Counter[str]()
    for sql in QUERIES[::7]:
        names = [name for name, _ in analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA).outputs]
        if all(names) and len(set(names)) == len(names):
            plain = plan_strategy(sql, names[0], few_rows)
            parts = split(RowCondition("t", f"({quote_field(names[-1])} IS NOT NULL)"), sql=sql)
            assert {plan_strategy(part.sql, names[0], few_rows) for part in parts} == {plain}, sql
            strategies[plain] += 1
    assert strategies["AffectedKeys"] > 5
    assert ("AggregateState" in strategies) == few_rows


def test_names_of_tests_do_not_change_the_query_of_the_table() -> None:
    model, failed = split(STATE, AMOUNT)
    renamed, failed_too = split(RowCondition("a", STATE.passes), RowCondition("z'\\", AMOUNT.passes))
    assert model.sql == renamed.sql
    assert failed.sql != failed_too.sql
    analyse_query(failed_too.sql, RELATIONS, VIEWS, CATALOG, SCHEMA)


def test_promises_are_about_the_rows_that_pass() -> None:
    """A quarantine has the layout of its table; a contract, its description and its views are the table's alone."""
    model, failed = split(STATE, not_null=("amount",), checks=("amount > 0",), comment="Orders", may_replace=True)
    assert (model.not_null, model.checks, model.comment, model.may_replace) == (
        ("amount",),
        ("amount > 0",),
        "Orders",
        True,
    )
    assert (failed.not_null, failed.checks, failed.comment, failed.may_replace) == ((), (), None, False)
    assert (failed.table, failed.quarantine, failed.tested_table) == (TABLE.quarantine, None, TABLE)
    assert model.parts == (failed, model)
    assert list_parts([model, failed]) == (failed, model, failed)
    assert {TABLE, TABLE.changes, TABLE.quarantine, TABLE.quarantine.changes} <= set(model.relations)


def test_other_models() -> None:
    plain = Model(TABLE, SQL, ModelConfig(("id",)))
    assert split_model(plain, [STATE]) is plain
    assert plain.parts == (plain,)
    assert [part.sql for part in split(STATE, sql="")] == ["", ""]
