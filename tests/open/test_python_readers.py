"""Readers in Python return the rows that Spark returns, or refuse to read; `docs/readers.md` shows which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from docs.generate_readers import PYTHON_READS, SAME, SAME_BUT_EMPTY, has_vectors
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.python_readers import READERS, open_engines
from tests.open.reader_answers import (
    EVERY_ROW,
    WRONG,
    Findings,
    ReadingEngine,
    Refused,
    add_default_value,
    assert_recorded,
    assert_without_default_values,
    build_shop,
    describe_answer,
    list_findings,
    open_schema,
    select_answers,
)
from tests.spark.tables.test_readers import FIRST_READ, Row, Shop, list_examples, write_two_specs
from tests.spark.warehouse import Warehouse

PYICEBERG, PANDAS, POLARS, POLARS_PLUGIN, DUCKDB, DAFT, DATAFUSION, CLICKHOUSE = READERS
WITHOUT_LIMITS = (PYICEBERG, PANDAS, POLARS, POLARS_PLUGIN, DUCKDB)

DAFT_REFUSED = (
    "DaftError::CorruptFile Parquet metadata error for ….puffin: Parquet error: Invalid Parquet file. Corrupt footer"
)
CLICKHOUSE_REFUSED = (
    "Code: 36. DB::Exception: Position deletes are supported only for parquet format: "
    "While executing ReadFromObjectStorage. (BAD_ARGUMENTS)"
)
DATAFUSION_REFUSED = (
    "DataFusion error: FFI error: External error: Unexpected => Arrow Schema Error, source: "
    "Invalid argument error: Incorrect number of arrays for StructArray fields, expected 14 got 13"
)


@dataclass(frozen=True)
class Read:
    """A schema that Spark writes, in a REST catalog whose addresses begin with `file://`, and engines that read it."""

    lake: Warehouse
    catalog: Catalog
    engines: dict[str, ReadingEngine]


@pytest.fixture(scope="module")
def read(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    folder = tmp_path_factory.mktemp("python")
    settings = {**spark_settings, **INTERPRETED, "spark.hadoop.fs.defaultFS": "file:///"}
    with CATALOGS["rest"].run(folder) as properties:
        catalog = load_catalog("lake", **properties)
        yield Read(open_schema(properties, settings), catalog, open_engines(catalog))
        SparkEnvironment(Profile.for_embedded(folder / "end", settings=settings)).stop_spark()


@pytest.fixture(scope="module")
def shop(read: Read) -> Shop:
    return build_shop(read.lake)


@pytest.fixture(scope="module")
def foreign(read: Read, shop: Shop) -> TableName:
    """A table with a default value, which dbt-arctic never writes."""
    add_default_value(read.lake)
    return TableName("lake", "dev", "foreign")


@pytest.fixture(scope="module")
def findings(read: Read, shop: Shop) -> dict[str, Findings]:
    """The answers of each reader, by relation and by what was done to its model."""
    return list_findings(read.engines, shop)


def test_no_reader_returns_rows_that_spark_does_not_return(findings: dict[str, Findings]) -> None:
    assert [(reader, row) for reader, rows in findings.items() for row in rows if WRONG in row["answer"]] == []


@pytest.mark.parametrize("reader", WITHOUT_LIMITS)
def test_a_reader_reads_bases_and_change_tables_of_both_versions(findings: dict[str, Findings], reader: str) -> None:
    for relation in ("base", "change table"):
        assert select_answers(findings[reader], relation=relation) == {SAME}


@pytest.mark.parametrize(
    ("reader", "refusal", "answer"),
    [(DAFT, DAFT_REFUSED, SAME), (CLICKHOUSE, CLICKHOUSE_REFUSED, SAME_BUT_EMPTY)],
    ids=["daft", "clickhouse"],
)
def test_a_reader_without_deletion_vectors_refuses_tables_that_have_some_and_reads_all_others(
    findings: dict[str, Findings], reader: str, refusal: str, answer: str
) -> None:
    tables = [row for row in findings[reader] if row["relation"] != "view"]
    assert {row["answer"] for row in tables if has_vectors(row)} == {refusal}
    assert {row["answer"] for row in tables if not has_vectors(row)} == {answer}


def test_datafusion_reads_bases_with_deletion_vectors(findings: dict[str, Findings]) -> None:
    assert select_answers(findings[DATAFUSION], relation="base") == {SAME}


def test_datafusion_refuses_old_rows_of_change_tables_with_fewer_columns_until_they_are_compacted(
    findings: dict[str, Findings],
) -> None:
    changes = {"relation": "change table"}
    assert select_answers(findings[DATAFUSION], **changes, after="full compaction") == {SAME}
    for after in ("runs", "changelog compaction"):
        assert select_answers(findings[DATAFUSION], **changes, after=after) == {f"{DATAFUSION_REFUSED}; {SAME}"}


@pytest.mark.parametrize(("version", "who_refuses"), [(3, {DAFT, CLICKHOUSE}), (2, set())])
def test_readers_read_deletes_of_two_partition_specs(read: Read, version: int, who_refuses: set[str]) -> None:
    lake = replace(read.lake, namespace=f"specs{version}")
    lake.reader.create_namespace(lake.namespace)
    model, rows = write_two_specs(lake, version)

    def ask() -> dict[str, str]:
        return {name: describe_answer(engine, EVERY_ROW, model.base, rows) for name, engine in read.engines.items()}

    refusals = {DAFT: DAFT_REFUSED, CLICKHOUSE: CLICKHOUSE_REFUSED}
    assert ask() == {name: refusals[name] if name in who_refuses else SAME for name in READERS}
    compact_table(lake.session_of(model), "full")
    assert set(ask().values()) == {SAME}


@pytest.mark.parametrize(
    ("reader", "answer"),
    [(name, [{"id": 1, "x": 5}]) for name in (PYICEBERG, PANDAS, POLARS, POLARS_PLUGIN, DUCKDB)]
    + [(name, [{"id": 1, "x": None}]) for name in (DAFT, CLICKHOUSE)],
)
def test_some_readers_read_null_for_a_default_value(
    read: Read, foreign: TableName, reader: str, answer: list[Row]
) -> None:
    assert read.engines[reader](foreign, EVERY_ROW) == answer


def test_datafusion_refuses_a_default_value(read: Read, foreign: TableName) -> None:
    with pytest.raises(Refused, match="DataInvalid => Column x not found in table"):
        read.engines[DATAFUSION](foreign, EVERY_ROW)


def test_no_table_has_a_default_value(shop: Shop) -> None:
    assert_without_default_values(shop)


def test_datafusion_refuses_tables_whose_addresses_have_no_scheme(tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("dev")
    catalog.create_table("dev.m", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    with pytest.raises(Refused, match="failed to parse URL: relative URL without a base"):
        open_engines(catalog)[DATAFUSION](TableName("lake", "dev", "m"), EVERY_ROW)


@pytest.mark.parametrize("section", ["Daft", "DataFusion", "ClickHouse"])
def test_the_examples_of_the_page_run(read: Read, shop: Shop, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base, rows = shop.relation("small_3")
    orders = read.catalog.load_table((base.schema, base.name))
    monkeypatch.chdir(Path(urlsplit(orders.location()).path).parent)
    names = {"orders": orders}
    for example in list_examples(section):
        exec(example, names)
    assert len(names["frame"]) == len([row for row in rows if row["id"] >= FIRST_READ])


def test_the_page_shows_what_readers_answer(findings: dict[str, Findings]) -> None:
    assert_recorded(PYTHON_READS, findings)
