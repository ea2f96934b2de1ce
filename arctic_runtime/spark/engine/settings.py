"""Changes settings of a Spark session temporarily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def override_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets the settings `wanted` of a session until the block ends, then restores the earlier values.

    Other threads are not affected, since each has a session of its own.
    """
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)
