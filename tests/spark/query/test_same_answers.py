"""DuckDB's answers beside Spark's: every function that is translated, and random expressions, over edge values."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from arctic_runtime.errors import ConfigError
from arctic_runtime.query.refusal import NotAnswered
from tests.spark.query.answering import answer
from tests.spark.query.expressions import AGGREGATES, EXPRESSIONS, RandomExpressions
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.in_turn

UTC = datetime.timezone.utc
COLUMNS = (
    "id int, i int, j int, l bigint, d decimal(10,2), e decimal(18,4), x double, f float, s string, t string, "
    "day date, at timestamp, local timestamp_ntz, b boolean, c boolean"
)
DAYS = (None, "0001-01-01", "1582-10-04", "1582-10-15", "1970-01-01", "2024-02-29", "2024-12-31", "9999-12-31")
TIMES = (None, "1900-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-02-29T12:34:56.123456", "2999-12-31")
EDGES: dict[str, Sequence[Any]] = {
    "i": (None, 0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31)),
    "j": (None, 0, 1, -1, 3, 1000),
    "l": (None, 0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)),
    "d": (None, *map(Decimal, ("0.00", "0.05", "-0.05", "1.25", "-1.25", "2.50", "99999999.99", "-99999999.99"))),
    "e": (None, *map(Decimal, ("0.0000", "0.0001", "0.1000", "-12345678901234.5678", "99999999999999.9999"))),
    "x": (None, 0.0, -0.0, 1.5, -2.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan),
    "f": (None, 0.0, 1.5, -0.1, 3.4e38, math.nan, math.inf),
    "s": (None, "", "a", "A", " a ", "\ta", "\u00a0a", "ß", "é", "😀x", "a%b", "a_b", "aXb", "ab", "İ", "zz"),
    "t": (None, "", "a", "b", "a%", "x", "😀"),
    "day": tuple(day and datetime.date.fromisoformat(day) for day in DAYS),
    "at": tuple(at and datetime.datetime.fromisoformat(at).replace(tzinfo=UTC) for at in TIMES),
    "local": tuple(at and datetime.datetime.fromisoformat(at) for at in TIMES[:4]),
    "b": (None, True, False),
    "c": (None, True, False),
}


@pytest.fixture(scope="module")
def edges(environment, reader, spark) -> Warehouse:
    random = Random(0)
    longest = max(map(len, EDGES.values()))
    rows = [
        (number, *(values[number] if number < len(values) else random.choice(values) for values in EDGES.values()))
        for number in range(longest)
    ]
    rows += [(number, *map(random.choice, EDGES.values())) for number in range(longest, 80)]
    spark.sql("create namespace if not exists lake.edges")
    lake = Warehouse(environment, reader, spark, "edges")
    lake.load("t", rows, COLUMNS)
    return lake


def test_each_translated_expression_has_the_value_and_the_type_of_spark(edges: Warehouse) -> None:
    assert compare(edges, EXPRESSIONS) == []


def test_each_translated_aggregate_has_the_value_and_the_type_of_spark(edges: Warehouse) -> None:
    """Over all rows, over none, by groups, and as window functions where that is allowed."""
    where = "abs(x) < 1e10 and abs(l) < 10000000000000000 and abs(i) < 1000"
    queries = [
        *(f"select {value} v from edges.t where {where}" for value in AGGREGATES),
        *(f"select {value} v from edges.t where false" for value in AGGREGATES),
        *(f"select b, {value} v from edges.t where {where} group by b order by b" for value in AGGREGATES),
    ]
    assert [difference for query in queries if (difference := differ(edges, query))] == []


QUERIES = (
    "select id, s from edges.t order by s, id",
    "select id, s from edges.t order by s desc, id",
    "select id, x from edges.t order by x desc nulls first, id",
    "select id, d, i from edges.t order by d nulls last, i desc, id limit 20 offset 5",
    "select count(*) c, s from edges.t group by s order by s",
    "select distinct b, c from edges.t order by b, c",
    "select distinct day from edges.t where day > '2000-01-01' order by 1",
    "select i from edges.t union select j from edges.t order by 1",
    "select l from edges.t intersect select cast(i as bigint) from edges.t order by 1",
    "select s from edges.t except all select t from edges.t order by 1",
    "select a.id, b.id other from edges.t a join edges.t b on a.s = b.t order by 1, 2",
    "select a.id, b.id other from edges.t a left join edges.t b on a.i = b.j and b.c order by 1, 2",
    "select a.id, b.id other from edges.t a full join edges.t b on a.i <=> b.j "
    "where a.id < 5 or b.id < 5 order by 1, 2",
    "select id from edges.t a where exists (select 1 from edges.t b where b.t = a.s) order by id",
    "select id from edges.t where i not in (select j from edges.t where j is not null) order by id",
    "select id from edges.t where i not in (select j from edges.t) order by id",
    "select id, (select max(j) from edges.t b where b.b = a.b) m from edges.t a order by id",
    "select id, row_number() over (partition by b order by s, id) r, rank() over (order by s) k, "
    "dense_rank() over (order by s desc) q, lag(i) over (order by id) p, lead(s, 2) over (order by id) n "
    "from edges.t order by id",
    "select id, sum(i) over (partition by b order by id) v, count(*) over (partition by c) w, "
    "max(s) over (order by id rows between 2 preceding and current row) m from edges.t where abs(i) < 10 order by id",
    "with a as (select id, i from edges.t where i > 0) select a.id, z.id y from a cross join a z order by 1, 2",
    "select b, sum(i) v from edges.t where abs(i) < 10 group by b having count(*) > 2 order by b",
    "select count(distinct s) a, count(s) b, count(*) c, sum(i) filter (where b) d from edges.t where abs(i) < 10",
    "select id from edges.t a left anti join edges.t b on a.i = b.j order by id",
    "select id from edges.t a left semi join edges.t b on a.s = b.t order by id",
    "select current_date() d, id from edges.t where at < current_timestamp() order by id",
    "select id, case when x > 0 then 'p' when x < 0 then 'n' else s end v from edges.t order by id",
    "select id, x from edges.t where x = 'NaN'",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_the_rows_of_spark_in_their_order_or_is_refused(edges: Warehouse, query: str) -> None:
    if query.endswith("'NaN'"):
        with pytest.raises(NotAnswered):
            answer(edges, query)
    else:
        assert differ(edges, query, pins_clock="current_" in query) is None


def test_random_expressions_have_the_values_of_spark_or_are_refused(edges: Warehouse) -> None:
    seed = 20240131
    made = RandomExpressions(Random(seed))
    texts = [made.make_expression(3) for _ in range(200)]
    assert compare(edges, texts, may_refuse=True) == [], f"seed {seed}"
    assert made.count > 0


def compare(lake: Warehouse, expressions: Sequence[str], may_refuse: bool = False) -> list[Any]:
    """The expressions whose values over all rows differ, with some of these."""
    differences: list[Any] = []
    known = [text for text in expressions if not may_refuse or is_answered(lake, text)]
    assert len(known) > len(expressions) / 3
    for start in range(0, len(known), 12):
        part = known[start : start + 12]
        shown = ", ".join(f"{text} as v{place}" for place, text in enumerate(part))
        if differ(lake, f"select id, {shown} from edges.t order by id") is None:
            continue
        singles = (f"select id, s, {text} as v from edges.t order by id" for text in part)
        differences += [difference for query in singles if (difference := differ(lake, query))]
    return differences


def is_answered(lake: Warehouse, text: str) -> bool:
    try:
        answer(lake, f"select {text} as v from edges.t where id = -1")
    except NotAnswered:
        return False
    return True


def differ(lake: Warehouse, query: str, pins_clock: bool = False) -> tuple[Any, ...] | None:
    """The query with what is different; an error has to be one of both engines."""
    expected: pa.Table | None = None
    try:
        expected = lake.spark.sql(query).toArrow()
    except PySparkException as error:
        spark_error = str(error).splitlines()[0]
    try:
        actual = answer(lake, query)
    except ConfigError as error:
        return None if expected is None else (query, str(error))
    if expected is None:
        return query, "only Spark fails", spark_error
    types = [str(field.type) for field in expected.schema], [str(field.type) for field in actual.schema]
    if types[0] != types[1]:
        return query, *types
    rows = [[tuple(map(repr_of, row.values())) for row in table.to_pylist()] for table in (expected, actual)]
    if pins_clock:
        rows = [[row[1:] for row in part] for part in rows]
    different = [pair for pair in zip(*rows, strict=False) if pair[0] != pair[1]]
    return (query, len(rows[0]), len(rows[1]), different[:5]) if different or len(rows[0]) != len(rows[1]) else None


def repr_of(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else repr(value)
