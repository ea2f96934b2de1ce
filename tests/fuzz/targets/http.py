"""HTTP: any method, path, query, headers and body gets an answer of the interface, which tells no secret."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st
from starlette.types import Message

from arctic_runtime.service.http.application import build_application
from arctic_runtime.service.http.problems import PROBLEM_TYPE
from arctic_runtime.service.http_settings import HttpSettings
from tests.fuzz.inputs import HOSTILE_TEXT, JSON, mutate_text, mutate_value, read_corpus
from tests.fuzz.target import Target
from tests.service.fake import FakeService, overviews

TOKEN = "a-token-that-nobody-guesses"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "É")
HEADERS = (
    *("host", "origin", "sec-fetch-site", "authorization", "content-type", "content-length", "accept", "range"),
    *("accept-encoding", "last-event-id", "if-none-match", "transfer-encoding", "expect", "upgrade", "x-forwarded-for"),
)
TABLE = "lake.dws.dws_flights_by_day"
QUERIES = ("a=b", f"table={TABLE}", f"table={TABLE}&key=1", "limit=5&key=1", "from=1&to=2", "format=arrow", "version=3")
ALLOWED = frozenset((200, 202, 204, 206, 304, 400, 401, 403, 404, 405, 406, 409, 413, 415, 416, 421, 422, 503))


@cache
def build_service() -> tuple[FakeService, Any, asyncio.AbstractEventLoop]:
    logging.getLogger("arctic_runtime.service.http").addHandler(logging.NullHandler())
    fake = FakeService(overviews(12, hostile=True))
    app = build_application(fake, HttpSettings(token=TOKEN), lambda accept: (b"# metrics\n", "text/plain"))
    loop = asyncio.new_event_loop()

    async def open_feed() -> None:
        app.state.feed.open_feed()

    loop.run_until_complete(open_feed())
    return fake, app, loop


@cache
def _list_paths() -> tuple[str, ...]:
    _, app, _ = build_service()
    return tuple(sorted(app.openapi()["paths"]))


def check_request(entry: Any) -> str:
    """An answer has one of the statuses of the interface; a problem is JSON with its own status."""
    request = entry if isinstance(entry, Mapping) else {"path": entry}
    fake, app, loop = build_service()
    fake.reset()
    answer = loop.run_until_complete(ask_application(app, request))
    status, headers, body = answer
    text = body.decode("utf-8", "replace")
    assert status in ALLOWED, f"{status}: {text[:300]}"
    assert TOKEN not in text
    assert TOKEN not in repr(headers)
    assert "Traceback" not in text
    assert 'File "' not in text
    for name, value in headers:
        assert b"\n" not in name + value
        assert b"\r" not in name + value
    if dict(headers).get(b"content-type", b"").startswith(PROBLEM_TYPE.encode()) and body:
        assert json.loads(body)["status"] == status
    return str(status)


async def ask_application(app: Any, request: Mapping[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Sends a request as a server of ASGI would, with the token unless the request has one, and leaves afterwards."""
    sent: list[Message] = []
    messages: list[Message] = [{"type": "http.request", "body": _to_bytes(request.get("body")), "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await asyncio.wait_for(app(_build_scope(request), receive, send), 10)
    start = next(message for message in sent if message["type"] == "http.response.start")
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return start["status"], list(start["headers"]), body


def _build_scope(request: Mapping[str, Any]) -> dict[str, Any]:
    given = [pair for pair in request.get("headers") or () if isinstance(pair, list) and len(pair) == 2]
    headers = [(_to_header(name).lower(), _to_header(value)) for name, value in given]
    names = {name for name, _ in headers}
    defaults = {b"host": b"localhost", b"authorization": f"Bearer {TOKEN}".encode()}
    raw = _to_bytes(request.get("path")).replace(b"\x00", b"%00")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": str(request.get("method", "GET")),
        "scheme": "http",
        "path": unquote("/" + raw.decode("ascii", "replace").lstrip("/")),
        "raw_path": b"/" + raw.lstrip(b"/"),
        "root_path": "",
        "query_string": _to_bytes(request.get("query")),
        "headers": [*headers, *((name, value) for name, value in defaults.items() if name not in names)],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8080),
    }


def _to_bytes(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


def _to_header(value: Any) -> bytes:
    """Returns a header as the parser of HTTP lets it pass: no ends of lines and no NUL."""
    return _to_bytes(value).replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"").strip()


@st.composite
def draw_requests(draw: st.DrawFn) -> Any:
    """Draws a request: parts of requests of the corpus, and of hostile texts, in any combination."""
    request = dict(draw(st.sampled_from(read_corpus("requests"))))
    request["method"] = draw(st.one_of(st.just(request["method"]), st.sampled_from(METHODS)))
    paths = [entry["path"] for entry in read_corpus("requests")]
    described = st.sampled_from(_list_paths()).map(lambda path: path.replace("{table}", TABLE).replace("{number}", "1"))
    request["path"] = draw(st.one_of(st.just(request["path"]), described, mutate_text(paths)))
    request["query"] = draw(st.one_of(st.just(request["query"]), mutate_text(QUERIES)))
    more = st.tuples(
        st.sampled_from(HEADERS), st.one_of(HOSTILE_TEXT, st.sampled_from(("application/json", "9" * 5000)))
    )
    request["headers"] = [*request["headers"], *(list(pair) for pair in draw(st.lists(more, max_size=2)))]
    body = request["body"]
    if body.startswith("{"):
        request["body"] = json.dumps(draw(mutate_value([json.loads(body)], ("tables", "arguments", "name"))))
    elif draw(st.booleans()):
        request["body"] = draw(st.one_of(HOSTILE_TEXT, JSON.map(json.dumps)))
    return request


REQUESTS = Target("requests", draw_requests(), check_request)
