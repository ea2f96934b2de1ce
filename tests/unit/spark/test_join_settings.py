"""Settings of joins that read a table as it lies, by the version of Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.spark.tables.merge import build_join_settings


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("4.1.1", "false"), ("4.1.1-amzn-0", "false"), ("4.1.4", "true"), ("4.1.10", "true"), ("4.2.0-SNAPSHOT", "true")],
)
def test_tables_are_joined_without_their_partitions_on_a_spark_that_can_do_so(version: str, is_known: str) -> None:
    spark: Any = SimpleNamespace(version=version)
    name = "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled"
    assert build_join_settings(spark)[name] == is_known
