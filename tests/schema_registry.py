"""A schema registry of tests: Confluent's HTTP interface on the loopback, for schemas by ids, and Avro messages."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Schema = Mapping[str, Any] | str | list[Any]


class Registry:
    """Serves schemas by their ids at `url`, and notes the paths that are requested in `requests`.

    `answers` replaces the answer to a path by a status and a body. With `login`, which is `user:password`, other users
    are refused.
    """

    def __init__(self, login: str | None = None) -> None:
        self.login = login
        self.requests: list[str] = []
        self.answers: dict[str, tuple[int, Any]] = {}
        self._bodies: dict[int, Mapping[str, Any]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                status, body = registry.find_answer(self.path, self.headers.get("Authorization"))
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def find_answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        if self.login is not None and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 401, "message": f"not {authorization}"}
        if path in self.answers:
            return self.answers[path]
        if path == "/schemas/types":
            return 200, ["AVRO", "JSON", "PROTOBUF"]
        number = path.removeprefix("/schemas/ids/")
        if number.isdecimal() and int(number) in self._bodies:
            return 200, self._bodies[int(number)]
        return 404, {"error_code": 40403, "message": f"Schema {number} not found"}

    def add(self, schema: Schema, schema_id: int | None = None, **more: Any) -> int:
        """Registers a schema; returns its id."""
        number = max(self._bodies, default=0) + 1 if schema_id is None else schema_id
        self._bodies[number] = {"schema": json.dumps(schema), **more}
        return number

    def encode(self, schema_id: int, value: Any) -> bytes:
        """Returns the message of a value in the wire format."""
        import fastavro

        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(self._bodies[schema_id]["schema"])), value)
        return wire(schema_id, body.getvalue())


def wire(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


@contextmanager
def running_registry(login: str | None = None) -> Iterator[Registry]:
    registry = Registry(login)
    threading.Thread(target=registry.server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()
