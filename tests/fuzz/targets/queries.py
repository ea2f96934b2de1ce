"""Analysis of queries: it refuses, or its tree and what follows changes have the rows of the query."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import duckdb
import sqlglot
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_columns
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.configured_expressions import rename_check_columns
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.frontend.reads import add_event_position, find_reads, keeps_events_apart
from arctic_runtime.ivm.render import build_query, name_input
from arctic_runtime.ivm.strategies.maintain import Facts
from arctic_runtime.model.names import TableName, list_changes_read, replace_with_history
from arctic_runtime.sql.spark_sql import write_sql
from tests.fuzz.inputs import HOSTILE_TEXT, mutate_text, mutate_tokens
from tests.fuzz.target import Target, expect_typed_errors
from tests.unit.ivm.analysed_queries import QUERIES, REFUSALS, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, alias, connect, fetch, in_duckdb, load
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

SECONDS = 2.0
"""Time after which a comparison is given up: mutated joins can have very many rows."""

TEXTS = (*QUERIES, *(sql for sql, _ in REFUSALS if len(sql) < 500))
EVENT_TEXTS = (
    "select id, amount from `changes(lake.raw.orders)` where _action <> 'delete'",
    "select o.id from `changes(lake.raw.orders)` o join items i on o.id = i.id",
    "select id from `changes(lake.raw.orders)` union all select id from `changes(lake.raw.items)`",
    "select count(*) from `changes(lake.raw.orders)` group by id",
)
WORDS = (
    *("not", "distinct", "null", "is null", "<=>", "cast(amount as double)", "left join", "full join", "using (id)"),
    *("group by customer", "having count(*) > 1", "order by id", "limit 2", "over ()", "filter (where id > 1)"),
    *(
        "union",
        "except",
        "exists (select 1)",
        "in (select id from items)",
        "case when id > 1 then",
        "end",
        "*",
        "(",
        ")",
    ),
)
CHECKS = ("amount > 1", "state in ('paid', 'open') or amount is null", "exists(tags, x -> x > amount)", "id")

_UNLIKE = (
    "lateral view outer",
    "size(",
    "collect_",
    "first(",
    "last(",
    "any_value",
    "row_number",
    "lag(",
    "lead(",
    "rank",
)
"""Parts that DuckDB is told in another way, or whose result depends on the order of equal rows."""


def check_query(sql: str) -> str:
    """Whoever reads a query answers or refuses it; a tree of it has its rows, wherever DuckDB can compute both."""
    _read_texts(sql)
    try:
        analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
    except NotMaintained as refused:
        return f"refused {refused.reason}"
    if any(part in sql.lower() for part in _UNLIKE):
        return "analysed"
    return _compare(sql, analysed)


def _read_texts(sql: str) -> None:
    find_reads(sql, CATALOG, SCHEMA)
    add_event_position(sql, allows_union=True)
    keeps_events_apart(sql)
    with expect_typed_errors():
        write_sql(parse_query(sql))
    with expect_typed_errors():
        list_changes_read(sql)
    replace_with_history("seen", sql)


def _compare(sql: str, analysed: Analysed) -> str:
    with _open_warehouse() as con:
        try:
            expected = fetch(con, in_duckdb(sql))
        except (duckdb.Error, SqlglotError):
            return "analysed"
        try:
            actual = fetch(con, _render(analysed))
        except duckdb.InterruptException:
            return "analysed"
        except duckdb.Error as error:
            # DuckDB has other rules of types: what it refuses here, Spark may read.
            return f"not compared {type(error).__name__}"
    assert actual == expected, f"other rows: {sql}"
    return "same rows"


def _render(analysed: Analysed) -> str:
    picked = [exp.alias_(build_column(made), f"c{place}") for place, (_, made) in enumerate(analysed.outputs)]
    text = exp.select(*picked).from_(build_query(analysed.tree).subquery("t")).sql(dialect="spark")
    return in_duckdb(text)


_WAREHOUSES: list[duckdb.DuckDBPyConnection] = []


@contextmanager
def _open_warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with random tables, whose statements are interrupted when they take too long."""
    if not _WAREHOUSES:
        con = connect()
        con.execute("set memory_limit = '500MB'")
        _load_rows(con, random_rows(Random(1)))
        for name in RELATIONS:
            source = TableName(*name.split("."))
            alias(con, name_input(source, "new"), source)
        _WAREHOUSES.append(con)
    with _limit_time(_WAREHOUSES[0]):
        yield _WAREHOUSES[0]


def _load_rows(con: duckdb.DuckDBPyConnection, content: Mapping[str, Any]) -> None:
    for name, rows in content.items():
        load(con, TableName(CATALOG, SCHEMA, name), RELATIONS[f"lake.raw.{name}"].columns, rows)
    con.execute("create or replace view paid as select id, customer, amount from orders where state = 'paid'")
    con.execute("create or replace view named(item, cost) as select id, price from items")
    con.execute("create or replace view over_views as select p.id, n.cost from paid p, named n where p.id = n.item")


@contextmanager
def _limit_time(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    timer = threading.Timer(SECONDS, con.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_constraint(text: Any) -> str:
    """A predicate is read with the columns renamed, or refused."""
    with expect_typed_errors() as outcome:
        renamed = rename_check_columns(text, {"amount": "a", "state": "s`t", "tags": "g", "id": "i"})
        assert renamed.sql(dialect="spark")
    return outcome.word


def _parse_all() -> tuple[exp.Expr, ...]:
    return tuple(sqlglot.parse_one(sql, dialect="spark") for sql in QUERIES)


_TREES: list[exp.Expr] = []
_PARTS = (
    exp.Column,
    exp.Predicate,
    exp.AggFunc,
    exp.Func,
    exp.Window,
    exp.Join,
    exp.Where,
    exp.Group,
    exp.Having,
    exp.Query,
)
"""Kinds of parts that are exchanged with those of other queries."""


@st.composite
def mutate_trees(draw: st.DrawFn) -> str:
    """Draws a query in which parts are left out or replaced by parts of their kind of other queries."""
    if not _TREES:
        _TREES.extend(_parse_all())
    tree = draw(st.sampled_from(_TREES)).copy()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(_PARTS))
        own, others = list(tree.find_all(kind)), list(draw(st.sampled_from(_TREES)).find_all(kind))
        if not own or not others:
            continue
        part = draw(st.sampled_from(own))
        if part.parent is None:
            continue
        if isinstance(part, (exp.Where, exp.Having, exp.Join, exp.Group)) and draw(st.booleans()):
            part.pop()
        else:
            part.replace(draw(st.sampled_from(others)).copy())
    return tree.sql(dialect="spark")


QUERY_TEXTS = Target(
    "queries",
    st.one_of(
        mutate_trees(), mutate_trees(), mutate_tokens(TEXTS), mutate_text((*TEXTS, *EVENT_TEXTS), WORDS), HOSTILE_TEXT
    ),
    check_query,
)
CONSTRAINTS = Target(
    "check constraints", mutate_text(CHECKS, ("and", "or", "not", "(", ")", "select")), check_constraint
)


def check_maintenance(entry: tuple[str, int]) -> str:
    """A result that follows the changes of its tables by the rules is that of its query over the new rows."""
    sql, number = entry
    with expect_typed_errors() as outcome:
        analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
        made = tuple(name for _, name in analysed.outputs)
        if list_columns(analysed.tree) != made or any(part in sql.lower() for part in _UNLIKE):
            return "not followed"
        chance = Random(number)
        kept = Kept(0, in_duckdb(sql), analysed, Facts(types=analysed.types), made[: chance.choice((1, 2))])
        outcome.word = _follow(sql, kept, chance)
    return outcome.word


def _follow(sql: str, kept: Kept, chance: Random) -> str:
    with connect() as con, _limit_time(con):
        try:
            rows = random_rows(chance)
            _load_rows(con, rows)
            compute(con, kept)
        except (duckdb.Error, SqlglotError):
            return "not computed"
        keep_old(con, rows)
        others = random_rows(chance)
        for name in chance.sample(sorted(rows), chance.randint(1, len(rows))):
            rows[name] = [*rows[name], *others[name]][chance.randint(0, 3) :] if name == "items" else others[name]
        _load_rows(con, rows)
        try:
            way = follow(con, kept, make_images(con, rows)).split()[0]
        except duckdb.Error as error:
            return f"not compared {type(error).__name__}"
        assert differing(con, kept) == 0, f"other rows after a batch: {sql}"
        return f"followed by {way}"


QUERIES_KEPT = Target("maintenance", st.tuples(mutate_trees(), st.integers(0, 2**16)), check_maintenance)
