"""What is answered: the state of a service, what changes in it, and what it is asked to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.http import cached
from arctic_runtime.service.http.application import build_application
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import SourceOverview
from arctic_runtime.thresholds import HttpThresholds
from tests.service.fake import HOSTILE, FakeService
from tests.unit.service.http.client import Client
from tests.unit.service.late_sources import DWD, DWS, NOW, ODS, TROUBLES

Serve = Callable[..., Client]


def test_tables_are_reported_with_the_number_of_the_newest_event(client: Client, fake: FakeService) -> None:
    answer = client.get("/api/tables").json
    assert answer["event"] == fake.events.last
    assert [table["table"] for table in answer["tables"]] == [str(table.table) for table in fake.list_tables()]
    first = answer["tables"][0]
    assert first["ingestion"]["source"] == "shop"
    assert first["changed_at"].endswith("Z")


def test_each_table_says_as_of_when_it_shows_the_source_and_what_it_is_late_for(
    client: Client, fake: FakeService
) -> None:
    for trouble in TROUBLES.values():
        for table in trouble.overviews(NOW):
            fake.show(table)
        seen = {name: client.get(f"/api/tables/{name}").json["table"] for name in map(str, (ODS, DWD, DWS))}
        assert tuple(table["state"] for table in seen.values()) == trouble.states
        last = seen[str(DWS)]["freshness"]
        assert last["reason"] == trouble.reason
        assert (last["as_of"] is None) == (trouble.as_of_minutes is None)
        assert (last["since"] is None) == (last["state"] == "fresh" or trouble.as_of_minutes is None)


def test_a_table_is_identified_by_its_name_however_it_is_called(client: Client, fake: FakeService) -> None:
    hostile = [str(table.table) for table in fake.list_tables()][-len(HOSTILE) :]
    for name in hostile:
        assert client.get(f"/api/tables/{quote(name, safe='')}").json["table"]["table"] == name
    assert client.get("/api/tables/ods_flights").json["table"]["table"] == "lake.ods.ods_flights"


def test_an_unchanged_state_is_not_sent_again(client: Client, fake: FakeService) -> None:
    tag = client.get("/api/tables").headers["etag"]
    again = client.get("/api/tables", If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")
    fake.show(replace(fake.list_tables()[0], rows=1))
    moved = client.get("/api/tables", If_None_Match=f'"other", W/{tag}')
    assert moved.status == 200
    assert moved.json["tables"][0]["rows"] == 1
    assert moved.headers["etag"] != tag


def test_a_long_answer_is_compressed_for_those_who_read_that(client: Client) -> None:
    plain, short = client.get("/api/tables"), client.get("/api/tables", Accept_Encoding="gzip")
    assert short.headers["content-encoding"] == "gzip"
    assert gzip.decompress(short.body) == plain.body
    assert len(short.body) < len(plain.body) / 3


def test_tables_that_did_not_move_are_encoded_once(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    encoded = cached.encode_json
    monkeypatch.setattr(cached, "encode_json", lambda value: (seen.append(value), encoded(value))[1])
    texts = cached.TableTexts()
    first = texts.join_tables(fake.list_tables())
    fake.show(moved := replace(fake.list_tables()[3], rows=7))
    second = json.loads(texts.join_tables(fake.list_tables()))
    assert len(seen) == len(fake.list_tables()) + 1
    assert seen[-1] is moved
    assert second[3]["rows"] == 7
    assert json.loads(first)[3]["rows"] != 7


def test_the_graph_tells_who_reads_whom(client: Client, fake: FakeService) -> None:
    graph = client.get("/api/graph").json
    assert len(graph["nodes"]) == len(fake.list_tables())
    assert {(edge["source"], edge["target"]) for edge in graph["edges"]} == {
        (str(above), str(table.table)) for table in fake.list_tables() for above in table.reads
    }


def test_the_service_its_jobs_and_its_upkeep_are_reported(client: Client) -> None:
    assert client.get("/api/service").json["service"]["role"] == "leads"
    jobs = client.get("/api/jobs").json["jobs"]
    assert jobs[0]["state"] == "running"
    assert client.get(f"/api/jobs/{jobs[0]['number']}").json == jobs[0]
    assert client.get("/api/upkeep").json[0]["operation"] == "compact"


def test_a_service_is_ready_from_its_first_look_until_a_part_of_it_ends(client: Client, fake: FakeService) -> None:
    fake.errors = {"catalog": "jdbc:postgresql://user:secret@db does not answer"}
    assert client.get("/ready").body == b"ready"
    for changed in ({"looked_at": None}, {"role": "ending"}, {"ended_parts": ("ingest shop",)}):
        fake.changed = changed
        ready = client.get("/ready")
        assert (ready.status, ready.body) == (503, b"not ready")
        assert client.get("/health").status == 200


def test_a_deployment_can_wait_until_all_tables_are_loaded_and_none_fails(client: Client, fake: FakeService) -> None:
    for table in fake.list_tables():
        fake.show(replace(table, state="fresh"))
    assert client.get("/ready?tables=all").body == b"ready"
    first = fake.list_tables()[-1]
    for state in ("loading", "failed"):
        fake.show(replace(first, state=state))
        waiting = client.get("/ready?tables=all")
        assert (waiting.status, waiting.body) == (503, b"not ready")
        assert client.get("/ready").status == 200
    fake.show(replace(first, state="behind"))
    assert client.get("/ready?tables=all").status == 200
    fake.changed = {"looked_at": None}
    assert client.get("/ready?tables=all").status == 503
    assert client.get("/ready?tables=some").status == 422


def test_each_source_tells_who_ingests_it_and_how_far(client: Client, fake: FakeService) -> None:
    fake.more_sources = [SourceOverview("bank", "kafka broker:9092", False, error="no such host")]
    shop, bank = client.get("/api/sources").json
    assert (shop["is_running"], shop["ingested_by"], shop["position"]) == (True, "process 7 on etl", "LSN 0/16B3748")
    assert (bank["connection"], bank["is_running"], bank["error"]) == ("kafka broker:9092", False, "no such host")


def test_rows_are_shown_with_a_token_alone(client: Client, serve: Serve, fake: FakeService) -> None:
    refused = client.get("/api/tables/ods_flights/rows")
    assert (refused.status, refused.json["fix"].split(",")[0]) == (403, "set a token and start the service again")
    assert fake.asked == []
    token = "a-token-that-nobody-guesses"
    served = serve(token=token)
    rows = served.get("/api/tables/ods_flights/rows?limit=3").json
    assert [row[0] for row in rows["rows"]] == ["0", "1", "2"]
    assert Client(served.url).get("/api/tables/ods_flights/rows").status == 401
    assert served.get("/api/tables/ods_flights/rows?limit=0").status == 422


# Operations


def test_every_operation_has_a_route_with_its_description(client: Client) -> None:
    described = client.get("/api/openapi.json").json["paths"]
    for operation in OPERATIONS:
        at_once = not operation.needs_spark and not operation.changes
        assert list(described[f"/api/operations/{operation.name}"]) == ["get" if at_once else "post"]
        assert (f"/api/operations/{operation.name}/plan" in described) == (operation.plan is not None)
    listed = {operation["name"]: operation for operation in client.get("/api/operations").json}
    assert list(listed) == [operation.name for operation in OPERATIONS]
    assert [argument["name"] for argument in listed["compact"]["arguments"]] == ["all", "mode", "most"]


def test_a_question_is_answered_at_once(client: Client, fake: FakeService) -> None:
    answer = client.get("/api/operations/status?table=ods_flights&table=ods_planes&tree=true").json
    assert [status["model"] for status in answer["data"]] == ["lake.ods.ods_flights", "lake.ods.ods_planes"]
    assert fake.asked == [("ask", "status", ("ods_flights", "ods_planes"), {"tree": True}, False)]
    client.get("/api/operations/lookup?table=ods_flights&key=a&key=b%26c")
    assert fake.asked[-1] == ("ask", "lookup", ("ods_flights",), {"key": ["a", "b&c"]}, False)


def test_a_plan_is_asked_for_and_nothing_is_done(client: Client, fake: FakeService) -> None:
    answer = client.get("/api/operations/compact/plan?table=ods_flights&mode=full").json
    assert "would compact" in answer["lines"][0]
    assert fake.asked == [("ask", "compact", ("ods_flights",), {"mode": "full"}, True)]


def test_an_operation_becomes_a_job(client: Client, fake: FakeService) -> None:
    body = {"tables": ["ods_flights"], "arguments": {"mode": "full"}}
    answer = client.post("/api/operations/compact", body)
    assert answer.status == 202
    assert answer.json["state"] == "waiting"
    assert client.get(answer.headers["location"]).json == answer.json
    assert client.ask("DELETE", answer.headers["location"]).json["state"] == "cancelled"
    assert fake.asked[0] == ("submit", "compact", ("ods_flights",), {"mode": "full"})


def test_what_can_not_be_undone_must_be_confirmed(client: Client, fake: FakeService) -> None:
    refused = client.post("/api/operations/reset", {"tables": ["ods_flights"]})
    assert refused.status == 422
    assert "/api/operations/reset/plan" in refused.json["detail"]
    assert fake.asked == []
    assert client.post("/api/operations/reset", {"tables": ["ods_flights"], "confirm": True}).status == 202


def test_a_diff_takes_a_column_and_no_places_of_this_machine(client: Client, fake: FakeService) -> None:
    listed = {operation["name"]: operation for operation in client.get("/api/operations").json}
    names = [argument["name"] for argument in listed["diff"]["arguments"]]
    assert names == ["other_schema", "start", "end", "only", "column", "limit", "fail_on", "markdown"]
    given = {"only": True, "column": "arr_delay", "limit": 100, "other_schema": "prod"}
    assert client.post("/api/operations/diff", {**NAMED, "arguments": given}).status == 202
    assert fake.asked == [("submit", "diff", ("ods_flights",), given)]
    for name in ("state", "other_target"):
        assert client.post("/api/operations/diff", {**NAMED, "arguments": {name: "prod"}}).status == 422


NAMED = {"tables": ["ods_flights"]}


@pytest.mark.parametrize(
    ("path", "body", "part"),
    [
        ("compact", {**NAMED, "arguments": {"moed": "full"}}, "moed"),
        ("compact", {**NAMED, "arguments": {"mode": "fully"}}, "mode"),
        ("compact", {**NAMED, "arguments": {"all": "yes"}}, "all"),
        ("compact", {"tables": "ods_flights"}, "tables"),
        ("split", {"tables": []}, "tables"),
        ("split", {"tables": ["a", "b"]}, "tables"),
        ("overwrite", NAMED, "arguments"),
        ("overwrite", {**NAMED, "arguments": {"source": None, "as_of": "1"}}, "source"),
        ("savepoint", {**NAMED, "arguments": {"name": "n", "version": "1", "drop": True}}, "drop"),
        ("compact", {"tables": ["nothing_of_that_name"]}, "nothing_of_that_name"),
        ("compact", [], ""),
        ("compact", None, ""),
    ],
)
def test_a_request_that_can_not_be_meant_says_what_is_wrong(client: Client, path: str, body: Any, part: str) -> None:
    answer = client.post(f"/api/operations/{path}", json.dumps(body))
    assert answer.status == 422
    assert part in answer.json["detail"]


def test_a_missing_body_is_refused(client: Client) -> None:
    assert client.post("/api/operations/compact", "").status == 422


def test_a_question_that_can_not_be_meant_is_refused(client: Client, fake: FakeService) -> None:
    for question in (
        "history",
        "history?table=a&tabel=b",
        "status?tree=maybe",
        "history?table=a&table=b",
        "status?tree=true&tree=false",
    ):
        assert client.get(f"/api/operations/{question}").status == 422, question
    assert fake.asked == []


def test_models_are_refreshed_paused_and_resumed(client: Client, fake: FakeService) -> None:
    assert client.post("/api/refresh", NAMED).status == 202
    assert client.post("/api/pause", {**NAMED, "upkeep_only": True}).json["service"]["paused_upkeep"]
    assert client.post("/api/resume", NAMED).json["service"]["paused_upkeep"] == []
    assert [asked[0] for asked in fake.asked] == ["refresh", "pause", "resume"]
    assert client.post("/api/pause", {"tables": ["none"]}).status == 422


def test_prometheus_reads_in_the_format_that_it_asks_for(serve: Serve) -> None:
    client = serve(metrics=lambda accept: (accept.encode(), "text/plain; version=0.0.4"))
    answer = client.get("/metrics", Accept="text/plain; x=1")
    assert (answer.body, answer.headers["content-type"]) == (b"text/plain; x=1", "text/plain; version=0.0.4")


# Events


def messages(response: HTTPResponse) -> Iterator[dict[str, str]]:
    """Server-sent events as they come."""
    fields: dict[str, str] = {}
    for line in response:
        text = line.decode().rstrip("\n")
        if not text:
            yield fields
            fields = {}
        else:
            name, _, value = text.partition(": ")
            fields[name] = value


def test_what_changes_is_sent_as_it_happens(client: Client, fake: FakeService) -> None:
    with client.opened("GET", f"/api/events?after={fake.events.last}") as response:
        assert response.getheader("content-type", "").startswith("text/event-stream")
        stream = messages(response)
        next(stream)
        for rows in (5, 6):
            fake.show(replace(fake.list_tables()[0], rows=rows))
            message = next(stream)
            assert message["event"] == "table"
            assert int(message["id"]) == fake.events.last
            assert json.loads(message["data"])["data"]["rows"] == rows


def test_a_client_that_comes_back_gets_what_it_missed(client: Client, fake: FakeService) -> None:
    seen = fake.events.last
    fake.show(replace(fake.list_tables()[0], rows=5))
    with client.opened("GET", "/api/events", Last_Event_ID=str(seen)) as response:
        stream = messages(response)
        next(stream)
        assert json.loads(next(stream)["data"])["data"]["rows"] == 5


def test_a_client_is_informed_when_events_are_forgotten(serve: Serve, fake: FakeService) -> None:
    fake.events = EventLog(3)
    for rows in range(10):
        fake.show(replace(fake.list_tables()[0], rows=rows))
    with serve().opened("GET", "/api/events?after=2") as response:
        stream = messages(response)
        next(stream)
        missed, first = next(stream), next(stream)
    assert (missed["event"], json.loads(missed["data"])) == ("missed", {"events": 5})
    assert (missed["id"], first["id"]) == ("7", "8")


def test_a_quiet_stream_says_that_it_is_alive(fake: FakeService) -> None:
    app = build_application(fake, HttpSettings(), thresholds=HttpThresholds(heartbeat_seconds=0.01))

    async def second() -> bytes:
        async with app.router.lifespan_context(app):
            stream = app.state.feed.follow_events(fake.events.last)
            await stream.__anext__()
            message: bytes = await stream.__anext__()
            await stream.aclose()
            return message

    assert anyio.run(second).startswith(b":")


def test_no_more_clients_follow_events_than_allowed(serve: Serve) -> None:
    client = serve(streams=1)
    with client.opened("GET", "/api/events") as first:
        next(messages(first))
        assert client.get("/api/events").status == 503
