"""The catalog and the Spark that all tables of an opened warehouse or project share until it is closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.messages import to_query_error
from arctic_runtime.spark.engine.session import find_session
from arctic_runtime.spark.engine.session_pool import LentSession, get_pool, join_pool, leave_pool, lend_session
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Connection:
    """The opened catalog of a profile, and sessions on a Spark that starts when the first session is used.

    `spark` is a session that the program has already; new sessions are created on its Spark, and the session itself
    stays unchanged. If it is None, the program's active session is used in the same way, unless the profile names a
    Spark Connect server. If there is no active session, Spark is started as the profile says.
    """

    def __init__(self, profile: Profile, spark: SparkSession | None = None) -> None:
        """Raises CatalogError if an embedded warehouse can't be used."""
        prepare_warehouse(profile)
        self.profile = profile
        self.reader = CatalogReader(profile)
        joined = find_session() if spark is None and profile.method == "session" else spark
        self.is_joined = joined is not None
        if not self.is_joined:  # It logs Java's stack trace of each query that fails, which the error says in words.
            logging.getLogger("SQLQueryContextLogger").disabled = True
        self._pool = get_pool(profile) if joined is None else join_pool(profile, joined)
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def get_session(self) -> SparkSession:
        """Returns the session of all DataFrames that users get; the first call creates it.

        Raises ConfigError if the connection is closed.
        """
        with self._lock:
            self.check_open()
            if self._session is None:
                self._session = self._pool.take_session()
            return self._session

    @contextmanager
    def lend_session(self) -> Iterator[LentSession]:
        """Yields a session that no other thread uses until the block ends; converts errors as `explain_errors` does."""
        self.check_open()
        with self.explain_errors(), lend_session(self._pool) as session:
            yield session

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Converts Spark's errors within the block: to SparkEnded if Spark has ended, to ConfigError for a bad query.

        All other errors pass unchanged.
        """
        try:
            yield
        except Exception as error:
            explained = to_spark_ended(error) or to_query_error(error)
            if explained is None:
                raise
            raise explained from error

    def check_open(self) -> None:
        """Raises ConfigError if `close_sessions` was called."""
        if self._is_closed:
            raise ConfigError(
                "This warehouse is closed.",
                fix="open it again",
            )

    def close_sessions(self) -> None:
        """Ends this connection's sessions; Spark itself continues to run. Does nothing if they are closed already."""
        with self._lock:
            session, self._session = self._session, None
            was_closed, self._is_closed = self._is_closed, True
        if session is not None:
            self._pool.discard_session(session)
        if self.is_joined and not was_closed:
            leave_pool(self._pool)
