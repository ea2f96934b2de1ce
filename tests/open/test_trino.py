"""Trino returns the rows that Spark returns, or refuses to read; `docs/readers.md` shows which, from these runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.compaction import compact_table
from docs.generate_readers import SAME, TRINO_READS
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.reader_answers import (
    CONFIGS,
    EVERY_ROW,
    WRONG,
    Findings,
    ReadingEngine,
    Refused,
    add_default_value,
    ask_by_sql,
    assert_recorded,
    build_shop,
    describe_answer,
    describe_answers,
    list_findings,
    open_schema,
    select_answers,
    sort_rows,
)
from tests.open.trino_server import OLDEST_JAVA, VERSION, TrinoServer, find_trino_java, run_trino
from tests.spark.tables.test_readers import Row, Shop, write_two_specs
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.skipif(
    find_trino_java() is None, reason=f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer, and none is installed"
)

REFUSED_VIEW = "ICEBERG_UNSUPPORTED_VIEW_DIALECT: Cannot read unsupported dialect 'spark' for view 'dev.m'"
READER = f"Trino {VERSION}"
KINDS = {"rest": "rest", "postgresql": "jdbc_postgresql"}
"""The catalogs that Trino has, each with its name in `CATALOGS`."""


@dataclass(frozen=True)
class Served:
    """A Trino with a schema in each of its catalogs, which Spark writes."""

    trino: TrinoServer
    lakes: dict[str, Warehouse]

    def read(self, catalog: str) -> ReadingEngine:
        """Returns Trino as an engine that reads a catalog."""
        return ask_by_sql(self.query, catalog, '"')

    def query(self, sql: str) -> list[Row]:
        """Runs a query. Raises Refused with Trino's error."""
        from trino.exceptions import TrinoQueryError

        try:
            return self.trino.query(sql)
        except TrinoQueryError as error:
            raise Refused(f"{error.error_name}: {error.message}") from error


@pytest.fixture(scope="module")
def served(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Trino and a Spark that share a REST catalog and a catalog in PostgreSQL."""
    folder = tmp_path_factory.mktemp("trino")
    settings = {**spark_settings, **INTERPRETED, JARS_SETTING: "postgresql", "spark.hadoop.fs.defaultFS": "file:///"}
    with ExitStack() as stack:
        catalogs = {name: stack.enter_context(CATALOGS[kind].run(folder)) for name, kind in KINDS.items()}
        trino = stack.enter_context(run_trino(folder, catalogs))
        yield Served(trino, {name: open_schema(catalogs[name], settings) for name in catalogs})
        SparkEnvironment(Profile.for_embedded(folder / "end", settings=settings)).stop_spark()


@pytest.fixture(scope="module")
def shop(served: Served) -> Shop:
    return build_shop(served.lakes["rest"])


@pytest.fixture(scope="module")
def findings(served: Served, shop: Shop) -> Findings:
    """What Trino answers, by relation and by what was done to its model."""
    return list_findings({READER: served.read("rest")}, shop)[READER]


def test_trino_returns_no_row_that_spark_does_not_return(findings: Findings) -> None:
    assert [row for row in findings if WRONG in row["answer"]] == []


def test_trino_reads_bases_and_change_tables_of_both_versions(findings: Findings) -> None:
    assert select_answers(findings, relation="base") == {SAME}
    assert select_answers(findings, relation="change table") == {SAME}


def test_trino_refuses_views_of_spark(findings: Findings) -> None:
    assert select_answers(findings, relation="view") == {REFUSED_VIEW}


@pytest.mark.parametrize("version", [3, 2])
def test_trino_reads_deletes_of_two_partition_specs(served: Served, version: int) -> None:
    lake = replace(served.lakes["rest"], namespace=f"specs{version}")
    lake.reader.create_namespace(lake.namespace)
    model, rows = write_two_specs(lake, version)
    assert describe_answer(served.read("rest"), EVERY_ROW, model.base, rows) == SAME
    compact_table(lake.session_of(model), "full")
    assert describe_answer(served.read("rest"), EVERY_ROW, model.base, rows) == SAME


@pytest.fixture(scope="module")
def orders(served: Served) -> Shop:
    """A shop in PostgreSQL's catalog with one table."""
    return Shop(served.lakes["postgresql"], {"orders": CONFIGS["on_write_2"]})


def test_trino_reads_tables_of_a_catalog_in_postgresql(served: Served, orders: Shop) -> None:
    for name in ("orders base", "orders changes"):
        table, rows = orders.relation(name)
        assert describe_answers(served.read("postgresql"), table, rows) == SAME, name


def test_trino_lists_the_change_rows_after_a_version_in_the_order_of_commits(served: Served, orders: Shop) -> None:
    changes = orders.models["orders"].table.changes
    snapshots = orders.lake.reader.load_table(changes.schema, changes.name).metadata.snapshots
    first, last = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
    rows = served.trino.query(
        "select id, _action, _seq, _change_ordinal from "
        f"table(postgresql.system.table_changes('{changes.schema}', '{changes.name}', {first}, {last}))"
    )
    newer = orders.lake.spark.sql(
        "select id, _action, _seq, dense_rank() over (order by _last_updated_sequence_number) - 1 as _change_ordinal "
        f"from {quote_name(*changes.parts)} with (`start-snapshot-id` = {first}, `end-snapshot-id` = {last})"
    )
    assert len({row["_change_ordinal"] for row in rows}) > 1
    assert sort_rows(rows) == sort_rows([row.asDict() for row in newer.collect()])


def test_trino_knows_the_ids_of_rows_and_their_commits(served: Served, orders: Shop) -> None:
    changes = orders.models["orders"].table.changes
    rows = served.trino.query(
        'select id, _seq, "$row_id" as row, "$last_updated_sequence_number" as commit '
        f'from postgresql.{changes.schema}."{changes.name}"'
    )
    same = orders.lake.spark.sql(
        f"select id, _seq, _row_id as row, _last_updated_sequence_number as commit from {quote_name(*changes.parts)}"
    )
    assert sort_rows(rows) == sort_rows([row.asDict() for row in same.collect()])


def test_trino_reads_default_values(served: Served, shop: Shop) -> None:
    add_default_value(shop.lake)
    assert served.trino.query("select x from rest.dev.foreign") == [{"x": 5}]


def test_the_page_shows_what_trino_answers(findings: Findings) -> None:
    assert_recorded(TRINO_READS, {READER: findings})
