"""Positions as their transports read them: in the terms of the source, short for people, without definitions."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.connectors import CONNECTORS, get_position_parser
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.kafka.offsets import encode_offsets
from arctic_runtime.model.sources.positions import keep_opaque

WAL = Position({"server": "s"}, {"lsn": 26, "lsn_commit": 26}, {"tx": 1, "lsn": 27}, (3 << 32) + 0x16B3748)
BINLOG = Position({"server": "ö"}, {"file": "b.000003", "pos": 4}, None, ["b.000003", 1234], "definitions" * 1000)
OFFSETS = {("shop.orders", 0): 7, ("shop.orders", 1): 9, ("items", 0): 1}


@pytest.mark.parametrize(
    ("connector", "position", "shown"),
    [
        ("postgresql", WAL.text, "LSN 3/16B3748"),
        ("postgresql", Position({}, {"lsn": 16}).text, "LSN 0/10"),
        ("postgresql", INITIAL.text, "a snapshot"),
        ("mysql", BINLOG.text, "b.000003:1234"),
        ("mariadb", BINLOG.progress, "b.000003:1234"),
        ("mysql", Position({}, {"file": "b.000003", "pos": 4}).text, "b.000003:4"),
        ("kafka", encode_offsets(OFFSETS), "items 0:1, shop.orders 0:7 1:9"),
        ("kafka", "{}", "{}"),
        ("files", '{"batch": 12}', "batch 12 of files"),
    ],
)
def test_a_position_is_shown_in_the_terms_of_its_source(connector: str, position: str, shown: str) -> None:
    assert get_position_parser(connector)(position).describe_position() == shown


@pytest.mark.parametrize("connector", [*(known.name for known in CONNECTORS), "of others"])
@pytest.mark.parametrize(
    "text", ["", "3", "[]", '"x"', "of another kind", '{"offset": 3, "partition": {}}', '{"x": 1}']
)
def test_a_text_that_a_transport_can_not_read_stays_opaque(connector: str, text: str) -> None:
    assert get_position_parser(connector)(text) == keep_opaque(text)


def test_the_end_of_a_long_position_is_left_out() -> None:
    position = encode_offsets({("topic", number): 0 for number in range(100)})
    shown = get_position_parser("kafka")(position).describe_position()
    assert shown.startswith("topic 0:0 1:0 ")
    assert (len(shown), shown[-1]) == (80, "…")


def test_definitions_of_tables_are_no_part_of_a_plain_position() -> None:
    assert BINLOG.progress is not None
    assert get_position_parser("mysql")(BINLOG.progress).text == BINLOG.text
    assert get_position_parser("postgresql")(WAL.text).text == WAL.text
