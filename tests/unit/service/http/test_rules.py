"""Who may ask for what: rules that every request is held against."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.service.http.application import list_page_paths
from arctic_runtime.service.http.guard import OPEN_PATHS
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import SHORTEST_TOKEN, HttpSettings
from arctic_runtime.thresholds import HttpThresholds
from tests.service.fake import FakeService
from tests.unit.service.http.client import Client

TOKEN = "a-token-that-nobody-guesses"
Serve = Callable[..., Client]


def paths(client: Client) -> list[tuple[str, str]]:
    """Every route of the interface, as method and path."""
    described = client.get("/api/openapi.json").json["paths"]
    return [
        (method.upper(), path.replace("{", "").replace("}", "")) for path in described for method in described[path]
    ]


# Settings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "warehouse.example.com"])
def test_other_machines_are_served_only_with_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match=r"has no token(.|\n)*what to do"):
        HttpSettings(host=host)
    assert HttpSettings(host=host, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_loopback_address_needs_no_token(host: str) -> None:
    assert HttpSettings(host=host).is_loopback


@pytest.mark.parametrize("token", ["short", "with a space in it, long enough", "zeichen-ü-zeichen-ü"])
def test_a_token_that_is_weak_or_fits_no_header_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError) as refused:
        HttpSettings(token=token)
    assert token not in str(refused.value)


def test_settings_do_not_show_their_token() -> None:
    assert TOKEN not in repr(HttpSettings(token=TOKEN))


@pytest.mark.parametrize(
    "given",
    [
        {"certificate_file": "a.pem"},
        {"key_file": "a.pem"},
        {"port": 70_000},
        {"body_bytes": 0},
        {"request_seconds": -1},
    ],
)
def test_settings_that_can_not_be_used_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HttpSettings(**given)


def test_the_documentation_has_the_limits_that_hold() -> None:
    text = (Path(__file__).parents[4] / "docs" / "http.md").read_text()
    settings = HttpSettings()
    for figure in (
        f"{settings.streams} clients",
        f"at most {settings.body_bytes // 1024} KiB",
        f"at most {settings.request_seconds:.0f} seconds",
        f"at least\n  {SHORTEST_TOKEN} characters",
        f"http://localhost:{settings.port}/",
        f"more than {HttpThresholds().body_levels} levels",
        f"each {HttpThresholds().heartbeat_seconds:.0f} seconds",
    ):
        assert figure in text


# The token


def test_every_route_but_the_open_ones_needs_the_token(serve: Serve) -> None:
    with_token = serve(token=TOKEN, metrics=lambda _: (b"", "text/plain"))
    without = replace(with_token, token="")
    asked = [(method, path) for method, path in paths(with_token) if path not in OPEN_PATHS]
    assert len(asked) > 20
    more = [("GET", "/api/openapi.json"), ("GET", "/nowhere"), ("GET", "/page/../api/tables"), ("GET", "/docs")]
    for method, path in [*asked, *more]:
        assert without.ask(method, path, Content_Type="application/json").status == 401, path


def test_only_the_token_itself_opens(serve: Serve) -> None:
    client = replace(serve(token=TOKEN), token="")
    wrong = (
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        "Bearer ÿ",
    )
    for shown in wrong:
        refused = client.get("/api/tables", Authorization=shown)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    assert client.get("/api/tables", Authorization=f"bearer {TOKEN}").status == 200


def test_health_and_the_files_of_the_page_are_open_and_the_same_for_all(serve: Serve) -> None:
    client = replace(serve(token=TOKEN), token="")
    assert client.get("/health").body == b"alive"
    assert client.get("/ready").body == b"ready"
    for path in list_page_paths():
        assert client.get(path).status == 200


# Where a request comes from


FOREIGN = (
    "evil.example.com",
    "evil.example.com:8470",
    "localhost.evil.com",
    "10.1.2.3",
    "a b",
    "evil.com:8470@127.0.0.1",
    "user@localhost",
    "localhost/x",
    "localhost?x",
    "localhost#x",
    "localhost:",
    "localhost:x",
    "localhost:+80",
    "localhost:65536",
    "[::1",
    "[::1]x",
    "127.0.0.1, evil.com",
)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_name_in_host_is_refused(client: Client, host: str) -> None:
    """Else a page of that name could have it resolve to this machine, and read all answers."""
    assert client.get("/api/tables", Host=host).status in (400, 421)
    assert client.get("/", Host=host).status in (400, 421)


def test_two_names_in_host_are_refused(client: Client) -> None:
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).split()[1] in (b"400", b"421")


def test_names_of_this_machine_and_allowed_ones_pass(serve: Serve) -> None:
    client = serve(allowed_hosts=("Warehouse.example.com",))
    for host in ("localhost", "localhost:1234", "127.0.0.1", "[::1]:8470", "warehouse.example.com:443"):
        assert client.get("/health", Host=host).status == 200


def test_where_others_are_served_any_address_is_a_name_of_the_service() -> None:
    settings = HttpSettings(host="0.0.0.0", token=TOKEN)
    assert settings.allows_host("10.1.2.3")
    assert settings.allows_host("fe80::1")
    assert not settings.allows_host("evil.example.com")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://[::1"},
        {"Origin": "http://[x]:y]"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_page_of_somebody_else_changes_nothing(client: Client, fake: FakeService, headers: dict[str, str]) -> None:
    assert client.post("/api/pause", {}, **headers).status == 403
    assert client.ask("DELETE", "/api/jobs/1", **headers).status == 403
    assert fake.asked == []


def test_the_own_page_and_programs_may_change(client: Client, fake: FakeService) -> None:
    assert client.post("/api/pause", {}, Origin=client.url, Sec_Fetch_Site="same-origin").status == 200
    assert client.post("/api/resume", {}).status == 200
    assert fake.asked == [("pause", (), False), ("resume", ())]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_a_body_that_a_form_can_send_is_refused(client: Client, fake: FakeService, kind: str) -> None:
    assert client.post("/api/pause", "{}", Content_Type=kind).status == 415
    assert fake.asked == []


BROKEN = {
    "no JSON": "no json",
    "half of an object": '{"tables": [',
    "deep arrays": "[" * 30_000,
    "deep arrays that end": "[" * 30_000 + "]" * 30_000,
    "deep objects": '{"tables":' * 6_000,
    "deep objects that end": '{"a":' * 33 + "1" + "}" * 33,
    "a number of too many digits": '{"tables": ' + "9" * 5_000 + "}",
    "no number": '{"tables": [NaN]}',
    "an infinite number": '{"tables": -Infinity}',
    "half a character": '{"tables": ["\\ud800"]}',
    "half a character as a name": '{"\\udfff": 1}',
    "half a character in UTF-8": "\ud800".encode("utf-8", "surrogatepass"),
    "no UTF-8": b'{"tables": ["\xff"]}',
    "UTF-16": "{}".encode("utf-16"),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("path", ["/api/pause", "/api/operations/restore"])
def test_a_body_that_is_not_sound_json_is_refused_with_a_problem(
    client: Client, fake: FakeService, path: str, body: str | bytes
) -> None:
    refused = client.post(path, body)
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")
    assert {"actual", "expected", "fix"} <= set(refused.json)
    assert fake.asked == []


def test_brackets_in_a_text_and_whole_characters_are_sound_json(client: Client) -> None:
    body = json.dumps({"tables": ["[" * 100 + '\\"{' + "\U0001f600"]})
    assert client.post("/api/pause", body).status == 422
    assert client.post("/api/pause", b"\xef\xbb\xbf" + b'{"tables": []}').status == 200


def test_no_get_changes_anything(client: Client, fake: FakeService) -> None:
    for _, path in paths(client):
        if path != "/api/events":
            client.get(f"{path}?table=ods_flights&plan=false")
            client.get(f"{path}?table=ods_flights")
    assert {asked[0] for asked in fake.asked} == {"ask"}
    assert {asked[1] for asked in fake.asked if not asked[4]} == {"status", "explain", "history", "preview", "clones"}


# Limits


class Chunks(bytes):
    """A body of which a client does not say how long it is."""

    @classmethod
    def of(cls, *parts: bytes) -> Chunks:
        return cls(b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n")


def test_a_long_body_is_refused_whether_its_length_is_said_or_not(serve: Serve, fake: FakeService) -> None:
    client = serve(body_bytes=1000)
    body = json.dumps({"tables": ["a" * 2000]}).encode()
    assert client.post("/api/pause", body).status == 413
    chunked = Chunks.of(body[:600], body[600:])
    assert client.post("/api/pause", chunked, Transfer_Encoding="chunked").status == 413
    assert fake.asked == []


def test_a_request_that_takes_too_long_is_given_up(serve: Serve, fake: FakeService) -> None:
    fake.delay_seconds = 1.0
    client = serve(request_seconds=0.2)
    refused = client.get("/api/operations/status?table=ods_flights")
    assert (refused.status, refused.json["title"]) == (504, "Gateway Timeout")
    assert client.get("/health").status == 200


def test_a_body_that_never_comes_does_not_hold_the_server(serve: Serve) -> None:
    assert serve(request_seconds=0.2).post("/api/pause", b"{", Content_Length="10").status == 504


# Errors


@pytest.mark.parametrize(
    ("failure", "status"),
    [(ConfigError("no", fix="x"), 422), (CommitConflict("lost"), 409), (CatalogError("away"), 503)],
)
def test_our_errors_are_problems_with_their_whole_text(
    client: Client, fake: FakeService, failure: Exception, status: int
) -> None:
    fake.failure = failure
    answer = client.get("/api/operations/history?table=ods_flights")
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json["type"] == f"urn:dbt-arctic:problem:{type(failure).__name__}"
    assert answer.json["status"] == status
    assert answer.json["detail"] == str(failure)


def test_a_problem_has_the_parts_of_its_error_that_are_known(client: Client, fake: FakeService) -> None:
    fake.failure = ConfigError("no version", where="lake.ods.ods_flights", actual="12", fix="give another one")
    problem = client.get("/api/operations/history?table=ods_flights").json
    assert {name: problem.get(name) for name in ("where", "expected", "actual", "fix")} == {
        "where": "lake.ods.ods_flights",
        "expected": None,
        "actual": "12",
        "fix": "give another one",
    }
    assert "expected" not in problem
    described = client.get("/api/openapi.json").json["components"]["schemas"]["Problem"]
    assert set(problem) | {"expected"} == set(described["properties"])
    assert not {"where", "expected", "actual", "fix"} & set(described["required"])


@pytest.mark.parametrize(("path", "headers"), [("/api/tables", {"Host": "evil.example.com"}), ("/api/pause", {})])
def test_a_request_that_is_refused_is_told_what_is_expected(client: Client, path: str, headers: dict[str, str]) -> None:
    method = "POST" if path == "/api/pause" else "GET"
    problem = client.ask(method, path, **headers).json
    assert problem["expected"]
    assert f"  expected: {problem['expected']}" in problem["detail"]


def test_an_error_that_nobody_expects_shows_nothing_of_itself(
    client: Client, fake: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    fake.failure = RuntimeError("password=hunter2")
    answer = client.get("/api/operations/history?table=ods_flights")
    assert answer.status == 500
    assert "hunter2" not in answer.body.decode()
    assert "Traceback" not in answer.body.decode()
    number = answer.json["detail"].split("look for ")[1].split(" ")[0]
    assert number in caplog.text


@pytest.mark.parametrize("path", ["/nowhere", "/page/none.js", "/page/../app.py", "/api/tables/none", "/api/jobs/none"])
def test_what_is_not_there_is_a_problem_too(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


def test_every_answer_carries_the_headers_of_security(client: Client) -> None:
    for path in ("/", "/page/app.js", "/api/tables", "/nowhere", "/health"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_pages_elsewhere_are_not_let_in(client: Client) -> None:
    asked = client.ask("OPTIONS", "/api/pause", Origin="http://evil.example.com", Access_Control_Request_Method="POST")
    assert not [name for name in asked.headers if name.startswith("access-control")]


# The server


def test_an_address_that_is_taken_is_an_error_that_says_so(client: Client, fake: FakeService) -> None:
    taken = int(client.url.rsplit(":", 1)[1])
    with pytest.raises(ConfigError, match="what to do: choose another port"):
        HttpServer(fake, HttpSettings(port=taken)).start_server()


def test_a_certificate_that_can_not_be_used_is_an_error_that_says_so(fake: FakeService, tmp_path: Path) -> None:
    settings = HttpSettings(port=0, certificate_file=f"{tmp_path}/none.pem", key_file=f"{tmp_path}/none.key")
    with pytest.raises(ConfigError, match="certificate"):
        HttpServer(fake, settings).start_server()


def test_a_server_ends_although_a_client_follows_events(fake: FakeService) -> None:
    server = HttpServer(fake, HttpSettings(port=0))
    server.start_server()
    with Client(server.url).opened("GET", "/api/events") as response:
        assert response.readline()
        ending = threading.Thread(target=server.stop_server)
        ending.start()
        # Its end is the end of the response, for which a client waits no longer than 10 s.
        assert response.read() is not None
        ending.join(60)
    assert not ending.is_alive()
    with server, Client(server.url).opened("GET", "/api/events?after=0") as again:
        assert [again.readline() for _ in range(4)][2].startswith(b"id: ")
