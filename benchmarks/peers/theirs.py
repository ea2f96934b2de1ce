"""A process of another engine: its Spark, the changes that land as Parquet files, and the work."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.publishing import MEMORY, Publisher, add_arrivals, serve_parent
from benchmarks.peers.work import Keeper, tell_ready, work
from benchmarks.rows import images, mostly_updates, scattered

CHANGES = "changes"
"""The view of what has landed last: the six columns, and `op`, in which an engine finds its own word."""
_LIKE_OURS = {
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}
"""Local files are written without two processes for each, as ours are; the class is on the class path."""


@dataclass(frozen=True)
class Engine:
    """What an engine needs: its JAR, settings by the folder of its tables, and what it calls updates and deletes.

    `make` makes its table of so many rows, which are the columns of `images`; `publish` makes tables that publish their
    changes.
    """

    name: str
    package: str
    settings: Callable[[Path], Mapping[str, str]]
    ops: Mapping[str, str]
    make: Callable[[SparkSession, int], Keeper] | None
    publish: Callable[[SparkSession, int], Mapping[str, Publisher]]

    @property
    def version(self) -> str:
        return self.package.rpartition(":")[2]


def main(engine: Engine) -> None:
    """The whole process: rounds of the work that keeps a table, or one whenever standard input asks for it.

    Only in the latter case do tables publish their changes.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    parser.add_argument("--rounds", type=int, help="how many; tables publish their changes unless it is given")
    parser.add_argument("--cache", type=Path, help="where JARs are kept; without it the class path has them")
    parser.add_argument("--class-path", default="", help="of the driver, where tables publish their changes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder, _spark(engine, folder, options) as spark:
        tell_ready({engine.name: engine.version, "Spark": spark.version})
        if options.rounds is None:
            land = _landing(engine, spark, Path(folder), add_arrivals(options.rows))
            serve_parent(engine.publish(spark, options.rows), land)
        elif engine.make:
            keeper = engine.make(spark, options.rows)
            work(engine.name, keeper, _landing(engine, spark, Path(folder), options.rows), options.rounds)


@contextlib.contextmanager
def _spark(engine: Engine, folder: str, options: argparse.Namespace) -> Iterator[SparkSession]:
    settings = {**_LIKE_OURS, **engine.settings(Path(folder))}
    if options.cache:
        settings |= {"spark.jars.packages": engine.package, "spark.jars.ivy": str(options.cache)}
    if options.rounds is None:
        settings |= {"spark.driver.memory": MEMORY, "spark.driver.extraClassPath": options.class_path, **_LOCAL_FILES}
    builder: Any = SparkSession.builder.master("local[2]").appName(engine.name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _landing(engine: Engine, spark: SparkSession, folder: Path, rows: int) -> Callable[[float, int], None]:
    def land(fraction: float, turn: int) -> None:
        place = str(folder / f"{CHANGES}-{turn}")
        changed = spark.range(rows).where(scattered(fraction, turn))
        op = F.when(mostly_updates(turn) == "d", engine.ops["delete"]).otherwise(engine.ops["update"])
        changed.select(*images(F.col("id"), turn), op.alias("op")).write.parquet(place)
        spark.read.parquet(place).createOrReplaceTempView(CHANGES)

    return land
