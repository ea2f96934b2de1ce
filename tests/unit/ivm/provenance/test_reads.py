"""What a search for causes reads: the rows under the key, not the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

from arctic_runtime.ivm.algebra.tree import Scan
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.provenance.causes import Causes, Limits, find_causes
from arctic_runtime.ivm.provenance.restrictions import Restriction
from arctic_runtime.ivm.provenance.source_rows import EvaluationFailed, Images
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from tests.unit.ivm import trees
from tests.unit.ivm.duck import connect
from tests.unit.ivm.provenance.duck_engine import DuckEngine
from tests.unit.ivm.trees import HEAP, ONE, TWO, Batch

COUNT = 400
BY_NAME = {source.name: source for source in trees.SOURCES}
RELATIONS = {
    str(source.name): Relation(tuple(Column(name, "bigint") for name in source.fields), source.key)
    for source in trees.SOURCES
}


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    """400 rows in each source; one row of each has changed, those of key 7 in `one` and `two`."""
    con = connect()
    old = {
        ONE: [(number, number % 100, 1) for number in range(COUNT)],
        TWO: [(number, number % 100, 1) for number in range(COUNT)],
        HEAP: [(number, number % 100, 1) for number in range(COUNT)],
    }
    new = {
        ONE: [row if row[0] != 7 else (7, 7, 2) for row in old[ONE]],
        TWO: [row if row[0] != 7 else (7, 7, 5) for row in old[TWO]],
        HEAP: [*old[HEAP], (7, 7, 9)],
    }
    trees.load(con, Batch(old, new))
    return con


def find(con: duckdb.DuckDBPyConnection, sql: str, *key: Any, most: int = 1_000, units: int = 50) -> tuple[Causes, int]:
    """The causes of the change of a row of a query whose first columns are its key, and the number of rows read."""
    analysed = analyse_query(sql, RELATIONS, {}, "lake", "raw")
    engine = DuckEngine(con, dict(BY_NAME), most)
    names = [made for _, made in analysed.outputs][: len(key)]
    return find_causes(engine, analysed.tree, names, key, Limits(units, 8)), engine.rows_read


def list_sources(causes: Causes) -> list[tuple[str, Any]]:
    return [(unit.source.name, unit.key) for unit in causes.units]


@pytest.mark.parametrize(
    ("sql", "key", "most", "named"),
    [
        ("select id, a + b as c from one where b > 0", 7, 2, [("one", (7,))]),
        ("select id, a + b as c from one where b > 0", 8, 2, []),
        ("select a, sum(b) as s from one group by a", 7, 8, [("one", (7,))]),
        ("select o.id, t.b from one o left join two t on t.id = o.id", 7, 4, [("two", (7, 7))]),
        ("select o.id, o.b, t.b from two o join one t on t.id = o.a", 7, 4, [("two", (7, 7)), ("one", (7,))]),
        ("select id, sum(b) over (partition by a) as s from one", 107, 10, [("one", (7,))]),
        ("select id from one o where exists (select 1 from heap h where h.a = o.id and h.c > 5)", 7, 3, None),
        ("select id from one union select a from two", 7, 10, []),
        ("select id + 1000 as k, b from one", 1007, 2, [("one", (7,))]),
        ("select coalesce(o.id, h.a) as k, o.b, h.c from one o full join heap h on h.a = o.id and h.c > 1", 7, 5, None),
    ],
)
def test_only_rows_under_the_key_are_read(
    con: duckdb.DuckDBPyConnection, sql: str, key: int, most: int, named: list[tuple[str, Any]] | None
) -> None:
    causes, rows_read = find(con, sql, key)
    assert causes.is_proven
    assert rows_read <= most
    assert named is None or list_sources(causes) == named


def test_changed_rows_without_effect_are_told_apart(con: duckdb.DuckDBPyConnection) -> None:
    causes, _ = find(con, "select o.id, o.b > 0 as p, t.b from one o join two t on t.id = o.id", 7)
    assert list_sources(causes) == [("two", (7, 7))]
    assert [unit.source.name for unit in causes.without_effect] == ["one"]


def test_above_the_limit_every_changed_row_is_a_cause(con: duckdb.DuckDBPyConnection) -> None:
    sql = "select o.id, greatest(o.b, t.b) as b from one o join two t on t.id = o.id"
    causes, _ = find(con, sql, 7, units=1)
    assert (list_sources(causes), causes.without_effect) == ([("one", (7,)), ("two", (7, 7))], ())


def test_too_many_rows_leave_the_causes_open(con: duckdb.DuckDBPyConnection) -> None:
    causes, _ = find(con, "select id, sum(b) over (order by id) as s from one", 7, most=100)
    assert (causes.is_proven, causes.unread, causes.units) == (False, (ONE.name,), ())


def test_rows_that_can_not_be_computed_leave_all_changed_rows_as_causes(con: duckdb.DuckDBPyConnection) -> None:
    class Failing(DuckEngine):
        def evaluate(self, queries: Sequence[Any]) -> list[list[Any]]:
            raise EvaluationFailed("division by zero")

    analysed = analyse_query("select id, b from one", RELATIONS, {}, "lake", "raw")
    causes = find_causes(
        Failing(con, dict(BY_NAME)), analysed.tree, [analysed.outputs[0][1]], (7,), Limits(units=50, batch=8)
    )
    assert (causes.is_proven, list_sources(causes)) == (False, [("one", (7,))])


def test_a_side_without_partners_is_not_read(con: duckdb.DuckDBPyConnection) -> None:
    read: list[TableName] = []

    class Noting(DuckEngine):
        def read_images(self, scan: Scan, restrictions: Sequence[Restriction], identity: Sequence[str]) -> Images:
            read.append(scan.source)
            return super().read_images(scan, restrictions, identity)

    sql = "select o.id, t.b from one o join two t on t.id = o.a where o.b > 100"
    analysed = analyse_query(sql, RELATIONS, {}, "lake", "raw")
    names = [analysed.outputs[0][1]]
    find_causes(Noting(con, dict(BY_NAME)), analysed.tree, names, (7,), Limits(units=50, batch=8))
    assert read == [ONE.name]
