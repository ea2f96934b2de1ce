"""Assigns the events of a topic to the tables that share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Declared, EventFormat

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression


@dataclass(frozen=True)
class TopicTable:
    """A table of a Kafka source: its name in the source, its topic, and the columns that the user declares."""

    name: str
    topic: str
    columns: Declared = field(default_factory=dict)


def check_topics(tables: Sequence[TopicTable], form: EventFormat) -> None:
    """Raises ConfigError if tables share a topic whose events do not name their table unambiguously."""
    by_topic: dict[str, list[TopicTable]] = {}
    for table in tables:
        by_topic.setdefault(table.topic, []).append(table)
    for topic, sharing in by_topic.items():
        names = [_get_event_table_name(table, form) for table in sharing]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if len(sharing) > 1 and (form.table is None or twice):
            raise ConfigError(
                f"Tables share the topic {topic}, and events of the format {form.name} don't name their table: "
                f"{', '.join(table.name for table in sharing)}",
                fix="give each table a topic of its own",
            )


def belongs_to(table: TopicTable, sharing: Sequence[TopicTable], form: EventFormat) -> Expression:
    """Builds the condition that an event of a topic belongs to `table`; `sharing` are all tables of the topic.

    An event that names no table belongs to the first of `sharing`, and becomes a dead letter of that table. Events of
    tables that are not ingested belong to none.
    """
    from pyspark.sql import functions as F

    from arctic_runtime.ingest.transports.payload_parts import extract_payload_part

    if form.table is None:
        return F.lit(table == sharing[0])
    name = extract_payload_part(form.table)
    if form.namespace is not None and _has_namespace(table):
        name = F.concat_ws(".", extract_payload_part(form.namespace), name)
    is_own = name.eqNullSafe(F.lit(_get_event_table_name(table, form)))
    return is_own | extract_payload_part(form.table).isNull() if table == sharing[0] else is_own


def _get_event_table_name(table: TopicTable, form: EventFormat) -> str:
    """Returns the table's name as events contain it: with its schema if the format has a `namespace`, else without."""
    return table.name if form.namespace is not None else table.name.rpartition(".")[2]


def _has_namespace(table: TopicTable) -> bool:
    return "." in table.name
