"""A Flink that reads and writes tables of Iceberg catalogs, in a process of its own on the loopback alone."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from arctic_runtime.spark.engine.java.jars import JARS, find_java, get_cache_directory, resolve_jar_paths
from arctic_runtime.spark.engine.java.jvm import find_spark_home
from tests.open.flink_process import serve_statements
from tests.open.ivy import download_dependencies, start_module

VERSION = "2.1.1"
ICEBERG_VERSION = "1.11.0"
"""The newest version of Iceberg that has a runtime for this Flink."""

ICEBERG_JAR = ("org.apache.iceberg", f"iceberg-flink-runtime-{VERSION.rpartition('.')[0]}", ICEBERG_VERSION)
PARTS = ("clients", "connector-files", "json", "table-api-java-bridge", "table-planner-loader", "table-runtime")
"""The parts of Flink that statements of SQL need, and files of change events in JSON."""

KINDS = {
    "rest": {"catalog-type": "rest"},
    "jdbc": {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"},
}
"""Properties of catalogs in Flink, by their `type` in Spark."""

SECONDS_TO_ANSWER = 120.0


@dataclass(frozen=True)
class FlinkEngine:
    """A running Flink; each statement is sent to its process."""

    connection: Connection

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Runs a query in batch mode, and returns its rows. Raises FlinkError if Flink refuses it."""
        rows: list[dict[str, Any]] = self._call("query", sql)
        return rows

    def execute(self, sql: str) -> None:
        """Runs a statement without rows in batch mode until it has ended. Raises FlinkError if Flink refuses it."""
        self._call("execute", sql)

    def execute_streaming(self, sql: str) -> None:
        """Runs a statement in streaming mode until its input has ended. Raises FlinkError if Flink refuses it."""
        self._call("execute_streaming", sql)

    def open_stream(self, sql: str) -> None:
        """Starts a query in streaming mode, in the place of the one before."""
        self._call("open_stream", sql)

    def take_rows(self, count: int) -> list[dict[str, Any]]:
        """Returns the next rows of the open stream. Raises TimeoutError if they do not come."""
        rows: list[dict[str, Any]] = self._call("take_rows", count)
        return rows

    def _call(self, function: str, argument: Any) -> Any:
        self.connection.send((function, argument))
        if not self.connection.poll(SECONDS_TO_ANSWER):
            raise TimeoutError(f"Flink did not answer within {SECONDS_TO_ANSWER:.0f} s: {argument}")
        answer = self.connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def run_flink(catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[FlinkEngine]:
    """Starts a Flink; `catalogs` are properties of catalogs, as dbt-arctic has them, by their names in Flink."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    class_path = [str(path) for path in resolve_class_path()]
    with tempfile.TemporaryDirectory(prefix="flink-") as scratch:
        arguments = (there, str(find_java().executable.parent.parent), class_path, scratch)
        process = spawning.Process(target=serve_statements, args=arguments, daemon=True)
        process.start()
        there.close()
        try:
            flink = FlinkEngine(here)
            for name, properties in catalogs.items():
                flink._call("create_catalog", write_catalog(name, properties))
            yield flink
        finally:
            process.kill()
            process.join(30)
            here.close()


def write_catalog(name: str, properties: Mapping[str, str]) -> str:
    """Writes the statement that opens a catalog in Flink, which names its kinds otherwise than Spark does."""
    described = {**properties, "type": "iceberg", **KINDS[properties["type"]]}
    options = ", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in described.items())
    return f"create catalog {name} with ({options})"


def quote_text(text: str) -> str:
    """Writes a text of SQL."""
    return "'" + text.replace("'", "''") + "'"


def resolve_class_path() -> list[Path]:
    """Returns the JARs of Flink, of Iceberg, of SQLite for the embedded catalog, and those of Hadoop that Spark has."""
    embedded = resolve_jar_paths([jar for jar in JARS if jar.artifact == "sqlite-jdbc"])
    hadoop = (find_spark_home() / "jars").glob("hadoop-client-*.jar")
    return [*resolve_flink_jars(), *embedded, *hadoop]


def resolve_flink_jars() -> list[Path]:
    """Returns the JARs of Flink, which Ivy downloads once into the cache of all JARs."""
    target = get_cache_directory() / f"flink-{VERSION}-iceberg-{ICEBERG_VERSION}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
            wanted = f"jars/{ICEBERG_JAR[1]}-{ICEBERG_JAR[2]}.jar"
            pattern = "jars/[artifact]-[revision](-[classifier]).[ext]"
            download_dependencies(build_module(), Path(scratch), pattern, wanted)
            (Path(scratch) / "jars").rename(target)
    return sorted(target.glob("*.jar"))


def build_module() -> ElementTree.Element:
    """Builds Ivy's description of the JARs."""
    module, dependencies = start_module("flink")
    for group, artifact, version in (ICEBERG_JAR, *(("org.apache.flink", f"flink-{part}", VERSION) for part in PARTS)):
        named = {"org": group, "name": artifact, "rev": version, "conf": "default->default"}
        ElementTree.SubElement(dependencies, "dependency", named)
    return module
