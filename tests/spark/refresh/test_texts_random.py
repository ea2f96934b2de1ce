"""Random expressions and queries are read by Spark as their trees are, whatever operators bind how."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.columns import Column
from tests.conftest import COUNTED
from tests.spark.clause_cases import draw_query
from tests.spark.printed import TABLES, Scope, expressions, queries
from tests.spark.texts import Tally, Text, Texts, as_texts

ROWS = {
    "r": """values (1, 2, 'a', true, timestamp'2024-02-29 10:00:00'),
        (2, -1, "it's", false, timestamp'2020-01-31 00:00:00'),
        (3, null, 'b\\'c', null, null), (null, 4, null, true, timestamp'1999-12-31 23:59:59'),
        (3, 7, '', false, timestamp'2020-01-01 00:00:00'), (6, 0, 'a_|%', true, timestamp'2020-03-01 12:00:00')
        as r(i, j, s, b, at)""",
    "q": "values (1, 3, 'a'), (2, 1, null), (3, null, 'b'), (3, 2, ''), (9, 6, 'Q') as q(i, k, s)",
}
TOGETHER = 40
"""So many expressions are one example, and a third as many queries."""

Record = Callable[[str, object], None]
SEED = int(os.environ.get("ARCTIC_TEST_SEED", "20240229"))
"""What is drawn in each run; the slow tests draw anew, and print what they draw from."""


@pytest.fixture(scope="module")
def random_texts(texts: Texts) -> Texts:
    relations = {name: Relation(tuple(Column(*part) for part in parts.items())) for name, parts in TABLES.items()}
    return Texts.over(texts.spark, {name: (relations[name], f"select * from {rows}") for name, rows in ROWS.items()})


def _compare(
    texts: Texts, record: Record, name: str, drawn: st.SearchStrategy[list[Text]], examples: int, by: int
) -> None:
    total = Tally()

    @seed(by)
    @settings(max_examples=examples, database=None)
    @given(drawn)
    def compare(given_texts: list[Text]) -> None:
        tally = texts.compare(given_texts)
        total.add(tally)
        assert not tally.wrong, "\n".join(tally.wrong)

    try:
        compare()
    finally:
        record(COUNTED, f"{total.line(name)} (seed {by})")
    judged = total.compared + total.refused["NOT_SAME_TO_SPARK"]
    assert len(total.false_alarms) <= 0.01 * judged, "\n".join(total.false_alarms)


_SCOPE = Scope(tuple(TABLES["r"].items()))
_EXPRESSIONS = expressions(_SCOPE).map(lambda one: Text(f"{one.text} as x", "from r"))
_LISTS = st.lists(_EXPRESSIONS, min_size=TOGETHER, max_size=TOGETHER)
_QUERIES = st.lists(queries(), min_size=TOGETHER // 3, max_size=TOGETHER // 3).map(as_texts)


def test_random_expressions_are_read_as_spark_reads_them(random_texts: Texts, record_property: Record) -> None:
    _compare(random_texts, record_property, "random expressions", _LISTS, 3, SEED)


@pytest.mark.in_turn
def test_random_queries_are_read_as_spark_reads_them(random_texts: Texts, record_property: Record) -> None:
    _compare(random_texts, record_property, "random queries", _QUERIES, 2, SEED)


@pytest.mark.in_turn
def test_random_clauses_are_read_as_spark_reads_them(texts: Texts, record_property: Record) -> None:
    _compare_clauses(texts, record_property, 40, SEED)


@pytest.mark.slow
def test_many_random_clauses_are_read_as_spark_reads_them(texts: Texts, record_property: Record) -> None:
    _compare_clauses(texts, record_property, 1000, random.randrange(2**32))


def _compare_clauses(texts: Texts, record: Record, count: int, by: int) -> None:
    drawing = random.Random(by)
    tally = texts.compare(as_texts(draw_query(drawing) for _ in range(count)))
    record(COUNTED, f"{tally.line('random clauses')} (seed {by})")
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.compared > 0.4 * count, "\n".join(tally.not_run)


@pytest.mark.slow
def test_many_random_expressions_are_read_as_spark_reads_them(random_texts: Texts, record_property: Record) -> None:
    _compare(random_texts, record_property, "random expressions", _LISTS, 100, random.randrange(2**32))


@pytest.mark.slow
def test_many_random_queries_are_read_as_spark_reads_them(random_texts: Texts, record_property: Record) -> None:
    _compare(random_texts, record_property, "random queries", _QUERIES, 50, random.randrange(2**32))
