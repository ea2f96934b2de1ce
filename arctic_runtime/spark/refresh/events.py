"""Change events: read in their window, checked, and folded to one net event per key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.columns import POSITION, RESERVED, TIMESTAMP, Column, find_column
from arctic_runtime.model.declared import Declared, Part, describe_part
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.refresh import earlier_events, flows, merging, present, replay, retractions, truncations
from arctic_runtime.spark.refresh.diff import build_images, find_contract_violation, list_key_images
from arctic_runtime.spark.tables import marks
from arctic_runtime.spark.tables.frames import (
    combine_all,
    combine_any,
    format_examples,
    select_first_per_key,
    to_column,
)
from arctic_runtime.spark.tables.sameness import identify_row

_IS_DELETE = "__arctic_is_delete"
_ORDERABLE = re.compile(r"bigint|int|decimal\(\d+,\d+\)|timestamp|timestamp_ntz|date|string|double|float")


@dataclass(frozen=True)
class Profile:
    """What one pass over a window's events found. `high_watermark` and `oldest_late` are texts as `marks` writes
    them, and so are `truncated`, the place of the newest of the `truncations`, the events that empty the table, and
    what `earlier_events` counts of tables with history.

    `late` is how many events may be late: those before the newest event of any earlier run. `oldest` is the oldest of
    all. `retracted` are events that take back what a row of the source said before, and `untold` changes of the source
    of which that is not known. `unknown_columns` are events that name columns which the query does not have.
    """

    events: int
    null_keys: int
    null_sequences: int
    late: int
    oldest: str | None
    oldest_late: str | None
    high_watermark: str | None
    truncations: int = 0
    truncated: str | None = None
    retracted: int = 0
    untold: int = 0
    unknown_columns: int = 0
    asking: int = 0
    oldest_asking: str | None = None
    oldest_asking_time: str | None = None
    newest_valid_time: str | None = None


def stored_columns(model: Model, query: tuple[Column, ...]) -> tuple[Column, ...]:
    """The query's columns that the table keeps."""
    dropped = {name.lower() for name in (*model.config.exclude_columns, model.config.columns_to_update) if name}
    if model.config.input == "changes":
        dropped |= set(RESERVED)
    return tuple(kept for kept in query if kept.name.lower() not in dropped)


def sequence_type(model: Model, query: tuple[Column, ...]) -> str:
    """The type of `_seq`: that of `sequence_by` where there is one; raises ConfigError where it has no order."""
    config = model.config
    kinds = [_ordered_type(model, query, of) for of in (config.sequence_by, *config.sequence_groups) if of is not None]
    return kinds[0] if config.sequence_by is not None else "bigint"


def _ordered_type(model: Model, query: tuple[Column, ...], sequence: str) -> str:
    found = find_column(query, sequence)
    if found is None or not _ORDERABLE.fullmatch(found.type):
        raise ConfigError(
            f"{model.table}: `sequence_by: {sequence}` must be a number, a date, a timestamp or a string.\n"
            f"  found: {found.type if found else 'no such column'}\n  what to do: cast it in the query"
        )
    return found.type


def after(model: Model, events: DataFrame, shape: Shape, declared: Declared) -> DataFrame:
    """Events, less those of rows that were declared as of their place or a later one; all where none were.

    Raises ConfigError where a declaration does not say of some event whether it is later.
    """
    if not declared.places or model.config.sequence_by is None:
        return events
    for part, place in declared.places.items():
        _check_declaration(model, events, shape, part, place)
        is_known = _is_until(model, marks.read_latest(place, shape.sequence_type)) & is_in(part, shape)
        events = events.where(~F.coalesce(is_known, F.lit(False)))
    return events


def _check_declaration(model: Model, events: DataFrame, shape: Shape, part: Part, place: str) -> None:
    kind = shape.sequence_type
    if marks.is_exact(place, kind):
        return
    maybe = _is_until(model, marks.read_latest(place, kind)) & ~_is_until(model, marks.read_earliest(place, kind))
    rows = events.where(is_in(part, shape) & maybe).limit(3).collect()
    if rows:
        raise ConfigError(
            f"{model.table}: {describe_part(part)} were declared as of {place} without a time zone, by an earlier "
            f"version of dbt-arctic, so these events may be older or newer; nothing was written.\n"
            f"{format_examples(rows)}"
            "  what to do: declare the rows again as of a position with a time zone, such as "
            f"`--as-of '{place}+01:00'`, or run with --full-refresh"
        )


def _is_until(model: Model, place: Expression) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by) <= place


def is_in(part: Part, shape: Shape) -> Expression:
    """Whether a row belongs to a partition."""
    kept = [(find_column(shape.columns, of), value) for of, value in part]
    return combine_all([to_column(of.name) == marks.read_exact(value, of.type) for of, value in kept if of is not None])


def profile(model: Model, events: DataFrame, shape: Shape, last: RunSummary | None) -> Profile:
    """Counts events and their flaws in one job, and of what the `last` run had read what bears on them."""
    config, seq_type = model.config, shape.sequence_type
    high_watermark = last.high_watermark if last else None
    sequence = to_column(config.sequence_by).cast(seq_type) if config.sequence_by else F.lit(0)
    mark = F.lit(None).cast(seq_type) if high_watermark is None else marks.read_latest(high_watermark, seq_type)
    row = events.agg(
        F.count(F.lit(1)).alias("events"),
        F.count_if(_lacks_key(model, events)).alias("null_keys"),
        F.count_if(flows.lacks_place(model) if config.sequence_groups else sequence.isNull()).alias("null_sequences"),
        F.count_if(sequence < mark).alias("late"),
        marks.write_sequence_text(F.min(sequence), seq_type).alias("oldest"),
        marks.write_sequence_text(F.min(F.when(sequence < mark, sequence)), seq_type).alias("oldest_late"),
        marks.write_sequence_text(F.greatest(F.max(sequence), mark), seq_type).alias("high_watermark"),
        *truncations.counts(model, events, sequence, seq_type),
        *retractions.counts(events),
        *present.counts(model, events),
        *earlier_events.count_asking(model, shape, last),
    ).collect()[0]
    return Profile(**row.asDict())


def check_profile(model: Model, events: DataFrame, found: Profile) -> None:
    """Raises DataError, with example rows, where events have no key or no place in the order."""
    if found.null_keys:
        rows = events.where(_lacks_key(model, events)).limit(3).collect()
        raise DataError(
            f"{model.table}: {found.null_keys} of {found.events} events have a null in the primary key "
            f"({', '.join(model.config.entity_key)}); nothing was written.\n{format_examples(rows)}"
            "  what to do: filter them out in the query, or repair them at their source"
        )
    if found.unknown_columns:
        present.raise_unknown(model, events, found.unknown_columns)
    if found.null_sequences and model.config.sequence_groups:
        flows.raise_unplaced(model, events, found.null_sequences)
    if found.null_sequences:
        assert model.config.sequence_by is not None
        rows = events.where(to_column(model.config.sequence_by).isNull()).limit(3).collect()
        raise DataError(
            f"{model.table}: {found.null_sequences} of {found.events} events have a null in `sequence_by` "
            f"({model.config.sequence_by}), so their order is unknown; nothing was written.\n{format_examples(rows)}"
            "  what to do: filter them out in the query, or order by a column that is never null"
        )


def check_order(model: Model, events: DataFrame) -> None:
    """Without positions, raises DataError where two different events of a key stand at one place in the order."""
    if model.config.sequence_groups:
        flows.check_order(model, events)
        return
    if POSITION in events.columns:
        return
    if model.config.sequence_by is None:
        raise ConfigError(
            f"{model.table}: the order of events is unknown.\n"
            "  expected: `sequence_by`, or a plain select over one changes(…) of a format version 3 table\n"
            "  what to do: set `sequence_by` to the column that orders the events"
        )
    place = [to_column(part) for part in model.config.entity_key] + [to_column(model.config.sequence_by)]
    image = F.expr(identify_row(events))
    ties = events.groupBy(*place).agg(F.count_distinct(image).alias("different")).where("different > 1")
    rows = ties.limit(3).collect()
    if rows:
        raise DataError(
            f"{model.table}: events of one key differ but have the same `sequence_by` value "
            f"({model.config.sequence_by}), and the query does not preserve their position; nothing was written.\n"
            f"{format_examples(rows)}"
            "  what to do: set `sequence_by` to a column without ties, or write a plain select from one changes(…)"
        )


def net_events(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """One row per key: the image that its events leave behind.

    Columns: a0, a1, … for the table's, `deleted` (the last event deleted the row), `reset` (some event deleted it, so
    the old row must not shine through), `ts` (null where the run's time is taken), `seq` and `flaw`; and what `blend`
    needs, where more than the newest event makes a row.
    """
    config = model.config
    stamp = to_column(TIMESTAMP) if TIMESTAMP in events.columns else F.lit(None)
    sequence = to_column(config.sequence_by) if config.sequence_by else F.lit(0)
    order = [sequence.alias("sequence")] + ([to_column(POSITION)] if POSITION in events.columns else [])
    said = present.marked(model, events.withColumn(_IS_DELETE, is_delete(model, events)), shape)
    marked = said.select(
        *map(F.expr, build_images("a", shape, events.columns)),
        F.col(_IS_DELETE).alias("deleted"),
        stamp.cast("timestamp").alias("ts"),
        sequence.cast(shape.sequence_type).alias("seq"),
        retractions.sign(events).alias("sign"),
        F.struct(*order).alias("order"),
        *map(F.expr, replay.arriving(model)),
        *present.shown(model, shape),
    )
    folded = _fold(model)(marked, shape)
    return folded.withColumn("flaw", F.when(~F.col("deleted"), F.expr(find_contract_violation(shape))))


def _fold(model: Model) -> Callable[[DataFrame, Shape], DataFrame]:
    if model.config.sequence_groups:
        return partial(flows.fold, model)
    if replay.is_replayed(model):
        return partial(replay.collect, model)
    return _fold_replace if is_newest_event(model) else partial(merging.fold, model)


def blend(model: Model) -> Callable[[DataFrame, Shape], DataFrame] | None:
    """How net events meet the rows that are there; None where these have no part in what there is now."""
    if model.config.sequence_groups:
        return partial(flows.blend, model)
    if replay.is_replayed(model):
        return partial(replay.blend, model)
    return None if is_newest_event(model) else partial(merging.blend, model)


def is_newest_event(model: Model) -> bool:
    """Whether a row is what the newest event of its key says; others follow from several events, or all."""
    config = model.config
    is_whole = config.on_match == "replace" and not config.has_partial_events
    return is_whole and not config.merge_columns and not config.sequence_groups


def is_delete(model: Model, events: DataFrame) -> Expression:
    """Whether an event deletes its row."""
    predicate = model.config.delete_when
    deletes = F.coalesce(F.expr(predicate), F.lit(False)) if predicate else F.lit(False)
    return truncations.is_spread(events) | deletes


def _fold_replace(events: DataFrame, shape: Shape) -> DataFrame:
    newest = select_first_per_key(events, list_key_images(shape), _newest_first(events)).drop("order", "sign")
    return newest.withColumn("reset", F.col("deleted"))


def _newest_first(events: DataFrame) -> list[Expression]:
    """The parts of the order one by one: compared so, a sort is faster than over the struct of them."""
    return [F.col(f"order.{part}").desc() for part in _leaves(events.schema["order"].dataType)]


def _leaves(kind: DataType) -> list[str]:
    """The paths of a struct's innermost fields, in order."""
    if not isinstance(kind, StructType):
        return [""]
    return [f"{field.name}.{leaf}".rstrip(".") for field in kind.fields for leaf in _leaves(field.dataType)]


def _lacks_key(model: Model, events: DataFrame) -> Expression:
    """Whether an event of a row does not say which; one that empties the table needs no key."""
    is_null = combine_any([to_column(part).isNull() for part in model.config.entity_key])
    return is_null & ~truncations.is_truncation(model, events)
