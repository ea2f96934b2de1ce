"""Events that tell their columns become tables whose columns follow, with all events in their order."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.registry import make_format
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.files.listing import Folder
from arctic_runtime.ingest.transports.files.transport import Files
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD
from arctic_runtime.ingest.writing.table_schemas import find_schema_runs, split_by_runs
from arctic_runtime.thresholds import TransportThresholds
from tests.spark.warehouse import Warehouse
from tests.unit.ingest.transports.files.test_transport import Noted

TYPES = {"id": "bigint(20) unsigned", "kind": "enum('a','b''s')", "tags": "set('x','y','z')", "raw": "binary(4)"}


def canal(
    kind: str, rows: list[dict[str, Any]] | None = None, old: list[dict[str, Any]] | None = None, **more: Any
) -> str:
    types = {**TYPES, **more.pop("types", {})} if rows is not None else None
    key = ["id"] if rows is not None else None
    event = {"data": rows, "old": old, "type": kind, "table": "orders", "database": "shop", "mysqlType": types}
    return json.dumps({**event, "pkNames": key, "isDdl": rows is None, "es": 1_700_000_000_000, **more})


def row(id_: int, kind: int = 1, tags: int = 0, raw: str = "\x00\xff", **more: str | None) -> dict[str, str | None]:
    return {"id": str(id_), "kind": str(kind), "tags": str(tags), "raw": raw, **more}


def ingest(lake: Warehouse, folder: Path, name: str, log: Noted | None = None, **options: Any) -> None:
    table = IngestedTable("orders", "orders", lake.table("orders"), {}, options.pop("columns", {}))
    source = IngestSource("shop", "files", {}, (table,), lake.table("shop__dead_letters"), max_dead_letters=None)
    files = Files(
        Folder(str(folder)), {"orders": "*"}, log or Noted(), lake.environment.new_session, TransportThresholds()
    )
    Ingestion(
        source, SourceConnection(files, make_format(name, options)), lake.reader, lake.environment.new_session
    ).run(once=True)


def orders(lake: Warehouse, *columns: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name("orders")).select(*columns).collect()}


def dead(lake: Warehouse) -> list[str]:
    return [row.origin for row in lake.spark.table(lake.sql_name("shop__dead_letters")).collect()]


def test_canal_messages_become_rows(lake: Warehouse, tmp_path: Path) -> None:
    lines = [
        canal("CREATE"),
        canal("INSERT", [row(1, 1, 5), row(2, 2, 2), row(2**64 - 1, 0, 0, "abcd")]),
        canal("UPDATE", [row(1, 2, 7), row(7, 2, 2)], [{"kind": "1", "tags": "5"}, {"id": "2"}]),
        canal("DELETE", [row(2**64 - 1, 0, 0, "abcd")]),
        canal("INSERT", [row(3, 9)]),
    ]
    (tmp_path / "1.json").write_text("\n".join(lines))
    ingest(lake, tmp_path, "canal")
    assert {(int(id_), kind, tags, bytes(raw)) for id_, kind, tags, raw in orders(lake, *TYPES)} == {
        (1, "b's", "x,y,z", b"\x00\xff\x00\x00"),
        (7, "b's", "y", b"\x00\xff\x00\x00"),
    }
    assert dead(lake) == ["1.json:5"]
    changes = lake.spark.table(lake.sql_name("orders__changes")).select("id", "_action")
    # Beside a dead letter, rows that the batch inserts and deletes leave a delete, for a later replay.
    gone = {(2, "delete"), (2**64 - 1, "delete")}
    assert {(int(row[0]), row[1]) for row in changes.collect()} == {(1, "insert"), (7, "insert"), *gone}


@pytest.mark.slow
def test_a_truncation_takes_the_rows_before_it_and_none_after_it(lake: Warehouse, tmp_path: Path) -> None:
    log = Noted()
    lines = [canal("INSERT", [row(1)]), canal("TRUNCATE"), canal("INSERT", [row(2)]), canal("INSERT", [row(3)])]
    (tmp_path / "1.json").write_text("\n".join(lines))
    ingest(lake, tmp_path, "canal", log)
    assert {int(row[0]) for row in orders(lake, "id")} == {2, 3}
    (tmp_path / "2.json").write_text(canal("TRUNCATE"))
    ingest(lake, tmp_path, "canal", log)
    assert orders(lake, "id") == set()


def test_columns_that_come_in_the_middle_of_a_batch_are_those_of_the_events_after(
    lake: Warehouse, tmp_path: Path
) -> None:
    new: dict[str, Any] = {"types": {"note": "varchar(9)"}}
    lines = [
        canal("INSERT", [row(1), row(2)]),
        canal("ALTER"),
        canal("UPDATE", [row(1, note="n")], [{"note": None}], **new),
        canal("INSERT", [row(3, note="m")], **new),
    ]
    (tmp_path / "1.json").write_text("\n".join(lines))
    ingest(lake, tmp_path, "canal")
    assert {(int(row[0]), row[1]) for row in orders(lake, "id", "note")} == {(1, "n"), (2, None), (3, "m")}


@pytest.mark.slow
def test_messages_without_rows_are_no_error_before_there_is_a_table(lake: Warehouse, tmp_path: Path) -> None:
    log = Noted()
    (tmp_path / "1.json").write_text(f"{canal('CREATE')}\n{canal('TRUNCATE')}\nno event")
    ingest(lake, tmp_path, "canal", log)
    assert dead(lake) == ["1.json:3"]
    (tmp_path / "2.json").write_text(canal("INSERT", [row(1)]))
    ingest(lake, tmp_path, "canal", log)
    assert {int(row[0]) for row in orders(lake, "id")} == {1}


@pytest.mark.slow
def test_timestamps_are_read_in_the_zone_of_the_server(lake: Warehouse, tmp_path: Path) -> None:
    event = canal("INSERT", [row(1, at="2024-01-01 08:00:00.25")], types={"at": "timestamp(2)"})
    (tmp_path / "1.json").write_text(event)
    with pytest.raises(ConfigError, match=r"Column at (?s:.*)set `zone`"):
        ingest(lake, tmp_path, "canal")
    ingest(lake, tmp_path, "canal", zone="+08:00")
    at = lake.spark.table(lake.sql_name("orders")).selectExpr("unix_micros(at)").collect()
    assert at[0][0] == 1_704_067_200_250_000


def connect(op: str, before: Any, after: Any, *fields: dict[str, Any]) -> str:
    image = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, *fields]}
    schema = {"type": "struct", "name": "e", "fields": [{**image, "field": "before"}, {**image, "field": "after"}]}
    payload = {"before": before, "after": after, "op": op, "source": {"table": "orders", "ts_us": 1}}
    return json.dumps({"schema": schema, "payload": payload})


def test_debezium_events_with_their_schema_become_rows(lake: Warehouse, tmp_path: Path) -> None:
    price = {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    }
    encoded = base64.b64encode((-12345).to_bytes(3, "big", signed=True)).decode()
    lines = [
        connect("c", None, {"id": 1, "price": encoded}, price),
        connect("c", None, {"id": 2, "price": None, "n": 3}, price, {"field": "n", "type": "int32"}),
    ]
    (tmp_path / "1.json").write_text("\n".join(lines))
    table = IngestedTable("orders", "orders", lake.table("orders"), {"primary_key": ["id"]})
    source = IngestSource("shop", "files", {}, (table,), lake.table("shop__dead_letters"))
    files = Files(Folder(str(tmp_path)), {"orders": "*"}, Noted(), lake.environment.new_session, TransportThresholds())
    form = make_format("debezium", {"with_schema": True})
    Ingestion(source, SourceConnection(files, form), lake.reader, lake.environment.new_session).run(once=True)
    assert {(row[0], str(row[1]), row[2]) for row in orders(lake, "id", "price", "n")} == {
        (1, "-123.45", None),
        (2, "None", 3),
    }


@pytest.mark.slow
@settings(max_examples=8)
@given(schemas=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12))
def test_runs_keep_every_event_in_its_order(lake: Warehouse, schemas: list[str | None]) -> None:
    events = [(json.dumps({"s": schema, "n": n} if schema else {"n": n}), n) for n, schema in enumerate(schemas)]
    frame = lake.spark.createDataFrame(events, f"{PAYLOAD} string, {ARRIVAL} bigint")
    runs = find_schema_runs(frame, (("s",),))
    telling = [schema for schema in schemas if schema]
    assert [json.loads(run.example)["s"] for run in runs] == [
        schema for n, schema in enumerate(telling) if n == 0 or telling[n - 1] != schema
    ]
    if not runs:
        return
    parts = [
        [json.loads(row[0]) for row in part(lake.spark).orderBy(ARRIVAL).collect()]
        for part in split_by_runs(frame, runs)
    ]
    assert [event["n"] for part in parts for event in part] == list(range(len(schemas)))
    for run, part in zip(runs, parts, strict=True):
        assert {event["s"] for event in part if "s" in event} == {json.loads(run.example)["s"]}
