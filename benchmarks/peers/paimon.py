"""Apache Paimon: a table with a primary key and a fixed number of buckets, that is merged as it is read.

Changes are inserted, and say in `op`, which is a column of the table, whether a row is to be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.theirs import CHANGES, Engine, main
from benchmarks.peers.work import Keeper
from benchmarks.rows import COLUMNS, images

NAME = "Paimon"
PYSPARK = "3.5.9"
"""The newest Spark that the newest Paimon to be had runs on."""
_TABLE = "paimon.bench.kept"
_PROPERTIES = {
    "primary-key": "id",
    "bucket": "4",
    "merge-engine": "deduplicate",
    "rowkind.field": "op",
    # Writers don't merge on their own account; what they leave waits for `compact`.
    "write-only": "true",
}


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": folder.as_uri(),
    }


def _make(spark: SparkSession, rows: int) -> Keeper:
    spark.sql("create database paimon.bench")
    loaded = spark.range(rows).select(*images(F.col("id"), 0), F.lit("+I").alias("op"))
    writer = loaded.writeTo(_TABLE).using("paimon")
    for name, value in _PROPERTIES.items():
        writer = writer.tableProperty(name, value)
    writer.create()

    def bring_in() -> None:
        spark.table(CHANGES).writeTo(_TABLE).append()

    def merge() -> None:
        spark.sql("call paimon.sys.compact(table => 'bench.kept')").collect()

    merge()
    return Keeper(bring_in, lambda: spark.table(_TABLE).select(*COLUMNS), merge)


ENGINE = Engine(NAME, "org.apache.paimon:paimon-spark-3.5:0.9.0", _settings, {"update": "+U", "delete": "-D"}, _make)

if __name__ == "__main__":
    main(ENGINE)
