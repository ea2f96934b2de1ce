"""How long it takes to analyse a query and to plan how its table follows changes: all 99 queries of TPC-DS, a wide one.

Nothing is executed, and Spark is not needed.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping

import duckdb
import sqlglot

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import list_scans
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from benchmarks.measure import Measurement, seconds
from benchmarks.tpcds_models import load_tpcds, queries
from benchmarks.wide_models import wide_query

MOST_MILLISECONDS = 50.0
MOST_WIDE_MILLISECONDS = 500.0
WIDE_COLUMNS = 250
WIDE_STEPS = 16
"""On top of 24 named queries: about 40 in all."""


def measure(rounds: int = 5) -> list[Measurement]:
    """The quickest of some rounds for each query, where everything that it reads has changed."""
    taken: dict[int, float] = {}
    ways: dict[int, str] = {}
    with duckdb.connect() as con:
        relations = load_tpcds(con, 0)
        catalog, schema, _ = next(iter(relations)).split(".")
        for one in queries(con):
            ways[one.number] = _planned(one.spark, relations, catalog, schema)
            times = [seconds(lambda: _planned(one.spark, relations, catalog, schema)) for _ in range(rounds)]  # noqa: B023
            taken[one.number] = 1000 * min(times)
            print(f"  Q{one.number}: {taken[one.number]:.1f} ms {ways[one.number]}", flush=True)
    quick = sum(value <= MOST_MILLISECONDS for value in taken.values())
    refused = Counter(way for way in ways.values() if way.isupper())
    return [
        Measurement("analysis: the slowest of 99 queries", max(taken.values()), "ms", MOST_MILLISECONDS, False, taken),
        Measurement("analysis: the median of 99 queries", statistics.median(taken.values()), "ms", None, False),
        Measurement(f"analysis: queries within {MOST_MILLISECONDS:g} ms", quick, "", len(taken), True),
        Measurement("analysis: queries that follow", len(ways) - refused.total(), "", None, True, dict(refused)),
        *_wide(rounds),
    ]


def _wide(rounds: int) -> list[Measurement]:
    """A wide query alone, and how much longer that takes than sqlglot does to parse it."""
    sql, relations = wide_query(WIDE_COLUMNS, WIDE_STEPS)
    analysed = 1000 * min(seconds(lambda: analyse_query(sql, relations, {}, "lake", "raw")) for _ in range(rounds))
    parsed = 1000 * min(seconds(lambda: sqlglot.parse_one(sql, dialect="spark")) for _ in range(rounds))
    return [
        Measurement("analysis: a wide query", analysed, "ms", MOST_WIDE_MILLISECONDS, False, {"characters": len(sql)}),
        Measurement(
            "analysis: a wide query, by the time that sqlglot takes to parse it", analysed / parsed, "", None, False
        ),
    ]


def _planned(sql: str, relations: Mapping[str, Relation], catalog: str, schema: str) -> str:
    """How a table would follow, or the reason why not."""
    try:
        query = analyse_query(sql, relations, {}, catalog, schema)
        changed = frozenset(scan.source for scan in list_scans(query.tree))
        key = (query.outputs[0][1],)
        return type(plan_maintenance(query.tree, key, changed, Facts(types=query.types))).__name__
    except NotMaintained as refused:
        return refused.reason
