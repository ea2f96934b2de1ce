"""Apache Paimon: a table with a primary key and a fixed number of buckets, that is merged as it is read.

Changes are inserted, and say in `op`, which is a column of the table, whether a row is to be deleted. A table that
publishes its changes has the changelog producer `lookup`: a writer merges its files, and writes what that changed. With
deletion vectors it also marks the rows that are gone, and readers merge nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.changes import AFTER, BEFORE, DELETE, INSERT, select_changes
from benchmarks.peers.publishing import Publisher
from benchmarks.peers.theirs import CHANGES, Engine, main
from benchmarks.peers.work import Keeper
from benchmarks.rows import COLUMNS, images

NAME = "Paimon"
_KINDS = {"+I": INSERT, "-U": BEFORE, "+U": AFTER, "-D": DELETE}
_PROPERTIES = {"primary-key": "id", "bucket": "4", "merge-engine": "deduplicate", "rowkind.field": "op"}
_MERGED_ON_READ = {**_PROPERTIES, "write-only": "true"}
"""Writers don't merge on their own account; what they leave waits for `compact`."""
_LOOKUP = {**_PROPERTIES, "changelog-producer": "lookup"}
_PUBLISHED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "": ("looked_up", _LOOKUP),
    ", deletion vectors": ("vectors", {**_LOOKUP, "deletion-vectors.enabled": "true"}),
}
"""What is said of a table that publishes its changes → the table and its properties."""


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": folder.as_uri(),
    }


def _make(spark: SparkSession, rows: int) -> Keeper:
    spark.sql("create database paimon.bench")
    _fill(spark, "kept", rows, _MERGED_ON_READ)

    def merge() -> None:
        spark.sql("call paimon.sys.compact(table => 'bench.kept')").collect()

    merge()
    return Keeper(lambda: _bring_in(spark, "kept"), lambda: _read_rows(spark, "kept"), merge)


def _publish(spark: SparkSession, rows: int) -> Mapping[str, Publisher]:
    spark.sql("create database paimon.bench")
    return {
        f"{NAME}, changelog producer lookup{more}": _make_publisher(spark, table, rows, properties)
        for more, (table, properties) in _PUBLISHED.items()
    }


def _make_publisher(spark: SparkSession, table: str, rows: int, properties: Mapping[str, str]) -> Publisher:
    _fill(spark, table, rows, properties)

    def find_head() -> int:
        newest = spark.table(f"paimon.bench.`{table}$snapshots`").agg(F.max("snapshot_id")).collect()
        return int(newest[0][0])

    def read_changes(start: int, end: int) -> DataFrame:
        reader = spark.read.option("incremental-between", f"{start},{end}")
        rows = reader.option("incremental-between-scan-mode", "changelog").table(f"paimon.bench.`{table}$audit_log`")
        return select_changes(rows, "rowkind", _KINDS)

    return Publisher(lambda: _bring_in(spark, table), lambda: _read_rows(spark, table), find_head, read_changes)


def _fill(spark: SparkSession, table: str, rows: int, properties: Mapping[str, str]) -> None:
    loaded = spark.range(rows).select(*images(F.col("id"), 0), F.lit("+I").alias("op"))
    writer = loaded.writeTo(_name(table)).using("paimon")
    for name, value in properties.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def _bring_in(spark: SparkSession, table: str) -> None:
    spark.table(CHANGES).writeTo(_name(table)).append()


def _read_rows(spark: SparkSession, table: str) -> DataFrame:
    return spark.table(_name(table)).select(*COLUMNS)


def _name(table: str) -> str:
    return f"paimon.bench.{table}"


_PACKAGE = "org.apache.paimon:paimon-spark-4.1_2.13:2.0.0"
ENGINE = Engine(NAME, _PACKAGE, _settings, {"update": "+U", "delete": "-D"}, _make, _publish)

if __name__ == "__main__":
    main(ENGINE)
