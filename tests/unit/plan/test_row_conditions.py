"""The condition of a test is true for exactly the rows that the test does not return."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import dbt.include.global_project
import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_columns
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.row_conditions import (
    FAILED_TESTS,
    KNOWN_TESTS,
    DeclaredTest,
    RowCondition,
    build_condition,
    list_parts,
    split_model,
)
from arctic_runtime.sql.types import quote_field
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, in_duckdb, load, rows
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images

MACROS = Path(dbt.include.global_project.__file__).parent / "macros" / "generic_test_sql"
COLUMNS = (Column("id", "int"), Column("n", "int"), Column("s", "string"))

OTHER_TESTS = {
    "expression_is_true": "select * from {{ model }} where not({{ column_name or '' }} {{ expression }})",
    "accepted_range": (
        "select * from {{ model }} where 1 = 2 {% if min_value is not none %} or not {{ column_name }} "
        ">{{ '=' if inclusive }} {{ min_value }}{% endif %}{% if max_value is not none %} or not {{ column_name }} "
        "<{{ '=' if inclusive }} {{ max_value }}{% endif %}"
    ),
    "not_accepted_values": (
        "select value_field from (select distinct {{ column_name }} as value_field from {{ model }}) v "
        'where value_field in ({% for v in values %}{{ "\'" ~ v ~ "\'" if quote else v }}'
        "{{ ', ' if not loop.last }}{% endfor %})"
    ),
    "not_empty_string": (
        "select * from (select {{ 'trim(' ~ column_name ~ ')' if trim_whitespace else column_name }} as c "
        "from {{ model }}) t where c = ''"
    ),
}
"""Queries of tests that return the rows which fail, by the name of the test; those of dbt itself are read from dbt."""
DEFAULTS = {"quote": True, "inclusive": True, "trim_whitespace": True, "min_value": None, "max_value": None}


def write_test(name: str, arguments: dict[str, Any], where: str | None = None) -> str:
    """The query of a test, as dbt writes it."""
    model = "t" if where is None else f"(select * from t where {where}) dbt_subquery"
    values = {"column_name": None, **DEFAULTS, **arguments, "model": model}
    file = MACROS / f"{name}.sql"
    if name in OTHER_TESTS:
        return jinja2.Template(OTHER_TESTS[name]).render(values)
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    module: Any = environment.from_string(file.read_text(), {"should_store_failures": lambda: False}).module
    macro = getattr(module, f"default__test_{name}")
    return str(macro(**{key: value for key, value in values.items() if key in macro.arguments}))


def declare(name: str, arguments: dict[str, Any], where: str | None = None) -> DeclaredTest:
    macro = next(known for known in KNOWN_TESTS if known.endswith(f".test_{name}"))
    model = "{{ get_where_subquery(ref('t')) }}"
    return DeclaredTest(name, macro, {**arguments, "model": model}, where)


TESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("not_null", {"column_name": "n"}),
    ("not_null", {"column_name": "`s`"}),
    ("accepted_values", {"column_name": "s", "values": ["a", " ", 1]}),
    ("accepted_values", {"column_name": "n", "values": [1, 2], "quote": False}),
    ("expression_is_true", {"expression": "n > 1 or s = 'a'"}),
    ("expression_is_true", {"expression": "n > 1 -- large\n or s = 'a'\n"}),
    ("expression_is_true", {"expression": "in (1, 2) and s is not null", "column_name": "n"}),
    ("expression_is_true", {"expression": "s between 'a' and 'b'"}),
    ("accepted_range", {"column_name": "n", "min_value": 1}),
    ("accepted_range", {"column_name": "n", "max_value": "id", "inclusive": False}),
    ("accepted_range", {"column_name": "n", "min_value": 1, "max_value": 2}),
    ("accepted_range", {"column_name": "n"}),
    ("not_accepted_values", {"column_name": "s", "values": ["a", ""]}),
    ("not_accepted_values", {"column_name": "n", "values": [1], "quote": False}),
    ("not_empty_string", {"column_name": "s"}),
    ("not_empty_string", {"column_name": "s", "trim_whitespace": False}),
)


@pytest.mark.parametrize(("name", "arguments"), TESTS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_conditions_agree_with_tests(name: str, arguments: dict[str, Any], data: st.DataObject) -> None:
    """For each row alone, the test returns something if and only if the condition is false."""
    where = data.draw(st.sampled_from([None, "n <> 2", "s is null or n = 1"]))
    condition = build_condition(declare(name, arguments, where))
    assert condition is not None
    row = (data.draw(st.integers(0, 3)), *data.draw(st.tuples(_numbers, _texts)))
    with connect() as con:
        load(con, "t", COLUMNS, [row])
        failed = rows(con, write_test(name, arguments, where))
        ((passes,),) = rows(con, f"select {condition.passes} from t")
        assert passes is (not failed), (row, condition.passes)


_numbers = st.none() | st.integers(0, 3)
_texts = st.none() | st.sampled_from(["a", "b", "", " ", "1"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("accepted_values", {"column_name": "s", "values": ["{{ var('x') }}"]}),
        ("accepted_values", {"column_name": "s", "values": "a"}),
        ("accepted_values", {"column_name": "s", "values": []}),
        ("accepted_values", {"column_name": "s", "values": ["O'Brien"]}),
        ("accepted_values", {"column_name": "s", "values": ["a') or ('b"]}),
        ("accepted_values", {"column_name": "s", "values": ["a"], "quote": "{{ true }}"}),
        ("accepted_values", {"column_name": "s", "values": ["a"], "other": 1}),
        ("expression_is_true", {"expression": "n in (select n from {{ ref('other') }})"}),
        ("expression_is_true", {"expression": "n > 1) or (n < 1"}),
        ("expression_is_true", {"expression": "n > 1), (n < 1"}),
        ("expression_is_true", {"expression": "1) from t where (true"}),
        ("expression_is_true", {"expression": "1; drop table t"}),
        ("expression_is_true", {"expression": "n > 1 /* never closed"}),
        ("expression_is_true", {"expression": ""}),
        ("expression_is_true", {"expression": None}),
        ("expression_is_true", {"expression": "(" * 2000}),
        ("not_null", {}),
        ("not_null", {"column_name": ["a"]}),
    ],
)
def test_other_arguments(name: str, arguments: dict[str, Any]) -> None:
    assert build_condition(declare(name, arguments)) is None


def test_other_tests() -> None:
    """A test whose macro is not known, or is one of the project with the name of a known one, decides nothing."""
    for macro in ("macro.dbt.test_unique", "macro.dbt.test_relationships", "macro.shop.test_not_null"):
        assert build_condition(DeclaredTest("t", macro, {"column_name": "n"})) is None


def test_a_where_of_jinja() -> None:
    assert build_condition(declare("not_null", {"column_name": "n"}, "s > '{{ var(1) }}'")) is None


@pytest.mark.parametrize(("column", "is_condition"), [("id", False), ("`ID`", False), ("n", True), ("id + 1", True)])
def test_nulls_of_the_key(column: str, is_condition: bool) -> None:
    """A row without a key can be stored nowhere: it fails the run, as in every model."""
    made = build_condition(declare("not_null", {"column_name": column}), ("id",))
    assert (made is not None) is is_condition


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
