"""Drops events that an overwrite has made obsolete.

An overwrite *declares* all rows of a table, or of one of its partitions, as of a value of `sequence_by`, its place in
the order of events. Events up to this place are already contained in the declared rows.
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
    """Drops events that an overwrite has made obsolete: those of the overwritten part of the table, up to its position.

    The position is a value of `sequence_by`; `declared` has that of each part. Raises ConfigError if it can't be
    decided whether an event is later, since the position is stored without a time zone.
    """
    if not declared.places or model.config.sequence_by is None:
        return events
    for part, place in declared.places.items():
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
    """Builds the condition that a row is in `part`, a declared partition given as pairs of column and value."""
    values = [(find_column(shape.columns, own), value) for own, value in part]
    return combine_all(
        [to_column(own.name) == marks.read_exact(value, own.type) for own, value in values if own is not None]
    )
