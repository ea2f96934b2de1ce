"""Truncations: events that empty the table. A truncation deletes every row, as of its own `sequence_by` value."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import to_column

_IS_SPREAD = "__arctic_truncates"


def is_truncation(model: Model, events: DataFrame) -> Expression:
    """Builds the condition that an event empties the table.

    It is always false after `spread_truncations`, which replaces such events.
    """
    predicate = model.config.truncate_when
    if predicate is None or _IS_SPREAD in events.columns:
        return F.lit(False)
    return F.coalesce(F.expr(predicate), F.lit(False))


def count_truncations(model: Model, events: DataFrame, sequence: Expression, sequence_type: str) -> list[Expression]:
    """Builds two aggregates about the events that empty the table: `truncations` and `truncated`.

    `truncations` is their number, `truncated` the highest of their `sequence_by` values, as text. `sequence` is the
    expression of this value, of the SQL type `sequence_type`. The list is empty if the model has no `truncate_when`.
    """
    if model.config.truncate_when is None:
        return []
    truncates = is_truncation(model, events)
    newest = marks.write_sequence_text(F.max(F.when(truncates, sequence)), sequence_type)
    return [F.count_if(truncates).alias("truncations"), newest.alias("truncated")]


def is_spread(events: DataFrame) -> Expression:
    """Builds the condition that an event is one of the deletes that `spread_truncations` made from a truncation."""
    return F.col(_IS_SPREAD) if _IS_SPREAD in events.columns else F.lit(False)


def spread_truncations(model: Model, events: DataFrame, keys: DataFrame) -> DataFrame:
    """Replaces each event that empties the table by deletes, one for each of `keys`.

    A delete has all other columns of the replaced event, so it has the same place in the order of events. `keys` has
    the columns of the primary key; duplicates do not matter.
    """
    if model.config.truncate_when is None:
        return events
    key = model.config.primary_key
    truncation = is_truncation(model, events)
    rest = [to_column(own) for own in events.columns if not any(is_same_name(own, part) for part in key)]
    named = keys.select(*[to_column(part).alias(f"__arctic_t{i}") for i, part in enumerate(key)]).distinct()
    each = events.where(truncation).select(*rest).hint("broadcast").crossJoin(named)
    places = {part.lower(): f"__arctic_t{i}" for i, part in enumerate(key)}
    deletes = each.select(*[F.col(places.get(own.lower(), quote_name(own))).alias(own) for own in events.columns])
    plain = events.where(~truncation).withColumn(_IS_SPREAD, F.lit(False))
    return plain.unionByName(deletes.withColumn(_IS_SPREAD, F.lit(True)))


def spread_over_own_keys(model: Model, events: DataFrame) -> DataFrame:
    """Replaces each truncation by deletes of all keys in `events`, which must be all events that the table ever had."""
    if model.config.truncate_when is None:
        return events
    key = [to_column(part) for part in model.config.primary_key]
    return spread_truncations(model, events, events.where(~is_truncation(model, events)).select(*key))


def drop_truncated(model: Model, events: DataFrame, sequence_type: str, truncated: str | None) -> DataFrame:
    """Drops events before `truncated`, the `sequence_by` value of the newest truncation that earlier runs have read.

    None for `truncated` means that there was none.
    """
    if truncated is None or model.config.sequence_by is None:
        return events
    is_older = to_column(model.config.sequence_by) < marks.read_latest(truncated, sequence_type)
    return events.where(~F.coalesce(is_older, F.lit(False)))
