"""A TCP proxy on the loopback that hurts connections as networks do: it delays, cuts, truncates, repeats or refuses.

`with NetworkProxy(port) as proxy` listens at `proxy.port` and passes bytes on to `port`; `with proxy.faulty(fault)`
gives some of the connections that are open or come a fault.
"""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from typing_extensions import Self

HOST = "127.0.0.1"
CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)
"""Option of a socket by which its end is a reset, as after the crash of a machine, and not an orderly end."""
HEAD_END = b"\r\n\r\n"
LAST_CHUNK = re.compile(rb"\r\n0\r\n(?:[^\r\n]+\r\n)*\r\n\Z")
"""The end of a body in chunks, with fields that may follow the last one."""


@dataclass(frozen=True)
class Fault:
    """What happens to connections; all numbers of bytes count from the begin of the fault in a connection.

    `times` is the number of connections, or of requests of HTTP, that have it; None for all.
    """

    delay_seconds: float = 0.0
    """Pause before each piece of bytes, in both directions."""

    request_bytes: int | None = None
    """Number of bytes to the server after which a connection is reset."""

    answer_bytes: int | None = None
    """Number of bytes from the server after which a connection is ended as if the answer were complete."""

    is_refused: bool = False
    """Whether connections end before a byte is passed on."""

    is_repeated: bool = False
    """Whether each request of HTTP reaches the server twice, and the client gets the second answer."""

    times: int | None = None


@dataclass
class NetworkProxy:
    """The proxy of the server at `target`, a port of the loopback; `hurt` counts the connections that had a fault."""

    target: int
    hurt: int = 0
    fault: Fault | None = None
    _listener: socket.socket = field(default_factory=lambda: socket.create_server((HOST, 0)))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    @contextmanager
    def faulty(self, fault: Fault) -> Iterator[None]:
        """Connections have a fault until the block ends."""
        with self._lock:
            self.fault, self.hurt = fault, 0
        try:
            yield
        finally:
            with self._lock:
                self.fault = None

    def cut_all(self) -> None:
        """Resets all connections that are open."""
        with self._lock:
            connections, self._open = self._open, []
        for connection in connections:
            reset(connection)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True, name="proxied").start()

    def take_fault(self) -> Fault | None:
        """Returns the fault of the next connection or request; None if it has none."""
        with self._lock:
            fault = self.fault
            if fault is None or (fault.times is not None and self.hurt >= fault.times):
                return None
            self.hurt += 1
            return fault

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            fault = self.fault
        if fault is not None and fault.is_refused and self.take_fault() is not None:
            reset(client)
            return
        try:
            server = socket.create_connection((HOST, self.target))
        except OSError:
            reset(client)
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open += [client, server]
        pipe = _Pipe(self, client, server)
        for pump in (pipe.send_requests, pipe.send_answers):
            threading.Thread(target=pump, daemon=True, name="proxied").start()


class _Pipe:
    """One connection through the proxy; its fault begins with the first bytes that come while there is one."""

    def __init__(self, proxy: NetworkProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.fault: Fault | None = None
        self.counts = {"request": 0, "answer": 0}
        self.lock = threading.Lock()

    def find_fault(self) -> Fault | None:
        with self.lock:
            if self.proxy.fault is None:
                self.fault, self.counts = None, {"request": 0, "answer": 0}
            elif self.fault is None or self.fault.is_repeated:
                self.fault = self.proxy.take_fault()
            return self.fault

    def send_requests(self) -> None:
        with suppress(OSError):
            while data := self.client.recv(CHUNK):
                fault = self.find_fault()
                if fault is not None and fault.is_repeated:
                    data = read_request(self.client, data)
                    repeat_request(data, self.proxy.target)
                if not self.pass_on(data, self.server, "request", fault.request_bytes if fault else None):
                    reset(self.client)
                    break
        self.end()

    def send_answers(self) -> None:
        with suppress(OSError):
            while data := self.server.recv(CHUNK):
                fault = self.fault if self.fault is not None and self.fault.is_repeated else self.find_fault()
                if not self.pass_on(data, self.client, "answer", fault.answer_bytes if fault else None):
                    break
        self.end()

    def pass_on(self, data: bytes, to: socket.socket, direction: str, limit: int | None) -> bool:
        """Passes bytes on, up to a limit; returns whether it was not reached."""
        if self.fault is not None:
            time.sleep(self.fault.delay_seconds)
        room = None if limit is None else max(0, limit - self.counts[direction])
        to.sendall(data[:room])
        self.counts[direction] += len(data)
        return room is None or len(data) <= room

    def end(self) -> None:
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()


def reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
    connection.close()


def read_request(client: socket.socket, begin: bytes) -> bytes:
    """Reads a whole request of HTTP, which begins so; its length is in its head, or it comes in chunks.

    A client that waits for leave to send its body gets it.
    """
    data = begin
    while HEAD_END not in data:
        data += receive(client)
    head, _, body = data.partition(HEAD_END)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:")]
    if len(lines) < len(head.split(b"\r\n")):
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    fields = {
        name.strip().lower(): value.strip().lower() for name, _, value in (line.partition(b":") for line in lines)
    }
    if fields.get(b"transfer-encoding") == b"chunked":
        while not LAST_CHUNK.search(body):
            body += receive(client)
    while len(body) < int(fields.get(b"content-length", 0)):
        body += receive(client)
    return b"\r\n".join(lines) + HEAD_END + body


def receive(client: socket.socket) -> bytes:
    """Receives some bytes; raises OSError if the other side sends no more."""
    data = client.recv(CHUNK)
    if not data:
        raise OSError("the connection ended within a request")
    return data


def repeat_request(request: bytes, port: int) -> None:
    """Sends a request to a server by a connection of its own, and waits for the answer, which nobody gets."""
    with socket.create_connection((HOST, port)) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection, method=request.partition(b" ")[0].decode())
        answer.begin()
        answer.read()
