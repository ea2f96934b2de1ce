"""Apache Paimon: a table with a primary key and a fixed number of buckets, that is merged as it is read.

Changes are inserted, and say in `op`, which is a column of the table, whether a row is to be deleted. A table that
publishes its changes has the changelog producer `lookup`: a writer merges its files, and writes what that changed.
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
PYSPARK = "3.5.9"
"""The newest Spark that the measured Paimon, which is not the newest one, runs on."""
_TABLE = "paimon.bench.kept"
_KINDS = {"+I": INSERT, "-U": BEFORE, "+U": AFTER, "-D": DELETE}
_PROPERTIES = {"primary-key": "id", "bucket": "4", "merge-engine": "deduplicate", "rowkind.field": "op"}
_MERGED_ON_READ = {**_PROPERTIES, "write-only": "true"}
"""Writers don't merge on their own account; what they leave waits for `compact`."""
_PUBLISHED = {**_PROPERTIES, "changelog-producer": "lookup"}


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": folder.as_uri(),
    }


def _make(spark: SparkSession, rows: int) -> Keeper:
    _fill(spark, rows, _MERGED_ON_READ)

    def bring_in() -> None:
        spark.table(CHANGES).writeTo(_TABLE).append()

    def merge() -> None:
        spark.sql("call paimon.sys.compact(table => 'bench.kept')").collect()

    merge()
    return Keeper(bring_in, lambda: spark.table(_TABLE).select(*COLUMNS), merge)


def _publish(spark: SparkSession, rows: int) -> Mapping[str, Publisher]:
    _fill(spark, rows, _PUBLISHED)

    def bring_in() -> None:
        spark.table(CHANGES).writeTo(_TABLE).append()

    def find_head() -> int:
        newest = spark.table("paimon.bench.`kept$snapshots`").agg(F.max("snapshot_id")).collect()
        return int(newest[0][0])

    def read_changes(start: int, end: int) -> DataFrame:
        reader = spark.read.option("incremental-between", f"{start},{end}")
        rows = reader.option("incremental-between-scan-mode", "changelog").table("paimon.bench.`kept$audit_log`")
        return select_changes(rows, "rowkind", _KINDS)

    def read_rows() -> DataFrame:
        return spark.table(_TABLE).select(*COLUMNS)

    return {f"{NAME}, changelog producer lookup": Publisher(bring_in, read_rows, find_head, read_changes)}


def _fill(spark: SparkSession, rows: int, properties: Mapping[str, str]) -> None:
    spark.sql("create database paimon.bench")
    loaded = spark.range(rows).select(*images(F.col("id"), 0), F.lit("+I").alias("op"))
    writer = loaded.writeTo(_TABLE).using("paimon")
    for name, value in properties.items():
        writer = writer.tableProperty(name, value)
    writer.create()


_PACKAGE = "org.apache.paimon:paimon-spark-3.5:0.9.0"
ENGINE = Engine(NAME, _PACKAGE, _settings, {"update": "+U", "delete": "-D"}, _make, _publish)

if __name__ == "__main__":
    main(ENGINE)
