"""A service without a warehouse, whose tables move; `python -m tests.service.fake` shows it in a browser."""

from __future__ import annotations

import argparse
import itertools
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pyarrow as pa

from arctic_runtime.catalog.change_rows.read import ChangeRows
from arctic_runtime.catalog.table_samples import TableSample
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness, FreshnessState
from arctic_runtime.model.version import Version
from arctic_runtime.operations.operation import Answer, Audit, Operation, audit_nothing
from arctic_runtime.operations.preview_report import to_json
from arctic_runtime.operations.queries import QueryAnswer
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.preview import ModelPreview, PastRuns, Preview, RunAmounts
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.project import LastDataTest
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import (
    IngestionState,
    Job,
    Lag,
    ServiceState,
    SourceOverview,
    TableOverview,
    Upkeep,
)
from arctic_runtime.service.view.table_details import (
    ColumnDetails,
    ColumnOrigin,
    TableDetails,
    TableRows,
    TableTrend,
    build_table_rows,
    build_table_trend,
)

HOSTILE = (
    "<img src=x onerror=document.title='owned'>",
    "\"'`><script>document.title='owned'<\\u002fscript>",
    "ünï çödé 表 \u202eevil",
    "a" * 180,
    "{{7*7}} ${7*7} %00 %2e%2e",
)
"""Names that are fine for a catalog, and a danger to a page that does not escape them."""

SUBJECTS = ("flights", "airports", "carriers", "planes", "weather", "bookings", "seats", "crews", "delays", "routes")
GRAINS = ("day", "hour", "carrier", "airport", "route")
SECONDS = timedelta(seconds=1)
FLIGHTS = "lake.ods.ods_flights"
SHOP = SourceOverview(
    "shop",
    "postgresql db1:5432/shop",
    True,
    "process 7 on etl",
    position="LSN 0/16B3748",
    lag_seconds=1.2,
    dead_letters=2,
)
"""The source of the ingested tables."""


def now() -> datetime:
    return datetime.now(timezone.utc)


def name(schema: str, table: str) -> TableName:
    return TableName("lake", schema, table.replace("/", "_").replace("\\", "_"))


def overviews(count: int, seed: int = 7, hostile: bool = False) -> list[TableOverview]:
    """Tables in four layers that read each other: sources, ODS, DWD and DWS, as a warehouse has them."""
    chance = random.Random(seed)
    shares = (0.2, 0.25, 0.3, 0.25)
    made: list[list[TableOverview]] = []
    for layer, share in enumerate(shares):
        many = max(1, round(count * share))
        made.append([_overview(chance, layer, n, made) for n in range(many)])
    tables = [table for layer in made for table in layer][:count]
    if hostile:
        tables += [replace(tables[-1], table=name("dws", text), error=text, state="failed") for text in HOSTILE]
    return _with_readers(tables, chance)


def freshness_of(state: str, reads: Sequence[TableName], seconds: float) -> Freshness:
    """How fresh a table in this state is, which shows its sources as of so long ago."""
    as_of = now() - seconds * SECONDS
    if state in ("fresh", "refreshing", "paused"):
        return Freshness("fresh", as_of)
    above = str(reads[0]) if reads else "shop"
    late: FreshnessState = "delayed" if state == "delayed" else "behind"
    return Freshness(late, as_of, above, as_of, f"{above} has 3 commits more", allowed_lag_seconds=300.0)


def _overview(chance: random.Random, layer: int, n: int, made: Sequence[Sequence[TableOverview]]) -> TableOverview:
    subject = SUBJECTS[n % len(SUBJECTS)]
    suffix = "" if n < len(SUBJECTS) else f"_{n // len(SUBJECTS)}"
    schema = ("ods", "ods", "dwd", "dws")[layer]
    table = (
        f"ods_{subject}_events{suffix}",
        f"ods_{subject}{suffix}",
        f"dwd_{subject}{suffix}",
        f"dws_{subject}_by_{GRAINS[n % len(GRAINS)]}{suffix}",
    )[layer]
    reads: tuple[TableName, ...] = ()
    if layer:
        above = made[layer - 1]
        near = n * len(above) // max(1, n + 1) if layer == 1 else n
        picks = {above[(near + chance.randrange(3)) % len(above)].table for _ in range(chance.choice((1, 1, 2, 3)))}
        reads = tuple(sorted(picks)) if layer > 1 else (above[n % len(above)].table,)
    moment = now() - chance.randrange(2, 600) * SECONDS
    rows = chance.randrange(10_000, 50_000_000)
    state = chance.choices(
        ("fresh", "behind", "refreshing", "delayed", "failed", "held", "paused"), (70, 8, 4, 6, 3, 3, 2)
    )[0]
    if layer == 0:
        state = "unknown" if n % 2 else "fresh"
    kind = ("ingested" if n % 2 == 0 else "landing") if layer == 0 else "model"
    overview = TableOverview(
        table=name(schema, table),
        kind=kind,  # type: ignore[arg-type]
        state=state,  # type: ignore[arg-type]
        layer=layer,
        reads=reads,
        version=str(chance.randrange(10**18)),
        changed_at=moment,
        refreshed_at=moment if layer else None,
        freshness=None if kind == "landing" else freshness_of(state, reads, chance.randrange(1, 90)),
        target_lag_seconds=300.0 if state == "delayed" else 0.0,
        rows=rows,
        files=chance.randrange(4, 400),
        bytes=rows * 45,
        nodes=2 ** chance.randrange(0, 6),
        versions=chance.randrange(2, 80),
        unmerged_commits=chance.randrange(0, 6),
        unmerged_rows=chance.randrange(0, 20_000),
        frozen_changes=12 if table == "orders" and kind == "model" else 0,
        recent_rows=chance.choice((0, 0, chance.randrange(1, 40_000))),
        waste_bytes=chance.choice((0, chance.randrange(1_000_000, 900_000_000))),
    )
    if kind == "ingested":
        source = IngestionState("shop", subject, f"0/{n:X}A4F2", now(), chance.uniform(0.2, 4.0), n % 3, True)
        overview = replace(overview, source="shop", ingestion=source)
    if state == "failed":
        text = f"{overview.table}: two rows have the key 4711.\n  what to do: see `arctic verify {table}`"
        overview = replace(overview, error=text, retry_at=now() + 40 * SECONDS)
    return overview


def _with_readers(tables: Sequence[TableOverview], chance: random.Random) -> list[TableOverview]:
    readers: dict[TableName, list[Lag]] = {}
    states = {table.table: table.state for table in tables}
    for item in tables:
        for above in item.reads:
            behind = 0 if item.state == "fresh" else chance.randrange(1, 9)
            readers.setdefault(above, []).append(Lag(str(item.table), behind, behind * chance.randrange(1, 4000)))
    tables_now = [replace(table, readers=tuple(readers.get(table.table, ()))) for table in tables]
    failed = next((table for table, state in states.items() if state == "failed"), None)
    return [replace(table, held_by=failed) if table.state == "held" else table for table in tables_now]


@dataclass
class FakeService:
    """A service as HTTP and the page see one; what is asked of it is kept in `asked`."""

    made: list[TableOverview] = field(default_factory=lambda: overviews(40))
    events: EventLog = field(default_factory=lambda: EventLog(10_000))
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    failure: Exception | None = None
    planned: Answer | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    delay_seconds: float = 0.0
    batches: Sequence[Any] = ()
    more_sources: Sequence[SourceOverview] = ()

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Puts everything back to how it was made; only the log of events goes on."""
        self.asked.clear()
        self.failure, self.errors, self.changed, self.delay_seconds = None, {}, {}, 0.0
        self.planned = None
        self.batches = ((1, 2), (3, 4))
        self.more_sources = ()
        self._by_name = {str(table.table): table for table in self.made}
        self._numbers = itertools.count(1)
        self._state = ServiceState(now() - 7500 * SECONDS, "0.1.0", "shop", "leads", looked_at=now())
        self._jobs: dict[str, Job] = {}
        for n, table in enumerate(self.made[-6:]):
            job = self._add_job("refresh", "refresh", (table.table,), "done", "full (COST)" if n == 4 else "")
            ended = now() - 40 * (6 - n) * SECONDS
            self._put(replace(job, ended_at=ended, began_at=ended - (n + 1) * SECONDS, seconds=1.4 + n * n))
        model = next(table for table in self.made if table.layer)
        self._add_job("upkeep", "compact", (model.table,), "running", "41 small files cost readers 1.2 s")
        self._add_job("upkeep", "expire", (self.made[-1].table,), "waiting", "212 snapshots are older than 5 days")

    @property
    def requests(self) -> FakeService:
        return self

    # What it shows

    def get_state(self) -> ServiceState:
        return replace(self._state, errors=self.errors, **self.changed)

    def list_tables(self) -> Sequence[TableOverview]:
        return tuple(self._by_name.values())

    def list_sources(self) -> Sequence[SourceOverview]:
        own = [table for table in self.list_tables() if table.ingestion is not None]
        return [replace(SHOP, tables=len(own), loaded_tables=len(own), as_of=now()), *self.more_sources]

    def find_table(self, name: str) -> TableOverview | None:
        matches = [value for full, value in self._by_name.items() if full == name or full.endswith(f".{name}")]
        return matches[0] if len(matches) == 1 else None

    def list_jobs(self) -> Sequence[Job]:
        order = {"running": 0, "waiting": 1}
        return sorted(self._jobs.values(), key=lambda job: (order.get(job.state, 2), -int(job.number)))

    def find_job(self, number: str) -> Job | None:
        return self._jobs.get(number)

    def list_upkeep(self) -> Sequence[Upkeep]:
        wasteful = sorted(
            (table for table in self.made if table.layer and table.waste_bytes), key=lambda table: -table.waste_bytes
        )
        return [
            Upkeep(
                table.table,
                "compact",
                (f"{table.files} files where {max(1, table.files // 9)} would do", "14 % of rows are deleted"),
                table.waste_bytes * 2,
                table.waste_bytes,
                "" if n < 3 else "the budget of 5 GiB a minute",
            )
            for n, table in enumerate(wasteful[:12])
        ]

    # What it is asked

    def answer_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        plan: bool,
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Answer:
        self.asked.append(("ask", operation.name, tuple(tables), dict(given_arguments), plan))
        if self.failure is not None:
            raise self.failure
        if self.delay_seconds:
            threading.Event().wait(self.delay_seconds)
        values = operation.read_values(given_arguments)
        if operation.name == "jobs":
            return operation.perform(cast(Any, None), [], values)
        tables_known = [self._known(name) for name in tables]
        if plan:
            return self.planned or _planned(operation, tables_known)
        answers = {"status": _status, "history": _history, "explain": _explained, "preview": _previewed}
        if operation.name in answers:
            return answers[operation.name](tables_known, given_arguments)
        return Answer({"row": {"id": 1, "note": "<b>"}, "files_opened": 1, "bytes_read": 1234}, ("id: 1",))

    def answer_query(self, query: str, limit: int | None, audit: Audit) -> QueryAnswer:
        """Three rows, of which the values are dangerous for a page that takes them as HTML."""
        self.asked.append(("sql", query, limit))
        if self.failure is not None:
            raise self.failure
        if self.delay_seconds:
            threading.Event().wait(self.delay_seconds)
        audit({"operation": "sql", "tables": [FLIGHTS]})
        rows = pa.table(
            {
                "id": pa.array([1, 2**60, 3], pa.int64()),
                "<i>note</i>": pa.array([*HOSTILE[:2], None]),
                "parts": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            }
        ).slice(0, limit)
        types = ("bigint", "string", "map<string,bigint>")
        return QueryAnswer(rows.schema, tuple(rows.to_batches()), types, rows.num_rows < 3, 0.25)

    def describe_table(self, table: TableName) -> TableDetails:
        self.asked.append(("describe", str(table)))
        if self.failure is not None:
            raise self.failure
        return _details(self._by_name[str(table)])

    def read_trend(self, table: TableName) -> TableTrend:
        self.asked.append(("trend", str(table)))
        if self.failure is not None:
            raise self.failure
        return _trend(self._by_name[str(table)])

    def read_rows(self, table: TableName, most: int) -> TableRows:
        self.asked.append(("rows", str(table), most))
        if self.failure is not None:
            raise self.failure
        rows = [{"flight_id": n, "note": f"<b>{n}</b>", "email": f"{n}@x", "gone": None} for n in range(min(most, 5))]
        return build_table_rows(
            table, rows, Mask(b"secret", {"email": True}), 500, self._by_name[str(table)].unmerged_rows
        )

    def open_changes(self, table: str, start: str | None, end: str | None) -> ChangeRows:
        """As many batches of two rows as `batches` has, each of which may be an error to raise."""
        self.asked.append(("changes", table, start, end))
        if self.failure is not None:
            raise self.failure
        self._known(table)
        schema = pa.schema([("id", pa.int64()), ("_action", pa.string())])

        def read() -> Iterator[pa.RecordBatch]:
            for ids in self.batches:
                if isinstance(ids, Exception):
                    raise ids
                yield pa.RecordBatch.from_pylist([{"id": one, "_action": "insert"} for one in ids], schema)

        return ChangeRows(schema, read(), Version("t", 42, 7))

    def submit_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Job:
        self.audits.append(audit)
        self.asked.append(("submit", operation.name, tuple(tables), dict(given_arguments)))
        if self.failure is not None:
            raise self.failure
        names = tuple(self._known(name).table for name in tables)
        job = self._add_job("operation", operation.name, names, "waiting", "asked for by a user")
        if operation.name == "changes":
            rows = [
                {"id": n, "note": f"note {n}", "amount": 9007199254740993 + n, "_action": action}
                for n, action in enumerate(("insert", "update", "update", "delete"))
            ]
            job = self._put(replace(job, state="done", answer=rows, ended_at=now(), seconds=0.4))
        if operation.name == "diff":
            diffs = [_diff(self._known(name).table, n) for n, name in enumerate(tables or list(self._by_name)[:300])]
            job = self._put(replace(job, state="done", answer=diffs, ended_at=now(), seconds=0.4))
        if operation.name == "why":
            job = self._put(replace(job, state="done", answer=_trail(), ended_at=now(), seconds=0.4))
        return job

    def refresh_tables(self, tables: Sequence[str]) -> None:
        self.asked.append(("refresh", tuple(tables)))
        for name in tables:
            self._show(replace(self._known(name), state="refreshing"))

    def cancel_job(self, number: str) -> Job | None:
        self.asked.append(("cancel", number))
        job = self._jobs.get(number)
        if job is None or job.state not in ("waiting", "running"):
            return job
        return self._put(replace(job, state="cancelled", ended_at=now()))

    def pause_tables(self, tables: Sequence[str], upkeep_only: bool) -> None:
        self.asked.append(("pause", tuple(tables), upkeep_only))
        names = tuple(self._known(name).table for name in tables)
        kind = "paused_upkeep" if upkeep_only else "paused_tables"
        state = replace(self._state, **{kind: (*getattr(self._state, kind), *names)}) if names else None
        self._put_state(state or replace(self._state, is_paused=True))
        for name in () if upkeep_only else tables:
            self._show(replace(self._known(name), state="paused"))

    def resume_tables(self, tables: Sequence[str]) -> None:
        self.asked.append(("resume", tuple(tables)))
        names = {self._known(name).table for name in tables}
        left = tuple(table for table in self._state.paused_tables if names and table not in names)
        upkeep = tuple(name for name in self._state.paused_upkeep if names and name not in names)
        self._put_state(replace(self._state, is_paused=False, paused_tables=left, paused_upkeep=upkeep))
        for name in tables:
            self._show(replace(self._known(name), state="fresh"))

    # What happens in it

    def show(self, table: TableOverview) -> None:
        """Makes this the state of a table."""
        self._show(table)

    def fail(self, part: str, message: str) -> None:
        """A part does not work, or does again where there is no message."""
        self.errors = {name: text for name, text in {**self.errors, part: message}.items() if text}
        self._put_state(self._state)

    def move(self, chance: random.Random, many: int = 3) -> None:
        """Lets something happen to some tables, and to the jobs."""
        for table in chance.sample(self.list_tables(), min(many, len(self._by_name))):
            rows = chance.randrange(1, 5000)
            state = table.state
            if table.layer and table.state in ("fresh", "behind", "refreshing"):
                state = {"fresh": "behind", "behind": "refreshing", "refreshing": "fresh"}[table.state]  # type: ignore[assignment]
            unmerged = 0 if chance.random() < 0.2 else table.unmerged_rows + rows
            self._show(
                replace(
                    table,
                    state=state,
                    changed_at=now(),
                    refreshed_at=now() if table.layer else None,
                    freshness=table.freshness and freshness_of(state, table.reads, 1),
                    rows=table.rows + rows,
                    recent_rows=rows,
                    unmerged_rows=unmerged,
                    unmerged_commits=0 if not unmerged else table.unmerged_commits + 1,
                    versions=table.versions + 1,
                )
            )
        self.events.append_event(
            "batch", {"source": "shop", "events": chance.randrange(900), "seconds": 0.8, "behind": None}
        )
        for job in self.list_jobs():
            if job.state == "running":
                self._put(replace(job, seconds=job.seconds + 1, bytes=job.bytes + 40_000_000))

    def run(self, seconds: float = 1.0, stop: threading.Event | None = None) -> None:
        """Moves until `stop` is set."""
        chance, stop = random.Random(1), stop or threading.Event()
        while not stop.wait(seconds):
            self.move(chance)

    def _known(self, name: str) -> TableOverview:
        table = self.find_table(name)
        if table is None:
            raise ConfigError(
                f"there is no table {name!r}.", expected=f"one of the project, such as {next(iter(self._by_name))}"
            )
        return table

    def _show(self, table: TableOverview) -> None:
        self._by_name[str(table.table)] = table
        self.events.append_event("table", table)

    def _put_state(self, state: ServiceState) -> None:
        self._state = state
        self.events.append_event("service", self.get_state())

    def _put(self, job: Job) -> Job:
        self._jobs[job.number] = job
        self.events.append_event("job", job)
        return job

    def _add_job(self, kind: Any, name: str, tables: tuple[TableName, ...], state: Any, reason: str) -> Job:
        ended = now() if state == "done" else None
        job = Job(
            str(next(self._numbers)),
            kind,
            name,
            tables,
            state,
            queued_at=now() - 5 * SECONDS,
            began_at=None if state == "waiting" else now() - 3 * SECONDS,
            ended_at=ended,
            seconds=0.0 if state == "waiting" else 2.4,
            reason=reason,
            lines=("reads 3 of 64 nodes", "writes 12 files") if state != "waiting" else (),
            rows={"insert": 120, "update": 30, "delete": 2} if kind == "refresh" else {},
            bytes=0 if state == "waiting" else 5_300_000,
        )
        return self._put(job)


def _planned(operation: Operation, tables: Sequence[TableOverview]) -> Answer:
    lines = [f"{table.table}: would {operation.name} 3 of {table.nodes} nodes, 41 files, 1.2 GB" for table in tables]
    return Answer(
        {"tables": [table.table for table in tables]}, tuple(lines or [f"would {operation.name} what was built"])
    )


def _status(tables: Sequence[TableOverview], given: Mapping[str, Any]) -> Answer:
    return Answer(
        [{**_status_of(table), **({"tree": _tree(table)} if given.get("tree") else {})} for table in tables], ()
    )


def _status_of(overview: TableOverview) -> dict[str, Any]:
    return {
        "model": str(overview.table),
        "built": True,
        "version": overview.version,
        "rows": overview.rows,
        "files": overview.files,
        "bytes": overview.bytes,
        "nodes": overview.nodes,
        "versions": overview.versions,
        "consumers": [
            {"model": lag.model, "behind_commits": lag.commits, "behind_rows": lag.rows} for lag in overview.readers
        ],
        "savepoints": {"before-migration": overview.version},
        "has_key": overview.layer > 0,
    }


def _tree(overview: TableOverview) -> dict[str, Any]:
    chance = random.Random(overview.nodes)
    depth = max(0, overview.nodes.bit_length() - 1)
    leaves = [chance.randrange(10_000_000, 200_000_000) for _ in range(2**depth)]
    nodes = []
    for level in range(depth + 1):
        width = 2 ** (depth - level)
        for index in range(2**level):
            size = sum(leaves[index * width : (index + 1) * width])
            nodes.append(
                {
                    "depth": level,
                    "index": index,
                    "bytes": size,
                    "files": width * 5,
                    "own_files": 5 if level == depth else level % 2,
                }
            )
    return {"model": str(overview.table), "partition": "all rows", "partitions": 1, "nodes": nodes}


def _history(tables: Sequence[TableOverview], given: Mapping[str, Any]) -> Answer:
    (table,) = tables
    modes = (("incremental", "CHANGES"), ("incremental", "CHANGES"), ("full", "COST"))
    entries = [
        {
            "version": str(int(table.version or 0) + n) if n else table.version,
            "at": (now() - 60 * n * SECONDS).isoformat(" ", "seconds"),
            "mode": modes[n % 3][0],
            "reason": modes[n % 3][1],
            "rows": 1200 - 31 * n,
            "consumed": {str(above): str(10**17 + n) for above in table.reads},
            "savepoints": ["before-migration"] if n == 3 else [],
            "columns": {},
        }
        for n in range(min(table.versions, 12))
    ]
    return Answer(entries, ())


def _explained(tables: Sequence[TableOverview], given: Mapping[str, Any]) -> Answer:
    (table,) = tables
    lines = (
        str(table.table),
        "  next run: incremental (CHANGES)",
        *(f"  reads {above}: nothing new" for above in table.reads),
    )
    return Answer({"decision": {"mode": "incremental", "reason": "CHANGES", "because": ""}}, lines)


def _previewed(tables: Sequence[TableOverview], given: Mapping[str, Any]) -> Answer:
    cost = RunAmounts(
        bytes_read=Amount(2e6, 3e6, 4e6), bytes_written=Amount(1e6, 1e6, 1e6), rows_written=Amount(0, 10, 20),
        seconds=Amount(2, 3, 4),
    )  # fmt: skip
    because = "the <b>query</b> changed"
    edited = [
        ModelPreview(table.table, True, "full", "QUERY_CHANGED", because, cost, PastRuns(6, 0.08), 1)
        for table in tables
    ]
    below = ModelPreview(TableName("lake", "dws", "below"), False, "nothing", "NOTHING_NEW")
    return Answer(to_json(Preview((*edited, below))), ())


def _details(overview: TableOverview) -> TableDetails:
    above = overview.reads[0] if overview.reads else None
    columns = [("flight_id", "bigint"), ("carrier", "string"), ("email", "string"), ("delay", "decimal(18,2)")]
    use = {"flight_id": "identity", "carrier": "transformation", "email": "identity", "delay": "aggregation"}
    made = tuple(
        ColumnDetails(
            column,
            kind,
            column == "flight_id",
            column == "email",
            "Minutes, <b>late</b> is positive" if column == "delay" else "",
            (ColumnOrigin(above, column, (use[column],)),) if above else (),
        )
        for column, kind in columns
    )
    tests = (
        LastDataTest(f"accepted_values_{overview.table.name}_carrier", "fail", "Got 3 results", now() - 90 * SECONDS),
        LastDataTest(f"unique_{overview.table.name}_flight_id"),
        LastDataTest(f"not_null_{overview.table.name}_flight_id", "pass", "", now() - 90 * SECONDS),
    )
    select = "select flight_id, upper(carrier) as carrier, email, sum(delay) as delay"
    sql = f"{select}\nfrom {above}\nwhere day >= '2013-01-01'"
    rows = (ColumnOrigin(above, "day", ("filter",)),) if above else ()
    return TableDetails(
        overview.table,
        "Flights as they are known now.",
        sql if above else "",
        ("flight_id",),
        made,
        rows,
        above is not None,
        tests if above else (),
    )


def _diff(table: TableName, n: int) -> dict[str, Any]:
    """As `arctic diff --json` has it; each second table is the same on both sides."""
    examples = [
        {"kind": "changed", "key": {"id": 7}, "before": {**_AFTER, "delay": "4"}, "after": _AFTER},
        {"kind": "changed", "key": {"id": 8}, "before": {**_NOTED, "note": "a"}, "after": _NOTED},
        {"kind": "added", "key": {"id": 9}, "before": None, "after": {**_AFTER, "id": 9, "note": "<b>new</b>"}},
        {"kind": "removed", "key": {"id": 5}, "before": {**_AFTER, "id": 5, "note": "old"}, "after": None},
    ]
    columns = [
        {"name": "delay", "rows": 31, "values": [{"before": "4", "after": "<i>5</i>", "rows": 30}]},
        {"name": "note", "rows": 2, "values": [{"before": None, "after": "b", "rows": 2}]},
    ]
    differs = n % 2 == 0
    return {
        "table": str(table),
        "other": str(replace(table, schema="prod")),
        "counts": {"added": 1, "removed": 1, "changed": 32} if differs else {"added": 0, "removed": 0, "changed": 0},
        "other_rows": 12_345 if n % 4 == 0 else None,
        "columns": columns if differs else [],
        "added_columns": [{"name": "gate", "type": "string"}] if differs else [],
        "removed_columns": [],
        "retyped_columns": [["delay", "int", "bigint"]] if differs else [],
        "examples": examples if differs else [],
        "reads_changes": True,
        "versions": None,
        "key": ["id"],
        "column_names": ["id", "delay", "note", "email"],
        "masked_columns": ["email"],
        "cost": {"seconds": 0.4, "rows": 34, "bytes": 4_120},
        "differs": differs,
        "breaches": [],
    }


_AFTER = {"id": 7, "delay": "<i>5</i>", "note": None, "email": "masked:3fa9c1d2e07b"}
_NOTED = {**_AFTER, "id": 8, "delay": "1", "note": "b"}


def _trail() -> dict[str, Any]:
    transaction = {"source": "shop", "operation": "update", "position": "LSN 0/16B3748", "at": "2026-01-01 12:00:00"}
    upstream = {"table": "lake.ods.ods_flights", "action": "update", "transaction": transaction, "upstreams": []}
    changes = [{"table": "lake.dwd.dwd_flights", "action": "update", "upstreams": [{"changes": [upstream]}]}]
    return {"table": "lake.dwd.dwd_flights", "key": {"id": "<7>"}, "changes": changes * 60, "left_out": 0}


def _trend(overview: TableOverview) -> TableTrend:
    """Five days, in which the table was once behind for some hours."""
    chance, many = random.Random(overview.rows), 5 * 96
    samples = []
    for n in range(many):
        late = 900.0 * (n - 300) if 300 < n < 310 else 0.0
        rows = overview.rows - 120 * (many - n)
        at = now() - 900 * (many - n) * SECONDS
        state = "behind" if late else "fresh"
        samples.append(TableSample(at, str(overview.table), rows, late + chance.uniform(1, 60), state))
    return build_table_trend(overview.table, samples)


def main() -> None:
    """Serves a fake warehouse until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.fake", description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--port", type=int, default=8470)
    parser.add_argument("--token", default="")
    parser.add_argument("--hostile", action="store_true", help="with names that try to break the page")
    parser.add_argument("--still", action="store_true", help="nothing happens")
    options = parser.parse_args()
    service = FakeService(overviews(options.tables, hostile=options.hostile))
    with HttpServer(service, HttpSettings(port=options.port, token=options.token)) as server:
        print(server.url, flush=True)
        if options.still:
            threading.Event().wait()
        service.run()


if __name__ == "__main__":
    main()
