"""Hostile texts through Spark: each value, name and event comes back as it was, or is refused or kept aside."""

from __future__ import annotations

import json
from typing import Any

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode_events import CHANGE, REASON, decode_changes
from arctic_runtime.spark.engine.statement import quote_name, quote_text
from tests.fuzz.hostile import FRAGMENTS, generate_hostile_texts, is_encodable
from tests.fuzz.inputs import read_corpus
from tests.spark.replay import ORDERS, event
from tests.spark.warehouse import Warehouse

VALUES = tuple(filter(is_encodable, generate_hostile_texts(5_500)))
NAMES = [text for text in FRAGMENTS if text and is_encodable(text) and "${" not in text]
COLUMNS = tuple({text.casefold(): text for text in NAMES}.values())


def test_each_value_in_a_statement_and_a_frame_comes_back(lake: Warehouse) -> None:
    texts = list(VALUES)
    read = lake.spark.createDataFrame([(place, text) for place, text in enumerate(texts)], "n int, v string")
    assert [row.v for row in read.orderBy("n").collect()] == texts
    for start in range(0, len(texts), 2_000):
        part = [text for text in texts[start : start + 2_000] if len(text) < 1_000]
        rows = ", ".join(f"({place}, {quote_text(text)})" for place, text in enumerate(part))
        assert [row.v for row in lake.spark.sql(f"select v from values {rows} as t(n, v) order by n").collect()] == part


def test_columns_of_any_name_have_their_values(lake: Warehouse) -> None:
    listed = ", ".join(f"{place} as {quote_name(name)}" for place, name in enumerate(COLUMNS))
    (row,) = lake.spark.sql(f"select {listed}").collect()
    assert tuple(row.__fields__) == COLUMNS
    assert tuple(row) == tuple(range(len(COLUMNS)))


def test_a_key_of_any_text_is_looked_up_without_spark(lake: Warehouse) -> None:
    keys = [text for text in VALUES if len(text) < 300][:400]
    lake.append("s", [[text, str(place)] for place, text in enumerate(keys)], "k string, v string")
    model = lake.model("m", "select k, v from {s}", primary_key="k")
    lake.run(model)
    for place in range(0, len(keys), 10):
        found = look_up_row(lake.reader, model, [keys[place]])
        assert found.row == {"k": keys[place], "v": str(place)}
    assert look_up_row(lake.reader, model, ["' or '1'='1' -- no such key"]).row is None


def test_tables_of_hostile_names_are_made_and_read(lake: Warehouse) -> None:
    for text in ("<script>x", "{{ 7*7 }}", "\u202eevil", "%2e%2e", "a?b#c", "x__changes", "a\u2028b"):
        model = lake.model(text, "select 1 as id, 'a' as v", primary_key="id")
        lake.run(model)
        assert lake.rows(model) == [(1, "a")]
        assert look_up_row(lake.reader, model, ["1"]).row == {"id": 1, "v": "a"}


def test_an_event_of_any_payload_is_a_change_or_a_dead_letter(lake: Warehouse) -> None:
    payloads: list[str] = [event("c", None, {"id": place, "item": text, "n": 1}) for place, text in enumerate(VALUES)]
    payloads += [*VALUES, *(json.dumps(entry["event"]) for entry in read_corpus("events"))]
    payloads += [event("c", None, {"id": text, "item": text, "n": text}) for text in VALUES[:500]]
    rows: list[tuple[Any, ...]] = [(text, None, place) for place, text in enumerate(payloads)]
    events = lake.spark.createDataFrame(rows, f"`{PAYLOAD}` string, `{ORIGIN}` string, `{ARRIVAL}` bigint")
    decoded = decode_changes(events, build_debezium_format().events, ORDERS).collect()
    assert len(decoded) == len(payloads)
    by_arrival = {row[ARRIVAL]: row for row in decoded}
    for place, text in enumerate(VALUES):
        row = by_arrival[place]
        assert (row["id"], row["item"], row[CHANGE], row[REASON]) == (place, text, "insert", None)
    for row in decoded:
        assert row[CHANGE] is not None or row[REASON] is not None
        assert row[PAYLOAD] == payloads[row[ARRIVAL]]
