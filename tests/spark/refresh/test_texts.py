"""What Spark makes of a query is what it makes of the tree that follows its changes, or the query is refused.

A query that Spark is not shown to read as we do is refused as NOT_SAME_TO_SPARK. Whatever is not refused is run, both
as it was written and as its tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import COUNTED
from tests.spark.expression_cases import EXPRESSIONS, TYPES
from tests.spark.function_cases import CALLS
from tests.spark.query_cases import QUERIES
from tests.spark.texts import Tally, Text, Texts, as_texts
from tests.unit.ivm.analysed_queries import QUERIES as ANALYSED

FALSE_ALARMS = 0.01
"""At most so many of the queries that are followed but for the judgement are refused though nothing is wrong."""

_SCHEMA = re.compile(r"\b(lake\.)?raw\.")
_OVER_VIEWS = re.compile(r"\b(paid p|paid|named|over_views)\b(?!')")
Record = Callable[[str, object], None]

_EXAMPLE = re.compile(r"^\s*> (.+?);[ \t]*$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_INNERMOST = re.compile(r"\([^()]*\)")
_CLAUSE = re.compile(r"\b(from|where|group|having|order|limit|union|window)\b", re.IGNORECASE)


PARTS = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 5))]
"""One of five texts is run each time, all by the slow tests."""


@pytest.fixture(scope="module")
def examples(texts: Texts) -> list[Text]:
    """The queries in the documentation of Spark's own functions."""
    return [_as_list(query) for query in dict.fromkeys(_examples(texts))]


@pytest.mark.in_turn
@pytest.mark.parametrize("part", PARTS)
def test_lists_in_examples_of_functions_are_read_as_spark_reads_them(
    part: int, texts: Texts, examples: list[Text], record_property: Record
) -> None:
    lists = [example for example in examples if example.rest is not None]
    assert len(lists) > 800
    _compare(texts, lists[part::5], "examples of functions", record_property)


@pytest.mark.parametrize("part", PARTS)
def test_queries_in_examples_of_functions_are_read_as_spark_reads_them(
    part: int, texts: Texts, examples: list[Text], record_property: Record
) -> None:
    others = [example for example in examples if example.rest is None]
    assert len(others) > 200
    _compare(texts, others[part::5], "queries in examples of functions", record_property)


@pytest.mark.parametrize("part", PARTS)
def test_expressions_of_all_kinds_are_read_as_spark_reads_them(
    part: int, texts: Texts, record_property: Record
) -> None:
    compared = [Text(f"{one} as x", "from t") for one in (*EXPRESSIONS, *CALLS)]
    compared += [Text(f"cast(null as {kind}), cast(cast(null as {kind}) as {kind}) is null as y", "") for kind in TYPES]
    tally = _compare(texts, compared[part::5], "expressions and types", record_property)
    assert not tally.not_run


@pytest.mark.in_turn
@pytest.mark.parametrize("part", PARTS)
def test_queries_of_all_kinds_are_read_as_spark_reads_them(part: int, texts: Texts, record_property: Record) -> None:
    tally = _compare(texts, as_texts(QUERIES[part::5]), "queries", record_property)
    assert not tally.not_run


@pytest.mark.slow
def test_queries_of_the_analysis_are_read_as_spark_reads_them(texts: Texts, record_property: Record) -> None:
    over_tables = [_SCHEMA.sub("", query) for query in ANALYSED if not _OVER_VIEWS.search(query)]
    _compare(texts, as_texts(over_tables), "queries of the analysis", record_property)


def _compare(texts: Texts, compared: list[Text], name: str, record: Record) -> Tally:
    """Where more than a few faithful queries are refused, users pay for what is no fault of theirs."""
    tally = texts.compare(compared)
    record(COUNTED, tally.line(name))
    assert not tally.wrong, "\n".join(tally.wrong)
    judged = tally.compared + tally.refused["NOT_SAME_TO_SPARK"]
    assert len(tally.false_alarms) <= max(1, FALSE_ALARMS * judged), "\n".join(tally.false_alarms)
    assert tally.compared > 0.6 * len(compared)
    return tally


def _examples(texts: Texts) -> Iterator[str]:
    """All queries in what Spark says of its functions, but for those under settings of their own."""
    names = [row[0] for row in texts.spark.sql("show system functions").collect()]
    for name in names:
        described = texts.spark.sql(f"describe function extended `{name}`").collect()
        is_usual = True
        for query in _EXAMPLE.findall("\n".join(row[0] for row in described)):
            if query.upper().startswith("SET "):
                is_usual = query.endswith("=false")
            elif is_usual:
                yield query


def _as_list(query: str) -> Text:
    """A query as a select list where it is nothing else."""
    shell = _QUOTED.sub("", query)
    while shell != (inner := _INNERMOST.sub("", shell)):
        shell = inner
    if not query.upper().startswith("SELECT ") or _CLAUSE.search(shell):
        return Text(query)
    return Text(query[len("SELECT ") :], "")
