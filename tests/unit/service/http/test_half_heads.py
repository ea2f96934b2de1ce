"""Clients that open a connection, and never come to the end of a request's head."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.thresholds import HttpThresholds
from tests.service.fake import FakeService, overviews

WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    limits = HttpThresholds(head_seconds=0.3)
    with HttpServer(FakeService(overviews(3)), HttpSettings(port=0), thresholds=limits) as server:
        parts = urlsplit(server.url)
        yield str(parts.hostname), int(parts.port or 0)


@pytest.mark.parametrize(
    "sent", [b"", b"GET", b"GET /health HTTP/1.1\r\nHost: localhost\r\n", WHOLE[:-2] + b"X-Slow: "], ids=len
)
def test_a_connection_with_half_a_head_is_dropped(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""


def test_a_head_that_comes_bit_by_bit_for_ever_is_dropped(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=0.05) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
        for _ in range(1000):
            try:
                connection.sendall(b"X")
                if connection.recv(100) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("it was not dropped")


def test_half_a_head_after_a_whole_request_is_dropped_and_whole_ones_are_answered(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        for _ in range(2):
            connection.sendall(WHOLE)
            assert answer(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(WHOLE[:20])
        assert connection.recv(100) == b""


def answer(connection: socket.socket) -> bytes:
    """A whole answer, whose head and body may come apart."""
    came = b""
    while not came.endswith(b"alive"):
        came += connection.recv(10_000)
    return came
