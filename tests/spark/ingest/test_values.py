"""Values of events are decoded exactly, by how their format writes them, or make the event a dead letter."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.debezium import DEBEZIUM
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn, SourceSchema
from arctic_runtime.ingest.formats.registry import make_format
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, TableEvents
from arctic_runtime.ingest.writing.decode_events import (
    CHANGE,
    OLD_KEY,
    REASON,
    decode_changes,
    decode_events,
    is_change,
)
from arctic_runtime.ingest.writing.event_frames import cache_rows, to_dataframe

LABELS = ("a", "b", "c")
MOMENT = datetime.datetime(2024, 2, 29, 13, 14, 15, 123456)
CASES: tuple[tuple[SourceColumn, Any, Any], ...] = tuple(
    (SourceColumn("v", kind, encoding, **options), written, expected)  # type: ignore[arg-type]
    for kind, encoding, options, written, expected in (
        ("int", "plain", {}, -5, -5),
        (
            "decimal(38,2)",
            "plain",
            {},
            "123456789012345678901234567890123456.78",
            Decimal("123456789012345678901234567890123456.78"),
        ),
        ("double", "plain", {}, 0.1, 0.1),
        ("double", "plain", {}, "NaN", float("nan")),
        ("boolean", "plain", {}, True, True),
        ("string", "plain", {}, "a\nß", "a\nß"),
        ("string", "json", {}, {"a": [1, 2.50]}, '{"a":[1,2.5]}'),
        ("date", "epoch_days", {}, 19782, datetime.date(2024, 2, 29)),
        ("date", "epoch_days", {}, -1, datetime.date(1969, 12, 31)),
        ("date", "epoch_days", {}, -719_162, datetime.date.min),
        ("date", "epoch_days", {}, 2_932_896, datetime.date.max),
        ("date", "date_text", {}, "2024-02-29Z", datetime.date(2024, 2, 29)),
        ("timestamp_ntz", "epoch_millis", {}, 1709212455123, MOMENT.replace(microsecond=123000)),
        ("timestamp_ntz", "epoch_micros", {}, 1709212455123456, MOMENT),
        ("timestamp_ntz", "epoch_nanos", {}, 1709212455123456000, MOMENT),
        ("timestamp_ntz", "local_timestamp", {}, "2024-02-29T13:14:15.123456Z", MOMENT),
        ("timestamp", "zoned_timestamp", {}, "2024-02-29T15:14:15.123456+02:00", MOMENT),
        ("timestamp", "zoneless_timestamp", {}, "2024-02-29 22:14:15.123456", MOMENT),
        ("string", "millis_of_day", {}, 3_723_004, "01:02:03.004000"),
        ("string", "micros_of_day", {}, 86_400_000_000, "24:00:00.000000"),
        ("string", "micros_of_day", {}, -3_020_399_000_000, "-838:59:59.000000"),
        ("string", "nanos_of_day", {}, 3_723_004_005_000, "01:02:03.004005"),
        ("binary", "base64", {}, "AAH/", b"\x00\x01\xff"),
        ("binary", "base64", {"padded_to": 5}, "AAH/", b"\x00\x01\xff\x00\x00"),
        ("binary", "latin1", {}, "\x00\x01\xff", b"\x00\x01\xff"),
        ("decimal(10,2)", "base64_decimal", {}, "AN6t", Decimal("570.05")),
        ("decimal(10,2)", "base64_decimal", {}, "/w==", Decimal("-0.01")),
        ("string", "variable_decimal", {}, {"scale": 3, "value": "AeJA"}, "123.456"),
        ("string", "variable_decimal", {}, {"scale": 3, "value": "/w=="}, "-0.001"),
        ("string", "variable_decimal", {}, {"scale": -2, "value": "Aw=="}, "300"),
        ("array<int>", "array", {}, [1, None, 3], [1, None, 3]),
        ("array<string>", "array", {}, ["[L", None, "[Ljava.lang.String"], ["[L", None, "[Ljava.lang.String"]),
        (
            "array<date>",
            "array",
            {"element": "epoch_days"},
            [0, 19782],
            [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)],
        ),
        ("boolean", "zero_one", {}, 1, True),
        ("string", "enum_index", {"labels": LABELS}, 2, "b"),
        ("string", "enum_index", {"labels": LABELS}, 0, ""),
        ("string", "set_bits", {"labels": LABELS}, 5, "a,c"),
        ("string", "set_bits", {"labels": LABELS}, 0, ""),
        ("string", "set_array", {}, ["a", "c"], "a,c"),
    )
)
MISFITS: tuple[tuple[str, Encoding, Any], ...] = (
    ("int", "plain", 3_000_000_000),
    ("int", "plain", 1.5),
    ("decimal(5,2)", "plain", 1.255),
    ("decimal(5,2)", "plain", 1000),
    ("boolean", "plain", "perhaps"),
    ("date", "epoch_days", -719_163),
    ("date", "epoch_days", 2_932_897),
    ("date", "epoch_days", -2_147_472_692),
    ("date", "date_text", "2024-02-30"),
    ("date", "date_text", "0000-00-00"),
    ("timestamp_ntz", "epoch_nanos", 1),
    ("timestamp_ntz", "epoch_millis", 9_223_372_036_854_775_807),
    ("timestamp", "zoned_timestamp", "yesterday"),
    ("binary", "base64", "%%%"),
    ("binary", "latin1", "€"),
    ("decimal(4,2)", "base64_decimal", "AN6t"),
    ("array<int>", "array", [1, "x"]),
    ("array<string>", "array", ["[Ljava.lang.String;@50a1e4a0", "a"]),
    ("boolean", "zero_one", 2),
    ("string", "enum_index", 4),
    ("string", "set_bits", 8),
)


def decoded(spark: SparkSession, *columns: tuple[SourceColumn, Any]) -> tuple[str | None, list[Any]]:
    """What is wrong with an event that has these columns beside its key, and their values."""
    form = replace(DEBEZIUM, zone="Asia/Tokyo")
    named = [replace(column, name=f"v{place}") for place, (column, _) in enumerate(columns)]
    image = {column.name: written for column, (_, written) in zip(named, columns, strict=True)}
    text = json.dumps({"op": "c", "after": {"id": 1, **image}})
    events = spark.createDataFrame([(text, None, 0)], f"{PAYLOAD} string, {ORIGIN} string, {ARRIVAL} bigint")
    schema = SourceSchema((SourceColumn("id", "int"), *named), ("id",))
    (row,) = decode_changes(events, form, schema).select(REASON, *[F.col(column.name) for column in named]).collect()
    return row[0], list(row[1:])


@pytest.mark.in_turn
def test_values_are_those_that_the_source_has(spark: SparkSession) -> None:
    reason, values = decoded(spark, *[(column, written) for column, written, _ in CASES])
    assert reason is None
    for (column, written, expected), result in zip(CASES, values, strict=True):
        value = bytes(result) if isinstance(result, bytearray) else result
        assert value == expected or (value != value and expected != expected), (column, written, value)


@pytest.mark.in_turn
def test_values_that_do_not_fit_make_dead_letters(spark: SparkSession) -> None:
    options = {"labels": LABELS}
    for kind, encoding, written in MISFITS:
        column = SourceColumn("v", kind, encoding, **(options if encoding in ("enum_index", "set_bits") else {}))
        reason, values = decoded(spark, (column, written))
        years = ", of the years 1 to 9999" if encoding == "epoch_days" else ""
        is_of_debezium = encoding in ("epoch_days", "epoch_millis", "epoch_micros", "zoned_timestamp")
        zero = "; a zero date (0000-00-00) does not" if is_of_debezium else ""
        assert reason == f"column v0: the value does not fit {kind}{years}{zero}", (kind, encoding, written)
        assert values == [None]


def test_nulls_are_nulls_in_every_encoding(spark: SparkSession) -> None:
    columns = list(dict.fromkeys(column for column, _, _ in CASES))
    assert decoded(spark, *[(column, None) for column in columns]) == (None, [None] * len(columns))


def test_the_json_of_an_event_is_read_once_and_by_a_task(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark would read it in its driver as it optimizes a query, and once more for a filter."""
    schema = SourceSchema((SourceColumn("id", "int"), SourceColumn("v", "string")), ("id",))
    payload = [json.dumps({"op": op, "after": {"id": 1, "v": "a"}}) for op in ("c", "m", "u")]
    columns = {PAYLOAD: payload, ORIGIN: pa.nulls(3, pa.string()), ARRIVAL: pa.array(range(3), pa.int64())}
    events = TableEvents("t", schema, pa.table(columns))
    with cache_rows(decode_events(to_dataframe(spark, events), DEBEZIUM, schema), is_change()) as rows:
        assert [row.v for row in rows.collect()] == ["a", "a"]
        rows.explain()
    plan = capsys.readouterr().out
    assert "InMemoryRelation" in plan
    assert "LocalTableScan" not in plan
    assert [line for line in plan.splitlines() if "from_json" in line and "Filter" in line] == []


RENAMED = SourceSchema(
    (
        SourceColumn("Id", "int"),
        SourceColumn("_ts", "int"),
        SourceColumn("id", "string"),
        SourceColumn("op", "string"),
    ),
    ("Id", "_ts"),
).rename_columns({"_ts": "ts", "id": "lower", "op": "kind"})
"""Names of change rows, of two columns but for case, and of the operation."""


@pytest.mark.parametrize(
    ("name", "options", "event"),
    [
        ("debezium", {}, {"op": "u", "before": {"Id": 1, "_ts": 4}, "after": "ROW"}),
        ("maxwell", {}, {"type": "update", "old": {"_ts": 4}, "data": "ROW"}),
        ("canal", {}, {"type": "UPDATE", "old": [{"_ts": 4}], "data": ["ROW"]}),
        ("rows", {"operation": "op", "operations": {"update": ["x"]}, "order": ["_ts"]}, "ROW"),
    ],
)
def test_columns_are_read_by_their_names_in_events_and_have_those_of_the_table(
    spark: SparkSession, name: str, options: dict[str, Any], event: Any
) -> None:
    row = {"Id": 1, "_ts": 5, "id": "a", "op": "x"}
    payload = json.dumps(event).replace('"ROW"', json.dumps(row))
    events = spark.createDataFrame([(payload, None, 1)], f"{PAYLOAD} string, {ORIGIN} string, {ARRIVAL} bigint")
    form = make_format(name, options).events
    (read,) = decode_changes(events, form, RENAMED).collect()
    assert (read["Id"], read["ts"], read["lower"], read["kind"], read[REASON]) == (1, 5, "a", "x", None)
    assert read[CHANGE] == "update"
    if form.before is not None:
        assert read[OLD_KEY].asDict() == {"Id": 1, "ts": 4}
