"""Late events: those that are older than the newest event of their key that an earlier run read."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.declared import Declared
from arctic_runtime.model.names import History, list_changes_read
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.state import ChangeTableState, SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.increment import Upstreams
from arctic_runtime.spark.refresh.events import Profile
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.refresh.truncations import is_truncation
from arctic_runtime.spark.tables import marks
from arctic_runtime.spark.tables.frames import Keys, as_key, match_key, read_table, to_column

_NEWEST = "__arctic_seen"


def keys_maybe_late(model: Model, events: DataFrame, high_watermark: str, shape: Shape) -> DataFrame:
    """The keys of the events before the newest one of all earlier runs."""
    is_late = _sequence(model) < marks.read_latest(high_watermark, shape.sequence_type)
    return events.where(is_late).select(*[to_column(part) for part in model.config.entity_key]).distinct()


def seen(
    spark: SparkSession, model: Model, changes: ChangeTableState, upstreams: Upstreams, offsets: Mapping[str, Version]
) -> DataFrame:
    """Key and place in the order, as `_seq`, of all that was ever read: of changes, and of events without any."""
    assert changes.newest is not None
    log = read_table(spark, model.table.changes, changes.newest.snapshot)
    key = [to_column(part) for part in model.config.primary_key]
    events = events_until(spark, model, upstreams, "seen", offsets)
    of_rows = events.where(~is_truncation(model, events)).select(*key, _sequence(model).alias(SEQUENCE))
    return log.select(*key, to_column(SEQUENCE)).unionAll(of_rows)


def events_until(
    spark: SparkSession, model: Model, upstreams: Upstreams, history: History, versions: Mapping[str, Version]
) -> DataFrame:
    """What the query gives of all rows of its sources up to these versions; of a source without one it reads none."""
    windows = {source: Window(source, None, version) for source, version in versions.items()}
    unread: Narrowed = {source: _no_rows for source in list_changes_read(model.sql) if str(source) not in versions}
    return QueryInputs(model, upstreams, unread).run_query(spark, windows, history)


def _no_rows(_: SourceState, rows: DataFrame) -> DataFrame:
    return rows.where(F.lit(False))


def newest_seen(model: Model, seen: DataFrame, keys: Keys, found: Profile, shape: Shape) -> DataFrame:
    """The newest place of each key of which something after the oldest late event was read; other rows are not.

    Both conditions reach the files: those that only hold older events are not opened.
    """
    assert found.oldest_late is not None
    later = seen.where(F.col(SEQUENCE) > marks.read_latest(found.oldest_late, shape.sequence_type))
    rows = keys.select_rows(later, model.config.primary_key)
    return rows.groupBy(*as_key(model.config.primary_key)).agg(F.max(SEQUENCE).alias(_NEWEST))


def in_order(model: Model, events: DataFrame, newest: DataFrame) -> DataFrame:
    """Events, less those before the newest place of their key."""
    key = model.config.primary_key
    matched = events.join(newest, match_key(events, key), "left")
    kept = matched.where(F.col(_NEWEST).isNull() | (_sequence(model) >= F.col(_NEWEST)))
    return kept.select(*[to_column(name) for name in events.columns])


def late_keys(model: Model, events: DataFrame, newest: DataFrame) -> DataFrame:
    """The keys that have an event before the newest place of them, each once."""
    key = model.config.primary_key
    matched = events.join(newest, match_key(events, key))
    is_late = _sequence(model) < F.col(_NEWEST)
    return matched.where(is_late).select(*[to_column(part) for part in key]).distinct()


def without(model: Model, events: DataFrame, keys: DataFrame) -> DataFrame:
    """The events of other keys."""
    key = model.config.primary_key
    return events.join(keys.select(*as_key(key)), match_key(events, key), "left_anti")


def check_all_is_kept(model: Model, upstreams: Upstreams, last: RunSummary) -> None:
    """Raises DataError where the rows of late keys do not follow from the events that can still be read."""
    declared = last.declared or Declared()
    trimmed = [of for of, state in upstreams.states.items() if state and state.has_lost_rows]
    reasons = {
        "it was restored": last.restored is not None,
        f"rows were declared: {declared.describe_declarations()}": bool(declared.places),
        f"{', '.join(trimmed)} no longer keeps all its rows": bool(trimmed),
    }
    found = [reason for reason, is_so in reasons.items() if is_so]
    if found:
        raise DataError(
            f"{model.table}: late events can't be applied: with {_merging(model)} "
            "a row depends on all events of its key; nothing was written.\n"
            "  expected: the upstreams still have all events of these keys, and no other run wrote these rows\n"
            f"  found: {'; '.join(found)}\n"
            "  what to do: filter late events out in the query, or run with --full-refresh to rebuild the table from "
            "the events that the upstreams still have"
        )


def _merging(model: Model) -> str:
    config = model.config
    keys = {
        "`columns_to_update`": config.columns_to_update,
        "`unavailable_value`": config.unavailable_value,
        "`merge_columns`": config.merge_columns,
    }
    return next((key for key, value in keys.items() if value), f"`on_match: {config.on_match}`")


def _sequence(model: Model) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by)
