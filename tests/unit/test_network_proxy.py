"""The proxy of tests does to connections what it says, and nothing without a fault."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.network_proxy import HOST, Fault, NetworkProxy

BODY = b"x" * 1000


class Counting(BaseHTTPRequestHandler):
    """Answers each request with 1,000 bytes, and keeps what was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[bytes]

    def do_POST(self) -> None:
        self.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Prints nothing."""


@pytest.fixture
def asked() -> list[bytes]:
    return []


@pytest.fixture
def proxy(asked: list[bytes]) -> Iterator[NetworkProxy]:
    handler = type("Bound", (Counting,), {"asked": asked})
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with NetworkProxy(server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()


def ask(proxy: NetworkProxy, content: bytes = b"hello") -> bytes:
    connection = http.client.HTTPConnection(HOST, proxy.port, timeout=20)
    try:
        connection.request("POST", "/", content)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_without_a_fault_everything_passes(proxy: NetworkProxy, asked: list[bytes]) -> None:
    large = b"y" * 500_000
    assert [ask(proxy), ask(proxy, large)] == [BODY, BODY]
    assert asked == [b"hello", large]
    assert proxy.hurt == 0


def test_a_refused_or_cut_connection_is_an_error_of_the_client(proxy: NetworkProxy, asked: list[bytes]) -> None:
    for fault in (Fault(is_refused=True, times=1), Fault(request_bytes=10, times=1)):
        with proxy.faulty(fault):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(proxy)
            assert ask(proxy) == BODY
            assert proxy.hurt == 1
    assert asked == [b"hello"] * 2


def test_a_truncated_answer_is_of_a_request_that_took_place(proxy: NetworkProxy, asked: list[bytes]) -> None:
    with proxy.faulty(Fault(answer_bytes=300)), pytest.raises(http.client.IncompleteRead):
        ask(proxy)
    assert asked == [b"hello"]
    assert ask(proxy) == BODY


def test_a_repeated_request_reaches_the_server_twice_and_is_answered_once(
    proxy: NetworkProxy, asked: list[bytes]
) -> None:
    with proxy.faulty(Fault(is_repeated=True)):
        assert ask(proxy, b"z" * 200_000) == BODY
    assert asked == [b"z" * 200_000] * 2


def test_a_delay_passes(proxy: NetworkProxy) -> None:
    begin = time.monotonic()
    with proxy.faulty(Fault(delay_seconds=0.05)):
        assert ask(proxy) == BODY
    assert time.monotonic() - begin >= 0.1
