"""Reads the change events that earlier runs of a model have read."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.names import History, list_changes_read
from arctic_runtime.model.state import ChangeTableState, SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.events.truncate import is_truncation
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.tables.rows.frames import read_table, to_column


def read_seen_places(
    spark: SparkSession, model: Model, changes: ChangeTableState, upstreams: Upstreams, offsets: Mapping[str, Version]
) -> DataFrame:
    """Reads the keys and `sequence_by` values of all change rows of a table, and of all events that were ever read.

    The columns are those of the key, and `_seq` with the value of `sequence_by`. `offsets` has the versions up to which
    the upstreams were read.
    """
    sequence = model.config.sequence_by
    assert changes.newest is not None
    assert sequence is not None
    log = read_table(spark, model.table.changes, changes.newest.snapshot)
    key = [to_column(part) for part in model.config.primary_key]
    events = read_past_events(spark, model, upstreams, "seen", offsets)
    of_rows = events.where(~is_truncation(model, events)).select(*key, to_column(sequence).alias(SEQUENCE))
    return log.select(*key, to_column(SEQUENCE)).unionAll(of_rows)


def read_past_events(
    spark: SparkSession, model: Model, upstreams: Upstreams, history: History, versions: Mapping[str, Version]
) -> DataFrame:
    """Runs the model's query over all rows of its sources up to `versions`, by the names of the sources.

    A source that is not in `versions` counts as empty. `history` is a part of the names of the temporary views that the
    query reads, so that results with different names can be read together.
    """
    windows = {source: Window(source, None, version) for source, version in versions.items()}
    unread: Narrowed = {source: _no_rows for source in list_changes_read(model.sql) if str(source) not in versions}
    return QueryInputs(model, upstreams, unread).run_query(spark, windows, history)


def _no_rows(_: SourceState, rows: DataFrame) -> DataFrame:
    return rows.where(F.lit(False))
