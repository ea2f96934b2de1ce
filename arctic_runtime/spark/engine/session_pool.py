"""Pools of Spark sessions of this process: a pool for each profile, from which each task takes a session of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.connection import is_on_server
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.engine.thread_imports import preload_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionPool:
    """Sessions of one Spark, each of which is lent to one borrower at a time; the first one starts Spark.

    A session that was idle for long is not lent again, and neither is one that its server does not have any more.
    """

    def __init__(self, profile: Profile, joined: SparkSession | None = None) -> None:
        self.environment = SparkEnvironment(profile, joined)
        self._idle: list[tuple[SparkSession, float]] = []
        self._lock = threading.Lock()

    def take_session(self) -> SparkSession:
        preload_modules(self.environment.profile)
        oldest = time.monotonic() - self.environment.profile.thresholds.engine.session_idle_seconds
        while (idle := self._pop_idle()) is not None:
            session, since = idle
            if since >= oldest and is_on_server(session):
                return session
            self.discard_session(session)
        return self.environment.new_session()

    def _pop_idle(self) -> tuple[SparkSession, float] | None:
        """Takes the session that was used last, and the time of its return; None if none is idle."""
        with self._lock:
            if not self.environment.is_started:
                self._idle.clear()
            return self._idle.pop() if self._idle else None

    def give_back(self, session: SparkSession) -> None:
        """Makes a session available again; it must have no temporary views and no changed settings left."""
        with self._lock:
            self._idle.append((session, time.monotonic()))

    def discard_idle(self) -> None:
        """Ends all sessions that are not lent to a borrower."""
        with self._lock:
            while self._idle:
                self.discard_session(self._idle.pop()[0])

    def discard_session(self, session: SparkSession) -> None:
        """Ends a session that should not be lent again, such as one after an error."""
        self.environment.discard_session(session)


class LentSession:
    """A session of a pool for one thread: calling it returns the session, which the first call takes from the pool."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._session is None:
            self._session = self._pool.take_session()
        return self._session

    def end_loan(self, failed: bool) -> None:
        """Drops the session's temporary views and gives it back to the pool; does nothing if no session was taken.

        If the work or this cleanup has `failed`, ends the session instead.
        """
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if not failed:
                drop_temporary_views(session)
        except Exception:
            # The work itself has succeeded; only the next borrower of the session would be affected.
            failed = True
        if failed:
            self._pool.discard_session(session)
        else:
            self._pool.give_back(session)


@contextmanager
def lend_session(pool: SessionPool) -> Iterator[LentSession]:
    """Lends a session of the pool until the block ends; if the block raises an error, the session is not used again."""
    session = LentSession(pool)
    try:
        yield session
    except BaseException:
        session.end_loan(failed=True)
        raise
    session.end_loan(failed=False)


def drop_temporary_views(session: SparkSession) -> None:
    for view in session.sql("SHOW VIEWS IN spark_catalog.default").collect():
        if view.isTemporary and not view.namespace:
            session.sql(str(fill_statement("DROP VIEW {view}", view=quote_name(view.viewName))))


_pools: list[SessionPool] = []
_pools_lock = threading.Lock()


def get_pool(profile: Profile) -> SessionPool:
    """Returns this process's pool for a profile; creates it if needed, without starting Spark."""
    with _pools_lock:
        for pool in _pools:
            if pool.environment.profile == profile:
                return pool
        _pools.append(SessionPool(profile))
        return _pools[-1]


def register_pool(profile: Profile, session: SparkSession) -> SessionPool:
    """Creates a pool on the Spark of `session`, which `get_pool` returns for the profile until `unregister_pool`."""
    pool = SessionPool(profile, session)
    with _pools_lock:
        _pools.insert(0, pool)
    return pool


def unregister_pool(pool: SessionPool) -> None:
    """Removes a pool that `register_pool` has created, and ends its idle sessions; their Spark continues to run."""
    with _pools_lock:
        if pool in _pools:
            _pools.remove(pool)
    pool.discard_idle()


def stop_all_pools() -> None:
    """Stops the Spark of each pool, and removes all pools of this process."""
    with _pools_lock:
        for pool in _pools:
            pool.environment.stop_spark()
        _pools.clear()


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
