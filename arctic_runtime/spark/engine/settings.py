"""Temporary settings of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def override_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of a session within the `with` block, and restores them at its end.

    Each thread has a session of its own, so other threads are not affected.
    """
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)
