"""Queries over HTTP: formats, whom they are answered, limits of the request, and the audit log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.query.refusal import NotAnswered
from tests.service.fake import FLIGHTS, HOSTILE, FakeService
from tests.unit.service.http.client import Client
from tests.unit.service.http.conftest import Serve
from tests.unit.service.http.test_users import TOKENS, USERS

PATH = "/api/operations/sql"
QUERY = "select 'a secret of 4711' from flights"
ARROW = "application/vnd.apache.arrow.stream"


def body(**arguments: Any) -> dict[str, Any]:
    return {"arguments": {"query": QUERY, **arguments}}


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Client:
    served = serve(users=USERS, audit_file=str(tmp_path / "audit.jsonl"))
    return replace(served, token=TOKENS["reader"])


def read_audit(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_rows_come_in_the_format_that_a_client_accepts(client: Client, fake: FakeService) -> None:
    answer = client.post(PATH, body(limit=2))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == {
        "columns": [
            {"name": "id", "type": "bigint"},
            {"name": "<i>note</i>", "type": "string"},
            {"name": "parts", "type": "map<string,bigint>"},
        ],
        "rows": [[1, HOSTILE[0], {"a": 1}], [2**60, HOSTILE[1], {}]],
        "is_cut": True,
        "seconds": 0.25,
    }
    assert fake.asked == [("sql", QUERY, 2)]
    lines = client.post(PATH, body(), Accept="application/jsonl").body.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2**60, 3]
    table = client.post(PATH, body(), Accept="text/csv")
    assert (table.headers["content-type"].partition(";")[0], len(table.body.splitlines())) == ("text/csv", 4)
    stream = client.post(PATH, body(), Accept=ARROW)
    assert pa.ipc.open_stream(stream.body).read_all()["id"].to_pylist() == [1, 2**60, 3]
    refused = client.post(PATH, body(), Accept="text/html")
    assert (refused.status, refused.json["expected"]) == (
        406,
        f"application/json, {ARROW}, application/jsonl, text/csv",
    )


def test_a_reader_may_ask_and_nobody_without_a_token_or_from_another_page(client: Client, fake: FakeService) -> None:
    for role, token in TOKENS.items():
        assert replace(client, token=token).post(PATH, body()).status == 200, role
    fake.asked.clear()
    assert replace(client, token="").post(PATH, body()).status == 401
    assert client.post(PATH, body(), Origin="http://elsewhere").status == 403
    assert client.get(f"{PATH}?query=select").status == 405
    assert client.ask("POST", PATH, "query=select", Content_Type="application/x-www-form-urlencoded").status == 415
    assert fake.asked == []


def test_a_service_without_tokens_answers_no_query_and_says_how_it_would(serve: Serve, fake: FakeService) -> None:
    refused = serve().post(PATH, body())
    assert (refused.status, refused.json["detail"].splitlines()[0]) == (
        403,
        "Rows are only shown by a service that needs a token.",
    )
    assert fake.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""},
        {"query": None},
        {"query": 7},
        {"query": ["select 1"]},
        {"limit": -1},
        {"limit": "5"},
        {"limit": 1.5},
        {"limit": True},
        {"engine": "spark"},
        {"memory": "900GB"},
    ],
)
def test_an_argument_that_the_route_does_not_have_is_refused(
    client: Client, fake: FakeService, arguments: dict[str, Any]
) -> None:
    assert client.post(PATH, body(**arguments)).status == 422
    assert client.post(PATH, {**body(), "tables": ["x"]}).status == 422
    assert client.post(PATH, {}).status == 422
    assert fake.asked == []


def test_a_query_as_long_as_a_body_is_too_large(client: Client) -> None:
    assert client.post(PATH, body(query="x" * 70_000)).status == 413


def test_a_refusal_has_its_reason_and_what_to_do(client: Client, fake: FakeService) -> None:
    fake.failure = NotAnswered("`AVG(amount)` of decimal(10,2)")
    refused = client.post(PATH, body())
    assert (refused.status, refused.json["type"]) == (422, "urn:dbt-arctic:problem:ConfigError")
    assert "otherwise than Spark: `AVG(amount)`" in refused.json["detail"]
    assert "`arctic sql --engine spark`" in refused.json["fix"]


def test_every_query_is_in_the_audit_log_with_its_tables_and_not_with_its_text(
    client: Client, fake: FakeService, tmp_path: Path
) -> None:
    client.post(PATH, body())
    fake.failure = ConfigError("The project has no relation 4711.")
    client.post(PATH, body(limit=3))
    replace(client, token="").post(PATH, body())
    entries = read_audit(tmp_path)
    assert {(entry["path"], entry["method"]) for entry in entries} == {(PATH, "POST")}
    shown = [(entry["user"], entry.get("tables"), entry.get("arguments"), entry.get("status")) for entry in entries]
    assert shown == [
        ("reader-ana", [FLIGHTS], None, None),
        ("reader-ana", [], ["query"], 200),
        ("reader-ana", [], ["limit", "query"], 422),
        (None, None, None, 401),
    ]
    assert entries[0]["operation"] == "sql"
    assert "4711" not in (tmp_path / "audit.jsonl").read_text()
