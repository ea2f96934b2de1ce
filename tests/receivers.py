"""Receivers of traces, metrics and lineage over HTTP on this machine: one that answers, one that never does, none."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

OUTSIDE = ("OTEL_", "OPENLINEAGE", "ARCTIC_METRICS_FILE")
"""How the variables begin by which telemetry is configured."""


class Receiver:
    """All that was sent to it, as OpenTelemetry and OpenLineage define it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, bytes]] = []

    @property
    def paths(self) -> set[str]:
        return {path for path, _ in self.requests}

    @property
    def text(self) -> str:
        return b"".join(body for _, body in self.requests).decode("utf-8", "replace")

    def bodies(self, path: str) -> list[bytes]:
        return [body for asked, body in self.requests if asked == path]

    @property
    def spans(self) -> list[Any]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies("/v1/traces"))
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def span(self, name: str) -> Any:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The last value of each series, by the name of the metric and its attributes."""
        values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for request in map(ExportMetricsServiceRequest.FromString, self.bodies("/v1/metrics")):
            for resource in request.resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                        attributes = sorted((key.key, key.value.string_value) for key in point.attributes)
                        values[metric.name, tuple(attributes)] = point.as_double or point.as_int
        return values

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies("/api/v1/lineage")]


@contextmanager
def receive() -> Iterator[Receiver]:
    """A receiver that takes everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_packed = self.headers.get("content-encoding") == "gzip"
            receiver.requests.append((self.path, gzip.decompress(body) if is_packed else body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield receiver
        finally:
            server.shutdown()


@contextmanager
def hang() -> Iterator[str]:
    """The address of a receiver that accepts connections and never answers."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def refuse() -> Iterator[str]:
    """The address of a port at which nobody listens."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def send_to(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Configures traces, metrics and lineage by variables."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OPENLINEAGE_URL", url)
