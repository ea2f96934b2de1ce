"""The order of a key's events: the columns that define it, and the check that it has no ties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.columns import POSITION, Column
from arctic_runtime.model.shape import is_named
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.equality import identify_row
from arctic_runtime.spark.engine.statement import Sql, quote_name
from arctic_runtime.spark.tables.rows.frames import format_examples, to_column
from arctic_runtime.sql.types import Struct, Type, read_type


@dataclass(frozen=True)
class EventOrder:
    """An order of a key's events by the column `sequence`.

    `columns` are the columns whose values depend on this order, if columns are ordered separately (`sequence_groups`);
    None means all columns.
    """

    sequence: str
    columns: tuple[str, ...] | None = None


def find_orders(model: Model) -> tuple[EventOrder, ...]:
    """Returns the order by the column `sequence_by`; no order if the model does not set it."""
    return (EventOrder(model.config.sequence_by),) if model.config.sequence_by is not None else ()


def list_order_parts(columns: Sequence[Column]) -> list[Sql]:
    """Lists the innermost fields of the struct column `order` of marked events, which `mark_events` builds.

    `columns` are the columns of the events before `mark_events`.
    """
    position = next((event_column.type for event_column in columns if event_column.name == POSITION), None)
    parts = [] if position is None else list(_list_leaves(read_type(position)))
    return [quote_name("order", "sequence"), *(quote_name("order", POSITION, *leaf) for leaf in parts)]


def _list_leaves(position: Type) -> Iterator[tuple[str, ...]]:
    match position:
        case Struct(fields):
            for field, field_type in fields:
                yield from ((field, *leaf) for leaf in _list_leaves(field_type))
        case _:
            yield ()


def check_order(model: Model, orders: Sequence[EventOrder], events: DataFrame) -> None:
    """Raises DataError if two different events of a key have the same value in the column of one of `orders`.

    Events with the column POSITION are not checked, since positions are unique. Raises ConfigError if there is neither
    this column nor an order.
    """
    if POSITION in events.columns:
        return
    if not orders:
        raise ConfigError(
            f"{model.table}: the order of events is unknown.",
            expected="`sequence_by`, or a plain select over one changes(…) of a format version 3 table",
            fix="set `sequence_by` to the column that orders the events",
        )
    for order in orders:
        rows = _find_ties(model, order, events).limit(3).collect()
        if rows:
            raise DataError(
                f"{model.table}: events of one key differ but have the same {_describe(order)}, and the query does "
                "not preserve their position; nothing was written.\n"
                f"{format_examples(rows)}",
                fix=_advice(order),
            )


def _find_ties(model: Model, order: EventOrder, events: DataFrame) -> DataFrame:
    own = [to_column(event) for event in events.columns if order.columns is None or is_named(event, order.columns)]
    place = [*(to_column(part) for part in model.config.entity_key), to_column(order.sequence)]
    image = F.expr(identify_row(events.select(*own)))
    placed = events.where(to_column(order.sequence).isNotNull())
    return placed.groupBy(*place).agg(F.count_distinct(image).alias("different")).where("different > 1")


def _describe(order: EventOrder) -> str:
    return f"`sequence_by` value ({order.sequence})" if order.columns is None else f"`{order.sequence}`"


def _advice(order: EventOrder) -> str:
    if order.columns is None:
        return "set `sequence_by` to a column without ties, or write a plain select from one changes(…)"
    return "order by a column without ties, or write each part of the query as a plain select from one changes(…)"
