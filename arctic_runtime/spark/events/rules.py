"""The rules by which the events of a key make its row: one protocol, one object for each kind of rules."""

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
    """Rules of one kind, for one table.

    They are texts of SQL over *marked* events. Their columns are the table's, a0, a1, …; `deleted`, whether the event
    deletes its row; `ts`, its time; `seq`, its value of `_seq`; `sign`, -1 for events that take another one back;
    `order`, its place among all events; has0, has1, …, whether the event has a column that events may lack; and
    `extra_columns`.

    `fold` makes *net* events of them, one for each key. Their columns are a0, a1, …; `deleted`; `reset`, whether any of
    them deleted the row, so that nothing of a stored row is kept; `ts`; `seq`; and what `blend` reads.
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
        """Positions of the columns that a row without a stored one must get from its events."""
        ...

    @property
    def late_events(self) -> LateEvents: ...

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        """The orders in which events of a key are compared."""
        ...

    @property
    def extra_columns(self) -> list[Sql]:
        """Columns of marked events that these rules alone read."""
        ...

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Query for net events of marked `events`; `order` are the innermost fields of their column `order`."""
        ...

    @property
    def reads_stored_rows(self) -> bool:
        """Whether stored rows have a part in new ones."""
        ...

    def blend(self, joined: Sql) -> Sql:
        """Query for new rows: of net events beside the stored row of their key, b0, b1, … where `has_before`."""
        ...


_KINDS = (Flows, OneByOne, NewestEvent, MergeFunctions)
"""Kinds of rules; a model has the first kind that applies to its configuration."""


def choose_rules(model: Model, shape: Shape) -> EventRules:
    """The rules by which a model folds its events."""
    kind: Callable[[Model, Shape, Sequence[int]], EventRules]
    kind = next(kind for kind in _KINDS if kind.applies_to(model.config))
    return kind(model, shape, partial_columns.find_positions(model, shape))
