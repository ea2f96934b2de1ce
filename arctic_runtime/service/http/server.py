"""HTTP server in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import closing
from typing import Any

import h11
import uvicorn
from typing_extensions import Self
from uvicorn.protocols.http.h11_impl import H11Protocol

from arctic_runtime.errors import ConfigError
from arctic_runtime.service.http.agent_routes import HttpAgents
from arctic_runtime.service.http.application import ReadMetrics, build_application
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.live_data import LiveService
from arctic_runtime.thresholds import SHIPPED, HttpThresholds


def build_limited_protocol(head_seconds: float) -> type[asyncio.Protocol]:
    """Builds a protocol class for uvicorn that closes a connection whose request head takes over `head_seconds`.

    Without this limit, uvicorn waits forever for the rest of a head that has begun.
    """

    class LimitedProtocol(H11Protocol):
        _drop: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._unlimit()
            elif self._drop is None and self.conn.trailing_data[0]:
                self._limit()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unlimit()
            super().connection_lost(exc)

        def _limit(self) -> None:
            self._drop = self.loop.call_later(head_seconds, self.transport.close)

        def _unlimit(self) -> None:
            if self._drop is not None:
                self._drop.cancel()
                self._drop = None

    return LimitedProtocol


class HttpServer:
    """Serves a service over HTTP from `start_server` to `stop_server`, in a thread of its own."""

    def __init__(
        self,
        service: LiveService,
        settings: HttpSettings,
        metrics: ReadMetrics | None = None,
        thresholds: HttpThresholds = SHIPPED.http,
        agents: HttpAgents | None = None,
    ) -> None:
        self._settings = settings
        self._thresholds = thresholds
        self._app = build_application(service, settings, metrics, thresholds, agents)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._port = settings.port

    def __enter__(self) -> Self:
        self.start_server()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_server()

    @property
    def url(self) -> str:
        """Address of the page; if the configured port is 0, it has the actual port once the server has started."""
        scheme = "https" if self._settings.has_tls else "http"
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{scheme}://{host}:{self._port}"

    def start_server(self) -> None:
        """Starts the server; raises ConfigError if the address or the certificate can't be used."""
        bound = self._bind_socket()
        self._port = bound.getsockname()[1]
        try:
            self._server = uvicorn.Server(self._build_config())
        except (OSError, ssl.SSLError) as error:
            bound.close()
            raise ConfigError(
                f"the certificate {self._settings.certificate_file} and the key {self._settings.key_file} can't be "
                f"used: {error}.",
                expected="two files in PEM format that belong together",
            ) from error
        self._thread = threading.Thread(target=self._run_server, args=(self._server, bound), name="http", daemon=True)
        self._thread.start()
        self._wait_until_started(self._server, self._thread)

    def stop_server(self) -> None:
        """Ends the event streams, waits for the other requests to end, and then stops the server."""
        if self._server is None or self._thread is None:
            return
        self._app.state.feed.close_streams()
        self._server.should_exit = True
        self._thread.join()
        self._server = self._thread = None

    def _bind_socket(self) -> socket.socket:
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        # Without its protocol asyncio lets connections wait for 40 ms between the head of a response and its body.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((settings.host, settings.port))
            bound.listen(self._thresholds.waiting_connections)
        except OSError as error:
            bound.close()
            raise ConfigError(
                f"HTTP can't be served on {settings.host}:{settings.port}: {error.strerror}.",
                fix="choose another port or address, or end the program that has it",
            ) from error
        return bound

    def _build_config(self) -> uvicorn.Config:
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=build_limited_protocol(self._thresholds.head_seconds),
            ssl_certfile=self._settings.certificate_file or None,
            ssl_keyfile=self._settings.key_file or None,
            timeout_graceful_shutdown=self._thresholds.stop_seconds,
        )
        config.load()
        return config

    @staticmethod
    def _run_server(server: uvicorn.Server, bound: socket.socket) -> None:
        with closing(bound):
            server.run(sockets=[bound])

    def _wait_until_started(self, server: uvicorn.Server, thread: threading.Thread) -> None:
        """Waits until the server answers requests; raises ConfigError if it does not start in time."""
        waiting, left = threading.Event(), self._thresholds.start_seconds
        while not server.started and thread.is_alive() and left > 0:
            waiting.wait(0.01)
            left -= 0.01
        if not server.started:
            raise ConfigError(f"HTTP on {self.url} did not start; see the log for why")
