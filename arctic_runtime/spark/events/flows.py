"""Computes rows whose columns are set by several flows: a flow is a stream of events that sets some of the columns.

Flows are configured by a `sequence_by` with several order columns, one per flow. The table stores in the order columns
of each row the highest value of each flow's applied events. An event is late if the stored value of its own flow is
higher; other flows do not matter. Events of earlier runs are read again only if events may lack columns of their flow:
a late event may then be the newest one that has some column, so its row is computed from all events of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.merge_columns import COMMUTATIVE
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import build_struct, key_names, name_provided_flag
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    quote_name,
    replace_columns,
    select_from,
)
from arctic_runtime.spark.events import partial_columns
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.merge_functions import MergeFunctions, fold_gives
from arctic_runtime.spark.events.order import EventOrder
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    combine_all,
    combine_any,
    format_examples,
    match_key,
    to_column,
)


@dataclass(frozen=True)
class _Flow:
    """The columns of one flow, as positions in the table: `sequence` orders the flow's events, which set `columns`.

    `columns` does not include those with a merge function. `number` is the flow's index in the configuration.
    """

    number: int
    sequence: int
    columns: tuple[int, ...]

    @property
    def newest(self) -> str:
        return f"flow{self.number}"


@dataclass(frozen=True)
class Flows:
    """Rules for rows whose columns are set by several flows: the newest event of a flow sets the flow's columns.

    A flow is a stream of events with an order column of its own (`sequence_groups` in the configuration). Columns with
    a merge function are computed from all events. `partial` are the positions of the columns that events may lack,
    `required` those of the columns that events must have if no row of their key is stored.
    """

    model: Model
    shape: Shape
    partial: Sequence[int] = ()
    required: Sequence[int] = ()

    @staticmethod
    def applies_to(config: ModelConfig) -> bool:
        return bool(config.sequence_groups)

    @property
    def late_events(self) -> LateEvents:
        return "recompute_by_flow" if self.model.config.has_partial_events else "fold"

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        return tuple(EventOrder(sequence, tuple(own)) for sequence, own in self.model.config.sequence_groups.items())

    @property
    def extra_columns(self) -> list[Sql]:
        return []

    @property
    def reads_stored_rows(self) -> bool:
        return True

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Builds the query for one row per key: for each flow, the column values of its newest event.

        If that event is a delete, the flow's columns are null.
        """
        del order
        flows, functions = self._flows(), MergeFunctions(self.model, self.shape, self.partial)
        folded = select_from(
            events,
            [
                *[quote_name(f"a{i}") for i in self.shape.key_positions],
                *[part for flow in flows for part in (self._fold_each(flow) if self.partial else [_fold_newest(flow)])],
                *[_fold_place(flow) for flow in flows],
                *[alias_as(value, f"a{i}") for i, value in functions.fold_columns(COMMUTATIVE).items()],
                *[Sql("false AS deleted"), Sql("false AS reset"), fold_gives()],
                *[Sql("max_by(ts, `order`) AS ts"), Sql("max(seq) AS seq")],
            ],
            by=key_names(self.shape),
        )
        if self.partial:
            return folded
        values = [alias_as(quote_name(flow.newest, f"a{i}"), f"a{i}") for flow in flows for i in flow.columns]
        return replace_columns(select_from(folded, [Sql("*"), *values]), {}, drop=[flow.newest for flow in flows])

    def blend(self, joined: Sql) -> Sql:
        """Builds the query for new rows from `joined`, the net event of each key with the stored row of the key.

        The columns of a flow keep their stored values if the stored value of the flow's order column is higher; if
        events may lack columns, a column keeps its stored value if no event has the column.
        """
        values = MergeFunctions(self.model, self.shape, self.partial).blend_columns(COMMUTATIVE)
        for flow in self._flows():
            a, b = quote_name(f"a{flow.sequence}"), quote_name(f"b{flow.sequence}")
            has_later = "has_before AND NOT reset AND {b} IS NOT NULL AND coalesce({b} > {a}, true)"
            is_late = fill_statement(has_later, a=a, b=b)
            for i in (flow.sequence, *flow.columns):
                is_kept = is_late if i == flow.sequence or not self.partial else _is_not_brought(i)
                kept = "CASE WHEN {is_kept} THEN {b} ELSE {a} END"
                values[i] = fill_statement(kept, is_kept=is_kept, a=quote_name(f"a{i}"), b=quote_name(f"b{i}"))
        return replace_columns(joined, {f"a{i}": value for i, value in values.items()})

    def _flows(self) -> list[_Flow]:
        positions = {kept.name.lower(): i for i, kept in enumerate(self.shape.columns)}
        flows = []
        for number, (sequence, columns) in enumerate(self.model.config.sequence_groups.items()):
            followed = [own for own in columns if not is_named(own, tuple(self.model.config.merge_columns))]
            flows.append(_Flow(number, positions[sequence.lower()], tuple(positions[own.lower()] for own in followed)))
        return flows

    def _fold_each(self, flow: _Flow) -> list[Sql]:
        """Builds for each column of `flow` its value in the newest event that has the column, and a flag if any has it.

        A delete counts as an event that has all columns, with null values.
        """
        place, folded = quote_name(f"a{flow.sequence}"), []
        for i in flow.columns:
            counts = "{place} IS NOT NULL AND (deleted OR (sign > 0 AND {has}))"
            parts = {"a": quote_name(f"a{i}"), "place": place}
            parts["counts"] = fill_statement(counts, place=place, has=partial_columns.has_column(i, self.partial))
            newest = fill_statement(
                "max_by(struct(CASE WHEN NOT deleted THEN {a} END AS value), "
                "CASE WHEN {counts} THEN struct({place}, `order`) END).value",
                **parts,
            )
            folded.append(alias_as(newest, f"a{i}"))
            folded.append(alias_as(fill_statement("bool_or({counts})", **parts), name_provided_flag(i)))
        return folded


def _fold_newest(flow: _Flow) -> Sql:
    """Builds the aggregate for the columns of a flow's newest event, as a struct.

    Ignored are events with a null in the flow's order column, and events that take back a row.
    """
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


def _fold_place(flow: _Flow) -> Sql:
    """Builds the aggregate for the highest value of a flow's order column, over events that do not take back a row."""
    own = f"a{flow.sequence}"
    return alias_as(fill_statement("max(CASE WHEN deleted OR sign > 0 THEN {place} END)", place=quote_name(own)), own)


def _is_not_brought(position: int) -> Sql:
    """Builds the condition that the stored value of a column stays: a row is stored, and no event has the column."""
    flag = quote_name(name_provided_flag(position))
    return fill_statement("has_before AND NOT reset AND NOT coalesce({flag}, false)", flag=flag)


def find_late_keys(model: Model, events: DataFrame, old: DataFrame) -> DataFrame:
    """Returns the distinct keys of late events: their flow's order column has a lower value than the stored row has.

    `old` has rows of the table; only those with keys of `events` are needed.
    """
    key, places = model.config.primary_key, list(model.config.sequence_groups)
    written = [to_column(sequence).alias(f"__arctic_p{i}") for i, sequence in enumerate(places)]
    matched = events.join(old.select(*as_key(key), *written), match_key(events, key))
    is_late = combine_any([to_column(sequence) < F.col(f"__arctic_p{i}") for i, sequence in enumerate(places)])
    return matched.where(is_late).select(*[to_column(part) for part in key]).distinct()


def lacks_flow(model: Model) -> Expression:
    """Builds the condition that an event belongs to no flow: all flows' order columns are null."""
    return combine_all([to_column(sequence).isNull() for sequence in model.config.sequence_groups])


def raise_without_flow(model: Model, events: DataFrame, count: int) -> NoReturn:
    """Raises DataError for events that belong to no flow, with up to three of them; `count` is their number."""
    rows = events.where(lacks_flow(model)).limit(3).collect()
    raise DataError(
        f"{model.table}: {count} events have a null in every column of `sequence_by` "
        f"({', '.join(model.config.sequence_groups)}), so they belong to no flow; nothing was written.\n"
        f"{format_examples(rows)}",
        fix="filter them out in the query, or give them a place in the order of their flow",
    )
