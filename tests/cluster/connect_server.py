"""A Spark Connect server of a test's own, at a port that stays while it is ended and started again."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from arctic_runtime.profile import ICEBERG_EXTENSIONS
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.jvm import JVM_OPTIONS, find_spark_home
from tests.cluster.standalone import wait_for


class ConnectServer:
    """As an administrator runs it: Spark's own main class, with Iceberg on its class path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.starts = folder, 0
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            self.port = asked.getsockname()[1]

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"connect-{self.starts}.log"

    def start(self) -> None:
        java, home = jars.find_java().executable, find_spark_home()
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            "spark.sql.shuffle.partitions": "2",
        }
        classes = os.pathsep.join([*map(str, jars.resolve_jar_paths()), str(home / "jars" / "*")])
        options = [f"-D{key}={value}" for key, value in settings.items()]
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self.starts += 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(java), "-cp", classes, "-Xmx1g", *JVM_OPTIONS, *options, main],
                env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        wait_for(self._listens, "a Spark Connect server")

    def end(self) -> None:
        """Kills it, as a machine that stops."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def restart(self) -> None:
        self.end()
        self.start()

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False
