"""Iceberg by itself: tables without buckets, changes by MERGE INTO, and its own ways to tell what a MERGE changed.

- Copy-on-write: `create_changelog_view` between the two snapshots, with `identifier_columns` and `compute_updates`.
- Merge-on-read: that procedure fails on a snapshot with delete files or deletion vectors. So the changes are computed
  from the two versions of the table, by a full outer join on the key, which is what is left to people who need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, quote_text
from benchmarks.peers.changes import AFTER, BEFORE, DELETE, INSERT, select_changes, unfold_changes
from benchmarks.peers.publishing import Publisher
from benchmarks.peers.theirs import Engine, main
from benchmarks.rows import COLUMNS, images

NAME = "Iceberg"
_KINDS = {"INSERT": INSERT, "UPDATE_BEFORE": BEFORE, "UPDATE_AFTER": AFTER, "DELETE": DELETE}
_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")
_MERGE = """merge into {table} t using changes s on t.id = s.id
    when matched and s.op = 'd' then delete
    when matched then update set a = s.a, b = s.b, c = s.c, d = s.d, e = s.e
    when not matched and s.op <> 'd' then insert (id, a, b, c, d, e) values (s.id, s.a, s.b, s.c, s.d, s.e)"""
_VIEW = """call plain.system.create_changelog_view(table => {table}, changelog_view => 'published',
    options => map('start-snapshot-id', {start}, 'end-snapshot-id', {end}),
    identifier_columns => array('id'), compute_updates => true)"""

Reader = Callable[[SparkSession, str, int, int], DataFrame]


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.plain": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.plain.type": "hadoop",
        "spark.sql.catalog.plain.warehouse": str(folder),
    }


def _read_changelog_view(spark: SparkSession, table: str, start: int, end: int) -> DataFrame:
    call = fill_statement(
        _VIEW, table=quote_text(f"bench.{table}"), start=quote_text(str(start)), end=quote_text(str(end))
    )
    spark.sql(call).collect()
    return select_changes(spark.table("published"), "_change_type", _KINDS)


def _compare_versions(spark: SparkSession, table: str, start: int, end: int) -> DataFrame:
    def read_version(version: int, image: str) -> DataFrame:
        rows = spark.read.option("versionAsOf", str(version)).table(_quote_table(table))
        return rows.select("id", F.struct(*COLUMNS).alias(image))

    before, after = read_version(start, "old"), read_version(end, "new")
    old, new = F.col("old"), F.col("new")
    return unfold_changes(before.join(after, "id", "full_outer").where(~old.eqNullSafe(new)), old, new)


_WAYS: Mapping[str, tuple[str, Reader]] = {
    "MERGE, copy-on-write, changelog view": ("copy-on-write", _read_changelog_view),
    "MERGE, merge-on-read, versions compared": ("merge-on-read", _compare_versions),
}
"""A name → the mode of all writes, and how changes are read."""


def _publish(spark: SparkSession, rows: int) -> Mapping[str, Publisher]:
    spark.sql("create namespace plain.bench")
    return {name: _make(spark, rows, *way) for name, way in _WAYS.items()}


def _make(spark: SparkSession, rows: int, mode: str, read: Reader) -> Publisher:
    table = mode.replace("-", "_")
    writer = spark.range(rows).select(*images(F.col("id"), 0)).writeTo(_quote_table(table)).using("iceberg")
    for name in _MODES:
        writer = writer.tableProperty(name, mode)
    writer.tableProperty("format-version", "3").create()

    def find_head() -> int:
        newest = spark.table(_quote_table(table, "refs")).where("name = 'main'").select("snapshot_id").collect()
        return int(newest[0][0])

    return Publisher(
        lambda: spark.sql(fill_statement(_MERGE, table=_quote_table(table))).collect(),
        lambda: spark.table(_quote_table(table)),
        find_head,
        lambda start, end: read(spark, table, start, end),
    )


def _quote_table(table: str, *metadata: str) -> Sql:
    return quote_name("plain", "bench", table, *metadata)


ENGINE = Engine(NAME, jars.JARS[0].coordinates, _settings, {"update": "u", "delete": "d"}, None, _publish)

if __name__ == "__main__":
    main(ENGINE)
