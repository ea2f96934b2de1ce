"""Drops events that an overwrite has made obsolete.

An overwrite *declares* all rows of a table, or of one of its partitions, as of a value of `sequence_by`: the declared
rows contain the effect of all events up to this value, which is called the overwrite's place in the order of events.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import find_column
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.sources.declared import Declared, Part, describe_part
from arctic_runtime.model.table import Model
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import combine_all, format_examples, to_column


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
