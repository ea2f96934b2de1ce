"""A connection's session: who gets it next."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from dbt.adapters.arctic.connections.handle import SessionHandle


class Session:
    """A session whose Spark is gone once its jobs have a name: whatever else is asked of it fails."""

    sparkContext = Mock()  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")


class Pool:
    def __init__(self) -> None:
        self.idle: list[Any] = []
        self.discarded: list[Any] = []
        self.take_session, self.discard_session = Session, self.discarded.append
        self.give_back = self.idle.append


@pytest.mark.parametrize("has_views", [True, False])
def test_closing_a_connection_whose_spark_is_gone_raises_nothing(has_views: bool) -> None:
    """It would take the place of the error that tells why a model failed."""
    pool: Any = Pool()
    handle = SessionHandle(pool)
    session = handle.spark
    if has_views:
        handle.mark_temporary_view()
    handle.close()
    assert (pool.idle, pool.discarded) == (([], [session]) if has_views else ([session], []))
