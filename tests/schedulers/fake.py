"""Answers of `arctic serve` over loopback, as a test sets them."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness, FreshnessState
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.service.view.live_data import TableOverview
from tests.schedulers.processes import wait_for

TOKEN = "a-token-of-thirty-two-letters-and-more"
Reply = tuple[int, dict[str, Any]]
REFUSED: Reply = (
    401,
    {"detail": "This needs the token of the service.\n  what to do: send the header `Authorization: Bearer TOKEN`"},
)


def build_table(
    state: FreshnessState,
    reason: str = "",
    action: str = "",
    name: str = "dws_spend",
    schema: str = "dws",
    version: str = "1",
) -> Reply:
    """An answer with one table, as the service writes it, as of a time that no run has reached or of long ago."""
    as_of = datetime(2100 if state == "fresh" else 2000, 1, 1, tzinfo=timezone.utc)
    freshness = Freshness(state, as_of, "shop" if reason else "", reason=reason, action=action)
    table = TableOverview(TableName("lake", schema, name), "model", state, 0, version=version, freshness=freshness)
    return 200, json.loads(encode_json({"event": 1, "tables": [table]}))


class FakeService:
    """A server whose answer can be changed, and that remembers the tokens that were sent."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self._reply: Reply = (503, {})
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.tokens.append(self.headers.get("Authorization", ""))
                status, answer = service.reply(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return self._server.server_port

    def answer(self, reply: Reply) -> None:
        """Sets what is answered from now on."""
        self.tokens.clear()
        self._reply = reply

    def reply(self, path: str) -> Reply:
        return self._reply if path == "/api/tables" else (404, {"detail": f"There is no {path}."})

    def wait_for_requests(self, count: int) -> None:
        wait_for(lambda: len(self.tokens) >= count, 60, lambda: f"{len(self.tokens)} requests")

    def __enter__(self) -> FakeService:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
