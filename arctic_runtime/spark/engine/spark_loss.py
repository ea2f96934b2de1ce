"""Detects and explains that Spark has ended: Java has ended, or a server does not answer any more."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from arctic_runtime.errors import ConfigError, SparkEnded
from arctic_runtime.spark.engine.connection import CONNECT_PORT, check_reachable, drop_connections
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.thresholds import EngineThresholds

# Names of classes, since their packages need not be installed: of py4j, and of Spark Connect and its dependencies.
_CONNECTION_LOST = (
    *("Py4JNetworkError", "Py4JError"),
    *("SparkConnectGrpcException", "RetriesExceeded", "_InactiveRpcError", "_MultiThreadedRendezvous"),
)
_SESSION_LOST = ("NO_ACTIVE_SESSION", "RESPONSE_ALREADY_RECEIVED", "INVALID_HANDLE")
"""Error conditions of Spark Connect, the last one with subconditions, for a session that its server does not have.

A server that was started again has none of the sessions from before."""
_LOST_ANSWERS = ("Received incorrect server side session identifier", "closed channel", "Channel closed")
"""Texts of errors without a condition: of an answer by another server, and of a channel that `watch_spark` closed."""
_STOPPED = "Cannot call methods on a stopped SparkContext"
_MEMORY = ": somebody did, or the machine had no memory left"


_ADVICE = (
    "see the log for the cause; if memory was short, set spark.driver.memory in server_side_parameters, or fewer "
    "threads; then run again"
)
_ADVICE_REMOTE = "see the log of the server for the cause; run again when it answers"


@dataclass(frozen=True)
class End:
    """A Spark that has ended: texts for people about its location and the way in which it ended, and its log file."""

    where: str
    how: str
    log: Path


def find_spark_end(patience_seconds: float = 0.0) -> End | None:
    """Checks whether the Spark that this process uses has ended; returns None if it runs or was never started.

    `patience_seconds` is the time to wait for Java to end.
    """
    if PROCESS.thresholds is None:
        return None
    if PROCESS.server:
        try:
            check_reachable(PROCESS.server, PROCESS.thresholds)
        except ConfigError:
            return End(_describe_place(), "it does not answer any more", PROCESS.log)
        return None
    if PROCESS.jvm is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        code = PROCESS.jvm.wait(patience_seconds)
        how = f"it ended with code {code}" if code >= 0 else f"signal {-code} ended it{_MEMORY if code == -9 else ''}"
        return End(f"Java, process {PROCESS.jvm.pid}", how, PROCESS.log)
    return None


def is_of_spark(error: BaseException) -> bool:
    """Whether an error is one of Spark's libraries in Python; loads none of these."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j", "grpc")


def to_spark_ended(error: BaseException) -> SparkEnded | None:
    """Returns the error to raise instead of `error` if Spark has ended and caused it; None for any other error.

    Spark has ended for a session, too, if its server was started again. The error is also stored in `PROCESS.ended`,
    so that `watch_spark` reports it.
    """
    causes = list(_walk_causes(error))
    if (known := next((cause for cause in causes if isinstance(cause, SparkEnded)), None)) is not None:
        return known
    end = _find_end_behind(causes)
    if end is None:
        return None
    PROCESS.ended = _build_error(end)
    return PROCESS.ended


def check_spark_answers() -> None:
    """Raises SparkEnded if the Spark that this process uses has ended; does nothing if it was never started."""
    if (end := find_spark_end()) is not None:
        raise _build_error(end)


def _find_end_behind(causes: Sequence[BaseException]) -> End | None:
    limits, is_session_lost = PROCESS.thresholds, any(map(_is_lost_session, causes))
    if limits is not None and (is_session_lost or any(map(_is_lost_connection, causes))):
        end = find_spark_end(limits.jvm_exit_code_seconds)
        if end is None and is_session_lost:
            return End(_describe_place(), "it was started again, or has ended this session", PROCESS.log)
        return end
    if any(map(_is_stopped_context, causes)):
        return End(_describe_place(), "its Spark context was stopped, or lost its cluster", PROCESS.log)
    return None


@contextmanager
def watch_spark(thresholds: EngineThresholds, on_end: Callable[[SparkEnded], None]) -> Iterator[None]:
    """Calls `on_end` once, from a thread of its own, if Spark ends before the block does, even if nobody uses Spark.

    Two checks in a row must fail, since a server may miss one. An end that was noticed before the block is ignored. A
    server of others may answer again at its address: if it ends, only the requests under way are ended, which would
    wait for ever for a machine that is gone.
    """
    leaving, earlier = threading.Event(), PROCESS.ended

    def watch_until_end() -> None:
        was_gone = False
        while not leaving.wait(thresholds.spark_watch_seconds):
            end = find_spark_end()
            if PROCESS.can_reconnect:
                if end is not None and was_gone:
                    drop_connections()
                was_gone = end is not None
                continue
            error = _build_error(end) if end is not None and was_gone else PROCESS.ended
            if error is not None and error is not earlier:
                on_end(error)
                return
            was_gone = end is not None

    watching = threading.Thread(target=watch_until_end, name="spark", daemon=True)
    watching.start()
    try:
        yield
    finally:
        leaving.set()


def _build_error(end: End) -> SparkEnded:
    shown = 0 if PROCESS.thresholds is None else PROCESS.thresholds.shown_log_lines
    return SparkEnded(
        "Spark is gone.",
        where=end.where,
        expected="Spark answers",
        actual=f"{end.how}{_read_last_lines(end.log, shown)}",
        fix=f"{_ADVICE_REMOTE if PROCESS.can_reconnect else _ADVICE}: nothing is lost, and nothing is applied twice",
    )


def _describe_place() -> str:
    parts = urlsplit(PROCESS.server)
    return f"the server at {parts.hostname}:{parts.port or CONNECT_PORT}" if PROCESS.server else "Spark in this process"


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_lost_connection(error: BaseException) -> bool:
    return isinstance(error, (ConnectionError, EOFError)) or type(error).__name__ in _CONNECTION_LOST


def _is_lost_session(error: BaseException) -> bool:
    """Whether Spark Connect says that a session, or the answer to a request of it, is not on the server."""
    if not PROCESS.server or not (is_of_spark(error) or isinstance(error, ValueError)):
        return False
    condition = getattr(error, "getCondition", lambda: None)() or ""
    return condition.split(".")[0] in _SESSION_LOST or any(text in str(error) for text in _LOST_ANSWERS)


def _is_stopped_context(error: BaseException) -> bool:
    with suppress(Exception):  # py4j asks Java for the text
        return _STOPPED in str(error)
    return False


def _read_last_lines(log: Path, count: int) -> str:
    if not log.is_file():
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.lstrip().startswith("at ")]
    return f"\n  log: {log}" + "".join(f"\n    {line}" for line in lines[-count:])
