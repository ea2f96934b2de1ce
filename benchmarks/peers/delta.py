"""Delta Lake: a table with deletion vectors, changes by MERGE INTO, and OPTIMIZE with REORG, after which none is left.

A table that publishes its changes has the change data feed on, which each MERGE INTO writes beside the rows.

OPTIMIZE alone joins files, and leaves the vector of one that it has nothing to join with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.changes import AFTER, BEFORE, DELETE, INSERT, select_changes
from benchmarks.peers.publishing import Publisher
from benchmarks.peers.theirs import Engine, main
from benchmarks.peers.work import Keeper
from benchmarks.rows import images

NAME = "Delta Lake"
_TABLE = "kept"
_KINDS = {"insert": INSERT, "update_preimage": BEFORE, "update_postimage": AFTER, "delete": DELETE}
_MERGE = """merge into kept t using changes s on t.id = s.id
    when matched and s.op = 'd' then delete
    when matched then update set a = s.a, b = s.b, c = s.c, d = s.d, e = s.e
    when not matched and s.op <> 'd' then insert (id, a, b, c, d, e) values (s.id, s.a, s.b, s.c, s.d, s.e)"""


def _settings(folder: Path) -> Mapping[str, str]:
    """OPTIMIZE leaves large files to REORG, which writes them on both cores; the log is not read in 50 tasks."""
    size = str(64 * 1024 * 1024)
    return {
        "spark.sql.warehouse.dir": str(folder),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.optimize.maxFileSize": size,
        "spark.databricks.delta.optimize.minFileSize": size,
    }


def _make(spark: SparkSession, rows: int) -> Keeper:
    _fill(spark, rows)

    def bring_in() -> None:
        spark.sql(_MERGE).collect()

    def merge() -> None:
        spark.sql("optimize kept").collect()
        spark.sql("reorg table kept apply (purge)").collect()

    return Keeper(bring_in, lambda: spark.table(_TABLE), merge)


def _publish(spark: SparkSession, rows: int) -> Mapping[str, Publisher]:
    _fill(spark, rows, {"delta.enableChangeDataFeed": "true"})

    def bring_in() -> None:
        spark.sql(_MERGE).collect()

    def find_head() -> int:
        return int(spark.sql("describe history kept limit 1").collect()[0]["version"])

    def read_changes(start: int, end: int) -> DataFrame:
        reader = spark.read.option("readChangeFeed", "true")
        rows = reader.option("startingVersion", str(start + 1)).option("endingVersion", str(end)).table(_TABLE)
        return select_changes(rows, "_change_type", _KINDS)

    publisher = Publisher(bring_in, lambda: spark.table(_TABLE), find_head, read_changes)
    return {f"{NAME}, MERGE, change data feed": publisher}


def _fill(spark: SparkSession, rows: int, properties: Mapping[str, str] | None = None) -> None:
    writer = spark.range(rows).select(*images(F.col("id"), 0)).writeTo(_TABLE).using("delta")
    for name, value in {"delta.enableDeletionVectors": "true", **(properties or {})}.items():
        writer = writer.tableProperty(name, value)
    writer.create()


_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
ENGINE = Engine(NAME, _PACKAGE, _settings, {"update": "u", "delete": "d"}, _make, _publish)

if __name__ == "__main__":
    main(ENGINE)
