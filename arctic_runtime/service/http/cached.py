"""Caches response bodies that many clients request: each is encoded and compressed once per state of the service."""

from __future__ import annotations

import gzip
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from arctic_runtime.model.names import TableName
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.thresholds import HttpThresholds


@dataclass(frozen=True)
class CachedBody:
    """A response body, its compressed form, and its ETag; `compressed` is empty if compression doesn't pay."""

    body: bytes
    compressed: bytes
    tag: str


def answer_request(
    request: Request, content: CachedBody, media_type: str = "application/json", cache: str = "no-cache"
) -> Response:
    """Builds the response with `content`, compressed if the client accepts gzip; 304 if the client has it already.

    `cache` is the Cache-Control header.
    """
    headers = {"etag": content.tag, "cache-control": cache, "vary": "accept-encoding, authorization"}
    known = request.headers.get("if-none-match", "")
    if known and content.tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    body = content.body
    if content.compressed and "gzip" in request.headers.get("accept-encoding", ""):
        body = content.compressed
        headers["content-encoding"] = "gzip"
    return Response(body, 200, headers, media_type)


class Cached:
    """A response body that is cached until new events happen or some seconds have passed, and then built again.

    `build` gets the number of the newest event that the body must include, and returns the body.
    """

    def __init__(self, events: EventLog, build: Callable[[int], bytes], thresholds: HttpThresholds) -> None:
        self._events = events
        self._build = build
        self._thresholds = thresholds
        self._lock = threading.Lock()
        self._content = CachedBody(b"", b"", "")
        self._number = -1
        self._until = 0.0

    def get_body(self) -> CachedBody:
        """Returns the body of the current state; builds it again if it is out of date."""
        with self._lock:
            number = self._events.last
            if number != self._number or time.monotonic() >= self._until:
                body = self._build(number)
                if body != self._content.body:
                    self._content = CachedBody(body, self._compress_body(body), f'"{secrets.token_hex(8)}"')
                self._number = number
                self._until = time.monotonic() + self._thresholds.state_seconds
            return self._content

    def _compress_body(self, body: bytes) -> bytes:
        if len(body) < self._thresholds.compressed_bytes:
            return b""
        return gzip.compress(body, self._thresholds.compression_level, mtime=0)


class TableTexts:
    """Encodes table overviews as JSON; the JSON of an unchanged overview is cached."""

    def __init__(self) -> None:
        self._known: dict[TableName, tuple[TableOverview, bytes]] = {}

    def join_tables(self, tables: Sequence[TableOverview]) -> bytes:
        """Returns the overviews as the bytes of one JSON array."""
        known = self._known
        self._known = {overview.table: self._encode_table(overview, known) for overview in tables}
        return b"[" + b",".join(text for _, text in self._known.values()) + b"]"

    def _encode_table(
        self, overview: TableOverview, known: dict[TableName, tuple[TableOverview, bytes]]
    ) -> tuple[TableOverview, bytes]:
        cached_text = known.get(overview.table)
        return (
            cached_text if cached_text is not None and cached_text[0] is overview else (overview, encode_json(overview))
        )
