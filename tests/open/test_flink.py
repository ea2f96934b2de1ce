"""Flink returns the rows that Spark returns; `docs/readers.md` shows of which relations, from these runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.compaction import compact_table
from docs.generate_readers import FLINK_READS, SAME
from tests.open.flink_engine import ICEBERG_VERSION, VERSION
from tests.open.flink_lake import FlinkLake, run_flink_lake
from tests.open.flink_process import FlinkError
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
    assert_without_default_values,
    build_shop,
    describe_answer,
    describe_answers,
    list_findings,
    select_answers,
    sort_rows,
)
from tests.spark.tables.test_readers import Row, Shop, source_row, write_two_specs

if TYPE_CHECKING:
    from arctic_runtime.model.names import TableName

READER = f"Flink {VERSION} with Iceberg {ICEBERG_VERSION}"
REFUSED_VIEW = "SqlValidatorException: Object 'm' not found within 'lake.dev'"


@pytest.fixture(scope="module")
def flink(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkLake]:
    with run_flink_lake(tmp_path_factory.mktemp("flink"), spark_settings) as lake:
        yield lake


def read(flink: FlinkLake, catalog: str) -> ReadingEngine:
    """Returns Flink as an engine that reads a catalog."""

    def query(sql: str) -> list[Row]:
        try:
            return flink.engine.query(sql)
        except FlinkError as error:
            raise Refused(str(error)) from error

    return ask_by_sql(query, catalog, "`")


@pytest.fixture(scope="module")
def shop(flink: FlinkLake) -> Shop:
    return build_shop(flink.lakes["lake"])


@pytest.fixture(scope="module")
def findings(flink: FlinkLake, shop: Shop) -> Findings:
    """The answers of Flink, by relation and by what was done to its model."""
    return list_findings({READER: read(flink, "lake")}, shop)[READER]


def test_flink_returns_no_row_that_spark_does_not_return(findings: Findings) -> None:
    assert [row for row in findings if WRONG in row["answer"]] == []


def test_flink_reads_bases_and_change_tables_of_both_versions(findings: Findings) -> None:
    assert select_answers(findings, relation="base") == {SAME}
    assert select_answers(findings, relation="change table") == {SAME}


def test_flink_does_not_see_views_of_spark(findings: Findings) -> None:
    assert select_answers(findings, relation="view") == {REFUSED_VIEW}


@pytest.mark.parametrize("version", [3, 2])
def test_flink_reads_deletes_of_two_partition_specs(flink: FlinkLake, version: int) -> None:
    lake = replace(flink.lakes["lake"], namespace=f"specs{version}")
    lake.reader.create_namespace(lake.namespace)
    model, rows = write_two_specs(lake, version)
    assert describe_answer(read(flink, "lake"), EVERY_ROW, model.base, rows) == SAME
    compact_table(lake.session_of(model), "full")
    assert describe_answer(read(flink, "lake"), EVERY_ROW, model.base, rows) == SAME


@pytest.fixture(scope="module")
def orders(flink: FlinkLake) -> Shop:
    """A shop in a REST catalog with one table."""
    return Shop(flink.lakes["rest"], {"orders": CONFIGS["on_write_3"]})


def test_flink_reads_tables_of_a_rest_catalog(flink: FlinkLake, orders: Shop) -> None:
    for name in ("orders base", "orders changes"):
        table, rows = orders.relation(name)
        assert describe_answers(read(flink, "rest"), table, rows) == SAME, name


def read_range(flink: FlinkLake, catalog: str, shop: Shop, table: TableName, columns: str) -> list[Row]:
    """Reads the rows that commits after the first one appended to a table."""
    metadata = shop.lake.reader.load_table(table.schema, table.name).metadata
    first, *_, last = [snapshot.snapshot_id for snapshot in metadata.snapshots]
    hint = f"/*+ OPTIONS('start-snapshot-id' = '{first}', 'end-snapshot-id' = '{last}') */"
    rows = flink.engine.query(f"select {columns} from {catalog}.dev.`{table.name}` {hint}")
    newer = shop.lake.spark.sql(
        f"select {columns} from {quote_name(*table.parts)} "
        f"with (`start-snapshot-id` = {first}, `end-snapshot-id` = {last})"
    )
    assert rows
    assert sort_rows(rows) == sort_rows([row.asDict() for row in newer.collect()])
    return rows


def test_flink_lists_the_change_rows_after_a_version(flink: FlinkLake, orders: Shop) -> None:
    rows = read_range(flink, "rest", orders, orders.models["orders"].table.changes, "id, _action, _seq")
    assert {row["_action"] for row in rows} == {"insert", "update", "delete"}


@pytest.mark.parametrize("version", [3, 2])
def test_flink_lists_change_rows_that_changelog_compaction_has_deleted(
    flink: FlinkLake, shop: Shop, findings: Findings, version: int
) -> None:
    changes = shop.models[f"trimmed_{version}"].table.changes
    rows = read_range(flink, "lake", shop, changes, "id, _action, _seq")
    assert len(rows) > shop.lake.spark.table(quote_name(*changes.parts)).count()


def test_a_range_of_a_base_says_nothing_of_deleted_rows(flink: FlinkLake, orders: Shop) -> None:
    """So a stream can't follow a base: Flink leaves out deletes without an error."""
    model = orders.models["orders"]
    deleted = 20
    assert deleted in {row["id"] for row in read_range(flink, "rest", orders, model.table.changes, "id")}
    assert deleted not in {row["id"] for row in read_range(flink, "rest", orders, model.base, "id")}


def test_a_stream_of_flink_follows_a_change_table_while_runs_commit(flink: FlinkLake, orders: Shop) -> None:
    changes = orders.models["orders"].table.changes
    before = orders.relation("orders changes").rows
    options = "'streaming' = 'true', 'starting-strategy' = 'TABLE_SCAN_THEN_INCREMENTAL', 'monitor-interval' = '100ms'"
    flink.engine.open_stream(f"select * from rest.dev.`{changes.name}` /*+ OPTIONS({options}) */")
    rows = flink.engine.take_rows(len(before))
    assert sort_rows(rows) == sort_rows(before)
    orders.rows |= {5: source_row(5, 9), 3000: source_row(3000, 9)}
    orders.run("cast(n as bigint) as n, n * 2L as twice")
    after = orders.relation("orders changes").rows
    rows += flink.engine.take_rows(len(after) - len(before))
    assert sort_rows(rows) == sort_rows(after)


def test_no_table_has_a_default_value_for_which_flink_reads_nulls(flink: FlinkLake, shop: Shop) -> None:
    assert_without_default_values(shop)
    add_default_value(shop.lake)
    assert {row["x"] for row in shop.lake.spark.table("lake.dev.foreign").collect()} == {5}
    assert flink.engine.query("select x from lake.dev.`foreign`") == [{"x": None}]


def test_the_page_shows_what_flink_answers(findings: Findings) -> None:
    assert_recorded(FLINK_READS, {READER: findings})
