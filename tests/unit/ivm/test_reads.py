"""What a query reads: never too little, and never more than it names."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.frontend.reads import Reads, add_event_position, find_reads, keeps_events_apart
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.spark.engine.statement import quote_name

EVENTS = TableName("lake", "cdc", "orders")
C = quote_name(format_changes_view(EVENTS))


def tables(sql: str) -> set[str]:
    reads = find_reads(sql, "lake", "dwd")
    assert reads.parsed
    return {str(table) for table in reads.tables}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 1", ""),
        ("select * from a", "dwd.a"),
        ("select * from s.a", "s.a"),
        ("select * from A", "dwd.A"),
        ("select * from `a.b`", "dwd.a.b"),
        ("select * from a x join s.b as y using (id), c", "dwd.a s.b dwd.c"),
        ("select * from a union all select * from b intersect select * from c", "dwd.a dwd.b dwd.c"),
        ("select * from (select * from a) x", "dwd.a"),
        ("(select * from a) except (select * from b)", "dwd.a dwd.b"),
        ("select * from a where exists (select 1 from b where b.x = a.x)", "dwd.a dwd.b"),
        ("select * from a where x not in (select y from b)", "dwd.a dwd.b"),
        ("select (select max(x) from b) from a", "dwd.a dwd.b"),
        ("select * from a, lateral (select * from b where b.x = a.x)", "dwd.a dwd.b"),
        ("select * from a lateral view explode(xs) t as x", "dwd.a"),
        ("select * from a lateral view outer explode(xs) t as x join b", "dwd.a dwd.b"),
        ("select * from values (1), (2) as t(a)", ""),
        ("select * from range(10)", ""),
        ("select * from explode(array(1, 2))", ""),
        ("with a as (select 1 x) select * from a", ""),
        ("with a as (select 1 x) select * from A", ""),
        ("with Orders as (select * from ods.orders) select * from orders", "ods.orders"),
        ("with orders as (select * from orders) select * from orders", "dwd.orders"),
        ("with a as (select 1 x) select * from s.a", "s.a"),
        ("with a as (select * from b), c as (select * from a) select * from c", "dwd.b"),
        ("select * from (with t as (select 1 x) select * from t) s join t on true", "dwd.t"),
        ("with recursive t as (select 1 n union all select n + 1 from t) select * from t join a", "dwd.a"),
        ("select /*+ broadcast(b) */ * from a join s.b as b", "dwd.a s.b"),
        ("select /*+ MERGE(x, y), COALESCE(2) */ * from a x join b y", "dwd.a dwd.b"),
        ("select * from a version as of 5", "dwd.a"),
        ("select * from a timestamp as of '2026-01-01'", "dwd.a"),
        ("select * from a pivot (sum(x) for y in (1, 2))", "dwd.a"),
        ("select * from a -- join b\n /* join c */", "dwd.a"),
        ("select 'from b' from a", "dwd.a"),
        ("from a select *", "dwd.a"),
    ],
)
def test_a_query_reads_the_tables_that_it_names(sql: str, expected: str) -> None:
    assert tables(sql) == {f"lake.{table}" for table in expected.split()}


def test_a_name_keeps_its_own_catalog_and_is_completed_where_it_has_none() -> None:
    reads = find_reads("select * from a join other.s.b join s.c", "lake", "dwd")
    assert set(reads.tables) == {
        TableName("lake", "dwd", "a"),
        TableName("other", "s", "b"),
        TableName("lake", "s", "c"),
    }


def test_a_table_that_is_read_twice_is_one_upstream() -> None:
    assert find_reads("select * from a x join a y union select * from a", "lake", "dwd") == Reads(
        (TableName("lake", "dwd", "a"),)
    )


def test_changes_are_one_name_and_are_not_cut_at_their_dots() -> None:
    assert find_reads(f"select * from {C}", "lake", "dwd").tables == (
        TableName("lake", "dwd", format_changes_view(EVENTS)),
    )


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "selct 1",
        "select * from",
        "select 1; select 2",
        "insert into a select 1",
        "create table a as select 1",
        "show tables",
        "select * from a where (",
        "select * from lake.dwd.a.snapshots",
        "select * from a.b.c.d.e",
        "select * from identifier('a')",
        "select * from stream(a)",
        "select * from my_function(table(a))",
        "select * from parquet.`/data/x`",
        "select * from ${a}",
        "select * from `changes(a)`",
    ],
)
def test_a_query_that_cannot_be_followed_says_so_and_names_nothing(sql: str) -> None:
    assert find_reads(sql, "lake", "dwd") == Reads(parsed=False)


@pytest.mark.parametrize(
    ("expression", "unstable"),
    [
        ("current_date", "CURRENT_DATE"),
        ("current_date()", "CURRENT_DATE"),
        ("curdate()", "CURRENT_DATE"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("now()", "NOW"),
        ("localtimestamp()", "LOCALTIMESTAMP"),
        ("unix_timestamp()", "CURRENT_TIMESTAMP"),
        ("rand()", "RAND"),
        ("Randn(3)", "RANDN"),
        ("random()", "RAND"),
        ("uuid()", "UUID"),
        ("shuffle(xs)", "SHUFFLE"),
        ("randstr(3)", "RANDSTR"),
        ("uniform(1, 2)", "UNIFORM"),
        ("monotonically_increasing_id()", "MONOTONICALLY_INCREASING_ID"),
        ("spark_partition_id()", "SPARK_PARTITION_ID"),
        ("input_file_name()", "INPUT_FILE_NAME"),
        ("input_file_block_start()", "INPUT_FILE_BLOCK_START"),
        ("current_user()", "CURRENT_USER"),
        ("session_user()", "SESSION_USER"),
        ("current_database()", "CURRENT_DATABASE"),
        ("coalesce(x, date_add(now(), 1))", "NOW"),
        ("(select max(rand()) from b)", "RAND"),
    ],
)
def test_an_answer_that_changes_by_itself_is_unstable_by_name(expression: str, unstable: str) -> None:
    assert unstable in find_reads(f"select {expression} as x from a", "lake", "dwd").unstable
    assert (
        unstable in find_reads(f"with c as (select * from a where x = {expression}) select 1 from c", "l", "s").unstable
    )


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("day < 'today'", "'TODAY'"),
        ("cast(day as date) >= ' Yesterday UTC'", "'YESTERDAY'"),
        ("day = date 'tomorrow'", "'TOMORROW'"),
        ("ts < timestamp 'now'", "'NOW'"),
        ("day between 'yesterday' and last", "'YESTERDAY'"),
        ("day in ('today', '2020-01-01')", "'TODAY'"),
        ("coalesce(day, 'today') > x", "'TODAY'"),
        ("x = case when a then 'today' else day end", "'TODAY'"),
        ("to_date('today+01:00') = day", "'TODAY'"),
        ("ts > timestamp '10:11:12'", "'10:11:12'"),
        ("ts > to_timestamp('T10:11')", "'T10:11'"),
        ("day = to_date(concat('to', 'day'))", "'CONCAT('TO', 'DAY')'"),
    ],
)
def test_a_text_that_may_mean_the_moment_is_unstable(condition: str, word: str) -> None:
    assert find_reads(f"select x from a where {condition}", "lake", "dwd").unstable == (word,)


@pytest.mark.parametrize(
    "expression",
    [
        "'today'",
        "case when x > 1 then 'today' else 'later' end",
        "lower(state) = 'today'",
        "cast(state as string) in ('now', 'then')",
        "state like 'now%'",
        "'now' || state",
        "state = 'todays'",
        "date 'epoch'",
        "date_format(ts, 'HH:mm') > '10:00'",
        "cast(concat(state, '-01-01') as date)",
    ],
)
def test_a_text_that_stays_one_is_stable(expression: str) -> None:
    assert find_reads(f"select {expression} as x from a", "lake", "dwd").unstable == ()


@pytest.mark.parametrize(
    ("sql", "clause"),
    [
        ("select * from a tablesample (5 percent)", "TABLESAMPLE"),
        ("select transform(x, y) using 'cat' from a", "TRANSFORM … USING"),
        ("select x from (from a select transform(x) using 'sort -R' as (x int))", "TRANSFORM … USING"),
        (
            "select transform(x) row format delimited fields terminated by ',' using 'cat' as (x) from a",
            "TRANSFORM … USING",
        ),
    ],
)
def test_a_sample_and_the_output_of_a_script_are_unstable(sql: str, clause: str) -> None:
    assert find_reads(sql, "lake", "dwd").unstable == (clause,)


@pytest.mark.parametrize("verb", ["map", "reduce"])
def test_a_script_in_the_older_syntax_is_not_read(verb: str) -> None:
    assert find_reads(f"{verb} x, y using 'cat' as (x, y) from a", "lake", "dwd") == Reads(parsed=False)


@pytest.mark.parametrize(
    "expression",
    ["unix_timestamp(ts)", "to_date(ts)", "date_trunc('day', ts)", "sum(x)", "row_number() over (order by x)", "`now`",
     "'rand()'", "md5(x)", "explode(xs)", "first(x)"],
)  # fmt: skip
def test_what_follows_from_its_rows_is_stable(expression: str) -> None:
    assert find_reads(f"select {expression} as x from a", "lake", "dwd").unstable == ()


PLAIN = [
    f"select a from {C}",
    f"SELECT a, b + 1 AS b\nFROM {C}\nWHERE a > 0 ORDER BY a",
    f"select extract(year from ts), trim(both 'x' from b) from {C}",
    f"select a is distinct from b as differs, a is not distinct from b from {C}",
    f"select a -- from\n, 'from' /* from */, `from` from {C}",
    f"select e.a, c.b from {C} e join dwd.customers c on c.id = e.id",
    f"select e.a, c.b from {C} as `my ``events` left join dwd.customers c using (id)",
    f"select a from {C} where id in (select id from dwd.known)",
    f"select /*+ broadcast(c) */ a, case when b then c else d end, xs[0] from {C}",
    f"select row_number() over (partition by a order by b) from {C}",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_the_position_of_an_event_is_selected_in_addition_to_the_users_columns(sql: str) -> None:
    placed = add_event_position(sql)
    assert placed is not None
    before, after = (sqlglot.parse_one(text, dialect="spark") for text in (sql, placed))
    *others, last = after.expressions
    assert [e.sql() for e in others] == [e.sql() for e in before.expressions]
    assert (last.name, last.table) == ("_position", before.args["from_"].this.alias_or_name)
    after.set("expressions", others)
    assert after == before


def test_each_part_of_a_union_of_different_sources_has_its_position_where_that_is_asked_for() -> None:
    other = "`changes(lake.cdc.others)`"
    sql = f"select a, b is distinct from a from {C} where a > 0 union all select a, (select 1 from t) from {other} o"
    assert add_event_position(sql) is None
    placed = add_event_position(sql, allows_union=True)
    assert placed is not None
    assert placed.replace(f", {C}.`_position` ", "").replace(", `o`.`_position` ", "") == sql
    for refused in (
        f"select a from {C} union all select a from {C}",
        f"select a from {C} union select a from {other}",
        f"select a from {C} union all select a from {other} order by 1",
        f"select a from {C} union all (select a from {other})",
        f"select a from {C} union all select distinct a from {other}",
        f"select a from {C} except all select a from {other}",
        f"select a from {C} union all select a from dwd.orders",
    ):
        assert add_event_position(refused, allows_union=True) is None, refused


def test_each_row_of_a_plain_selection_and_of_a_union_of_such_is_one_event() -> None:
    other = "`changes(lake.cdc.others)`"
    for apart in (
        f"select a, b + 1 as b from {C} where a > 0",
        f"select a from {C} union all select a from {other} union all select a from {C}",
    ):
        assert keeps_events_apart(apart), apart
    for refused in (
        f"select a from {C} join {other} using (a)",
        f"select a from {C} where a in (select a from dwd.orders)",
        f"select a, (select max(b) from dwd.orders) as b from {C}",
        f"select a from {C} union select a from {other}",
        f"select a, count(*) as n from {C} group by a",
        f"select distinct a from {C}",
        f"select explode(a) as a from {C}",
        f"select try_sum(a) as a from {C}",
        f"select a, row_number() over (partition by a order by b) as b from {C}",
        f"select transform(a) using 'cat' as (a) from {C}",
        f"select uuid() as a from {C}",
        f"select a from {C} union all select a from dwd.orders",
        "select a from",
    ):
        assert not keeps_events_apart(refused), refused


@pytest.mark.parametrize(
    "sql",
    [
        f"select distinct a from {C}",
        f"select a, count(*) from {C} group by a",
        f"select max(a) from {C}",
        f"select sum(a) over () from {C}",
        f"select a from {C} limit 1",
        f"select a from {C} limit 1 offset 2",
        f"select a from {C} having a > 1",
        f"select a from {C} qualify row_number() over (order by a) = 1",
        f"with e as (select a from {C}) select a from e",
        f"select a from {C} union all select a from {C}",
        f"select a from (select a from {C})",
        f"(select a from {C})",
        f"from {C} select a",
        f"select * from {C}",
        f"select e.* from {C} e",
        f"select e.from, a from {C} e",
        f"select a as from from {C}",
        f"select a, * from {C}",
        f"select x from {C} lateral view explode(xs) t as x",
        f"select x from {C}, lateral explode(xs) t(x)",
        f"select explode(xs) from {C}",
        f"select posexplode_outer(xs), a from {C}",
        f"select inline(xs) from {C}",
        f"select stack(2, a, b) from {C}",
        f"select try_sum(a) as a from {C}",
        f"select transform(a) using 'cat' as (a) from {C}",
        f"select v from {C} unpivot (v for n in (a, b))",
        f"select a from {C} pivot (sum(x) for y in (1, 2))",
        f"select a from dwd.customers join {C}",
        "select a from dwd.orders",
        "select 1",
        "selct a from",
        "",
    ],
)
def test_where_a_row_is_not_one_event_no_position_is_claimed(sql: str) -> None:
    assert add_event_position(sql) is None


_aliases = st.text(st.sampled_from("ab`'\"( )-é🎉.;"), min_size=1, max_size=6)
_projections = st.lists(
    st.sampled_from(
        ["a", "'from x'", "`from`", "a is distinct from b", "(select 1 from t)", "/* from */ b", "-- from\n c",
         "'🎉é'", "extract(day from ts)", "cast(a as int)", '"from"', "case when a then b end"]
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip
_tails = st.sampled_from(["", " where a is distinct from b", " join t on t.from_x = 1", "\n-- from z", " order by 1"])


@settings(max_examples=40)
@given(_aliases, _projections, _tails)
def test_apart_from_the_position_the_text_stays_as_the_user_wrote_it(alias: str, projections, tail: str) -> None:
    sql = f"select {', '.join(projections)}\nfrom {C} as {quote_name(alias)}{tail}"
    placed = add_event_position(sql)
    inserted = f", {quote_name(alias, '_position')} "
    assert placed is not None
    assert placed.count(inserted) == 1
    assert placed.replace(inserted, "") == sql
    assert sqlglot.parse_one(placed, dialect="spark").expressions[-1].name == "_position"
