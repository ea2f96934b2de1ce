"""Users of the service: tokens of their own, roles, tokens of an OpenID provider, and the audit log."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.audit_log import AuditLog
from arctic_runtime.service.http.access import User, get_needed_role
from arctic_runtime.service.http_settings import ROLES, HttpSettings, HttpUser, OpenIdSettings
from arctic_runtime.service.settings import read_http
from tests.service.fake import FakeService
from tests.unit.service.http.conftest import Serve

TOKENS = {role: f"{role}-0123456789abcdef" for role in ROLES}
USERS = tuple(HttpUser(f"{role}-ana", TOKENS[role], role) for role in ROLES)
DESTRUCTIVE = {"reset", "forget", "restore", "restate", "overwrite", "resync", "promote"}
SECRET_KEY = "4711-of-a-person"


def test_operations_that_replace_or_drop_rows_are_for_admins() -> None:
    assert {operation.name for operation in OPERATIONS if operation.needs_admin} == DESTRUCTIVE
    assert all(operation.needs_admin for operation in OPERATIONS if operation.needs_confirmation)
    for operation in OPERATIONS:
        expected = "admin" if operation.name in DESTRUCTIVE else "operator"
        assert get_needed_role("POST", f"/api/operations/{operation.name}") == expected
        assert get_needed_role("GET", f"/api/operations/{operation.name}/plan") == "reader"


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_may_do(serve: Serve, fake: FakeService, role: str) -> None:
    client = serve(users=USERS)
    as_user = replace(client, token=TOKENS[role])  # type: ignore[index]
    table = str(fake.made[-1].table)
    question = f"/api/operations/status?{urlencode({'table': table})}"
    asked = {
        "reader": [("GET", "/api/tables", None), ("GET", question, None)],
        "operator": [
            ("POST", "/api/pause", {}),
            ("POST", "/api/resume", {}),
            ("POST", "/api/refresh", {}),
            ("POST", "/api/operations/compact", {"tables": [table]}),
            ("DELETE", "/api/jobs/1", None),
        ],
        "admin": [("POST", "/api/operations/reset", {"tables": [table], "confirm": True})],
    }
    for needed, requests in asked.items():
        for method, path, body in requests:
            answer = as_user.ask(method, path, body, Content_Type="application/json")
            is_allowed = ROLES.index(role) >= ROLES.index(needed)  # type: ignore[arg-type]
            assert (answer.status != 403) == is_allowed, (path, answer.body)
            if not is_allowed:
                assert answer.json["expected"] == f"the role {needed}"
                assert f"{role}-ana" in answer.json["detail"]
    assert replace(client, token="").get("/api/tables").status == 401
    assert replace(client, token="reader-0123456789abcdeX").get("/api/tables").status == 401


def test_the_token_of_all_is_an_admin(serve: Serve, fake: FakeService) -> None:
    client = serve(token="t" * 20, users=USERS)
    assert client.post("/api/operations/reset", {"tables": [str(fake.made[-1].table)], "confirm": True}).status == 202
    assert replace(client, token=TOKENS["reader"]).get("/api/tables").status == 200


def test_users_alone_are_enough_for_other_machines() -> None:
    assert HttpSettings(host="10.0.0.1", users=USERS).has_users
    with pytest.raises(ConfigError, match="has no token"):
        HttpSettings(host="10.0.0.1")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"users": [{"name": "a"}]}, "needs token"),
        ({"users": [{"name": "a", "token": "short"}]}, "16 visible ASCII"),
        ({"users": [{"name": "a", "token": "x" * 20, "role": "root"}]}, "reader, operator, admin"),
        ({"users": [{"name": "a", "token": "x" * 20, "rolle": "admin"}]}, "no key `rolle`"),
        ({"users": [{"name": " ", "token": "x" * 20}]}, "printable"),
        ({"users": [{"name": "a", "token": "x" * 20}] * 2}, "different names"),
        ({"users": {"a": "x"}}, "must be a list"),
        ({3: "x"}, "`serve.http` has no key `3`; known are host, port, "),
        ({"users": [{"name": "a", "token": "x" * 20, 0: "x"}]}, "`serve.http.users` has no key `0`; known are name, "),
        ({"allowed_hosts": [3]}, "`serve.http.allowed_hosts` must be text; found a int"),
        ({"port": True}, "`serve.http.port` must be a whole number; found a bool"),
        ({"hosts": "a"}, "`serve.http` has no key `hosts` \\(did you mean 'host'\\?\\)"),
        ({"users": ["a"]}, "must be a mapping"),
        ({"users": [{"name": 1, "token": "x" * 20}]}, "must be text"),
        ({"open_id": {"issuer": "https://id.example.com"}}, "needs audience"),
        ({"open_id": {"issuer": "http://id.example.com", "audience": "a"}}, "https"),
        ({"open_id": "https://id.example.com"}, "must be a mapping"),
    ],
)
def test_settings_that_are_refused(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_http(written)
    assert "x" * 20 not in str(refused.value)


def test_settings_that_are_read() -> None:
    user = {"name": "ana", "token": TOKENS["operator"], "role": "operator"}
    settings = read_http({"users": [user], "open_id": {"issuer": "https://id.example.com", "audience": "arctic"}})
    assert settings.users == (HttpUser("ana", TOKENS["operator"], "operator"),)
    assert settings.open_id == OpenIdSettings("https://id.example.com", "arctic")
    assert TOKENS["operator"] not in repr(settings)


# The audit log


def test_every_request_for_a_change_is_in_the_audit_log(serve: Serve, fake: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    client = serve(users=USERS, audit_file=str(file))
    table = str(fake.made[-1].table)
    admin, reader = (replace(client, token=TOKENS[role]) for role in ("admin", "reader"))
    forget = {"tables": [table], "confirm": True, "arguments": {"key": [SECRET_KEY]}}
    assert admin.get("/api/tables").status == 200
    assert admin.post("/api/operations/forget", forget).status == 202
    assert reader.post("/api/pause", {}).status == 403
    assert replace(client, token="").post("/api/pause", {}).status == 401
    assert admin.post("/api/pause", "no json", Content_Type="application/json").status == 400
    text = file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    shown = [(line["user"], line["role"], line["method"], line["path"], line["status"]) for line in lines]
    assert shown == [
        ("admin-ana", "admin", "POST", "/api/operations/forget", 202),
        ("reader-ana", "reader", "POST", "/api/pause", 403),
        (None, None, "POST", "/api/pause", 401),
        ("admin-ana", "admin", "POST", "/api/pause", 400),
    ]
    assert lines[0]["tables"] == [table]
    assert lines[0]["arguments"] == ["key"]
    assert lines[0]["client"] == "127.0.0.1"
    assert SECRET_KEY not in text
    assert not any(token in text for token in TOKENS.values())


def test_an_effect_that_a_request_does_not_name_is_in_the_audit_log_under_its_user(
    serve: Serve, fake: FakeService, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    admin = replace(serve(users=USERS, audit_file=str(file)), token=TOKENS["admin"])
    forget = {"tables": [str(fake.made[-1].table)], "confirm": True, "arguments": {"key": [SECRET_KEY]}}
    assert admin.post("/api/operations/forget", forget).status == 202
    fake.audits[-1]({"table": "lake.dwd.m", "dropped_clone": "lake.dev.m"})
    _, effect = map(json.loads, file.read_text().splitlines())
    assert (effect["user"], effect["path"]) == ("admin-ana", "/api/operations/forget")
    assert (effect["table"], effect["dropped_clone"]) == ("lake.dwd.m", "lake.dev.m")


def test_a_change_that_can_not_be_logged_is_answered_with_a_problem(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    client = serve(audit_file=str(folder / "audit.jsonl"))
    shutil.rmtree(folder)
    for answer in (client.post("/api/pause", {}), client.post("/api/pause", {}, Origin="http://evil.example.com")):
        assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")


def test_the_log_of_the_process_without_a_file(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "arctic_runtime.audit_log"):
        serve().post("/api/pause", {})
    assert [json.loads(record.message)["user"] for record in caplog.records] == ["anybody"]


def test_an_audit_log_that_cant_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit log can't be written"):
        AuditLog(str(tmp_path / "none" / "audit.jsonl"))


def test_a_path_cant_add_a_line(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    client = serve(audit_file=str(file))
    client.post("/api/jobs/%0a%7b%7d", {})
    assert len(file.read_text().splitlines()) == 1


# OpenID Connect


class Provider:
    """An OpenID provider on the loopback, with one key."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked = 0
        self.stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def sign(self, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": "arctic", "exp": now + 60, "sub": "ana", "roles": ["arctic-operator"]}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(given, key or self.key, algorithm=algorithm, headers={"kid": "one"})

    def answer(self, path: str) -> Any:
        self.asked += 1
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with run_provider() as provider:
        yield provider


@contextmanager
def run_provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(made.answer(self.path)).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Provider(server.server_port)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def by_provider(provider: Provider) -> OpenIdSettings:
    return OpenIdSettings(provider.issuer, "arctic", role_prefix="arctic-")


def test_a_token_of_the_provider_gives_its_role(serve: Serve, provider: Provider, by_provider: OpenIdSettings) -> None:
    client = serve(open_id=by_provider)
    operator = replace(client, token=provider.sign())
    assert operator.get("/api/tables").status == 200
    assert operator.post("/api/pause", {}).status == 200
    assert operator.post("/api/operations/reset", {"tables": [], "confirm": True}).status == 403
    both = replace(client, token=provider.sign(roles=["arctic-reader", "arctic-admin", 7]))
    assert both.post("/api/operations/reset", {"tables": ["none"], "confirm": True}).status != 403


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1},
        {"exp": None},
        {"aud": None},
        {"roles": ["operator"]},
        {"roles": []},
        {"roles": None},
        {"roles": 7},
        {"roles": {"arctic-admin": 7, "x": 1}, "sub": None},
        {"sub": 7},
        {"nbf": 9_999_999_999},
    ],
)
def test_tokens_that_are_refused(
    serve: Serve, provider: Provider, by_provider: OpenIdSettings, claims: dict[str, Any]
) -> None:
    client = serve(open_id=by_provider)
    assert replace(client, token=provider.sign(**claims)).get("/api/tables").status == 401


def test_tokens_of_strangers_are_refused(serve: Serve, provider: Provider, by_provider: OpenIdSettings) -> None:
    client = serve(open_id=by_provider)
    stolen = [
        provider.sign(provider.stranger),
        provider.sign("secret" * 8, "HS256"),
        jwt.encode({"sub": "ana"}, None, algorithm="none"),
        provider.sign()[:-3] + "abc",
        "a.b.c",
        "x" * 10_000,
    ]
    assert replace(client, token=provider.sign()).get("/api/tables").status == 200
    before = provider.asked
    for token in stolen:
        assert replace(client, token=token).get("/api/tables").status == 401
    assert provider.asked == before


def test_without_its_provider_the_service_refuses_and_goes_on(serve: Serve, provider: Provider) -> None:
    with run_provider() as gone:
        settings = OpenIdSettings(gone.issuer, "arctic", seconds=1)
    client = serve(open_id=settings, users=USERS)
    assert replace(client, token=gone.sign()).get("/api/tables").status == 401
    assert replace(client, token=TOKENS["reader"]).get("/api/tables").status == 200


def test_roles_are_ordered() -> None:
    assert User("a", "admin").can_act_as("reader")
    assert not User("a", "reader").can_act_as("operator")
