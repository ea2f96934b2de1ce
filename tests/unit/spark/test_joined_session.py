"""A session that a program has already: found, refused if its Spark lacks Iceberg, and used by all while joined."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import find_session, fork_session
from arctic_runtime.spark.engine.session_pool import get_pool, register_pool, unregister_pool

BARE: Any = SimpleNamespace(conf={"spark.sql.extensions": "org.example.Others"})
"""A session of a Spark without Iceberg."""


def test_the_active_session_is_found_unless_a_profile_has_started_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: BARE)
    monkeypatch.setattr(PROCESS, "root", None)
    assert find_session() is BARE
    monkeypatch.setattr(PROCESS, "root", object())
    assert find_session() is None


def test_a_spark_without_iceberg_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found: org\.example\.Others"):
        fork_session(BARE, Profile.for_embedded(tmp_path))


def test_a_joined_pool_is_everybodys_until_it_is_left(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path)
    before = get_pool(profile)
    joined = register_pool(profile, BARE)
    assert get_pool(Profile.for_embedded(tmp_path)) is joined
    assert joined.environment.is_started
    unregister_pool(joined)
    assert get_pool(profile) is before
    assert not before.environment.is_started
