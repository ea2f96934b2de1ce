"""The rules by which a row is computed from the events of its key: one protocol, one class for each kind of rules.

By them, the change events that a run reads are folded to net events: one per key, with the effect of all its events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import OWN_PREFIX, POSITION, TIMESTAMP, Column, is_same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.diff import build_images, build_struct, find_contract_violation
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, select_from
from arctic_runtime.spark.events import partial_columns, retract, truncate
from arctic_runtime.spark.events.flows import Flows
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.events.newest import NewestEvent
from arctic_runtime.spark.events.one_by_one import OneByOne
from arctic_runtime.spark.events.order import EventOrder, list_order_parts
from arctic_runtime.spark.tables.rows.frames import cast_as, list_frame_columns, query_rows

_IS_DELETE = f"{OWN_PREFIX}is_delete"


class EventRules(Protocol):
    """Rules that compute a table's rows from events by SQL: fold the events of a key, then combine with the stored row.

    `fold` takes *marked* events. Their columns are: a0, a1, …, those of the table; `deleted`, whether the event deletes
    its row; `ts`, its time; `seq`, its value of `_seq`; `sign`, -1 for events that take back an earlier row; `order`, a
    struct by which events are ordered; has0, has1, …, whether the event has a column that events may lack; and
    `extra_columns`.

    `fold` returns *net* events, one per key. Their columns are: a0, a1, …; `deleted`; `reset`, whether an event deleted
    the row, so that no stored value is kept; `ts`; `seq`; and columns that only `blend` reads.
    """

    @property
    def model(self) -> Model: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def partial(self) -> Sequence[int]:
        """Positions of the columns that events may lack."""
        ...

    @property
    def required(self) -> Sequence[int]:
        """Positions of the columns that the events of a key must have if no row of this key is stored yet."""
        ...

    @property
    def late_events(self) -> LateEvents: ...

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        """The orders of a key's events in which there must be no ties."""
        ...

    @property
    def extra_columns(self) -> list[Sql]:
        """Further columns of marked events that only this kind of rules reads."""
        ...

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Builds the query that combines all events of a key into one net event (see the class for its columns).

        `events` is the query for marked events. `order` lists the innermost fields of their struct column `order`, by
        which they are ordered.
        """
        ...

    @property
    def reads_stored_rows(self) -> bool:
        """Whether a new row depends on the stored row as well as on the events, so that `blend` is needed."""
        ...

    def blend(self, joined: Sql) -> Sql:
        """Builds the query for new rows from `joined`: the net event of each key, with the stored row of the key.

        The columns of the stored row are b0, b1, …; `has_before` says whether there is one.
        """
        ...


_KINDS = (Flows, OneByOne, NewestEvent, MergeFunctions)
"""Kinds of rules; a model uses the first kind that applies to its configuration."""


def choose_rules(model: Model, shape: Shape) -> EventRules:
    """Returns the rules by which a model computes rows from events: the first kind that its configuration allows."""
    kind: Callable[[Model, Shape, Sequence[int]], EventRules]
    kind = next(kind for kind in _KINDS if kind.applies_to(model.config))
    return kind(model, shape, partial_columns.find_positions(model, shape))


def net_events(rules: EventRules, events: DataFrame) -> DataFrame:
    """Computes the net event of each key, with the combined effect of all its `events` (see `EventRules`).

    The column `flaw` says how the new row violates the contract, and is null if the row does not violate it.
    """
    known = events.withColumn(_IS_DELETE, is_delete(rules.model, events))
    columns = list_frame_columns(known)
    return query_rows(known, lambda source: fold_events(rules, mark_events(rules, source, columns), columns))


def fold_events(rules: EventRules, marked: Sql, columns: Sequence[Column]) -> Sql:
    """Builds the query that combines events to net events, one per key, and adds the column `flaw`.

    `marked` is the query that `mark_events` returned; `columns` are the columns of the events before that. `flaw` says
    how a row violates the contract.
    """
    folded = rules.fold(marked, list_order_parts(columns))
    flaw = fill_statement("CASE WHEN NOT deleted THEN {flaw} END AS flaw", flaw=find_contract_violation(rules.shape))
    return select_from(folded, [Sql("*"), flaw])


def mark_events(rules: EventRules, events: Sql, columns: Sequence[Column]) -> Sql:
    """Builds the query that adds to events the columns from which `EventRules` computes rows, such as `deleted`.

    `EventRules` describes these columns; its events with them are called marked. `columns` are the columns of `events`.
    """
    model, shape = rules.model, rules.shape
    flagged = partial_columns.add_flags(model, shape, rules.partial, events, columns)
    names = [column.name for column in columns]
    stamp = quote_name(TIMESTAMP) if any(is_same_name(column, TIMESTAMP) for column in names) else Sql("NULL")
    sequence = quote_name(model.config.sequence_by) if model.config.sequence_by else Sql("0")
    order = [(sequence, "sequence"), *((quote_name(POSITION), POSITION) for _ in range(POSITION in names))]
    return select_from(
        flagged,
        [
            *build_images("a", shape, names),
            alias_as(quote_name(_IS_DELETE), "deleted"),
            cast_as(stamp, "timestamp", "ts"),
            cast_as(sequence, shape.sequence_type, "seq"),
            alias_as(retract.read_sign(columns), "sign"),
            alias_as(build_struct(order), "order"),
            *rules.extra_columns,
            *[quote_name(partial_columns.name_presence_flag(i)) for i in rules.partial],
        ],
    )


def blend_rows(rules: EventRules, joined: DataFrame) -> DataFrame:
    """Computes new rows from `joined`: the net event of each key, in one row with the stored row of the key, if any."""
    return query_rows(joined, rules.blend) if rules.reads_stored_rows else joined


def is_delete(model: Model, events: DataFrame) -> Expression:
    """Builds the condition that an event deletes its row: by `delete_when`, or since it comes from a truncation.

    Truncations are replaced by deletes of all keys (see `spread_truncations`).
    """
    predicate = model.config.delete_when
    deletes = F.coalesce(F.expr(predicate), F.lit(False)) if predicate else F.lit(False)
    return truncate.is_spread(events) | deletes
