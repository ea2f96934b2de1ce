"""Rules for tables in which each row equals the newest event of its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import key_names
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, select_from
from arctic_runtime.spark.events.late import LateEvents
from arctic_runtime.spark.events.order import EventOrder, find_orders


def is_newest_event(config: ModelConfig) -> bool:
    """Whether each row of the model equals the newest event of its key, so that older events do not matter."""
    is_whole = config.on_match == "replace" and not config.has_partial_events
    return is_whole and not config.merge_columns and not config.sequence_groups


@dataclass(frozen=True)
class NewestEvent:
    """Rules by which the newest event of a key replaces the key's row."""

    model: Model
    shape: Shape
    partial: Sequence[int] = ()
    required: Sequence[int] = ()
    late_events: LateEvents = "lose"
    reads_stored_rows: bool = False

    @staticmethod
    def applies_to(config: ModelConfig) -> bool:
        return is_newest_event(config)

    @property
    def orders(self) -> tuple[EventOrder, ...]:
        return find_orders(self.model)

    @property
    def extra_columns(self) -> list[Sql]:
        return []

    def fold(self, events: Sql, order: list[Sql]) -> Sql:
        """Builds the query for the newest event of each key, by the fields `order`.

        The fields are compared one by one, which is faster than a comparison of structs. `lag` is used instead of
        `row_number`: for the latter Spark sorts the rows once more before the shuffle, to drop all but the first of
        each key, and hardly any would be dropped here.
        """
        newer = fill_statement(
            "lag(true) OVER (PARTITION BY {key} ORDER BY {order}) AS newer",
            key=join_parts(key_names(self.shape)),
            order=join_parts(fill_statement("{part} DESC", part=part) for part in order),
        )
        images = [quote_name(f"a{i}") for i in range(len(self.shape.columns))]
        columns = [*images, *map(quote_name, ("deleted", "ts", "seq")), Sql("deleted AS reset")]
        return select_from(select_from(events, [Sql("*"), newer]), columns, where=Sql("newer IS NULL"))

    def blend(self, joined: Sql) -> Sql:
        return joined
