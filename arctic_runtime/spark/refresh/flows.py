"""Rows of which several flows of events each bring some columns, every flow in an order of its own.

The table stores the place in its order up to which a flow has written a row, so an event is late if the row has a
later place of the same flow, whatever other flows did meanwhile. No earlier event is looked up, unless events may lack
columns of their flow: then a late event may still be the newest one with some column, and the row is computed again
from all events of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import POSITION, is_same_name
from arctic_runtime.model.merge_columns import COMMUTATIVE
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name
from arctic_runtime.spark.refresh import merging, present
from arctic_runtime.spark.refresh.diff import build_struct, list_key_images
from arctic_runtime.spark.tables.frames import as_key, combine_all, combine_any, format_examples, match_key, to_column
from arctic_runtime.spark.tables.sameness import identify_row


@dataclass(frozen=True)
class _Flow:
    """Where a flow's columns are among those of the table: its place in the order, and the others."""

    number: int
    sequence: int
    columns: tuple[int, ...]

    @property
    def newest(self) -> str:
        return f"flow{self.number}"


def _flows(model: Model, shape: Shape) -> Iterator[_Flow]:
    places = {of.name.lower(): i for i, of in enumerate(shape.columns)}
    for number, (sequence, columns) in enumerate(model.config.sequence_groups.items()):
        followed = [of for of in columns if not is_named(of, tuple(model.config.merge_columns))]
        yield _Flow(number, places[sequence.lower()], tuple(places[of.lower()] for of in followed))


def fold(model: Model, events: DataFrame, shape: Shape) -> DataFrame:
    """One row for each key: of each flow what its newest event says; a delete leaves nulls in the flow's columns."""
    flows = list(_flows(model, shape))
    said = events.withColumn(merging.GIVES, ~F.col("deleted") & (F.col("sign") > 0))
    lacking = present.flags(model, shape)
    folded = said.groupBy(*list_key_images(shape)).agg(
        *[F.expr(of) for flow in flows for of in (_each(flow, lacking) if lacking else [_newest(flow)])],
        *[F.expr(_place(flow)) for flow in flows],
        *[F.expr(alias_as(value, f"a{i}")) for i, value in merging.folded(model, shape, COMMUTATIVE).items()],
        F.lit(False).alias("deleted"),
        F.lit(False).alias("reset"),
        F.bool_or(merging.GIVES).alias(merging.GIVES),
        F.max_by("ts", "order").alias("ts"),
        F.max("seq").alias("seq"),
    )
    if lacking:
        return folded
    values = {f"a{i}": F.col(f"{flow.newest}.a{i}") for flow in flows for i in flow.columns}
    return folded.withColumns(values).drop(*[flow.newest for flow in flows])


def _newest(flow: _Flow) -> Sql:
    """What the newest event of a flow says: of those with a place in the flow's order that take nothing back."""
    place = quote_name(f"a{flow.sequence}")
    images = [
        (fill_statement("CASE WHEN NOT deleted THEN {a} END", a=quote_name(f"a{i}")), f"a{i}") for i in flow.columns
    ]
    newest = fill_statement(
        "max_by({image}, CASE WHEN {place} IS NOT NULL AND (deleted OR sign > 0) THEN struct({place}, `order`) END)",
        image=build_struct(images or [(Sql("0"), "nothing")]),
        place=place,
    )
    return alias_as(newest, flow.newest)


def _each(flow: _Flow, lacking: Sequence[int]) -> list[Sql]:
    """What the newest event with each column says of it, and whether there is one; a delete has all columns."""
    place, found = quote_name(f"a{flow.sequence}"), []
    for i in flow.columns:
        counts = "{place} IS NOT NULL AND (deleted OR (sign > 0 AND {has}))"
        parts = {"a": quote_name(f"a{i}"), "place": place}
        parts["counts"] = fill_statement(counts, place=place, has=present.has(i, lacking))
        newest = fill_statement(
            "max_by(struct(CASE WHEN NOT deleted THEN {a} END AS value), "
            "CASE WHEN {counts} THEN struct({place}, `order`) END).value",
            **parts,
        )
        found.append(alias_as(newest, f"a{i}"))
        found.append(alias_as(fill_statement("bool_or({counts})", **parts), merging.said(i)))
    return found


def _place(flow: _Flow) -> Sql:
    """The place of that event."""
    own = f"a{flow.sequence}"
    return alias_as(fill_statement("max(CASE WHEN deleted OR sign > 0 THEN {place} END)", place=quote_name(own)), own)


def blend(model: Model, joined: DataFrame, shape: Shape) -> DataFrame:
    """What `fold` gives, with the columns of flows that brought nothing, or nothing newer, as they are in the row."""
    values, lacking = merging.blended(model, shape, COMMUTATIVE), present.flags(model, shape)
    for flow in _flows(model, shape):
        a, b = quote_name(f"a{flow.sequence}"), quote_name(f"b{flow.sequence}")
        has_later = "has_before AND NOT reset AND {b} IS NOT NULL AND coalesce({b} > {a}, true)"
        is_late = fill_statement(has_later, a=a, b=b)
        for i in (flow.sequence, *flow.columns):
            is_kept = is_late if i == flow.sequence or not lacking else _is_not_brought(i)
            kept = "CASE WHEN {is_kept} THEN {b} ELSE {a} END"
            values[i] = fill_statement(kept, is_kept=is_kept, a=quote_name(f"a{i}"), b=quote_name(f"b{i}"))
    return joined.withColumns({f"a{i}": F.expr(value) for i, value in values.items()})


def _is_not_brought(place: int) -> Sql:
    """Whether a row keeps its value where no event is late: none of them brings one."""
    return fill_statement(
        "has_before AND NOT reset AND NOT coalesce({said}, false)", said=quote_name(merging.said(place))
    )


def late_keys(model: Model, events: DataFrame, old: DataFrame) -> DataFrame:
    """The keys, each once, of events before the place up to which their flow has written the row.

    `old` are rows of the table; those under other keys may be left out.
    """
    key, places = model.config.primary_key, list(model.config.sequence_groups)
    written = [to_column(of).alias(f"__arctic_p{i}") for i, of in enumerate(places)]
    matched = events.join(old.select(*as_key(key), *written), match_key(events, key))
    is_late = combine_any([to_column(of) < F.col(f"__arctic_p{i}") for i, of in enumerate(places)])
    return matched.where(is_late).select(*[to_column(part) for part in key]).distinct()


def lacks_place(model: Model) -> Expression:
    """Whether an event belongs to no flow."""
    return combine_all([to_column(of).isNull() for of in model.config.sequence_groups])


def raise_unplaced(model: Model, events: DataFrame, count: int) -> NoReturn:
    """Raises DataError with some events that belong to no flow."""
    rows = events.where(lacks_place(model)).limit(3).collect()
    raise DataError(
        f"{model.table}: {count} events have a null in every column of `sequence_by` "
        f"({', '.join(model.config.sequence_groups)}), so they belong to no flow; nothing was written.\n"
        f"{format_examples(rows)}"
        "  what to do: filter them out in the query, or give them a place in the order of their flow"
    )


def check_order(model: Model, events: DataFrame) -> None:
    """Without positions, raises DataError where two events of a key differ and stand at one place in a flow's order."""
    if POSITION in events.columns:
        return
    key = [to_column(part) for part in model.config.primary_key]
    for sequence, columns in model.config.sequence_groups.items():
        named = [to_column(of) for of in events.columns if any(is_same_name(of, own) for own in columns)]
        image = F.expr(identify_row(events.select(*named)))
        found = events.where(to_column(sequence).isNotNull()).groupBy(*key, to_column(sequence))
        ties = found.agg(F.count_distinct(image).alias("different")).where("different > 1").limit(3).collect()
        if ties:
            raise DataError(
                f"{model.table}: events of one key differ but have the same `{sequence}`, and the query does not "
                f"preserve their position; nothing was written.\n{format_examples(ties)}"
                "  what to do: order by a column without ties, or write each part of the query as a plain select from "
                "one changes(…)"
            )
