"""A Flink and a Spark that share catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.flink_engine import FlinkEngine, run_flink
from tests.open.reader_answers import open_schema
from tests.spark.warehouse import Warehouse

KINDS = {"lake": "embedded", "rest": "rest"}
"""The catalogs that Flink has, each with its name in `CATALOGS`.

The embedded one has its name in Spark, by which its tables are found in SQLite.
"""


@dataclass(frozen=True)
class FlinkLake:
    """A Flink with a schema `dev` in each of its catalogs, which Spark writes."""

    engine: FlinkEngine
    lakes: Mapping[str, Warehouse]


@contextmanager
def run_flink_lake(folder: Path, spark_settings: Mapping[str, str]) -> Iterator[FlinkLake]:
    """Starts Flink and Spark over catalogs whose tables are in `folder`."""
    settings = {**spark_settings, **INTERPRETED, "spark.driver.memory": "1g", "spark.hadoop.fs.defaultFS": "file:///"}
    with ExitStack() as stack:
        catalogs = {name: stack.enter_context(CATALOGS[kind].run(folder / name)) for name, kind in KINDS.items()}
        lakes = {name: open_schema(properties, settings) for name, properties in catalogs.items()}
        stack.callback(SparkEnvironment(Profile.for_embedded(folder / "end", settings=settings)).stop_spark)
        yield FlinkLake(stack.enter_context(run_flink(catalogs)), lakes)
