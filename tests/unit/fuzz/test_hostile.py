"""Hostile texts as every name and value: each comes back exactly as it was, or is refused with a typed error."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import parse_qsl, quote

import sqlglot
from prometheus_client.parser import text_string_to_metric_families
from sqlglot import exp

from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.ingest.dead_letters.table import decode_schema, encode_schema
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.model.names import (
    TableName,
    escape_table_name,
    format_changes_view,
    list_changes_read,
    parse_table_name,
    unescape_table_name,
)
from arctic_runtime.model.run_summary import ClockReading, RunSummary
from arctic_runtime.model.sources.ingestion import Failure
from arctic_runtime.model.version import Version, decode_versions, encode_versions
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.service.telemetry.lineage.observed import DatasetName, name_by_catalog, name_by_location
from arctic_runtime.service.telemetry.logs import JsonFormatter
from arctic_runtime.service.telemetry.metrics import Metrics
from arctic_runtime.spark.engine.statement import quote_name, quote_text, write_properties
from arctic_runtime.sql.spark_sql import list_literals, tokenize_sql
from arctic_runtime.sql.types import Struct, read_type, type_text
from arctic_runtime.thresholds import ServiceThresholds
from tests.fuzz.hostile import FRAGMENTS, KINDS, generate_hostile_texts, is_encodable
from tests.fuzz.targets.http import ask_application, build_service
from tests.unit.ivm.duck import connect, in_duckdb, load
from tests.unit.service.still_service import NOW, StillService

COUNT = 5_500
"""Values of the corpus that each test takes."""

VALUES = tuple(generate_hostile_texts(COUNT))
STORABLE = tuple(filter(is_encodable, VALUES))
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_the_corpus_has_all_kinds_and_thousands_of_values() -> None:
    assert len(set(VALUES)) == len(VALUES) >= 5_000
    assert len(KINDS) >= 18
    assert set(FRAGMENTS) <= set(VALUES)
    assert max(map(len, VALUES)) >= 10_000


def count_kept(convert: Callable[[str], str], values: tuple[str, ...] = VALUES) -> int:
    """Number of values that came back as they were; all others have to be refused with a typed error."""
    kept = 0
    for value in values:
        with suppress(ArcticError):
            back = convert(value)
            assert back == value, f"{value!r:.200} became {back!r:.200}"
            kept += 1
    return kept


# SQL


def read_name(sql: str) -> str:
    (table,) = sqlglot.parse_one(sql, dialect="spark").find_all(exp.Table)
    assert len(table.parts) == 1
    return str(table.parts[0].name)


def test_a_name_in_sql_is_one_name() -> None:
    named = tuple(filter(None, STORABLE))
    assert count_kept(lambda text: read_name(f"select 1 from {quote_name(text)} where true"), named) > 5_000


def test_a_text_in_sql_is_one_literal_with_the_value() -> None:
    def read(text: str) -> str:
        sql = f"select {quote_text(text)} as v, 7"
        assert list_literals(sql) == sorted([quote_text(text), "7"])
        tree = sqlglot.parse_one(sql.replace("\\u0024", "$").replace("\\000", "\\0"), dialect="spark")
        return str(tree.selects[0].this.this)

    # What this parser does not unescape as Spark does is compared by the rules of Spark in tests of statements.
    plain = tuple(text for text in STORABLE if "\x00" not in text and "\x1a" not in text)
    assert count_kept(read, plain) > 5_000


def test_properties_of_a_statement_are_as_many_literals_as_there_are() -> None:
    for text in STORABLE:
        tokens = tokenize_sql(f"set tblproperties ({write_properties([(text, text), ('a', text)])})")
        assert len(tokens) == 11


def test_duckdb_reads_each_value_back_from_sql_that_spark_reads_too() -> None:
    without_nul = [text for text in STORABLE if "\x00" not in text]
    with connect() as con:
        for start in range(0, len(without_nul), 500):
            part = without_nul[start : start + 500]
            literals = [exp.Literal.string(text) for text in part]
            rows = exp.select("v").from_(exp.values([exp.Tuple(expressions=[one]) for one in literals], "t", ["v"]))
            read = con.execute(in_duckdb(rows.sql(dialect="spark"))).fetchall()
            assert [value for (value,) in read] == part


def test_columns_of_any_name_are_made_and_read_in_duckdb() -> None:
    from arctic_runtime.model.columns import Column

    names = dict.fromkeys(text.casefold() for text in STORABLE if text and "\x00" not in text and len(text) < 500)
    with connect() as con:
        wanted = list(names)[:400]
        load(con, "t", [Column(name, "int") for name in wanted], [[7] * len(wanted)])
        assert [row[0] for row in con.execute("describe t").fetchall()] == wanted
        for name in wanted[:200]:
            chosen = exp.select(exp.column(name, quoted=True)).from_("t").sql(dialect="duckdb")
            assert con.execute(chosen).fetchall() == [(7,)]


def test_a_field_of_any_name_is_read_from_its_type() -> None:
    def read(text: str) -> str:
        kind = read_type(type_text(Struct(((text, read_type("int")),))))
        assert isinstance(kind, Struct)
        return kind.fields[0][0]

    assert count_kept(read, tuple(filter(None, STORABLE))) > 5_000


# Names of tables


def test_a_table_of_any_name_comes_back_from_each_text_that_stands_for_it() -> None:
    def read(text: str) -> str:
        table = TableName("lake", text, text)
        assert unescape_table_name(escape_table_name(table)) == table
        assert list_changes_read(f"select * from {quote_name(format_changes_view(table))}") == (table,)
        quoted = "`" + text.replace("`", "``") + "`"
        assert parse_table_name(f"{quoted}.{quoted}", table) == table
        assert escape_table_name(table).count(".") == 2
        return table.name

    assert count_kept(read) > 3_000


def test_a_name_that_leaves_its_folder_is_refused() -> None:
    refused = [text for text in VALUES if not is_named(text)]
    assert {"", ".", "..", "../", "a/b", "\\", "\n", "\x00", "\ud800"} <= set(refused)
    for text in VALUES:
        if is_named(text):
            assert Path("/warehouse", text).parent == Path("/warehouse")


def is_named(text: str) -> bool:
    try:
        TableName("lake", "dwd", text)
    except ConfigError:
        return False
    return True


# What is stored


def test_stored_texts_come_back() -> None:
    for text in STORABLE:
        version = Version(text, 7, 8)
        assert decode_versions(encode_versions({text: version})) == {text: version}
        assert Failure.decode(Failure(text, AT).encode()) == Failure(text, AT)
        run = RunSummary(run=text, query=text, clock=ClockReading(7, text), high_watermark=text)
        assert RunSummary.decode(run.encode()) == run
        encode_json({text: text}).decode("ascii")
    named = tuple(text for text in STORABLE if text)
    for text in named:
        schema = SourceSchema((SourceColumn(text, "string", labels=(text,)),), (text,))
        assert decode_schema(encode_schema(schema)) == schema


# HTTP


class Recorder:
    """Asks a service without a warehouse, and keeps what it was asked."""

    def __init__(self) -> None:
        self.fake, self._app, self._loop = build_service()

    def get(self, path: str, query: str) -> tuple[int, dict[bytes, bytes], bytes]:
        self.fake.reset()
        status, headers, body = self._loop.run_until_complete(
            asyncio.wait_for(ask_application(self._app, {"path": path, "query": query}), 20)
        )
        return status, dict(headers), body


def test_a_value_in_a_query_reaches_the_operation_as_it_was() -> None:
    recorder = Recorder()
    table = str(recorder.fake.list_tables()[9].table)
    for text in [text for text in STORABLE if len(text) < 2_000][::8]:
        query = f"table={quote(table)}&key={quote(text, safe='')}"
        status, _, _ = recorder.get("/api/operations/lookup", query)
        assert parse_qsl(query, keep_blank_values=True)[1] == ("key", text)
        assert status == 200, text
        assert recorder.fake.asked == [("ask", "lookup", (table,), {"key": [text]}, False)]


def test_a_name_in_a_path_is_answered_as_json_that_no_browser_takes_for_a_page() -> None:
    recorder = Recorder()
    for text in [text for text in STORABLE if text and len(text) < 2_000][::8]:
        status, headers, body = recorder.get(f"/api/tables/{quote(text, safe='')}", "")
        assert status in (200, 404, 405), text
        assert headers[b"content-type"].split(b";")[0] in (b"application/json", b"application/problem+json")
        assert headers[b"x-content-type-options"] == b"nosniff"
        assert json.loads(body)


# What is told of tables


def test_labels_of_metrics_are_the_names() -> None:
    shown = StillService().shown[0]
    names = [text for text in STORABLE if is_named(text)][::5]
    tables = {str(TableName("lake", "dwd", text)) for text in names}
    service = StillService(shown=[replace(shown, table=TableName("lake", "dwd", text)) for text in names])
    text = Metrics(service, ServiceThresholds(), lambda: NOW).format_metrics()[0].decode()
    read = {
        sample.labels["table"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "arctic_table_rows"
    }
    assert read == tables


def test_datasets_of_lineage_are_as_many_as_the_tables() -> None:
    names = [text for text in STORABLE if is_named(text)]
    by_place = [name_by_location(f"s3://b/wh/dwd/{text}") for text in names]
    assert by_place == [DatasetName("s3://b", f"wh/dwd/{text}") for text in names]
    on_disk = [name_by_location(f"/wh/dwd/{text}") for text in names]
    assert on_disk == [DatasetName("file", f"/wh/dwd/{text}") for text in names]
    catalog = {name_by_catalog(TableName("lake", "dwd", text), {"type": "rest", "uri": "http://c"}) for text in names}
    assert len(catalog) == len(names)


def test_a_record_of_the_log_is_one_line_that_has_the_text() -> None:
    formatter = JsonFormatter()
    for text in VALUES:
        record = logging.LogRecord("arctic", logging.INFO, "x.py", 1, "%s", (text,), None)
        record.arctic_fields = {"table": text, "where": [text, {"a": text}]}
        line = formatter.format(record)
        assert len(line.splitlines()) == 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", line)
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8").write(line)
        # A value that looks like a secret is masked.
        if "***" not in line and is_encodable(text):
            assert json.loads(line)["message"] == json.loads(line)["table"] == text


def test_errors_about_any_value_can_be_printed() -> None:
    for text in VALUES:
        error = ConfigError(f"{text} is wrong", where=text, actual=text, fix="write another")
        assert str(error).encode()
        assert json.loads(encode_json(error.details))["fix"] == "write another"
