"""Each thread of an ingestion has a Spark session of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.engine.session_pool import ThreadSessions


def test_a_thread_opens_one_session() -> None:
    opened: list[Any] = []

    def new_session() -> Any:
        opened.append(object())
        return opened[-1]

    sessions = ThreadSessions(new_session)
    first = sessions.open_session()
    with ThreadPoolExecutor(1) as pool:
        other, again = (pool.submit(sessions.open_session).result() for _ in range(2))
    assert sessions.open_session() is first
    assert other is again
    assert opened == [first, other]


def test_two_threads_with_one_session_are_refused() -> None:
    shared: Any = object()
    sessions = ThreadSessions(lambda: shared)
    sessions.open_session()
    with ThreadPoolExecutor(1) as pool, pytest.raises(ConfigError, match=r"spark\.newSession"):
        pool.submit(sessions.open_session).result()
