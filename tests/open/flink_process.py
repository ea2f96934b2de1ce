"""The process of a Flink: starts Java and a cluster in it, and runs the statements that come through a pipe.

`flink_engine` starts it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from multiprocessing.connection import Connection
from typing import Any

import jpype

OPENED = (
    *(
        "java.io",
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.math",
        "java.net",
        "java.nio",
        "java.text",
    ),
    *("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
    "sun.nio.ch",
)
"""Packages of Java whose private parts Flink reads."""

JAVA_OPTIONS = (
    *("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
)
LOOPBACK = "127.0.0.1"
CLUSTER = {
    "jobmanager.bind-host": LOOPBACK,
    "jobmanager.rpc.address": LOOPBACK,
    "rest.address": LOOPBACK,
    "rest.bind-address": LOOPBACK,
    "rest.port": "0",
    "taskmanager.bind-host": LOOPBACK,
    "taskmanager.host": LOOPBACK,
    "taskmanager.memory.managed.size": "32mb",
    "taskmanager.memory.network.max": "32mb",
    "taskmanager.memory.network.min": "32mb",
}
SESSION = {
    "execution.checkpointing.interval": "500ms",
    "execution.target": "remote",
    "parallelism.default": "1",
    "table.dml-sync": "true",
    "table.local-time-zone": "UTC",
}
"""Settings of statements: an insert returns when it has ended, and a stream commits at checkpoints."""


class FlinkError(Exception):
    """Flink's refusal of a statement; the text is that of the cause at the bottom."""


def serve_statements(connection: Connection, java_home: str, class_path: Sequence[str], scratch: str) -> None:
    """Answers the calls that come through `connection`, each a function's name and its argument, until it is closed.

    The answer is the result, or the exception that the caller raises.
    """
    os.environ["JAVA_HOME"] = java_home
    options = (*JAVA_OPTIONS, f"-Djava.io.tmpdir={scratch}")
    jpype.startJVM(*options, classpath=list(class_path), convertStrings=True)
    try:
        answer_calls(connection, FlinkSession(start_cluster()))
    except Exception as error:
        connection.send(to_picklable(error))
    finally:
        os._exit(0)  # Threads of Flink never end.


def answer_calls(connection: Connection, session: FlinkSession) -> None:
    """Answers calls until the connection is closed."""
    functions: dict[str, Callable[[Any], Any]] = {
        "create_catalog": session.create_catalog,
        "query": session.query,
        "execute": session.execute,
        "execute_streaming": session.execute_streaming,
        "open_stream": session.open_stream,
        "take_rows": session.take_rows,
    }
    while True:
        try:
            function, argument = connection.recv()
        except EOFError:
            return
        try:
            answer = functions[function](argument)
        except Exception as error:
            answer = to_picklable(error)
        connection.send(answer)


def start_cluster() -> dict[str, str]:
    """Starts a cluster in this process, so that jobs share one; returns the settings by which it is reached."""
    package = "org.apache.flink.runtime.minicluster"
    builder = jpype.JClass(f"{package}.MiniClusterConfiguration$Builder")()
    described = builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(2).setConfiguration(configure(CLUSTER)).build()
    cluster = jpype.JClass(f"{package}.MiniCluster")(described)
    cluster.start()
    return {"rest.address": LOOPBACK, "rest.port": str(cluster.getRestAddress().get().getPort())}


def configure(settings: Mapping[str, str]) -> Any:
    """Builds Flink's object of settings."""
    configuration = jpype.JClass("org.apache.flink.configuration.Configuration")()
    for key, value in settings.items():
        configuration.setString(key, value)
    return configuration


def create_environment(settings: Mapping[str, str], mode: str) -> Any:
    """Creates an environment that runs statements in the mode `batch` or `streaming`."""
    configuration = configure({**settings, "execution.runtime-mode": mode})
    described = jpype.JClass("org.apache.flink.table.api.EnvironmentSettings").newInstance()
    return jpype.JClass("org.apache.flink.table.api.TableEnvironment").create(
        described.withConfiguration(configuration).build()
    )


class FlinkSession:
    """The environments of the two modes, with the same catalogs, and at most one open stream."""

    def __init__(self, cluster: Mapping[str, str]) -> None:
        self.batch, self.streaming = (
            create_environment({**SESSION, **cluster}, mode) for mode in ("batch", "streaming")
        )
        self.stream: Any = None

    def create_catalog(self, sql: str) -> None:
        self.batch.executeSql(sql)
        self.streaming.executeSql(sql)

    def query(self, sql: str) -> list[dict[str, Any]]:
        with self.batch.executeSql(sql).collect() as rows:
            return [name_fields(row) for row in rows]

    def execute(self, sql: str) -> None:
        self.batch.executeSql(sql)

    def execute_streaming(self, sql: str) -> None:
        self.streaming.executeSql(sql)

    def open_stream(self, sql: str) -> None:
        if self.stream is not None:
            self.stream.close()
        self.stream = self.streaming.executeSql(sql).collect()

    def take_rows(self, count: int) -> list[dict[str, Any]]:
        return [name_fields(self.stream.next()) for _ in range(count)]


def name_fields(row: Any) -> dict[str, Any]:
    """Returns a row of Flink's as values of Python by the names of its columns."""
    return {str(name): to_python(row.getField(name)) for name in row.getFieldNames(True)}


def to_python(value: Any) -> Any:
    """Converts a value of a row, at any level. Raises KeyError for a class of Java that no column here has."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, jpype.JClass("java.util.Map")):
        return {to_python(entry.getKey()): to_python(entry.getValue()) for entry in value.entrySet()}
    name = str(type(value).class_.getTypeName())
    if name.endswith("[]") and name != "byte[]":
        return [to_python(part) for part in value]
    return CONVERTERS[name](value)


def read_instant(instant: Any) -> datetime.datetime:
    """Converts a time, which has microseconds, to one in UTC."""
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return start + datetime.timedelta(seconds=int(instant.getEpochSecond()), microseconds=instant.getNano() // 1000)


def read_local_time(time: Any) -> datetime.datetime:
    """Converts a time without a zone."""
    return read_instant(time.toInstant(jpype.JClass("java.time.ZoneOffset").UTC)).replace(tzinfo=None)


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "byte[]": bytes,
    "java.lang.Boolean": bool,
    "java.lang.Double": float,
    "java.lang.Integer": int,
    "java.lang.Long": int,
    "java.math.BigDecimal": lambda number: Decimal(number.toPlainString()),
    "java.time.Instant": read_instant,
    "java.time.LocalDate": lambda day: datetime.date.fromisoformat(day.toString()),
    "java.time.LocalDateTime": read_local_time,
    "org.apache.flink.types.Row": name_fields,
}
"""Functions that convert values, by the classes of Java."""


def to_picklable(error: Exception) -> Exception:
    """Returns an exception that the pipe can carry: one of Java's becomes a FlinkError with its cause."""
    if not isinstance(error, jpype.JException):
        return error
    cause = error
    while cause.getCause() is not None:
        cause = cause.getCause()
    return FlinkError(f"{cause.getClass().getSimpleName()}: {cause.getMessage()}")
