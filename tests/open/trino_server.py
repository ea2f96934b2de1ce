"""A Trino that reads tables of Iceberg catalogs, in a process of its own on a free port of the loopback."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import requests

from arctic_runtime.spark.engine.java.jars import get_cache_directory, list_installed_javas
from sample_project.servers import free_port, start_server, wait_until
from tests.open.ivy import download_dependencies, start_module

VERSION = "483"
"""The newest version whose parts Maven's repository has; its archives end with 476."""

OLDEST_JAVA = 25
PARTS = {
    "server": ("trino-main", "lib"),
    "iceberg": ("trino-iceberg", "plugin/iceberg"),
    "hadoop": ("trino-hdfs", "plugin/iceberg/hdfs"),
}
"""Configurations of Ivy: each part of Trino, and the folder in which Trino expects it with all that it needs."""

ICEBERG_PLUGIN = "io.trino.plugin.iceberg.IcebergPlugin"
"""The class that Trino finds by a file of services, which Trino's archives have, and its JARs do not."""


@dataclass(frozen=True)
class TrinoServer:
    """A running server."""

    port: int

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Runs a statement; returns its rows by the names of their columns. Raises TrinoError if Trino refuses it."""
        from trino.dbapi import connect

        connection = connect(host="127.0.0.1", port=self.port, user="tests", timezone="UTC")
        with closing(connection), closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall()
            names = [column.name for column in cursor.description]
            return [dict(zip(names, map(name_fields, row), strict=True)) for row in rows]


def name_fields(value: Any) -> Any:
    """Returns a value whose structs, at any level, are dictionaries: the client makes tuples of them."""
    from trino.types import NamedRowTuple

    match value:
        case NamedRowTuple():
            return dict(zip(value.__annotations__["names"], map(name_fields, value), strict=True))
        case list():
            return [name_fields(part) for part in value]
        case dict():
            return {key: name_fields(part) for key, part in value.items()}
    return value


def find_trino_java() -> Path | None:
    """Finds the program of a Java that runs Trino, which needs a newer one than Spark; None if there is none."""
    return next((java.executable for java in list_installed_javas() if java.major >= OLDEST_JAVA), None)


def describe_rest_catalog(properties: Mapping[str, str]) -> dict[str, str]:
    """Translates the properties of a REST catalog to those of Trino."""
    return {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": properties["uri"],
        "iceberg.rest-catalog.warehouse": properties["warehouse"],
    }


def describe_jdbc_catalog(properties: Mapping[str, str]) -> dict[str, str]:
    """Translates the properties of a catalog in PostgreSQL, which Spark calls `lake`, to those of Trino."""
    return {
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": "lake",
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": properties["uri"],
        "iceberg.jdbc-catalog.connection-user": properties["jdbc.user"],
        "iceberg.jdbc-catalog.connection-password": properties["jdbc.password"],
        "iceberg.jdbc-catalog.default-warehouse-dir": properties["warehouse"],
    }


DESCRIPTIONS = {"rest": describe_rest_catalog, "jdbc": describe_jdbc_catalog}


@contextmanager
def run_trino(folder: Path, catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[TrinoServer]:
    """Starts a Trino whose files are in `folder`; `catalogs` are properties of catalogs by their names in Trino."""
    java = find_trino_java()
    assert java is not None, f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer"
    program, port = resolve_trino(), free_port()
    write_settings(
        folder / "etc" / "config.properties",
        {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "node.environment": "tests",
            "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1",
            "discovery.uri": f"http://127.0.0.1:{port}",
            "plugin.dir": str(program / "plugin"),
        },
    )
    for name, properties in catalogs.items():
        described = DESCRIPTIONS[properties["type"]](properties)
        local = {"connector.name": "iceberg", "fs.hadoop.enabled": "true", **described}
        write_settings(folder / "etc" / "catalog" / f"{name}.properties", local)
    process = [sys.executable, str(Path(__file__).with_name("trino_process.py"))]
    server = start_server([*process, str(java.parent.parent), str(program / "lib"), VERSION], folder, None)
    try:
        wait_until(lambda: is_ready(port), server, folder)
        yield TrinoServer(port)
    finally:
        server.kill()
        server.wait(30)


def write_settings(file: Path, values: Mapping[str, str]) -> None:
    """Writes a file of Java's properties, with its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))


def is_ready(port: int) -> bool:
    """Whether the server has loaded its catalogs, before which it refuses queries."""
    with suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/v1/info", timeout=5).json()["starting"] is False
    return False


def resolve_trino() -> Path:
    """Returns the folder of Trino's JARs, which Ivy downloads once into the cache of all JARs."""
    target = get_cache_directory() / f"trino-{VERSION}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
            pattern = "jars/[conf]/[organisation]-[artifact]-[revision](-[classifier]).[ext]"
            wanted = f"jars/server/io.trino-trino-main-{VERSION}.jar"
            download_dependencies(build_module(), Path(scratch), pattern, wanted)
            complete = Path(scratch) / "complete"
            for configuration, (_, place) in PARTS.items():
                (complete / place).parent.mkdir(parents=True, exist_ok=True)
                (Path(scratch) / "jars" / configuration).rename(complete / place)
            with zipfile.ZipFile(complete / PARTS["iceberg"][1] / "services.jar", "w") as services:
                services.writestr("META-INF/services/io.trino.spi.Plugin", ICEBERG_PLUGIN)
            complete.rename(target)
    return target


def build_module() -> ElementTree.Element:
    """Builds Ivy's description of the JARs; a plugin's own is named, since Ivy does not know the kind of its POM."""
    module, dependencies = start_module("trino", tuple(PARTS))
    for configuration, (artifact, _) in PARTS.items():
        named = {"org": "io.trino", "name": artifact, "rev": VERSION, "conf": f"{configuration}->default"}
        dependency = ElementTree.SubElement(dependencies, "dependency", named)
        ElementTree.SubElement(dependency, "artifact", name=artifact, type="jar", ext="jar")
    return module
