"""Tables share a topic only where its events tell them apart."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.registry import make_format
from arctic_runtime.ingest.transports.kafka.transport import TopicTable, check_topics


@pytest.mark.parametrize(
    ("format_name", "names"),
    [
        ("canal", ["shop.orders", "shop.items"]),
        ("canal", ["shop.orders", "archive.orders"]),
        ("maxwell", ["orders", "items"]),
        ("debezium", ["public.orders", "public.items"]),
    ],
)
def test_tables_that_events_tell_apart_may_share_a_topic(format_name: str, names: list[str]) -> None:
    check_topics([TopicTable(name, "all") for name in names], make_format(format_name, {}).events)


@pytest.mark.parametrize(
    ("format_name", "names"), [("rows", ["orders", "items"]), ("debezium", ["shop.orders", "archive.orders"])]
)
def test_tables_that_events_do_not_tell_apart_are_named(format_name: str, names: list[str]) -> None:
    form = make_format(format_name, {}).events
    with pytest.raises(ConfigError, match=rf"share the topic all(?s:.*){', '.join(names)}"):
        check_topics([TopicTable(name, "all") for name in names], form)
    check_topics([TopicTable(name, name) for name in names], form)
