"""Converts events to DataFrames: sends them to Spark as Arrow, and caches rows for the jobs of a batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.spark.engine.connection import is_remote
from arctic_runtime.spark.engine.jobs import override_settings

_SENT_TO_TASKS = {"spark.sql.execution.arrow.localRelationThreshold": "0"}
"""Spark setting that makes tasks evaluate expressions on data sent as Arrow.

By default Spark keeps up to 48 MB of Arrow as rows in its driver, and evaluates expressions on them while it optimizes
a query: one thread would decode all events, without compiled code.
"""

_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_EVALUATION_BY_DRIVER = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
"""The optimizer rule that evaluates expressions in the driver; it also applies to data from a Spark Connect client."""


def to_dataframe(spark: SparkSession, events: TableEvents) -> DataFrame:
    """Converts events to a DataFrame of the session `spark`; an Arrow table in this process is sent to Spark."""
    if callable(events.events):
        return events.events(spark)
    # A session of Spark Connect infers no schema from a table without rows.
    if not events.events.num_rows:
        return spark.createDataFrame([], from_arrow_schema(events.events.schema))
    with override_settings(spark, _SENT_TO_TASKS):
        return spark.createDataFrame(events.events)


@contextmanager
def cache_rows(rows: DataFrame, only: Expression | None = None) -> Iterator[DataFrame]:
    """Caches `rows` in Spark until the context ends; yields the rows, or only those for which `only` is true.

    The cached rows are not compressed, since they are used only for a short time. Over Spark Connect they are read by
    the name of a temporary view: a client's plans can be some 50 operators deep, and that of a name begins anew.
    """
    excluded = [*filter(None, [rows.sparkSession.conf.get(_EXCLUDED_RULES, None)]), _EVALUATION_BY_DRIVER]
    wanted = {"spark.sql.inMemoryColumnarStorage.compressed": "false", _EXCLUDED_RULES: ",".join(excluded)}
    with override_settings(rows.sparkSession, wanted), ExitStack() as stack:
        cached = rows.persist()
        stack.callback(cached.unpersist)
        named = _read_through_view(cached, stack) if is_remote(rows.sparkSession) else cached
        yield named if only is None else named.where(only)


def _read_through_view(rows: DataFrame, stack: ExitStack) -> DataFrame:
    """Returns `rows` as read from a temporary view, which is dropped when `stack` ends."""
    spark, name = rows.sparkSession, f"arctic_rows_{uuid.uuid4().hex}"
    rows.createTempView(name)
    stack.callback(spark.catalog.dropTempView, name)
    return spark.table(name)
