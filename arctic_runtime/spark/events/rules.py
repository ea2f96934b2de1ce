"""The rules by which a row is computed from the events of its key: one protocol, one class for each kind of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql
from arctic_runtime.spark.events import partial_columns
from arctic_runtime.spark.events.flows import Flows
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.events.newest import NewestEvent
from arctic_runtime.spark.events.one_by_one import OneByOne
from arctic_runtime.spark.events.order import EventOrder


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
