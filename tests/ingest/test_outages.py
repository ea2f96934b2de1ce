"""A server dies, freezes, or changes its password: the first probes tell it, and the source goes on without a loss."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.job.source_watch import watch_source
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.reading import Reading, drain, progress
from tests.ingest.servers import PostgreSQLServer
from tests.ingest.two_tables import Source, source

__all__ = ["source"]

QUICK = replace(
    SHIPPED.debezium,
    probe_seconds=0.05,
    probe_timeout_seconds=1.0,
    reconnect_poll_seconds=0.1,
    silence_seconds=3.0,
)
PROBES_UNTIL_TOLD = 3
"""The first probe may have been under way when the server went away, and be answered."""


@contextmanager
def killed(source: Source) -> Iterator[None]:
    source.server.stop()
    yield
    source.server.start()


def frozen(source: Source) -> AbstractContextManager[None]:
    return source.server.frozen()


@contextmanager
def rotated(source: Source) -> Iterator[None]:
    """The password is another one, and all connections of the user are cut."""
    set_password(source, "two")
    yield
    set_password(source, "one")


def set_password(source: Source, password: str) -> None:
    user = f"u{source.at}"
    if isinstance(source.server, PostgreSQLServer):
        cut = f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{user}'"
        source.sql(f"alter role {user} password '{password}'", cut)
        return
    source.sql(f"set password for {user} = password('{password}')")
    for number in source.sql(f"select id from information_schema.processlist where user = '{user}'").split():
        source.sql(f"kill {number}")


@pytest.fixture
def user(source: Source) -> Source:
    """The source as read by a user with a password."""
    name = f"u{source.at}"
    if isinstance(source.server, PostgreSQLServer):
        source.sql(f"create role {name} login superuser replication password 'one'")
    else:
        source.sql(f"create user {name} identified by 'one'", f"grant all privileges on *.* to {name}")
    return replace(source, connection=replace(source.connection, user=name, password="one"))


@dataclass
class Watched:
    """A transport that is read in a thread, as ingestion reads it, and what its probes tell."""

    transport: DebeziumTransport
    position: str
    batches: list[Batch] = field(default_factory=list)
    error: str = ""
    probes: int = 0
    told: list[str] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    @property
    def probe_seconds(self) -> float:
        return self.transport.probe_seconds

    def open_probe(self) -> Any:
        self._probe = self.transport.open_probe()
        return self

    def check_answer(self) -> None:
        self.probes += 1
        self._probe.check_answer()

    def close_probe(self) -> None:
        self._probe.close_probe()

    def note(self, error: str, _: str) -> None:
        self._tell(lambda: self.told.append(error))

    def read(self) -> None:
        try:
            self.transport.open_at(self.position)
            for batch in self.transport.read_batches(until_drained=False):
                self._tell(lambda batch=batch: self.batches.append(batch))
        except SourceError as error:
            self._tell(lambda error=error: setattr(self, "error", str(error)))

    def wait(self, holds: Callable[[], object]) -> None:
        with self.news:
            assert self.news.wait_for(holds, 120), (self.told, self.error)

    def _tell(self, change: Callable[[], None]) -> None:
        with self.news:
            change()
            self.news.notify_all()

    @property
    def ids(self) -> list[int]:
        return Reading([batch for batch in self.batches if batch.count]).ids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (killed, "see whether the server runs"),
        (frozen, "see whether the server runs"),
        (rotated, "password of user"),
    ],
)
def test_an_outage_is_told_by_the_first_probes_and_no_row_is_lost(
    user: Source, fault: Callable[[Source], Any], reason: str
) -> None:
    first = drain(user.connection)
    transport = DebeziumTransport(user.connection, QUICK)
    watched = Watched(transport, first.position)
    reader = threading.Thread(target=watched.read)
    with watch_source(watched, watched.note, str):  # type: ignore[arg-type]
        reader.start()
        user.sql("insert into {at}.a values (10, 1)")
        watched.wait(lambda: watched.ids == [10])
        with fault(user):
            before = watched.probes
            watched.wait(lambda: watched.told)
            assert watched.probes - before <= PROBES_UNTIL_TOLD
            assert reason in watched.told[0]
            assert "what to do: " in watched.told[0]
            if fault is rotated:
                watched.wait(lambda: reason in watched.error)
        watched.wait(lambda: watched.told[-1] == "")
        user.sql("insert into {at}.a values (11, 1)")
        if not watched.error:
            watched.wait(lambda: watched.ids == [10, 11])
    transport.close_source()
    reader.join()
    last = [batch for batch in watched.batches if batch.count][-1]
    rest = drain(user.connection, progress(last)) if watched.error else None
    assert [*watched.ids, *(rest.ids if rest else ())] == [10, 11]
