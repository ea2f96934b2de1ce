"""Rows in the formats of other programs."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from arctic_runtime.operations.row_formats import ROW_FORMATS, convert_row

AT = datetime.datetime(2024, 3, 1, 1, 2, 3, 456789, tzinfo=datetime.timezone.utc)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("ratio", pa.float64()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("is_ok", pa.bool_()),
        ("_before", pa.struct([("text", pa.string()), ("tags", pa.list_(pa.string()))])),
        ("counts", pa.map_(pa.string(), pa.float64())),
    ]
)
FULL = {
    "id": 2**60 + 1,
    "text": 'é "x", \n',
    "ratio": 0.1,
    "amount": Decimal("1.10"),
    "at": AT,
    "local": AT.replace(tzinfo=None),
    "day": AT.date(),
    "raw": b"\x00\xff",
    "is_ok": True,
    "_before": {"text": None, "tags": ["a", None]},
    "counts": [("k", float("nan"))],
}
EMPTY = {**dict.fromkeys(SCHEMA.names), "id": 2, "text": ""}
JSON = {
    **FULL,
    "amount": "1.10",
    "at": "2024-03-01T01:02:03.456789Z",
    "local": "2024-03-01T01:02:03.456789",
    "day": "2024-03-01",
    "raw": "00ff",
    "counts": {"k": "NaN"},
}


def encode(name: str, *rows: dict[str, object]) -> bytes:
    batches = [pa.RecordBatch.from_pylist([row], SCHEMA) for row in rows]
    return b"".join(ROW_FORMATS[name].encode(SCHEMA, batches))


def test_an_arrow_stream_is_read_by_arrow_with_schema_and_batches() -> None:
    with pa.ipc.open_stream(encode("arrow", FULL, EMPTY)) as stream:
        assert stream.schema == SCHEMA
        assert [len(batch) for batch in stream] == [1, 1]
    assert pa.ipc.open_stream(encode("arrow")).read_all().schema == SCHEMA


def test_json_has_an_object_on_each_line_with_exact_values() -> None:
    assert [json.loads(line) for line in encode("json", FULL, EMPTY).splitlines()] == [JSON, EMPTY]
    assert encode("json") == b""


def test_csv_has_nested_values_as_json_and_tells_a_null_from_an_empty_text() -> None:
    text = encode("csv", FULL, EMPTY).decode()
    header, full, empty = csv.reader(io.StringIO(text, newline=""))
    assert header == SCHEMA.names
    row = dict(zip(header, full, strict=True))
    assert {name: json.loads(row[name]) for name in ("_before", "counts")} == {
        name: JSON[name] for name in ("_before", "counts")
    }
    assert (row["id"], row["text"], row["ratio"], row["amount"]) == (str(2**60 + 1), FULL["text"], "0.1", "1.10")
    assert (row["at"], row["raw"], row["is_ok"]) == (JSON["at"], "00ff", "true")
    assert empty[2:] == [""] * 9
    options = pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    lines = pa_csv.ParseOptions(newlines_in_values=True)
    read = pa_csv.read_csv(io.BytesIO(text.encode()), parse_options=lines, convert_options=options)
    assert read["text"].to_pylist() == [FULL["text"], ""]
    assert read["_before"][1].as_py() is None


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_each_batch_is_encoded_as_soon_as_it_is_read(name: str) -> None:
    taken: list[int] = []

    def batches():
        for number in range(3):
            taken.append(number)
            yield pa.RecordBatch.from_pylist([FULL], SCHEMA)

    parts = ROW_FORMATS[name].encode(SCHEMA, batches())
    while not taken:
        next(parts)
    assert taken == [0]


def test_one_row_has_the_values_that_json_lines_have() -> None:
    row = {**FULL, "counts": {"k": float("nan")}}
    assert convert_row(row) == {name: JSON[name] for name in row}
    assert convert_row({"at": AT.astimezone(datetime.timezone(datetime.timedelta(hours=2)))}) == {"at": JSON["at"]}
    assert convert_row(dict.fromkeys(FULL)) == dict.fromkeys(FULL)
