"""The queries of TPC-DS, kept up with five batches of changes by the rules alone.

A batch deletes rows of its tables, and gives others what a third row had beside its key. Affected rows are told by
one or two columns of the result that no arithmetic has made, whether these identify a row or not.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.strategies.maintain import Facts
from arctic_runtime.model.names import TableName
from benchmarks.tpcds_models import load_tpcds, queries
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images, number

pytestmark = pytest.mark.slow

SCALE = 0.01
FEW_ROWS = 50
"""Tables with fewer rows stay as they are."""

BATCHES = (
    None,
    {"store_sales", "store_returns"},
    {"item", "customer"},
    {"catalog_sales", "web_sales"},
    {"date_dim", "customer_address", "customer_demographics"},
)
"""The tables that each batch changes, None for all."""

REFUSED: dict[int, str] = {}
"""Queries that are never followed, and why."""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as con:
        con.execute("pragma enable_optimizer")
        yield con


def test_every_result_is_that_of_its_query_after_each_batch(con: duckdb.DuckDBPyConnection) -> None:
    relations = {TableName(*name.split(".")).name: relation for name, relation in load_tpcds(con, SCALE).items()}
    kept, refused = _kept(con, relations)
    assert refused == REFUSED
    large = {table for table in relations if number(con, f"select count(*) from {table}") > FEW_ROWS}
    followed, moved = set(), set()
    for batch, tables in enumerate(BATCHES, start=1):
        changed = _change(con, batch, relations, tables or large)
        for one in kept:
            moved |= {one.number} if differing(con, one) else set()
            followed |= {one.number} if follow(con, one, changed).startswith("units") else set()
            assert differing(con, one) == 0, (one.number, batch)
    print(f"{len(followed)} queries followed, the results of {len(moved)} moved")
    assert len(followed) > 70
    assert len(followed & moved) > 50


def _kept(con: duckdb.DuckDBPyConnection, relations: dict[str, Relation]) -> tuple[list[Kept], dict[int, str]]:
    """The queries that can be analysed, with their results, and why others can't."""
    kept, refused = [], {}
    for one in queries(con):
        try:
            known = {f"{CATALOG}.{SCHEMA}.{table}": relation for table, relation in relations.items()}
            analysed = analyse_query(one.spark, known, {}, CATALOG, SCHEMA)
        except NotMaintained as error:
            refused[one.number] = error.reason
            continue
        kept.append(Kept(one.number, one.here, analysed, Facts(types=analysed.types), _key(analysed)))
        compute(con, kept[-1])
    return kept, refused


def _key(analysed: Analysed) -> tuple[str, ...]:
    made = [name for _, name in analysed.outputs]
    known = [name for name in made if name in analysed.types]
    plain = [name for name in known if not analysed.types[name].startswith(("double", "decimal"))]
    return tuple(plain[:2]) or (made[0],)


def _change(
    con: duckdb.DuckDBPyConnection, batch: int, relations: dict[str, Relation], tables: set[str]
) -> frozenset[TableName]:
    keep_old(con, relations)
    for table in sorted(tables):
        shuffle(con, batch, table, relations[table])
    changed = make_images(con, relations)
    assert {table.name for table in changed} == tables
    return changed


def shuffle(con: duckdb.DuckDBPyConnection, batch: int, table: str, relation: Relation) -> None:
    """Deletes one row of forty, and exchanges all values beside the keys among as many others."""
    key = ", ".join(relation.key or ())
    rest = [column.name for column in relation.columns if column.name not in (relation.key or ())]
    lot = f"hash({key}, {batch}) % 40"
    con.execute(
        f"create or replace temp table picked as select *, row_number() over (order by hash({key}, {batch})) as place "
        f"from {table} where {lot} = 1"
    )
    own, others = ", ".join(f"a.{name}" for name in relation.key or ()), ", ".join(f"b.{name}" for name in rest)
    con.execute(
        f"create or replace temp table exchanged as select {own}, {others} from picked as a join picked as b "
        "on b.place = 1 + a.place % (select count(*) from picked)"
    )
    con.execute(f"delete from {table} where {lot} in (1, 2)")
    con.execute(f"insert into {table} ({key}, {', '.join(rest)}) from exchanged")
