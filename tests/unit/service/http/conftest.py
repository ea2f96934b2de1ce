"""A server for the tests of a module, of a service that no warehouse is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.event_log import EventLog
from tests.service.fake import FakeService, overviews
from tests.unit.service.http.client import Client

Serve = Callable[..., Client]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[FakeService, EventLog, Client]]:
    fake = FakeService(overviews(30, hostile=True))
    with HttpServer(fake, HttpSettings(port=0)) as server:
        yield fake, fake.events, Client(server.url)


@pytest.fixture
def fake(shared: tuple[FakeService, EventLog, Client]) -> FakeService:
    fake, events, _ = shared
    fake.events = events
    fake.reset()
    return fake


@pytest.fixture
def client(shared: tuple[FakeService, EventLog, Client], fake: FakeService) -> Client:
    return shared[2]


@pytest.fixture
def serve(fake: FakeService) -> Iterator[Serve]:
    """Serves the fake with some settings, and returns a client of it."""
    with ExitStack() as stack:

        def served(metrics: Any = None, **given: Any) -> Client:
            server = stack.enter_context(HttpServer(fake, HttpSettings(port=0, **given), metrics))
            return Client(server.url, given.get("token", ""))

        yield served
