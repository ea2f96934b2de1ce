"""Tables join a running stream in whatever order the threads of ingestion run: the stream goes on until it is stopped.

The ingestion, its transport and its loads are real; the engine, the server and the tables are not, and each of their
calls takes a random time, in which other threads run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timezone
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.debezium import transport as transport_module
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers import source_server
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost
from arctic_runtime.ingest.transports.debezium.stream import stream as stream_module
from arctic_runtime.ingest.transports.debezium.stream.reading import Reading
from arctic_runtime.ingest.transports.debezium.stream.run import Piece
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Failure, Progress
from arctic_runtime.thresholds import SHIPPED
from tests.simulation.kernel import EPOCH, Kernel, Process
from tests.simulation.patches import simulate_runtime
from tests.simulation.threads import Current, Datetime

CONNECTION = DebeziumConnection("postgresql", "db", 5432, "shop", "reader", "", (r"public\.a",))
BEGIN = Position({}, {"pos": 1}).text
LATER = ("public.b", "public.c")
BATCHES_AFTER_JOINS = 5


class World:
    """What happens in one seed; `pause` lets a random time pass."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kernel = Current.kernel = Kernel()
        Current.tokens = lambda: f"{self.random.getrandbits(128):032x}"
        self.process = Process("ingest", "host", 1, EPOCH)
        self.fault = ""
        self.loading: frozenset[str] = frozenset()

    def pause(self, most: float = 0.3) -> None:
        self.kernel.sleep(self.random.choice((0.0, self.random.random() * most)))

    def run(self, *actions: Any) -> None:
        """Runs actions in a thread each, for an hour or until all threads have ended."""
        for action in actions:
            self.kernel.start(self.process, action, "thread")
        self.kernel.run_until(EPOCH + 3600)
        self.kernel.close()


@dataclass
class Server:
    world: World
    gives_signs_of_life: bool = False

    def _answer(self, *_: Any) -> None:
        self.world.pause()

    check_server = prepare_server = withdraw_tables = push_log_end = close_connection = _answer

    def publish_tables(self, _: Any) -> None:
        self.world.pause()
        if self.world.fault == "server":
            raise ConnectionLost("the server is away")

    def identify_log(self) -> None:
        return None

    def get_log_end(self) -> int:
        return 1 << 30

    def has_reached(self, *_: Any) -> bool:
        return False

    def find_unreadable(self, _: Any) -> dict[str, str]:
        self.world.pause()
        return {}

    def find_unsent(self, *_: Any) -> dict[str, None]:
        self.world.pause()
        return {}

    def estimate_rows(self) -> dict[str, int]:
        self.world.pause()
        return {}


class Run:
    """A run of an engine, which gives a batch of one event at each call."""

    def __init__(self, world: World, position: Position) -> None:
        self.position = self.read = position
        self.engine = SimpleNamespace(has_waiting=False)
        self.is_holding = False
        self._world = world
        self._is_ended = False

    def take_records(self) -> Any:
        self._world.pause()
        return None if self._is_ended else SimpleNamespace(offset={})

    def split_records(self, _: Any) -> Iterator[Piece]:
        self.position = Position({}, {"pos": self.position.offset["pos"] + 1})
        yield Piece(Batch((), self.position.text, 1))

    def end_run(self) -> None:
        self._world.pause(8.0)
        self._is_ended = True


@dataclass
class Load:
    """A load that is near the end of its source from the first batch on, and asks again and again to be finished."""

    world: World
    is_finishing: bool = False
    is_closed: bool = False

    def read_batches(self) -> Iterator[Batch]:
        yield Batch((), "0", 1, is_snapshot=True)
        yield Batch((), "1", 1)
        while not self.is_finishing and not self.is_closed:
            if self.world.fault == "load":
                return
            self.world.pause(1.0)
            yield Batch((), "1", 0, caught_up=Datetime.now(timezone.utc))

    def select_after(self, events: Any, _: str) -> Any:
        return events

    def acknowledge_batch(self, _: Batch) -> None:
        """Nothing is acknowledged."""

    def finish_load(self) -> None:
        self.world.pause()
        self.is_finishing = True
        self.world.loading = frozenset()

    def close_source(self) -> None:
        self.is_closed = True


@dataclass
class DeadLetters:
    """The table with the progress; it has no dead letters."""

    world: World
    table: TableName
    progress: Progress
    requested: frozenset[str] = frozenset()
    saved: list[Progress] = field(default_factory=list)
    wrong: list[Progress] = field(default_factory=list)
    """Progress that claims tables for the stream whose load had not ended."""

    def read_progress(self) -> Progress:
        return self.progress

    def save_progress(self, progress: Progress, loaded: frozenset[str] = frozenset()) -> None:
        self.world.pause()
        self.progress = progress
        self.requested -= loaded
        self.saved.append(progress)
        if self.world.loading & (progress.tables or frozenset()):
            self.wrong.append(progress)

    def save_failure(self, message: str) -> Failure:
        return Failure(message, Datetime.now(timezone.utc))

    def list_requested_tables(self) -> frozenset[str]:
        return self.requested

    def find_newest_number(self) -> int:
        return 0

    def _ignore(self, *_: Any) -> None:
        """There are no dead letters."""

    create_or_widen = check_limit = drop_dead_letters = save_settings = save_loading = _ignore


class Lease:
    """A lease that nobody else takes, whose renewal takes a while."""

    def __init__(self, world: World) -> None:
        self._pause = world.pause

    def take_lease(self) -> None:
        self._pause()

    renew_lease = end_lease = take_lease

    def is_own(self) -> bool:
        return True

    def renew_in_background(self, _: Any) -> Any:
        return nullcontext()


class TableWriter:
    is_loaded = True
    snapshot = SimpleNamespace(begin_snapshot=lambda: None)

    def __init__(self, name: str) -> None:
        self.table = SimpleNamespace(name=name, table=TableName("lake", "shop", name))

    def invalidate_position(self) -> None:
        """No position is kept."""

    merge_base = invalidate_position


class Tables:
    """The tables of the source: after a while there are some more, and then a user wants one of them loaded again."""

    def __init__(self, world: World, dead: DeadLetters) -> None:
        self.writers: dict[str, TableWriter] = {"public.a": TableWriter("a")}
        self.declared = frozenset(self.writers)
        self.is_complete = False
        self._world = world
        self._dead = dead
        self._later = list(LATER)

    @property
    def names(self) -> Mapping[str, TableName]:
        return {name: writer.table.table for name, writer in self.writers.items()}

    @property
    def source_names(self) -> Mapping[str, str]:
        return {writer.table.name: name for name, writer in self.writers.items()}

    def is_look_due(self) -> bool:
        return self._world.random.random() < 0.3

    def discover_tables(self, _: Progress) -> None:
        self._world.pause()
        if self._later:
            name = self._later.pop(0)
            self.writers[name] = TableWriter(name.partition(".")[2])
        elif not self.is_complete:
            self.is_complete = True
            self._dead.requested = frozenset({LATER[0]})

    def find_by_model(self, _: Any) -> set[str]:
        return set()

    def list_unstreamed(self, progress: Progress) -> set[str]:
        return {*self.writers} - (progress.tables or frozenset())

    def list_requested(self, dead_letters: DeadLetters) -> set[str]:
        return {*self.writers} & dead_letters.requested


@dataclass
class Writer:
    """Writes the batches of some tables, which takes a while."""

    world: World
    tables: Mapping[str, Any]
    dead_letters: DeadLetters
    ignored: frozenset[str] = frozenset()
    can_wait: bool = False

    def write_batch(self, *_: Any) -> tuple[Any, ...]:
        self.world.pause()
        return ()

    collect_batch = end_snapshot = write_batch

    def _ignore(self) -> None:
        """No state is kept."""

    begin_snapshot = invalidate_positions = _ignore

    def leave_out(self, _: Any) -> Writer:
        return self


def build_ingestion(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Ingestion, DeadLetters]:
    create_load = DebeziumTransport.load_tables

    def apply_event(reading: Reading, event: Any, apply: Any = Reading.apply_event) -> None:
        world.pause()
        apply(reading, event)
        world.pause()

    def load_tables(transport: DebeziumTransport, tables: Any, position: str, create: Any = create_load) -> Any:
        load = create(transport, tables, position)
        world.loading = frozenset(tables)
        return load

    monkeypatch.setattr(Reading, "apply_event", apply_event)
    monkeypatch.setattr(DebeziumTransport, "load_tables", load_tables)
    monkeypatch.setattr(stream_module, "start_run", lambda *given: Run(world, given[-1]))
    monkeypatch.setattr(transport_module, "DebeziumLoad", lambda *_: Load(world))
    probe = SimpleNamespace(check_answer=lambda: None, close_probe=lambda: None)
    monkeypatch.setattr(DebeziumTransport, "open_probe", lambda _: probe)
    monkeypatch.setattr(source_server, "connect_server", lambda *_: Server(world))
    source = IngestSource("shop", "postgresql", {}, (), TableName("lake", "shop", "dead"), trigger_seconds=0)
    reader: Any = SimpleNamespace(thresholds=SHIPPED, create_namespace=lambda _: None)
    connection = SourceConnection(DebeziumTransport(CONNECTION), SimpleNamespace())  # type: ignore[arg-type]
    ingestion: Any = Ingestion(source, connection, reader, SimpleNamespace)
    progress = Progress(BEGIN, tables=frozenset({"public.a"}))
    ingestion._dead_letters = dead = DeadLetters(world, source.dead_letter_table, progress)
    ingestion._lease, ingestion._tables = Lease(world), Tables(world, dead)

    def create_writer(tables: Any, _: Any) -> Writer:
        return Writer(world=world, tables=dict.fromkeys(tables), dead_letters=dead)

    ingestion._create_writer = create_writer
    return ingestion, dead


@dataclass
class Ended:
    """How ingestion ended: with an error or without, because it was stopped or by itself."""

    dead: DeadLetters
    error: str = ""
    is_over: bool = False
    was_stopped: bool = False


def run_until_joined(seed: int, monkeypatch: pytest.MonkeyPatch, fault: str = "") -> Ended:
    """Ingests until some batches after the last table has joined."""
    with simulate_runtime():
        world = World(seed)
        world.fault = fault
        ingestion, dead = build_ingestion(world, monkeypatch)
        ended = Ended(dead)

        def ingest() -> None:
            try:
                ingestion.run(once=False)
            except SourceError as error:
                ended.error = str(error)
            ended.is_over = True

        def stop_when_joined() -> None:
            tables: Any = ingestion._tables
            while not ended.is_over and not (tables.is_complete and count_batches(dead) >= BATCHES_AFTER_JOINS):
                world.kernel.sleep(0.1)
            ended.was_stopped = not ended.is_over
            ingestion.stop()

        world.run(ingest, stop_when_joined)
    assert world.kernel.errors == []
    return ended


def count_batches(dead: DeadLetters) -> int:
    """Number of batches since the stream has all tables, and no user wants one loaded again."""
    is_joined = [not dead.requested and progress.tables == {"public.a", *LATER} for progress in reversed(dead.saved)]
    return is_joined.index(False) - 1 if False in is_joined else 0


@pytest.mark.parametrize("seed", range(60))
def test_a_stream_goes_on_after_tables_have_joined_until_it_is_stopped(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no progress claims a table while it is loaded: its events of then would be missing after a death."""
    ended = run_until_joined(seed, monkeypatch)
    assert (ended.error, ended.was_stopped, ended.is_over) == ("", True, True)
    assert count_batches(ended.dead) >= BATCHES_AFTER_JOINS
    assert ended.dead.wrong == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("fault", "error"),
    [("load", "ended before the stream had its tables"), ("server", "the server is away")],
)
def test_a_load_that_ends_by_itself_or_can_not_begin_is_an_error(
    seed: int, monkeypatch: pytest.MonkeyPatch, fault: str, error: str
) -> None:
    """The stream would go on without its tables, and nobody would know."""
    ended = run_until_joined(seed, monkeypatch, fault)
    assert error in ended.error
    assert not ended.was_stopped
