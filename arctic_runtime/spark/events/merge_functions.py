"""Merges rows column by column: a function computes each value from the events of the key and the stored row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import LiteralString

from arctic_runtime.model.merge_columns import FUNCTIONS, get_function
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import key_names, name_provided_flag
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    replace_columns,
    select_from,
    type_name,
)
from arctic_runtime.spark.events import partial_columns
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.order import EventOrder, find_orders

_GIVES = Sql("(NOT deleted AND sign > 0)")
"""Condition that an event sets values of its row: it is no delete, and does not take back an earlier row (sign -1)."""

_HAS_GIVEN = "gives"
"""Name of a column of net events: whether any event of the key is an insert or update, which sets values."""

_FOLDED: Mapping[str, LiteralString] = {
    "last": "max_by(struct({a} AS value), CASE WHEN {gives} AND {has} THEN `order` END).value",
    "last_non_null": "max_by({a}, CASE WHEN {gives} AND {a} IS NOT NULL THEN `order` END)",
    "first": "min_by(struct({a} AS value), CASE WHEN {gives} THEN `order` END).value",
    "sum": "sum(CASE WHEN NOT deleted THEN {a} * sign END)",
    "max": "max(CASE WHEN {gives} THEN {a} END)",
    "min": "min(CASE WHEN {gives} THEN {a} END)",
    "union": (
        "CASE WHEN count(CASE WHEN {gives} THEN {a} END) > 0 "
        "THEN array_sort(array_distinct(flatten(collect_list(CASE WHEN {gives} THEN {a} END)))) END"
    ),
}
"""Aggregate of a column over the events of a key from its last delete on, by the name of the merge function."""

_BLENDED: Mapping[str, LiteralString] = {
    "last": "CASE WHEN {is_brought} THEN {a} ELSE {b} END",
    "last_non_null": "coalesce({a}, {b})",
    "first": "{b}",
    "sum": "coalesce({a} + {b}, {a}, {b})",
    "max": "greatest({a}, {b})",
    "min": "least({a}, {b})",
    "union": "coalesce(array_sort(array_union({a}, {b})), {a}, {b})",
}
"""Expression that combines the value of new events ({a}) with the stored value ({b}), by the name of the function."""


@dataclass(frozen=True)
class MergeFunctions:
    """Rules by which a function, such as `sum` or `last`, computes each column outside the key from the key's events.

    `partial` are the positions of the columns that events may lack. `required` are the positions of columns that events
    must have if no row of their key is stored.
    """

    model: Model
    shape: Shape
    partial: Sequence[int] = ()
    required: Sequence[int] = ()
    late_events: LateEvents = "recompute"
    reads_stored_rows: bool = True

    @staticmethod
    def applies_to(_: ModelConfig) -> bool:
        return True

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        return find_orders(self.model)

    @property
    def extra_columns(self) -> list[Sql]:
        return []

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Builds the query for the net event of each key, by each column's function over the key's events.

        If a key has deletes, only events from its last delete on count.
        """
        del order
        columns = [
            *[quote_name(f"a{i}") for i in self.shape.key_positions],
            *[alias_as(value, f"a{i}") for i, value in self.fold_columns().items()],
            *self.fold_flags(),
            fold_gives(),
            *[Sql("bool_and(deleted) AS deleted"), Sql("bool_or(deleted) AS reset")],
            *[Sql("max_by(ts, `order`) AS ts"), Sql("max_by(seq, `order`) AS seq")],
        ]
        return select_from(select_since_delete(events, self.shape), columns, by=key_names(self.shape))

    def blend(self, joined: Sql) -> Sql:
        """Builds the query for new rows from `joined`, the net event of each key with the stored row of the key.

        The net event combines the key's new events. A stored row that an event has deleted is ignored.
        """
        return replace_columns(joined, {f"a{i}": value for i, value in self.blend_columns().items()})

    def fold_columns(self, functions: Sequence[str] = FUNCTIONS) -> dict[int, Sql]:
        """Builds the aggregate over a key's events for each column whose function is in `functions`, by position."""
        return {
            i: self._fill(_FOLDED[function], i, gives=_GIVES, has=partial_columns.has_column(i, self.partial))
            for i, function in self._functions().items()
            if function in functions
        }

    def fold_flags(self) -> list[Sql]:
        """Builds flag aggregates, one for each column that events may lack: whether any event of the key has it."""
        return partial_columns.fold_flags(self.partial, _GIVES)

    def blend_columns(self, functions: Sequence[str] = FUNCTIONS) -> dict[int, Sql]:
        """Builds the new values of columns whose function is in `functions`, by column position.

        The value of the events is combined with the stored one, or taken alone if no row is stored or an event deleted
        it.
        """
        case = "CASE WHEN has_before AND NOT reset THEN {blended} ELSE {a} END"
        return {
            i: fill_statement(case, blended=self._blend_column(i, function), a=quote_name(f"a{i}"))
            for i, function in self._functions().items()
            if function in functions
        }

    def _blend_column(self, position: int, function: str) -> Sql:
        return self._fill(_BLENDED[function], position, is_brought=self._is_brought(position))

    def _is_brought(self, position: int) -> Sql:
        return quote_name(name_provided_flag(position) if position in self.partial else _HAS_GIVEN)

    def _functions(self) -> dict[int, str]:
        """Returns the name of the merge function of each column outside the key, by the column's position."""
        config = self.model.config
        return {
            i: get_function(config.merge_columns, config.on_match, self.shape.columns[i].name)
            for i in self.shape.rest_positions
        }

    def _fill(self, template: LiteralString, position: int, **parts: Sql) -> Sql:
        value = fill_statement(template, a=quote_name(f"a{position}"), b=quote_name(f"b{position}"), **parts)
        return fill_statement("CAST({value} AS {kind})", value=value, kind=type_name(self.shape.columns[position].type))


def fold_gives() -> Sql:
    """Builds the aggregate `gives` over a key's events: whether any is an insert or update, so that it sets values."""
    return alias_as(fill_statement("bool_or({gives})", gives=_GIVES), _HAS_GIVEN)


def select_since_delete(events: Sql, shape: Shape) -> Sql:
    """Builds the query for each key's events from its last delete on, or for all of them if it has no delete."""
    last_delete = fill_statement(
        "max(CASE WHEN deleted THEN `order` END) OVER (PARTITION BY {key}) AS last_delete",
        key=join_parts(key_names(shape)),
    )
    is_since = Sql("last_delete IS NULL OR `order` >= last_delete")
    return select_from(select_from(events, [Sql("*"), last_delete]), [Sql("*")], where=is_since)
