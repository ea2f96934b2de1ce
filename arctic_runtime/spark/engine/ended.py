"""What to say where Spark is gone: Java ended under a run, or a server does not answer any more."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from arctic_runtime.errors import ConfigError, SparkEnded
from arctic_runtime.spark.engine.connection import reach
from arctic_runtime.spark.engine.process import METHOD, PROCESS

# By name, since none of these packages need be there: of py4j, and of Spark Connect and what it stands on.
_CONNECTION_LOST = (
    *("Py4JNetworkError", "Py4JError"),
    *("SparkConnectGrpcException", "RetriesExceeded", "_InactiveRpcError", "_MultiThreadedRendezvous"),
)
_MEMORY = ": somebody did, or the machine had no memory left"


@dataclass(frozen=True)
class End:
    """Where Spark was, how it ended, and its log where that is a file of this machine."""

    where: str
    how: str
    log: Path


def how_spark_ended() -> End | None:
    """How the Java, or the server, that this process works with has ended; None while it is there."""
    if PROCESS.thresholds is None:
        return None
    if PROCESS.settings.get(METHOD, "").startswith("connect"):
        try:
            reach(PROCESS.server, PROCESS.thresholds)
        except ConfigError:
            parts = urlsplit(PROCESS.server)
            return End(f"the server at {parts.hostname}:{parts.port}", "it does not answer any more", PROCESS.log)
        return None
    if PROCESS.jvm is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        code = PROCESS.jvm.wait(PROCESS.thresholds.jvm_exit_code_seconds)
        how = f"it ended with code {code}" if code >= 0 else f"signal {-code} ended it{_MEMORY if code == -9 else ''}"
        return End(f"Java, process {PROCESS.jvm.pid}", how, PROCESS.log)
    return None


def spark_ended(error: BaseException) -> SparkEnded | None:
    """The error to raise in the place of another one that came of Spark's end; None where Spark is still there."""
    if not any(_is_lost_connection(cause) for cause in _causes(error)):
        return None
    found = how_spark_ended()
    if found is None or PROCESS.thresholds is None:
        return None
    return SparkEnded(
        f"Spark is gone.\n  where: {found.where}\n  expected: Spark answers\n  found: {found.how}"
        f"{_last_words(found.log, PROCESS.thresholds.shown_log_lines)}\n"
        "  what to do: see the log for the cause. Where the memory was short, set spark.driver.memory in\n"
        "    server_side_parameters, or fewer threads. Then run again: nothing is lost, and nothing is applied twice"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_lost_connection(error: BaseException) -> bool:
    return isinstance(error, (ConnectionError, EOFError)) or type(error).__name__ in _CONNECTION_LOST


def _last_words(log: Path, count: int) -> str:
    if not log.is_file():
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.lstrip().startswith("at ")]
    return f"\n  log: {log}" + "".join(f"\n    {line}" for line in lines[-count:])
