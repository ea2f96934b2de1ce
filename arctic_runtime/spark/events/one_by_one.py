"""Applies the events of a key one by one, in their order, for rows that no aggregate over the events can compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import LiteralString

from arctic_runtime.ivm.frontend.configured_expressions import NEW, OLD, bind_rows, list_row_columns
from arctic_runtime.model.columns import Column
from arctic_runtime.model.merge_columns import FUNCTIONS, get_function, select_expressions
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import build_struct, key_names
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    quote_name,
    replace_columns,
    select_from,
    type_name,
    write_expression,
)
from arctic_runtime.spark.events import partial_columns
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.newest import is_newest_event
from arctic_runtime.spark.events.order import EventOrder, find_orders
from arctic_runtime.sql.types import format_array_type, format_struct_type

_EVENTS, _STATES, _PLACES = Sql("events"), Sql("states"), Sql("places")
_OLD, _NEW, _EXISTS = "__arctic_old", "__arctic_new", "there"

_FIRST: Mapping[str, LiteralString] = {
    "sum": "{new} * {sign}",
    "union": "CASE WHEN {sign} > 0 THEN array_sort(array_distinct({new})) END",
}
"""Value of a column after the first event of a row, by the name of the merge function.

All other functions take the event's value."""

_NEXT: Mapping[str, LiteralString] = {
    "last": "CASE WHEN {sign} > 0 THEN {new} ELSE {old} END",
    "last_non_null": "coalesce(CASE WHEN {sign} > 0 THEN {new} END, {old})",
    "first": "{old}",
    "sum": "coalesce({old} + {new} * {sign}, {old}, {new} * {sign})",
    "max": "greatest({old}, CASE WHEN {sign} > 0 THEN {new} END)",
    "min": "least({old}, CASE WHEN {sign} > 0 THEN {new} END)",
    "union": "CASE WHEN {sign} > 0 THEN coalesce(array_sort(array_union({old}, {new})), {new}, {old}) ELSE {old} END",
}
"""Value of a column after a further event, by the name of the merge function.

{old} is the value before the event, {new} the event's value, and {sign} -1 if the event takes back an earlier row."""


@dataclass(frozen=True)
class OneByOne:
    """Rules by which each event changes the row that the previous event left.

    With `keep: all` the table's history keeps each of these rows as a change. `partial` are the positions of the
    columns that events may lack.
    """

    model: Model
    shape: Shape
    partial: Sequence[int] = ()
    required: Sequence[int] = ()

    @staticmethod
    def applies_to(config: ModelConfig) -> bool:
        return config.keep == "all" or bool(select_expressions(config.merge_columns))

    @property
    def late_events(self) -> LateEvents:
        return "lose" if is_newest_event(self.model.config) else "recompute"

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        return find_orders(self.model)

    @property
    def extra_columns(self) -> list[Sql]:
        """Event columns that merge expressions refer to, under generated names; the table need not have them."""
        return [alias_as(quote_name(column), own) for column, own in self._expression_columns().items()]

    @property
    def reads_stored_rows(self) -> bool:
        return True

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Builds the query for one row per key: an array of its events in order, and the row after all of them.

        That row is the new row if none is stored for the key; otherwise `blend` applies the array to the stored row.
        """
        del order
        images = [f"a{i}" for i in range(len(self.shape.columns))]
        flags = map(partial_columns.name_presence_flag, self.partial)
        own = ["order", "deleted", "sign", "ts", "seq", *self._expression_columns().values(), *images, *flags]
        in_order = (
            "array_sort(collect_list({event}), (l, r) -> CASE WHEN l.`order` < r.`order` THEN -1 "
            "WHEN l.`order` > r.`order` THEN 1 ELSE 0 END)"
        )
        events_of_key = fill_statement(in_order, event=build_struct((quote_name(column), column) for column in own))
        keys = [quote_name(f"a{i}") for i in self.shape.key_positions]
        collected = select_from(
            events, [*keys, alias_as(events_of_key, _EVENTS), Sql("false AS reset")], by=key_names(self.shape)
        )
        folded = self._apply_all(collected, Sql("false"))
        values = self._outcome(("state",), ("event",))
        return select_from(folded, [_EVENTS, Sql("reset"), *(alias_as(value, own) for own, value in values.items())])

    def blend(self, joined: Sql) -> Sql:
        """Builds the query that applies each key's array of events to its stored row.

        The result has one row per key, or with `keep: all` one per event.
        """
        exists = Sql("has_before AND NOT reset")
        if self.model.config.keep == "all":
            return self._blend_each(joined, exists)
        applied = self._apply_all(joined, exists)
        return replace_columns(applied, self._outcome(("state",), ("event",)), drop=("state", "event"))

    def _apply_all(self, rows: Sql, exists: Sql) -> Sql:
        """Builds the query that applies each key's array of events in order, and adds the results as columns.

        `state` is the row after the last event, `event` the last event. `exists` is the condition that a row is stored.
        """
        state = fill_statement(
            "aggregate({events}, {start}, ({old}, {new}) -> {next}) AS state",
            events=_EVENTS,
            start=build_struct(_start_row(self.shape, exists)),
            next=build_struct(self._next_row()),
            old=quote_name(_OLD),
            new=quote_name(_NEW),
        )
        return select_from(rows, [Sql("*"), state, Sql("element_at(events, -1) AS event")])

    def _outcome(self, state: tuple[str, ...], event: tuple[str, ...]) -> dict[str, Sql]:
        """Builds the columns of a net event by name: row values from the struct `state`, times from the struct `event`.

        Both parameters are given as the parts of a column name.
        """
        return {
            **{f"a{i}": quote_name(*state, f"a{i}") for i in range(len(self.shape.columns))},
            "deleted": fill_statement("NOT {exists}", exists=quote_name(*state, _EXISTS)),
            **{own: quote_name(*event, own) for own in ("ts", "seq")},
        }

    def _blend_each(self, joined: Sql, exists: Sql) -> Sql:
        """Builds the query for one row per event, with the table's row before and after the event.

        Events of a key with the same `sequence_by` value count as one event. A row that was computed from all events of
        its key (`reset`) counts as one change of the stored row. `exists` is the condition that a row is stored.
        """
        parts = {"events": _EVENTS, "states": _STATES, "places": _PLACES}
        is_last = "k = size({events}) - 1 OR NOT (get({events}, k).seq <=> get({events}, k + 1).seq)"
        places = fill_statement(
            "filter(sequence(0, size({events}) - 1), k -> {is_last}) AS {places}",
            is_last=fill_statement(is_last if self.shape.is_ordered else "true", **parts),
            **parts,
        )
        placed = select_from(joined, [Sql("*"), alias_as(self._list_states(exists), _STATES), places])
        seq = "get({events}, k).seq" if self.shape.is_ordered else "CAST(k + 1 AS bigint)"
        each = fill_statement(
            "transform({places}, (k, j) -> struct(get({states}, coalesce(get({places}, j - 1) + 1, 0)) AS was, "
            "get({states}, k + 1) AS state, struct(get({events}, k).ts AS ts, {seq} AS seq) AS event))",
            seq=fill_statement(seq, **parts),
            **parts,
        )
        last = "struct(element_at({events}, -1).ts AS ts, element_at({events}, -1).seq AS seq)"
        # A row that was computed from all events of its key is one change of the stored row.
        recomputed = fill_statement(
            "array(struct({row} AS was, element_at({states}, -1) AS state, {last} AS event))",
            row=build_struct(_start_row(self.shape, Sql("has_before"))),
            last=fill_statement(last, **parts),
            **parts,
        )
        change = "explode(CASE WHEN reset THEN {recomputed} ELSE {each} END) AS change"
        changes = select_from(placed, [Sql("*"), fill_statement(change, recomputed=recomputed, each=each)])
        before = {f"b{i}": quote_name("change", "was", f"a{i}") for i in range(len(self.shape.columns))}
        after = self._outcome(("change", "state"), ("change", "event"))
        values = {**after, **before, "has_before": quote_name("change", "was", _EXISTS)}
        return replace_columns(changes, values, drop=("change", _STATES, _PLACES))

    def _list_states(self, exists: Sql) -> Sql:
        """Builds the array of a key's rows: the row before each event, and at the end the row after the last event."""
        types = [(_EXISTS, "boolean"), *((f"a{i}", column.type) for i, column in enumerate(self.shape.columns))]
        before = build_struct([(quote_name(_OLD, column), column) for column, _ in types])
        # Each event appends the row before it, so that the row after it is computed only once.
        longer = fill_statement("array_append({states}, {before})", states=quote_name(_OLD, _STATES), before=before)
        none = fill_statement("CAST(array() AS {kind})", kind=type_name(format_array_type(format_struct_type(types))))
        return fill_statement(
            "aggregate({events}, {start}, ({old}, {new}) -> {next}, {old} -> {longer})",
            events=_EVENTS,
            start=build_struct([*_start_row(self.shape, exists), (none, _STATES)]),
            next=build_struct([*self._next_row(), (longer, _STATES)]),
            longer=longer,
            old=quote_name(_OLD),
            new=quote_name(_NEW),
        )

    def _next_row(self) -> Iterator[tuple[Sql, str]]:
        """Yields value and name of each field of the row after an event, computed from the row before it."""
        yield fill_statement("NOT {deleted}", deleted=quote_name(_NEW, "deleted")), _EXISTS
        for i, column in enumerate(self.shape.columns):
            yield _cast(self._next_value(i), column), f"a{i}"

    def _next_value(self, position: int) -> Sql:
        column = self.shape.columns[position]
        parts = {
            "old": quote_name(_OLD, f"a{position}"),
            "new": quote_name(_NEW, f"a{position}"),
            "sign": quote_name(_NEW, "sign"),
        }
        if self.shape.is_key(column.name):
            return parts["new"]
        flags = {"deleted": quote_name(_NEW, "deleted"), "exists": quote_name(_OLD, _EXISTS)}
        if not is_named(column.name, self.shape.given):
            return fill_statement("CASE WHEN {exists} AND NOT {deleted} THEN {old} END", **flags, **parts)
        function = get_function(self.model.config.merge_columns, self.model.config.on_match, column.name)
        first = fill_statement(_FIRST.get(function, "CASE WHEN {sign} > 0 THEN {new} END"), **parts)
        following = fill_statement(_NEXT[function], **parts) if function in FUNCTIONS else self._over_rows(function)
        case = "CASE WHEN {exists} THEN {following} ELSE {first} END"
        value = fill_statement(case, following=following, first=first, **flags)
        if position in self.partial:
            brought = "CASE WHEN {has} THEN {value} WHEN {exists} THEN {old} END"
            has = quote_name(_NEW, partial_columns.name_presence_flag(position))
            value = fill_statement(brought, has=has, value=value, **flags, **parts)
        return fill_statement("CASE WHEN NOT {deleted} THEN {value} END", value=value, **flags)

    def _over_rows(self, text: str) -> Sql:
        stored = {column.name: f"a{i}" for i, column in enumerate(self.shape.columns)}
        return write_expression(bind_rows(text, {OLD: (_OLD, stored), NEW: (_NEW, self._expression_columns())}))

    def _expression_columns(self) -> dict[str, str]:
        texts = select_expressions(self.model.config.merge_columns).values()
        columns = dict.fromkeys(column for text in texts for column in list_row_columns(text, NEW))
        return {column: f"n{i}" for i, column in enumerate(columns)}


def _start_row(shape: Shape, exists: Sql) -> Iterator[tuple[Sql, str]]:
    """Yields value and name of each field of the stored row, to which the first event is applied.

    `exists` is the condition that it exists; if it is constantly false, all values are null.
    """
    yield exists, _EXISTS
    for i, column in enumerate(shape.columns):
        value = Sql("NULL") if exists == "false" else quote_name(f"b{i}")
        yield _cast(value, column), f"a{i}"


def _cast(value: Sql, column: Column) -> Sql:
    return fill_statement("CAST({value} AS {kind})", value=value, kind=type_name(column.type))
