"""Apache Hudi: tables with a record key and a fixed number of buckets, copy-on-write and merge-on-read.

Changes are upserted, and `_hoodie_is_deleted`, which is a column of the table, says whether a row is to be deleted. A
table that publishes its changes logs both images of changed rows, which the incremental query in the format `cdc`
returns as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.changes import unfold_changes
from benchmarks.peers.publishing import Publisher
from benchmarks.peers.theirs import CHANGES, Engine, main
from benchmarks.peers.work import Keeper
from benchmarks.rows import COLUMNS, images

NAME = "Hudi"
MERGE_ON_READ = "merge_on_read"
_DELETED = "_hoodie_is_deleted"
_TABLE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
"""Without a table of metadata, which costs writes more than it saves on local files."""
_PUBLISHED = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
_HEADS = {
    "copy_on_write": "call show_commits(table => 'copy_on_write', limit => 1)",
    MERGE_ON_READ: "call show_commits(table => 'merge_on_read', limit => 1)",
}
"""Kind of table, after which a table is called → the query of its newest commit."""
_COMPACT = """call run_compaction(op => 'scheduleandexecute', table => 'merge_on_read',
    options => 'hoodie.compact.inline.max.delta.commits=1')"""
_JSON = "id bigint, a bigint, b int, c double, d string, e bigint"
"""The columns as a table logs them: the timestamp is a number of microseconds."""


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "spark.sql.warehouse.dir": str(folder),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }


def _make(spark: SparkSession, rows: int) -> Keeper:
    table = _Table(spark, MERGE_ON_READ, {}, rows)
    return Keeper(table.upsert_changes, table.read_rows, table.compact)


def _publish(spark: SparkSession, rows: int) -> Mapping[str, Publisher]:
    return {f"{NAME}, {kind.replace('_', '-')}, CDC": _make_publisher(spark, kind, rows) for kind in _HEADS}


def _make_publisher(spark: SparkSession, kind: str, rows: int) -> Publisher:
    table = _Table(spark, kind, _PUBLISHED, rows)
    return Publisher(table.upsert_changes, table.read_rows, table.find_head, table.read_changes)


class _Table:
    """A table of so many rows, which is called after its kind.

    It is written and read by its path: by its name, Spark would read the files of the first reading again.
    """

    def __init__(self, spark: SparkSession, kind: str, options: Mapping[str, str], rows: int) -> None:
        self._spark, self._kind = spark, kind
        self._path = f"{spark.conf.get('spark.sql.warehouse.dir')}/{kind}"
        named = {"hoodie.table.name": kind, "hoodie.datasource.write.table.type": kind.upper()}
        self._options = {**_TABLE, **named, **options}
        loaded = spark.range(rows).select(*images(F.col("id"), 0), F.lit(False).alias(_DELETED))
        self._write(loaded, "bulk_insert", "overwrite")
        spark.catalog.createTable(kind, self._path, "hudi")

    def upsert_changes(self) -> None:
        changes = self._spark.table(CHANGES).select(*COLUMNS, (F.col("op") == "d").alias(_DELETED))
        self._write(changes, "upsert", "append")

    def read_rows(self) -> DataFrame:
        return self._spark.read.format("hudi").load(self._path).select(*COLUMNS)

    def compact(self) -> None:
        """Merges all files that have changes; a plan is made after one commit in place of five."""
        self._spark.sql(_COMPACT).collect()

    def find_head(self) -> int:
        newest = self._spark.sql(_HEADS[self._kind]).collect()
        return int(newest[0]["state_transition_time"])

    def read_changes(self, start: int, end: int) -> DataFrame:
        reader = self._spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
        reader = reader.option("hoodie.datasource.query.incremental.format", "cdc")
        reader = reader.option("hoodie.datasource.read.begin.instanttime", str(start))
        logged = reader.option("hoodie.datasource.read.end.instanttime", str(end)).load(self._path)
        before, after = (_read_image(name) for name in ("before", "after"))
        return unfold_changes(logged.select(before, after), F.col("before"), F.col("after"))

    def _write(self, rows: DataFrame, operation: str, mode: str) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode(mode).save(self._path)


def _read_image(name: str) -> Column:
    """A struct of the columns; a missing image is null in one kind of table, and the text `null` in the other."""
    image = F.from_json(name, _JSON)
    columns = [*(image[column] for column in COLUMNS[:-1]), F.timestamp_micros(image["e"]).alias("e")]
    return F.when(image["id"].isNotNull(), F.struct(*columns)).alias(name)


_PACKAGE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
ENGINE = Engine(NAME, _PACKAGE, _settings, {"update": "u", "delete": "d"}, _make, _publish)

if __name__ == "__main__":
    main(ENGINE)
