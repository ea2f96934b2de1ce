"""The one Spark that this process may have."""

from __future__ import annotations

import subprocess
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.errors import SparkEnded
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

METHOD = "method"


@dataclass
class SparkProcess:
    """The one Spark that this process may have, and the JVM that outlives its Spark context.

    `thresholds` are those of the profile that it was started or reached for; None before that. `ended` is the error
    with which somebody noticed its end. `is_lasting` is whether Spark, once it is started, runs for days.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    settings: Mapping[str, str] = field(default_factory=dict)
    root: SparkSession | None = None
    gateway: JavaGateway | None = None
    jvm: subprocess.Popen[bytes] | None = None
    log: Path = Path()
    server: str = ""
    thresholds: EngineThresholds | None = None
    ended: SparkEnded | None = None
    is_lasting: bool = False
    lent: weakref.WeakSet[SparkSession] = field(default_factory=weakref.WeakSet)


PROCESS = SparkProcess()


@dataclass(frozen=True)
class Spark:
    """A Spark of this process, and the Java that it runs in; `log` is what Java prints."""

    session: SparkSession
    java: subprocess.Popen[bytes]
    log: Path

    def is_alive(self) -> bool:
        return self.java.poll() is None

    def end_java(self, thresholds: EngineThresholds) -> None:
        """Ends Java, and returns when it is gone."""
        if self.java.stdin is not None:
            self.java.stdin.close()
        try:
            self.java.wait(thresholds.jvm_stop_seconds)
        except subprocess.TimeoutExpired:
            self.java.kill()
            self.java.wait()
