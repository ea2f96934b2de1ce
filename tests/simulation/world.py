"""One run: a source, a catalog, services that keep a project's tables fresh, faults, and readers who look at all of it.

The project has two ingested tables, a model of their join, a model of its groups, one that reads an ingested table and
the join, and in some seeds one of change events. One or two services ingest, refresh and maintain them; each is a
process that starts again after it died. In some seeds builds make the models, an order is forgotten, or events can't be
applied at first and dead letters are applied again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from pyspark.errors import PySparkException

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.effects import EFFECTS, set_failpoint
from arctic_runtime.errors import ArcticError, CatalogError
from arctic_runtime.ingest.formats.rows import build_rows_format
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import ChangeSource
from arctic_runtime.model.table import Compaction, Model, ModelConfig, Retention
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.profile import Profile
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshListeners, RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service, ServiceWork
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.thresholds import Thresholds
from tests.simulation import edits
from tests.simulation.builds import SimulatedBranch, run_build
from tests.simulation.dead_letters import UNFIT, Letter, run_replay
from tests.simulation.faults import Faults, Kind, draw_number
from tests.simulation.forgetting import run_forget
from tests.simulation.kernel import EPOCH, Kernel, Process
from tests.simulation.lake import Catalog, FileGone
from tests.simulation.runtime import RESULT_COLUMNS, Pool, Reader
from tests.simulation.source import (
    CUSTOMERS,
    FLAWS,
    FORGOTTEN_AMOUNT,
    FORGOTTEN_KEY,
    ORDERS,
    Source,
    Transport,
    add_flaws,
    add_forgotten_order,
    draw_transactions,
    is_fit,
)
from tests.simulation.spark import SparkRefused
from tests.simulation.threads import Current, get_process

ODS_ORDERS, ODS_CUSTOMERS = TableName("lake", "ods", "orders"), TableName("lake", "ods", "customers")
PAID, REGIONS, OPEN, TALLY = (
    TableName("lake", *own) for own in (("dwd", "paid"), ("dws", "regions"), ("dws", "totals"), ("dws", "tally"))
)
DEAD = TableName("lake", "ods", "shop__dead_letters")
INGESTED = {ORDERS: ODS_ORDERS, CUSTOMERS: ODS_CUSTOMERS}
QUERIES = {
    PAID: edits.QUERIES["paid"][0].sql,
    REGIONS: edits.QUERIES["regions"][0].sql,
    OPEN: "select o.customer as customer, count(*) as n, sum(p.amount) as paid from lake.ods.orders o "
    "left join lake.dwd.paid p on o.id = p.id group by o.customer",
    TALLY: "select customer, 1 as n, amount from `changes(lake.ods.orders)`",
}
READS: Mapping[TableName, tuple[TableName, ...]] = {
    PAID: (ODS_ORDERS, ODS_CUSTOMERS),
    REGIONS: (PAID,),
    OPEN: (ODS_ORDERS, PAID),
    TALLY: (ODS_ORDERS,),
}
RESULT_COLUMNS.update(
    {
        PAID: (Column("id", "bigint"), Column("region", "string"), Column("amount", "bigint")),
        REGIONS: (Column("region", "string"), Column("n", "bigint"), Column("amount", "bigint")),
        OPEN: (Column("customer", "bigint"), Column("n", "bigint"), Column("paid", "bigint")),
        TALLY: (Column("customer", "bigint"), Column("n", "bigint"), Column("amount", "bigint")),
    }
)
BuildKind = Literal["none", "at once", "in steps", "beside"]
"""How builds run: not at all; alone, published in one transaction or in steps; or beside services that follow too."""

BUILD_SHARES: Mapping[BuildKind, float] = {"at once": 0.12, "in steps": 0.08, "beside": 0.05}
FORGET_SHARE = 0.6
TALLY_SHARE = 0.5
"""Share of the seeds with a model of change events; nothing is forgotten in these."""

EDIT_SHARE = 0.5
"""Share of the seeds in which services alone make the models, and nothing is forgotten, with edits of queries."""

FLAW_SHARE, FLAWED_CHANGES = 0.35, 0.25
"""Shares of the seeds with events that can't be applied at first, and of such changes in these."""
PYICEBERG_EFFECTS = ("service.", "namespace.", "build.")
"""Effects that go through pyiceberg, here to a server that knows no locks; all others go through Spark."""


def change(thresholds: Thresholds, **groups: dict[str, Any]) -> Thresholds:
    return replace(thresholds, **{name: replace(getattr(thresholds, name), **own) for name, own in groups.items()})


@dataclass(frozen=True)
class Plan:
    """What a seed decides besides the faults of effects; times are seconds from the begin."""

    seconds: float
    poll_seconds: float
    trigger_seconds: float
    batch_size: int
    services: int
    merge: str
    small_bases: bool
    keeps_seconds: int
    kills: tuple[tuple[float, int], ...]
    pauses: tuple[tuple[float, int, float], ...]
    away: tuple[tuple[float, float], ...]
    full: tuple[tuple[float, float], ...]
    jumps: tuple[tuple[float, int, float], ...]

    @staticmethod
    def draw(seed: int, random: Random) -> Plan:
        seconds = random.choice((3600.0, 2 * 3600.0, 8 * 3600.0))
        poll = seconds / random.choice((12, 24, 48))
        is_rough = random.random() < 0.6

        def moments(most: int) -> list[float]:
            return sorted(random.random() * seconds for _ in range(random.randint(0, most) if is_rough else 0))

        services = random.choice((1, 2))
        return Plan(
            seconds,
            poll,
            random.choice((poll / 4, poll)),
            random.choice((1, 3, 100)),
            services,
            random.choice(("on_read", "on_write")),
            random.random() < 0.5,
            random.choice((600, 3600)),
            tuple((at, random.randrange(services)) for at in moments(3)),
            tuple((at, random.randrange(services), poll * random.choice((0.5, 4.0))) for at in moments(2)),
            tuple((at, poll * random.random() * 2) for at in moments(1)),
            tuple((at, poll * random.random() * 4) for at in moments(1)),
            tuple((at, random.randrange(services), poll * random.choice((-9.0, -1.0, 2.0, 9.0))) for at in moments(2)),
        )


class Project:
    """The models of the project; in some seeds queries are edited, and each service loads them again by itself."""

    name = "shop"
    threads = 2

    def __init__(self, world: World, reader: Reader, pool: Pool) -> None:
        self._world = world
        self._places = dict(world.places)
        self._refresh = Refresher(reader, pool, lambda table: world.readers.get(table, ()))  # type: ignore[arg-type]

    def prepare_thread(self) -> None:
        """A thread needs nothing."""

    def has_changed(self) -> bool:
        return self._places != self._world.places

    def load_models(self) -> Sequence[FollowedModel]:
        self._places = dict(self._world.places)
        return self.list_followed()

    def list_followed(self) -> Sequence[FollowedModel]:
        return [] if self._world.only_builds else self._world.list_followed(self._places)

    def refresh_model(self, task: Task) -> RefreshResult:
        return self._refresh(task)

    def list_models(self) -> Sequence[Model]:
        return self._world.models

    def list_maintained(self) -> Sequence[Maintained]:
        return [Maintained(model, self._world.readers.get(model.table, ())) for model in self._world.models]

    def list_sources(self) -> Sequence[ProjectSource]:
        return [ProjectSource("shop", tables=tuple(INGESTED.values()))]

    def list_scheduled(self) -> tuple[()]:
        return ()

    def list_tested_tables(self) -> tuple[()]:
        return ()

    def run_scheduled(self, name: str) -> str:
        raise AssertionError(name)

    def test_table(self, table: TableName) -> Any:
        raise AssertionError(table)


@dataclass
class SourceIngestion:
    """The ingestion of the source by one service, as `arctic serve` runs it."""

    world: World
    reader: Reader
    pool: Pool
    service: Service
    name: str = "shop"
    settings: str = "never edited"
    _job: Ingestion | None = None
    _is_stopped: bool = False

    def run_ingestion(self) -> None:
        plan = self.world.plan
        transport = Transport(self.world.source, plan.batch_size, plan.trigger_seconds, self.world.draw_replays)
        connection = SourceConnection(transport, self.world.form)  # type: ignore[arg-type]
        listeners = JobListeners(self._report_batch)
        self._job = Ingestion(self.world.ingest_source, connection, self.reader, self.pool.take_session, listeners)  # type: ignore[arg-type]
        if not self._is_stopped:
            self._job.run(once=False)

    def stop_ingestion(self) -> None:
        self._is_stopped = True
        if self._job is not None:
            self._job.stop()

    def _report_batch(self, batch: BatchReport) -> None:
        activity = self.service.activity
        activity.confirm_ingestion(self.name)
        if batch.count:
            self.service.handle_batch(self.name, {"events": batch.count}, INGESTED.values())


@dataclass
class World:
    """A run of one seed; `skip` are the ids of faults and transactions that are left out."""

    seed: int
    skip: frozenset[str] = frozenset()
    history: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    begin: float = EPOCH
    clock_error: float = 0.0
    active_seconds: float = 0.0
    """Simulated time in which services ran."""

    on_forgotten: Callable[[], None] = lambda: None
    """Called when the order that is to be forgotten is."""

    begun_forgetting: bool = False
    """Whether an attempt to forget the order may have begun, which must then be brought to its end."""

    is_forgotten: bool = False
    """Whether the order that is to be forgotten is, by a certificate."""

    def __post_init__(self) -> None:
        random = Random(self.seed)
        self.plan = Plan.draw(self.seed, random)
        drawn = draw_transactions(random, self.plan.seconds * 0.8)
        kept = [one for one in drawn if f"transaction {one.number}" not in self.skip]
        self.transactions = [one.number for one in kept]
        self.has_flaws = draw_number(self.seed, "flaws") < FLAW_SHARE
        if self.has_flaws:
            kept = add_flaws(kept, lambda *parts: draw_number(self.seed, *parts), FLAWED_CHANGES)
        self.builds = self._draw_builds()
        self.has_tally = draw_number(self.seed, "tally") < TALLY_SHARE
        self.reads = {table: read for table, read in READS.items() if table != TALLY or self.has_tally}
        self.readers = {
            table: tuple(reader for reader, tables in self.reads.items() if table in tables)
            for table in (*INGESTED.values(), *self.reads)
        }
        self.places: dict[str, int] = dict.fromkeys(edits.QUERIES, 0)
        # Beside dead letters, the delete of a row that was forgotten keeps its key.
        can_forget = not self.only_builds and not self.has_flaws and not self.has_tally
        self.forgets = can_forget and draw_number(self.seed, "forget") < FORGET_SHARE
        can_edit = self.builds == "none" and not self.forgets
        self.has_edits = can_edit and draw_number(self.seed, "edits") < EDIT_SHARE
        if self.forgets and "forget" not in self.skip:
            kept = add_forgotten_order(kept, self.plan.seconds)
        self.source = Source([replace(one, number=number) for number, one in enumerate(kept, 1)])
        self.kernel = Kernel()
        self.lake = Catalog(lambda: self.kernel.now)
        self.faults = Faults(self.seed, self.skip, self._note_fault)
        self.form = build_rows_format()
        self.services: dict[int, Process] = {}
        self.live: dict[int, Service] = {}
        self.hosts: Counter[str] = Counter()
        self.clocks: dict[str, float] = {}
        self._tokens = 0
        self._windows: dict[str, list[tuple[float, float]]] = {"away": [], "full": []}
        self.jobs: dict[str, Process] = {}
        self._actions: dict[str, Callable[[], None]] = {}
        self._build_models()
        self.mended: set[str] = set()
        self._is_held = False
        Current.mended = self.mended
        Current.kernel, Current.tokens, Current.alive = self.kernel, self._next_token, self._is_alive

    def _draw_builds(self) -> BuildKind:
        left = draw_number(self.seed, "builds")
        for kind, share in BUILD_SHARES.items():
            if left < share:
                # Catalogs that publish in steps have no views.
                return "at once" if kind == "in steps" and self.plan.merge == "on_read" else kind
            left -= share
        return "none"

    @property
    def only_builds(self) -> bool:
        """Whether models are made by builds alone, and services only ingest and maintain."""
        return self.builds in ("at once", "in steps")

    def list_followed(self, places: Mapping[str, int] | None = None) -> list[FollowedModel]:
        """Lists the models of the project, each after those that it reads, with the queries at `places`."""
        chosen = self.places if places is None else places
        models = [
            edits.edit_model(model, chosen[model.table.name]) if model.table.name in chosen else model
            for model in self.models
            if model.sql
        ]
        return [FollowedModel(model, model.table.name, frozenset(READS[model.table])) for model in models]

    def _build_models(self) -> None:
        plan = self.plan
        poll = plan.poll_seconds
        thresholds = change(
            Thresholds(),
            service={
                "poll_seconds": poll,
                "project_poll_seconds": 10 * poll,
                "lease_seconds": 3 * poll,
                "lease_renewal_seconds": poll,
                "lease_poll_seconds": poll,
                "retry_doublings": 3,
                "lease_snapshots": 20,
            },
            upkeep={
                "poll_seconds": poll,
                "settle_seconds": poll,
                "look_seconds": 4 * poll,
                "retry_doublings": 2,
            },
            ingest={
                "lease_seconds": 3 * poll,
                "lease_renewal_seconds": poll,
                "lease_poll_seconds": poll,
                "look_seconds": 10 * poll,
                "dead_letter_snapshots": 30,
                "kept_dead_letter_snapshots": 10,
            },
            merge={"unmerged_commits": 3}
            | ({} if plan.small_bases else {"overwritten_base_rows": 0, "overwritten_base_values": 0}),
            expiry={"snapshots": 3},
            commits={"lock_wait_seconds": 5.0},
        )
        self.profile = Profile("lake", {"type": "rest", "uri": "http://catalog"}, thresholds=thresholds)
        retention = Retention(plan.keeps_seconds, 2)
        compaction = Compaction(small_files=4, change_files=5)
        settings = {
            "merge": plan.merge if plan.merge == "on_read" else "on_write",
            "retention": {"versions": f"{plan.keeps_seconds // 60}m", "retain_last": 2},
            "compaction": {"small_files": 4, "change_files": 5},
        }
        tables = tuple(
            IngestedTable(table.name, name, table, settings, {}, "safe", True) for name, table in INGESTED.items()
        )
        most = (None, 0, 1)[int(draw_number(self.seed, "most dead letters") * 3)]
        self.ingest_source = IngestSource("shop", "postgresql", {}, tables, DEAD, plan.trigger_seconds, most)
        changes = ChangeSource("shop", DEAD, plan.trigger_seconds)
        ingested = [replace(table.to_model(("id",)), source=changes) for table in tables]
        made = [
            Model(
                table,
                QUERIES[table],
                ModelConfig(
                    (RESULT_COLUMNS[table][0].name,),
                    input="changes" if table == TALLY else "state",
                    merge_columns={"n": "sum", "amount": "sum"} if table == TALLY else {},
                    hash_key=RESULT_COLUMNS[table][0].name,
                    merge=plan.merge,  # type: ignore[arg-type]
                    retention=retention,
                    compaction=compaction,
                    refresh="auto" if table == TALLY else ("auto", "strict")[self.seed % 2],  # type: ignore[arg-type]
                ),
            )
            for table in self.reads
        ]
        self.models: list[Model] = [*ingested, *made]

    # Processes

    def start(self) -> None:
        self.start_processes()
        god = Process("fate", "nowhere", 0, EPOCH)
        for index, (at, number) in enumerate(self.plan.kills):
            self._schedule(god, f"kill {index}", at, lambda number=number: self.kill_service(number))
        for index, (at, number, seconds) in enumerate(self.plan.pauses):
            self._schedule(god, f"pause {index}", at, lambda n=number, s=seconds: self._pause_service(n, s))
        for index, (at, number, seconds) in enumerate(self.plan.jumps):
            self._schedule(god, f"jump {index}", at, lambda n=number, s=seconds: self._set_clock(n, s))
        for kind in ("away", "full"):
            for index, (at, seconds) in enumerate(getattr(self.plan, kind)):
                if f"{kind} {index}" not in self.skip:
                    self.faults.injected[f"{kind} {index}"] = "catalog away" if kind == "away" else "disk full"
                    self._windows[kind].append((EPOCH + at, EPOCH + at + seconds))

    def _schedule(self, process: Process, place: str, at: float, action: Any) -> None:
        if place in self.skip:
            return

        def perform() -> None:
            self.kernel.sleep(at)
            if not self.faults.is_closed:
                action()

        kinds: dict[str, Kind] = {"pause": "pause", "jump": "clock jump", "kill": "crash before"}
        self.faults.injected[place] = kinds[place.split(maxsplit=1)[0]]
        self.kernel.start(process, perform, place)

    def start_processes(self) -> None:
        for number in range(self.plan.services):
            self.start_service(number)
        if self.builds != "none":
            self.start_job("builds", self._repeat_builds)
        if self.forgets and not self.is_forgotten:
            self.start_job("forget", self._forget_order)
        if self.has_edits and not self.faults.is_closed:
            self.kernel.start(Process("editor", "nowhere", 0, EPOCH), self._edit_queries, "editor")
            self.start_job("restate", self._restate_parts)
        if self.has_flaws:
            self.start_job("replay", self._replay_dead_letters, "host0")

    def start_job(self, name: str, action: Callable[[Process], None], host: str = "") -> None:
        """Starts a process that runs a command again and again, and is started again after it died."""
        host = host or name
        self.hosts[host] += 1
        process = Process(f"{name}.{self.hosts[host]}", host, self.hosts[host], self.kernel.now)
        self.jobs[name] = process
        self._actions[process.name] = lambda: self.start_job(name, action, host)
        self.kernel.start(process, lambda: action(process), "main")

    def _repeat_builds(self, process: Process) -> None:
        poll = self.plan.poll_seconds
        while True:
            self.kernel.sleep(poll * (0.2 + draw_number(self.seed, "build", self.kernel.steps)))
            branch = SimulatedBranch(self.profile, self.lake, self._look, in_steps=self.builds == "in steps")
            try:
                published = run_build(branch, self.list_followed(), self.readers)
            except (ArcticError, PySparkException, FileGone) as error:
                self.note(f"{process.name}: build failed: {str(error).splitlines()[0]}")
                self.counts["builds failed"] += 1
            else:
                self.counts["builds"] += 1
                if published:
                    self.counts["builds published"] += 1
                    self.note(f"{process.name}: build published {published}")

    def _edit_queries(self) -> None:
        """Edits the queries of models at times, or sets them back to earlier ones; services notice by themselves."""
        for number in range(1 + int(draw_number(self.seed, "edits") * 12)):
            pause = draw_number(self.seed, "edit", number)
            self.kernel.sleep(pause * self.plan.seconds / 5)
            if self.faults.is_closed:
                return
            name = ("paid", "paid", "regions")[int(draw_number(self.seed, "edited", number) * 3)]
            place = int(draw_number(self.seed, "query", number) * len(edits.QUERIES[name]))
            if f"edit {number}" not in self.skip:
                self.places[name] = place
                self.counts["edits"] += 1
                self.note(f"the query of {name} is edited: {place}")

    def _restate_parts(self, process: Process) -> None:
        reader = Reader(self.profile, self.lake, self._look)
        while not self.faults.is_closed:
            drawn = draw_number(self.seed, "restate", self.kernel.steps)
            self.kernel.sleep(self.plan.poll_seconds * (1 + 5 * drawn))
            model = next(followed.model for followed in self.list_followed() if followed.model.table == PAID)
            try:
                done = edits.run_restate(reader, model, edits.PARTS[int(drawn * len(edits.PARTS))])
            except (ArcticError, PySparkException, FileGone) as error:
                self.note(f"{process.name}: restate failed: {str(error).splitlines()[0]}")
                self.counts["restatements failed"] += 1
                continue
            self.counts["restatements"] += 1
            self.counts["restated rows"] += sum(done.rows.values())
            self.note(f"{process.name}: restated {dict(done.rows)}")

    def _replay_dead_letters(self, process: Process) -> None:
        """Mends what was wrong with events at the times of the seed, and then applies the dead letters again.

        Somebody ends the services for that, in half of the seeds; in the others it waits until none ingests.
        """
        reader = Reader(self.profile, self.lake, self._look)
        ends_services = draw_number(self.seed, "ends services") < 0.5
        while True:
            self.kernel.sleep(self.plan.poll_seconds * (0.2 + draw_number(self.seed, "replay", self.kernel.steps)))
            self._mend_flaws()
            if not self.has_open_letters:
                continue
            self._is_held = ends_services or self.faults.is_closed
            try:
                for number in list(self.services) if self._is_held else ():
                    self.kill_service(number)
                # The lease of a process on another machine has to run out first.
                while not self._replay_once(process, reader) and self._is_held:
                    self.kernel.sleep(self.plan.poll_seconds)
            finally:
                self._is_held = False

    def _replay_once(self, process: Process, reader: Reader) -> bool:
        try:
            replayed = run_replay(reader, self.ingest_source, self.form)
        except (ArcticError, PySparkException, FileGone) as error:
            self.note(f"{process.name}: replay failed: {str(error).splitlines()[0]}")
            self.counts["replays failed"] += 1
            return False
        self.counts["replays"] += 1
        for done in replayed:
            self.counts["dead letters applied"] += done.applied
            self.counts["dead letters superseded"] += done.superseded
            self.counts["dead letters left"] += done.dead
            self.note(f"{process.name}: {done}")
        return True

    def _mend_flaws(self) -> None:
        for flaw in FLAWS:
            at = EPOCH + self.plan.seconds * (0.15 + 0.7 * draw_number(self.seed, "mend", flaw))
            if flaw not in self.mended and (self.faults.is_closed or self.kernel.now >= at):
                self.note(f"{flaw} are mended")
                self.mended.add(flaw)

    def list_letters(self) -> tuple[Letter, ...]:
        """Lists the dead letters in the table."""
        return self.lake.letters[-1][1] if self.lake.letters else ()

    @property
    def has_open_letters(self) -> bool:
        """Whether there are dead letters that a replay can apply, as far as is known."""
        return any(is_fit(letter.payload) and letter.reason == UNFIT for letter in self.list_letters())

    @property
    def is_mended(self) -> bool:
        """Whether nothing is wrong with any event, and no dead letter is left that a replay can apply."""
        return not self.has_flaws or (len(self.mended) == len(FLAWS) and not self.has_open_letters)

    def _forget_order(self, process: Process) -> None:
        """Forgets an order once it was ingested, again and again until there is a certificate that nothing is left."""
        reader = Reader(self.profile, self.lake, self._look)
        orders = next(model for model in self.models if model.table == ODS_ORDERS)
        while not self.is_forgotten:
            self.kernel.sleep(self.plan.poll_seconds * (0.2 + draw_number(self.seed, "forget", self.kernel.steps)))
            self.begun_forgetting = self.begun_forgetting or self.has_ingested_forgotten()
            if not self.begun_forgetting:
                continue
            try:
                done = run_forget(reader, self.models, orders, FORGOTTEN_KEY, lambda _: None)
            except (ArcticError, PySparkException, FileGone) as error:
                self.note(f"{process.name}: forgetting failed: {str(error).splitlines()[0]}")
                self.counts["forgettings failed"] += 1
                continue
            left = [text for table in done.tables for text in table.left]
            self.is_forgotten = done.is_clean
            self.counts["forgettings" if done.is_clean else "forgettings that left something"] += 1
            keys = {str(table.table): table.keys for table in done.tables}
            self.note(f"{process.name}: forgotten {keys}{'; left: ' if left else ''}{'; '.join(left)}")
            if done.is_clean:
                self.on_forgotten()

    @property
    def is_forgetting(self) -> bool:
        """Whether an order was to be forgotten, and no certificate says that it is."""
        return self.begun_forgetting and not self.is_forgotten

    def has_ingested_forgotten(self) -> bool:
        """Whether the last change of the order that is to be forgotten is in its table, and all models are built.

        A model whose first run is under way is not known to a forgetting.
        """
        if any((table.schema, table.name) not in self.lake.pointers for table in self.reads):
            return False
        table = self.lake.find_table((ODS_ORDERS.schema, ODS_ORDERS.changes.name))
        head = table.find(table.current_snapshot_id) if table is not None else None
        return head is not None and any(
            row[1] is not None and row[1][2] == FORGOTTEN_AMOUNT + 1 for _, _, row in self.lake.list_rows(head)
        )

    def start_service(self, number: int) -> None:
        host = f"host{number}"
        self.hosts[host] += 1
        process = Process(f"service{number}.{self.hosts[host]}", host, self.hosts[host], self.kernel.now)
        process.clock_offset = self.clocks.get(host, 0.0)
        self.services[number] = process
        self.note(f"{process.name} starts")
        self.kernel.start(process, lambda: self._serve(process, number), "main")

    def _serve(self, process: Process, number: int) -> None:
        reader = Reader(self.profile, self.lake, self._look)
        pool = Pool(self.lake)
        project = Project(self, reader, pool)
        table = ServiceTable("ods", reader)
        warehouse = ServiceWarehouse(reader, pool, table)  # type: ignore[arg-type]
        service: Service
        work = ServiceWork(ingestions=lambda: [SourceIngestion(self, reader, pool, service)])
        listeners = RefreshListeners(lambda line: self.note(f"{process.name}: {line}"), self._report)
        service = Service(project, warehouse, work, listeners)
        self.live[number] = service
        try:
            service.run_service()
        except Exception as error:
            self.note(f"{process.name} ended: {type(error).__name__}: {error}")
            self.counts["services ended by an error"] += 1
        else:
            self.note(f"{process.name} ended")
        self.live.pop(number, None)
        self._restart_later(number)

    def _report(self, report: Any) -> None:
        process = get_process()
        self.counts[f"refreshes {report.status}"] += 1
        if report.status != "unchanged":
            mode = ""
            if report.done:
                outcome = report.done.refreshed.outcome
                mode = f" {outcome.mode} ({outcome.reason})"
                if outcome.reason in ("EDITED", "REVERTED", "QUERY_CHANGED"):
                    self.counts[f"runs {outcome.reason}"] += 1
            text = f" {report.error.splitlines()[0]}" if report.error else ""
            self.note(f"{process.name if process else ''}: {report.followed.name} {report.status}{mode}{text}")

    def _restart_later(self, number: int) -> None:
        self._start_later(lambda: self.start_service(number))

    def _start_later(self, start: Callable[[], None]) -> None:
        supervisor = Process("supervisor", "nowhere", 0, self.kernel.now)

        def restart() -> None:
            self.kernel.sleep(self.faults.delay("restart", self.kernel.steps) * 10)
            while self._is_held and not self.jobs["replay"].is_dead:
                self.kernel.sleep(self.plan.poll_seconds / 4)
            start()

        self.kernel.start(supervisor, restart, "restart")

    @property
    def has_service(self) -> bool:
        return any(not process.is_dead for process in self.services.values())

    def kill_service(self, number: int) -> None:
        process = self.services[number]
        if not process.is_dead:
            self._die(process)

    def _die(self, process: Process) -> None:
        self.note(f"{process.name} dies")
        self.counts["deaths"] += 1
        if process in self.jobs.values():
            self._start_later(self._actions.pop(process.name))
            self.kernel.kill(process)
            return
        number = next(number for number, own in self.services.items() if own is process)
        self.live.pop(number, None)
        self._restart_later(number)
        self.kernel.kill(process)

    def _pause_service(self, number: int, seconds: float) -> None:
        process = self.services[number]
        self.note(f"{process.name} pauses for {seconds:.0f} s")
        process.paused_until = self.kernel.now + seconds

    def _set_clock(self, number: int, seconds: float) -> None:
        """Sets the wall clock of a service's machine wrong by so many seconds; claims may be wrong by as much."""
        host = f"host{number}"
        self.note(f"the clock of {host} is {seconds:+.0f} s wrong")
        self.clocks[host] = self.services[number].clock_offset = seconds
        self.clock_error = max(self.clock_error, seconds)

    def _is_alive(self, host: str, pid: int) -> bool:
        processes = [*self.services.values(), *self.jobs.values()]
        return any(own.host == host and own.pid == pid and not own.is_dead for own in processes)

    def _next_token(self) -> str:
        self._tokens += 1
        return f"{self._tokens:032x}"[::-1]

    # Effects and faults

    def perform(self, name: str, action: Any) -> Any:
        """Performs an effect, unless a fault comes between; this is the failpoint of all effects."""
        process = get_process()
        if process is None:
            return action()
        if not self._is_watched(process):
            return action()
        number = self.faults.count(name)
        self.counts["effects"] += 1
        fault = self.faults.draw(name, number)
        seconds = self.faults.delay(name, number)
        self.kernel.sleep(seconds if fault != "slow" else seconds + self.plan.poll_seconds)
        if fault == "pause":
            process.paused_until = self.kernel.now + 4 * self.plan.poll_seconds
            self.note(f"{process.name} pauses before {name}")
            self.kernel.sleep(0.0)
        if fault == "crash before":
            self._die(process)
        if fault == "locked":
            raise self._locked(name)
        if fault == "refused":
            raise self._broken(name, "Connection refused")
        if self._is_in("away"):
            raise self._broken(name, "Connection refused")
        if self._is_in("full"):
            raise self._broken(name, "No space left on device")
        result = action()
        self.note(f"{process.name} {name}#{number}")
        if fault == "crash after":
            self._die(process)
        if fault == "answer lost":
            self.kernel.sleep(seconds)
            raise self._broken(name, "Connection reset")
        self.kernel.sleep(self.faults.delay(name, number, "after") / 10)
        return result

    def _is_watched(self, process: Process) -> bool:
        """Whether faults may strike a process."""
        return process in self.services.values() or process in self.jobs.values()

    def _broken(self, name: str, message: str) -> Exception:
        if name.startswith(PYICEBERG_EFFECTS):
            return CatalogError(f"catalog lake: {EFFECTS[name].does} {message}")
        return SparkRefused("java.io.IOException", message)

    def _locked(self, name: str) -> Exception:
        if name.startswith(PYICEBERG_EFFECTS):
            return self._broken(name, "the catalog is busy")
        return SparkRefused("java.sql.SQLException", "[SQLITE_BUSY] database is locked")

    def _look(self, what: str) -> None:
        """Comes before each read of the catalog by a service."""
        process = get_process()
        if process is None or not self._is_watched(process):
            return
        if self._is_in("away"):
            raise CatalogError(f"catalog lake: {what}: Connection refused")
        drawn = draw_number(self.seed, "look", self.kernel.steps, what)
        if drawn < 0.1:
            self.kernel.sleep(drawn * 10)

    def _is_in(self, kind: str) -> bool:
        now = self.kernel.now
        return not self.faults.is_closed and any(start <= now < end for start, end in self._windows[kind])

    def draw_replays(self) -> int:
        number = self.faults.count("source.open")
        drawn = draw_number(self.seed, "replay", number)
        if drawn < 0.5 and self.faults.inject(f"source.open#{number}", "events again"):
            return 1 + int(drawn * 6)
        return 0

    def _note_fault(self, kind: str, place: str) -> None:
        self.note(f"fault: {kind} at {place}")

    def note(self, text: str) -> None:
        self.history.append(f"{len(self.history) + 1:5} {self.kernel.now - EPOCH:9.1f} s  {text}")

    def close(self) -> None:
        with suppress(Exception):
            self.kernel.close()


def hook(world: World) -> Any:
    """Lets all effects of the runtime go through a world until the block ends."""
    return set_failpoint(world.perform)
