"""The state of Spark in this process; a process can have only one Spark."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.errors import SparkEnded
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

    from arctic_runtime.spark.engine.warm_server import ServerUse

METHOD = "method"


def print_line(line: str) -> None:
    """Prints a line to the standard error, and leaves the standard output to answers."""
    print(line, file=sys.stderr, flush=True)


@dataclass
class SparkProcess:
    """The state of the one Spark that this process can have, and of its JVM, which outlives the Spark context.

    Before Spark is started, fields are None or empty.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the running Spark."""

    root: SparkSession | None = None
    """The first session of the running Spark."""

    gateway: JavaGateway | None = None
    jvm: subprocess.Popen[bytes] | None = None
    """The Java process."""

    log: Path = Path()
    """File with the output of the Java process."""

    server: str = ""
    """URL of the Spark Connect server that this process uses; empty for a Spark of its own."""

    is_server_kept: bool = False
    """Whether that server is one that is kept on this machine."""

    server_process: subprocess.Popen[bytes] | None = None
    """Process of a kept server that this process has begun to start for its own use."""

    server_use: ServerUse | None = None
    """Record of the use of a server that ends if it is not used."""

    report: Callable[[str], None] = field(default=print_line)
    """Shows a line about Spark to the user."""

    thresholds: EngineThresholds | None = None
    """Thresholds of the profile for which Spark was started or connected."""

    ended: SparkEnded | None = None
    """Error by which the end of Spark was noticed."""

    is_lasting: bool = False
    """True if Spark, once started, runs for days."""

    count_rows: Callable[[], int | None] = field(default=lambda: None)
    """Counts the rows that this command will read, which is called when Spark starts; None if that is not known."""

    lent: weakref.WeakSet[SparkSession] = field(default_factory=weakref.WeakSet)
    """This process's sessions on the Spark Connect server."""

    @property
    def can_reconnect(self) -> bool:
        """Whether Spark is a server of others, at an address where it may answer again after it ended."""
        return bool(self.server) and not self.is_server_kept


PROCESS = SparkProcess()


@dataclass(frozen=True)
class Spark:
    """A running Spark of this process: its root session, the Java process, and the log file of Java's output."""

    session: SparkSession
    java: subprocess.Popen[bytes]
    log: Path

    def is_alive(self) -> bool:
        return self.java.poll() is None

    def end_java(self, thresholds: EngineThresholds) -> None:
        """Ends the Java process and waits until it has ended; kills it if that takes too long."""
        if self.java.stdin is not None:
            self.java.stdin.close()
        try:
            self.java.wait(thresholds.jvm_stop_seconds)
        except subprocess.TimeoutExpired:
            self.java.kill()
            self.java.wait()
