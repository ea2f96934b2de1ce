"""A Hive Metastore 3.1.3 with Derby, in a process of its own, as a catalog on a free port of the loopback.

A newer one does not speak the protocol of the client that Spark has.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from arctic_runtime.spark.engine.java.jars import find_java, get_cache_directory
from arctic_runtime.spark.engine.java.jvm import find_spark_home
from sample_project.servers import free_port, start_server, wait_until

PACKAGES = ("org.apache.hive:hive-standalone-metastore:3.1.3", "commons-collections:commons-collections:3.2.2")
EXCLUDED = (
    *("org.apache.logging.log4j:*", "org.apache.hadoop:*", "org.apache.orc:*"),
    *("org.apache.derby:*", "org.slf4j:*", "sqlline:*"),
)
FROM_SPARK = (
    *("hadoop-client-api", "hadoop-client-runtime", "commons-cli", "derby", "derbyshared", "derbytools"),
    *("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)
"""JARs of Spark that come first on the class path of the metastore."""

LOCK_TABLES = Path(__file__).with_name("hive_locks.sql")


@contextmanager
def run_hive_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Starts a metastore, and yields the properties of a catalog in it whose tables lie in `folder`."""
    home, port = folder / "metastore", free_port()
    home.mkdir()
    classes = os.pathsep.join(map(str, [home, *list_spark_jars(), *resolve_metastore_jars()]))
    java = [str(find_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes]
    database = f"jdbc:derby:{home / 'database'};create=true"
    script = home / "locks.sql"
    script.write_text(f"connect '{database}';\n{LOCK_TABLES.read_text()}")
    subprocess.run([*java, "org.apache.derby.tools.ij", str(script)], cwd=home, capture_output=True, check=True)
    write_configuration(
        home / "metastore-site.xml",
        {
            "javax.jdo.option.ConnectionURL": database,
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.thrift.bind.host": "127.0.0.1",
            "metastore.warehouse.dir": f"file://{folder}",
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        },
    )
    server = start_server([*java, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)], home, None)
    try:
        wait_until(lambda: answers(port), server, home)
        yield {"type": "hive", "uri": f"thrift://127.0.0.1:{port}", "warehouse": f"file://{folder}"}
    finally:
        server.kill()
        server.wait(30)


def list_spark_jars() -> list[Path]:
    """The JARs of Spark that the metastore uses too."""
    folder = find_spark_home() / "jars"
    return [next(iter(sorted(folder.glob(f"{name}-[0-9]*.jar")))) for name in FROM_SPARK]


def resolve_metastore_jars() -> list[Path]:
    """The JARs of the metastore, which Spark downloads once into the cache of all JARs."""
    folder = get_cache_directory() / "hive-metastore-3.1.3"
    done = folder / "complete"
    if not done.exists():
        settings = {
            "spark.jars.packages": ",".join(PACKAGES),
            "spark.jars.excludes": ",".join(EXCLUDED),
            "spark.jars.ivy": str(folder),
            "spark.ui.enabled": "false",
        }
        program = (
            "import sys; from pyspark.sql import SparkSession; "
            "pairs = dict(pair.split('=', 1) for pair in sys.argv[1:]); "
            "SparkSession.builder.master('local[1]').config(map=pairs).getOrCreate().stop()"
        )
        environment = {**os.environ, "JAVA_HOME": str(find_java().executable.parent.parent)}
        pairs = [f"{key}={value}" for key, value in settings.items()]
        subprocess.run([sys.executable, "-c", program, *pairs], env=environment, capture_output=True, check=True)
        done.touch()
    return sorted((folder / "jars").glob("*.jar"))


def write_configuration(file: Path, values: Mapping[str, str]) -> None:
    """Writes settings as Hadoop's libraries read them."""
    lines = (
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in values.items()
    )
    file.write_text(f"<configuration>{''.join(lines)}</configuration>")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
