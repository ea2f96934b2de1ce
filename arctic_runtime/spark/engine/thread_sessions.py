"""Gives each thread a Spark session of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ThreadSessions:
    """The Spark sessions of threads, each opened by `new_session` when its thread first asks for it.

    Threads must not share a session: settings of a session, such as the version that its next commit stores, would
    end in the commit of another thread.
    """

    def __init__(self, new_session: Callable[[], SparkSession]) -> None:
        self._new_session = new_session
        self._own = threading.local()
        self._opened: list[SparkSession] = []

    def open_session(self) -> SparkSession:
        """Returns the session of the calling thread; raises ConfigError if another thread has the same one."""
        if not hasattr(self._own, "session"):
            session = self._new_session()
            if any(session is other for other in self._opened):
                raise ConfigError(
                    "Two threads got the same Spark session.",
                    expected="a new session for each call",
                    fix="pass SparkEnvironment.new_session, or spark.newSession",
                )
            self._opened.append(session)
            self._own.session = session
        own: SparkSession = self._own.session
        return own
