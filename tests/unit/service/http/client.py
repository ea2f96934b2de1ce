"""Requests to a server of HTTP, with any header that a browser or an attacker could send."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answered:
    """A response as it came; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        body = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return json.loads(body)


@dataclass(frozen=True)
class Client:
    """Sends each request over a connection of its own, and adds no header but Host."""

    url: str
    token: str = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """Headers are written with `_` for `-`; a body that is no text or bytes is sent as JSON."""
        with self.opened(method, path, body, **headers) as response:
            getheaders = {name.lower(): value for name, value in response.getheaders()}
            return Answered(response.status, getheaders, response.read())

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answered:
        return self.ask("POST", path, body, **{"Content_Type": "application/json", **headers})

    @contextmanager
    def opened(self, method: str, path: str, body: Any = None, **headers: str) -> Iterator[HTTPResponse]:
        """A response that is still to be read."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            connection.request(method, path, body, sent)
            yield connection.getresponse()
        finally:
            connection.close()
