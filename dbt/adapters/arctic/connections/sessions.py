"""Spark sessions of this process: one Spark per profile, one session per dbt connection in use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionPool:
    """Lends isolated sessions of one Spark, which the first loan starts."""

    def __init__(self, profile: Profile) -> None:
        self.environment = SparkEnvironment(profile)
        self._idle: list[SparkSession] = []
        self._lock = threading.Lock()

    def take(self) -> SparkSession:
        with self._lock:
            if not self.environment.started:
                self._idle.clear()
            if self._idle:
                return self._idle.pop()
        return self.environment.session()

    def give_back(self, session: SparkSession) -> None:
        """The session is lent again, so it must have no temporary views and no settings of its borrower."""
        with self._lock:
            self._idle.append(session)

    def discard(self, session: SparkSession) -> None:
        """For a session that has kept something of its borrower."""
        self.environment.discard(session)


_pools: list[SessionPool] = []
_pools_lock = threading.Lock()


def pool_of(profile: Profile) -> SessionPool:
    """The process-wide pool of a profile; making one starts nothing."""
    with _pools_lock:
        for pool in _pools:
            if pool.environment.profile == profile:
                return pool
        _pools.append(SessionPool(profile))
        return _pools[-1]


def stop_all() -> None:
    """Stops every Spark of this process."""
    with _pools_lock:
        for pool in _pools:
            pool.environment.stop()
        _pools.clear()
