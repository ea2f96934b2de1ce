"""A REST catalog by Iceberg's own servlet, over a catalog in PostgreSQL, on a free port of the loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from arctic_runtime.spark.engine.java.jars import GROUPS, get_cache_directory, resolve_jar_paths
from arctic_runtime.spark.engine.java.jvm import find_spark_home
from sample_project.servers import free_port, start_server, wait_until
from tests.open.hive_catalog import answers
from tests.open.ivy import CLASSIFIER, download_dependencies, start_module
from tests.open.postgres_catalog import run_postgres_catalog

VERSION = "1.10.0"
"""The newest version of Iceberg whose tests, with the servlet, are in the repository."""

JETTY = "11.0.26"
SERVER = Path(__file__).with_name("iceberg_rest_server.py")


@contextmanager
def run_iceberg_rest_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Starts PostgreSQL and the servlet, and yields the properties of a catalog whose tables lie in `folder`."""
    home, port = folder / "rest", free_port()
    home.mkdir()
    spark = find_spark_home() / "jars"
    class_path = [*resolve_servlet_jars(), *spark.glob("hadoop-client-*.jar"), *resolve_jar_paths(GROUPS["postgresql"])]
    with run_postgres_catalog(folder) as behind:
        arguments = (
            str(port),
            json.dumps([str(path) for path in class_path]),
            json.dumps({**behind, "jdbc.schema-version": "V1"}),
        )
        server = start_server([sys.executable, str(SERVER), *arguments], home, None)
        try:
            wait_until(lambda: answers(port), server, home)
            yield {"type": "rest", "uri": f"http://127.0.0.1:{port}", "warehouse": str(folder)}
        finally:
            server.kill()
            server.wait(30)


def resolve_servlet_jars() -> list[Path]:
    """Returns the JARs of Iceberg's servlet and of Jetty, which Ivy downloads once into the cache of all JARs."""
    folder = get_cache_directory() / f"iceberg-rest-{VERSION}"
    done = folder / "complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        download_dependencies(
            build_module(),
            folder,
            "jars/[artifact]-[revision](-[classifier]).[ext]",
            f"jars/iceberg-core-{VERSION}-tests.jar",
        )
        done.touch()
    return sorted((folder / "jars").glob("*.jar"))


def build_module() -> ElementTree.Element:
    """Builds Ivy's description of the server: Iceberg with its tests, in which the servlet is, Parquet and Jetty."""
    module, dependencies = start_module("rest")
    for group, artifact, version in (
        ("org.apache.iceberg", "iceberg-core", VERSION),
        ("org.apache.iceberg", "iceberg-parquet", VERSION),
        ("org.eclipse.jetty", "jetty-servlet", JETTY),
    ):
        named = {"org": group, "name": artifact, "rev": version, "conf": "default->default"}
        dependency = ElementTree.SubElement(dependencies, "dependency", named)
        if artifact == "iceberg-core":
            file = {"name": artifact, "type": "jar", "ext": "jar"}
            ElementTree.SubElement(dependency, "artifact", file)
            ElementTree.SubElement(dependency, "artifact", {**file, CLASSIFIER: "tests"})
    return module
