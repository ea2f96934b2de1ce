"""Events that truncations and overwrites make obsolete.

A *truncation* is an event that empties the table: it deletes every row, as of its own `sequence_by` value. An overwrite
*declares* all rows of a table, or of one of its partitions, as of a value of `sequence_by`: the declared rows contain
the effect of all events up to this value, which is called the overwrite's place in the order of events.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import find_column, is_same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.sources.declared import Declared, Part, describe_part
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import combine_all, format_examples, to_column

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


def drop_declared(model: Model, events: DataFrame, shape: Shape, declared: Declared) -> DataFrame:
    """Drops events that an overwrite has made obsolete: those of the overwritten part of the table, up to its place.

    The place of an overwrite is a value of `sequence_by`; `declared` has the place of each overwritten part, a
    partition or the whole table. Raises ConfigError if the stored place lacks a time zone, and an event is so close to
    it that it may be older or newer.
    """
    if not declared.points or model.config.sequence_by is None:
        return events
    for part, place in declared.points.items():
        _check_declaration(model, events, shape, part, place)
        is_known = _is_until(model, marks.read_latest(place, shape.sequence_type)) & is_in_part(part, shape)
        events = events.where(~F.coalesce(is_known, F.lit(False)))
    return events


def _check_declaration(model: Model, events: DataFrame, shape: Shape, part: Part, place: str) -> None:
    kind = shape.sequence_type
    if marks.is_exact(place, kind):
        return
    maybe = _is_until(model, marks.read_latest(place, kind)) & ~_is_until(model, marks.read_earliest(place, kind))
    rows = events.where(is_in_part(part, shape) & maybe).limit(3).collect()
    if rows:
        raise ConfigError(
            f"{model.table}: {describe_part(part)} were declared as of {place} without a time zone, by an earlier "
            "version of dbt-arctic, so these events may be older or newer; nothing was written.\n"
            f"{format_examples(rows)}",
            fix=(
                f"declare the rows again as of a position with a time zone, such as `--as-of '{place}+01:00'`, or run "
                "with --full-refresh"
            ),
        )


def _is_until(model: Model, place: Expression) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by) <= place


def is_in_part(part: Part, shape: Shape) -> Expression:
    """Builds the condition that a row is in `part`, an overwritten partition given as pairs of column and value.

    The part without pairs is the whole table.
    """
    values = [(find_column(shape.columns, own), value) for own, value in part]
    return combine_all(
        [to_column(own.name) == marks.read_exact(value, own.type) for own, value in values if own is not None]
    )
