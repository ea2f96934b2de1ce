"""Readers that know nothing of this project see the tables as Spark does, as far as their page says so."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pandas as pd
import polars as pl
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import GreaterThanOrEqual
from pyspark.sql.functions import expr

from arctic_runtime.spark.engine.statement import quote_name as quoted
from tests.spark.tables.vector_files import move_first_vector_of_last_manifest
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.names import TableName
    from arctic_runtime.model.table import Model
    from arctic_runtime.spark.engine.session import SparkEnvironment

Row = dict[str, Any]

COLUMNS = (
    "id bigint, `a b.c` string, region string, at timestamp, local timestamp_ntz, day date, amount decimal(12,2), "
    "is_ok boolean, ratio double, n int, tags array<string>, counts map<string, int>, "
    "place struct<x: int, y: string>, raw binary"
)
NAMES = ("id", "a b.c", "region", "at", "local", "day", "amount", "is_ok", "ratio", "n")
NESTED = ("tags", "counts", "place", "raw")
REGIONS = ("eu", "it's", None)
LAID_OUT: dict[str, Any] = {"primary_key": "id", "partition_by": ["region"], "nodes": 4}
CONFIGS: dict[str, dict[str, Any]] = {
    "dwd_orders": LAID_OUT,
    "positions": {**LAID_OUT, "format_version": 2},
    "on_read": {**LAID_OUT, "merge": "on_read"},
}
FIRST_READ = 100
"""Reads with a condition ask for keys from here on."""


def source_row(key: int, version: int) -> tuple[Any, ...]:
    """A row with something of every type, and with nulls in most columns now and then."""
    at = datetime.datetime(2024, 3, 1 + key % 5, 1, 2, 3, 456789)
    return (
        key,
        None if key % 7 == 0 else f"n'{version}·{key}",
        REGIONS[key % 3],
        at,
        at,
        at.date(),
        Decimal(key) / 100 + version,
        (None, True, False)[key % 3],
        math.nan if key % 11 == 0 else key / 3,
        None if key % 5 == 0 else 2**31 - 1 - key,
        None if key % 5 == 0 else ["x", None, str(version)],
        {"k": key, "none": None},
        (key, None if key % 2 else str(version)),
        bytes([key % 256, 0, 255]),
    )


class Read(NamedTuple):
    """A relation that readers open, and its rows as Spark reads them."""

    table: TableName
    rows: list[Row]


class Shop:
    """Models over one source, run three times; in the last run their query has a column more and a wider one."""

    def __init__(self, lake: Warehouse, configs: Mapping[str, dict[str, Any]] = CONFIGS) -> None:
        self.lake = lake
        self.rows = {key: source_row(key, 0) for key in range(240)}
        self.configs = configs
        self.run("n")
        self.change(1)
        self.run("n")
        self.change(2)
        self.run("cast(n as bigint) as n, n * 2L as twice")

    def change(self, version: int) -> None:
        self.rows |= {key: source_row(key, version) for key in [*range(version, 240, 17), 1000 + version]}
        del self.rows[20 * version]

    def run(self, selected: str) -> None:
        self.lake.load("s", list(self.rows.values()), COLUMNS)
        columns = ", ".join([*(quoted(c) for c in NAMES[:-1]), selected, *NESTED])
        self.models = {
            name: self.lake.model(name, f"select {columns} from {{s}}", **config)
            for name, config in self.configs.items()
        }
        for model in self.models.values():
            self.lake.run(model)

    def relation(self, named: str) -> Read:
        name, _, part = named.partition(" ")
        model = self.models[name]
        table = {"": model.table, "base": model.base, "changes": model.table.changes}[part]
        frame = self.lake.spark.table(quoted(*table.parts))
        return Read(table, comparable(row.asDict(recursive=True) for row in frame.collect()))


@pytest.fixture(autouse=True)
def planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars warns where a package that plans scans faster is not installed, unless it is told to do without."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture(scope="module")
def shop(environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession) -> Shop:
    spark.sql("create namespace dev")
    # Compiling plans costs more than running them over a few rows.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # Rows that are deleted one by one, although they are most rows of small tables.
    return Shop(Warehouse(environment, reader, spark, "dev").under(merge={"overwritten_share": 100.0}))


def comparable(rows: Iterator[Row] | list[Row]) -> list[Row]:
    """Rows by key and time, with what libraries write differently written in one way."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return sorted(plain, key=lambda row: (row["id"], str(row.get("_ts", ""))))


def _plain(value: Any) -> Any:
    match value:
        case _ if value is None or value is pd.NaT or value is pd.NA:
            return None
        case float() if math.isnan(value):
            return "nan"
        case pd.Timestamp():
            return _plain(value.to_pydatetime())
        case datetime.datetime():
            return value.astimezone(datetime.timezone.utc)
        case Mapping():
            return {name: _plain(part) for name, part in value.items()}
        case bytes() | str():
            return value
        case _ if hasattr(value, "__iter__"):
            return _plain_list(list(value))
    return value


def _plain_list(parts: list[Any]) -> Any:
    if parts and all(isinstance(part, tuple) and len(part) == 2 for part in parts):
        return {name: _plain(part) for name, part in parts}
    if parts and all(isinstance(part, Mapping) and set(part) == {"key", "value"} for part in parts):
        return {part["key"]: _plain(part["value"]) for part in parts}
    return [_plain(part) for part in parts]


# The readers, each as its own page says to open a table.


def by_pyiceberg(table: Table, first: int | None) -> list[Row]:
    scan = table.scan() if first is None else table.scan(row_filter=GreaterThanOrEqual("id", first))
    rows: list[Row] = scan.to_arrow().to_pylist()
    return rows


def by_pandas(table: Table, first: int | None) -> list[Row]:
    frame = table.scan().to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
    kept = frame if first is None else frame[frame["id"] >= first]
    rows: list[Row] = kept.to_dict("records")
    return rows


def by_polars(table: Table, first: int | None) -> list[Row]:
    frame = pl.scan_iceberg(table)
    return (frame if first is None else frame.filter(pl.col("id") >= first)).collect().to_dicts()


def load_extensions(connection: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's own way to install them asks a network."""
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (file,) = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.load_extension(str(file))


DUCKDB_SETTINGS = ("SET enable_external_file_cache = false",)


def by_duckdb(table: Table, first: int | None) -> list[Row]:
    return query_by_duckdb(table, first, DUCKDB_SETTINGS)


def query_by_duckdb(table: Table, first: int | None, settings: Iterable[str]) -> list[Row]:
    with duckdb.connect() as connection:
        load_extensions(connection)
        for setting in settings:
            connection.execute(setting)
        rows = connection.execute(
            "select * from iceberg_scan(?) where id >= ?", [table.metadata_location, -1 if first is None else first]
        )
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


Reader = Callable[["Table", "int | None"], list[Row]]
READERS: tuple[Reader, ...] = (by_pyiceberg, by_pandas, by_polars, by_duckdb)

readers = pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__.removeprefix("by_"))


def opened(lake: Warehouse, table: TableName) -> Table:
    """The table by a catalog of the reader's own, with no more than the page on readers gives it."""
    directory = lake.environment.profile.catalog_properties["warehouse"]
    uri = f"sqlite:///{directory}/catalog.db"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=directory, init_catalog_tables="false")
    return catalog.load_table((table.schema, table.name))


@readers
@pytest.mark.parametrize(
    "relation",
    [
        "dwd_orders",
        "dwd_orders changes",
        "positions",
        "positions changes",
        "on_read base",
        "on_read changes",
    ],
)
def test_a_reader_sees_the_rows_that_spark_sees(shop: Shop, read: Reader, relation: str) -> None:
    table, expected = shop.relation(relation)
    opened_files = opened(shop.lake, table)
    assert comparable(read(opened_files, None)) == expected
    assert comparable(read(opened_files, FIRST_READ)) == [row for row in expected if row["id"] >= FIRST_READ]


def test_the_tables_that_are_read_have_what_readers_stumble_over(shop: Shop) -> None:
    contents = {
        name: {(row["content"], row["file_format"]) for row in files(shop.lake, shop.models[name].base)}
        for name in ("dwd_orders", "positions")
    }
    assert contents == {
        "dwd_orders": {(0, "PARQUET"), (1, "PUFFIN")},
        "positions": {(0, "PARQUET"), (1, "PARQUET")},
    }
    updates = [row for row in shop.relation("dwd_orders changes").rows if row["_action"] == "update"]
    assert {row["_before"]["twice"] for row in updates} == {None}
    assert {len(row["_before"]) for row in updates} == {len(NAMES) + len(NESTED)}


def list_examples(*sections: str) -> list[str]:
    """Lists the programs of Python in sections of the page on readers."""
    page = (Path(__file__).parents[3] / "docs" / "readers.md").read_text(encoding="utf-8")
    texts = {text.partition("\n")[0]: text for text in page.split("\n## ")}
    return [
        example
        for section in sections
        for example in re.findall(r"^```python\n(.*?)^```$", texts[section], re.MULTILINE | re.DOTALL)
    ]


def test_the_examples_of_the_page_on_readers_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = list_examples("Python", "Freshness", "DuckDB")
    load_extensions(duckdb.default_connection())
    monkeypatch.chdir(Path(shop.lake.environment.profile.catalog_properties["warehouse"]).parent)
    names: dict[str, Any] = {}
    shown = []
    for example in examples:
        exec(example, names)
        shown.append(len(names["frame"]) if "frame" in names else names["rows"].num_rows)
    _, rows = shop.relation("dwd_orders")
    large = len([row for row in rows if row["id"] >= FIRST_READ])
    of_one = [row for row in shop.relation("dwd_orders changes").rows if row["id"] == 3]
    assert shown[:4] == [large, len(rows), large, len(of_one)]
    assert names["found"] == (len(rows),)


def files(lake: Warehouse, table: TableName) -> list[Any]:
    return list(lake.spark.table(quoted(*table.parts, "files")).collect())


def write_two_specs(lake: Warehouse, version: int) -> tuple[Model, list[Row]]:
    """Writes a table that has deleted rows in files of two partition specs; returns its model and its rows."""
    rows = {key: (key, key) for key in range(1000)}
    config: dict[str, Any] = {"primary_key": "id", "partition_by": ["region"], "nodes": 4, "format_version": version}
    model = lake.model("m", "select id, v, 'r' as region from {s}", **config)

    def run() -> None:
        lake.load("s", list(rows.values()), "id bigint, v bigint")
        lake.run(model)

    run()
    base, node = lake.sql_name("m"), "lake.system.bucket(4, id) = 3"
    lake.spark.sql(f"alter table {base} replace partition field bucket(4, id) with bucket(8, id)")
    lake.spark.table(base).where(node).writeTo(base).overwrite(expr(node))
    rows |= {key: (key, -key) for key in range(3, 1000, 7)}
    run()
    assert {row["spec_id"] for row in files(lake, model.base) if row["content"] == 1} == {0, 1}
    return model, comparable([{"id": key, "v": v, "region": "r"} for key, (_, v) in rows.items()])


def list_wrong_readers(table: Table, expected: list[Row]) -> set[str]:
    return {read.__name__ for read in READERS if comparable(read(table, None)) != expected}


@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 2])
def test_readers_read_deletes_of_two_partition_specs(lake: Warehouse, version: int) -> None:
    model, expected = write_two_specs(lake, version)
    assert list_wrong_readers(opened(lake, model.base), expected) == set()


@pytest.mark.slow
def test_duckdb_misreads_some_orders_of_vectors_unless_its_cache_of_files_is_off(lake: Warehouse) -> None:
    model, expected = write_two_specs(lake, 3)
    table = opened(lake, model.base)
    move_first_vector_of_last_manifest(table)
    assert comparable(query_by_duckdb(table, None, settings=())) != expected
    assert list_wrong_readers(table, expected) == set()


def test_a_view_to_which_somebody_has_added_another_dialect_is_replaced_by_the_next_run(lake: Warehouse) -> None:
    if not hasattr(lake.spark, "_jvm"):
        pytest.skip("a dialect is added by Iceberg's own API, in the Java of this process")
    lake.load("s", [(1, "a")], "id int, v string")
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read")
    lake.run(model)
    iceberg, session = lake.spark._jvm.org.apache.iceberg, lake.spark._jsparkSession
    name = iceberg.catalog.TableIdentifier.parse(f"{lake.namespace}.m")
    spark_catalog = session.sessionState().catalogManager().catalog(model.table.catalog)
    view = spark_catalog.icebergCatalog().loadView(name)
    version = view.replaceVersion().withSchema(view.schema()).withDefaultNamespace(name.namespace())
    for query in view.currentVersion().representations():
        version = version.withQuery(query.dialect(), query.sql())
    version.withQuery("trino", "SELECT 1 AS id, 'a' AS v").commit()
    assert len(spark_catalog.icebergCatalog().loadView(name).currentVersion().representations()) == 2
    lake.load("s", [(1, "b"), (2, "c")], "id int, v string")
    lake.run(model)
    assert lake.rows(model) == [(1, "b"), (2, "c")]
    assert len(spark_catalog.icebergCatalog().loadView(name).currentVersion().representations()) == 1
