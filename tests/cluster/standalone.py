"""A Spark standalone cluster of this test's own: a master and workers, all on the loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.jvm import JVM_OPTIONS, find_spark_home

EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Cluster:
    """Its master's url, and the processes that make it up."""

    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[int]:
        """The processes that the workers have started and that run."""
        return [child for process in self.processes for child in _children(process.pid) if EXECUTOR in _command(child)]

    def find_writer(self, prefix: str) -> int | None:
        """An executor that has a file open whose path begins so; None if there is none."""
        for executor in self.executors():
            with contextlib.suppress(OSError):
                for handle in os.scandir(f"/proc/{executor}/fd"):
                    with contextlib.suppress(OSError):
                        if str(Path(handle.path).readlink()).startswith(prefix):
                            return executor
        return None

    def kill_executors(self, count: int, during: subprocess.Popen[str]) -> int:
        """Kills one executor after the other as they come, while a process runs; returns how many it got."""
        killed: set[int] = set()
        while len(killed) < count and during.poll() is None:
            for victim in set(self.executors()[:1]) - killed:
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
            time.sleep(0.1)
        return len(killed)

    def start(self, main: str, *arguments: str, host: str = "127.0.0.1") -> None:
        java = jars.find_java().executable
        home = find_spark_home()
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        class_path = str(home / "jars" / "*")
        with log:
            process = subprocess.Popen(
                [str(java), "-cp", class_path, "-Xmx512m", *JVM_OPTIONS, f"org.apache.spark.deploy.{main}", *arguments],
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": host,
                    "SPARK_SCALA_VERSION": "2.13",
                    "JAVA_HOME": str(java.parent.parent),
                },
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)

    def said(self, number: int) -> str:
        return (self.folder / f"{number}.log").read_text(errors="replace")


@contextlib.contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster whose workers have one core each, ended together with everything that they started."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    cluster = Cluster(f"spark://127.0.0.1:{port}", folder)
    try:
        cluster.start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_for(lambda: "I have been elected leader" in cluster.said(0), "the master")
        for number in range(1, workers + 1):
            # Spark repeats a slow task on another host only.
            host = f"127.0.0.{number}"
            place = ("--host", host, "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"))
            cluster.start("worker.Worker", *place, "--cores", "1", "--memory", "1g", cluster.url, host=host)
            wait_for(lambda number=number: "Successfully registered" in cluster.said(number), "a worker")
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.terminate()
        for process in cluster.processes:
            process.wait(30)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120, poll: float = 0.05) -> None:
    """Raises TimeoutError, with what was waited for, where it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {seconds:.0f} s")
        time.sleep(poll)


def _children(parent: int) -> Iterator[int]:
    """The processes that the threads of a process have started."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{parent}/task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (thread / "children").read_text().split())


def _command(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    return ""
