"""Data types of HTTP, the page and metrics: the state that a live service shows, and the requests that it accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from arctic_runtime.catalog.change_rows.read import ChangeRows
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.operations.operation import Answer, Audit, Operation, audit_nothing
from arctic_runtime.operations.queries import QueryAnswer
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.table_details import TableDetails, TableRows, TableTrend

TableKind = Literal["model", "scheduled", "ingested", "landing", "source"]
"""Writer of a table: an arctic model, a model that dbt runs, ingestion, programs that append events, or others."""

TableState = Literal[
    "fresh", "behind", "loading", "refreshing", "delayed", "failed", "held", "paused", "missing", "unknown"
]
"""Whether a table shows the current state of its sources, through all layers.

A table is `behind` if it shows a source later than allowed, or if ingestion of a source fails; `loading` until its
first load or its first refresh is complete, as long as nothing fails; `delayed` if its
`target_lag` lets a change wait; `failed` if its last refresh or its ingestion failed; `held` if a model above it
failed, or if ingestion of this table alone waits; `paused` by a user; `missing` if it does not exist; and `unknown` if
it is written by others.
"""

JobKind = Literal["refresh", "ingest", "upkeep", "operation", "run", "test"]
"""Kind of a job: an `ingest` is a batch of a source, a `run` is dbt's run of a scheduled model.

A `test` runs the data tests of a table; `refresh`, `upkeep` and `operation` are named after their work.
"""

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class Lag:
    """Lag of a model behind a table that it reads: the number of commits that it has not read, and of rows in them."""

    model: str
    commits: int
    rows: int


@dataclass(frozen=True)
class IngestionState:
    """Progress of an ingested table, as `arctic status` shows it; see `Ingestion` in operations/inspect.py.

    `position` is in the terms of the source, such as `LSN 0/16B3748`, and has at most 80 characters. `error` is the
    reason why ingestion fails; it is kept until a batch succeeds. `loaded_rows` and `estimated_rows` are those of a
    load under way, None without one. `settings` are those with which the source is ingested, with secrets masked.
    """

    source: str
    table: str
    position: str
    as_of: datetime | None
    lag_seconds: float | None = field(compare=False)
    dead_letters: int
    is_running: bool
    error: str = ""
    loaded_rows: int | None = None
    estimated_rows: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    ingested_by: str = ""


@dataclass(frozen=True)
class TableOverview:
    """Summary of a table's state."""

    table: TableName
    kind: TableKind
    state: TableState
    layer: int
    """0 for tables without upstreams, else one more than the highest layer of its upstreams."""

    tested_table: TableName | None = None
    """Table whose tests the rows of this table, its quarantine, fail; None for a table that is no quarantine."""

    source: str = ""
    """Source from which the table is ingested; empty for a table that is not ingested."""

    reads: tuple[TableName, ...] = ()
    """Tables that the model reads."""

    version: str = ""
    """Newest version of the table; empty if there is none."""

    changed_at: datetime | None = None
    """Time of the table's newest commit."""

    refreshed_at: datetime | None = None
    """Time of the newest refresh, even if this changed nothing."""

    freshness: Freshness | None = None
    """Time as of which the table shows its sources, and why it is late; None for a table that others write."""

    target_lag_seconds: float = 0.0
    """Seconds that the model's rows may be older than those of its upstreams."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    nodes: int = 0
    """Number of buckets per partition."""

    versions: int = 0
    """Number of versions that have not expired."""

    unmerged_commits: int = 0
    """Number of commits of the change table that are not merged into the base table."""

    unmerged_rows: int = 0
    """Number of change rows in these commits."""

    frozen_changes: int = 0
    """Number of changes that were not applied, since they would touch frozen rows, since these were last computed."""

    recent_rows: int = 0
    """Number of rows that were changed within the last minute."""

    waste_bytes: int = 0
    """Number of bytes that readers read in vain until the due upkeep is done."""

    readers: tuple[Lag, ...] = ()
    """Models that read the table, with what they have not read yet."""

    ingestion: IngestionState | None = None
    """Progress of ingestion; None for a table that is not ingested."""

    error: str = ""
    """Reason for which the last refresh failed; empty if it did not."""

    retry_at: datetime | None = None
    """Time at which a failed refresh is tried again."""

    held_by: TableName | None = None
    """Failed upstream model, because of which this model is not refreshed."""

    schedule: str = ""
    """Cron expression by which dbt runs the model; empty for other tables."""


@dataclass(frozen=True)
class SourceOverview:
    """Summary of an ingested source: whether and by which process it is ingested, and how far its tables are."""

    source: str
    """Name of the source in the project."""

    connection: str
    """Connector and server, database or folder, without secrets."""

    is_running: bool
    """Whether a process ingests the source."""

    ingested_by: str = ""
    """The process that ingests the source, or that did so last; empty if it is not known."""

    tables: int = 0
    """Number of its tables."""

    loaded_tables: int = 0
    """Number of its tables whose first load is complete."""

    position: str = ""
    """Position up to which its tables have all events, in the terms of the source."""

    as_of: datetime | None = None
    """Time up to which all its loaded tables have all changes; None before the first is loaded."""

    lag_seconds: float | None = field(default=None, compare=False)
    """Seconds since `as_of`."""

    dead_letters: int = 0
    """Number of events that could not be applied."""

    error: str = ""
    """Reason for which ingestion fails; empty if it does not."""


@dataclass(frozen=True)
class Job:
    """Work on tables: a refresh, a batch, upkeep, an operation that a user requested, a scheduled run, or tests."""

    number: str
    """Identifies the job."""

    kind: JobKind
    name: str
    """Name of the work for users, such as the model, the source or the operation."""

    tables: tuple[TableName, ...]
    state: JobState
    queued_at: datetime
    began_at: datetime | None = None
    ended_at: datetime | None = None
    seconds: float = 0.0
    """Duration."""

    reason: str = ""
    """Reason for which the work is done."""

    lines: tuple[str, ...] = ()
    """Progress and results for people."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of changed rows by action."""

    bytes: int = 0
    """Number of bytes that were written."""

    answer: Any = None
    """Data of an operation's answer."""

    differs: bool = False
    """True if an operation that compares has found a difference, or has not reached its aim."""

    error: str = ""
    """Reason for which the work failed; empty if it did not."""

    error_details: Mapping[str, str] = field(default_factory=dict)
    """Parts of the error: `where`, `expected`, `actual` and `fix`."""


@dataclass(frozen=True)
class Upkeep:
    """Upkeep that is planned for a table: operation, reasons, bytes to write, and bytes that each reader then saves.

    `waits_for` is the reason why it is not performed yet, such as quiet hours or the budget; empty if it is next.
    """

    table: TableName
    operation: Literal["compact", "expire"]
    reasons: tuple[str, ...]
    bytes: int
    waste_bytes: int
    waits_for: str = ""


@dataclass(frozen=True)
class ServiceState:
    """State of the service itself: the time of its start, whether it leads, and the tables that are paused."""

    started_at: datetime
    version: str
    """Version of dbt-arctic."""

    project: str
    role: Literal["starting", "leads", "stands_by", "ending"]
    """Whether the service leads: only the leading process of a warehouse does any work."""

    leader: str = ""
    """The process that leads in place of this one; empty if there is none."""

    is_paused: bool = False
    """Whether users have paused all work."""

    paused_tables: tuple[TableName, ...] = ()
    """Tables on which no work is done."""

    paused_upkeep: tuple[TableName, ...] = ()
    """Tables that are not compacted or expired."""

    looked_at: datetime | None = None
    """Time of the last check of the tables for new versions; None before the first."""

    errors: Mapping[str, str] = field(default_factory=dict)
    """Errors of parts that do not work at present, such as a catalog that does not answer, by the part's name."""

    ended_parts: tuple[str, ...] = ()
    """Those of these parts that ended without being stopped, until they work again."""


class Requests(Protocol):
    """Requests of users to a service; all methods return without waiting for jobs, and may be called by any thread."""

    def answer_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        plan: bool,
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Answer:
        """Performs an operation that needs no Spark, or, if `plan`, returns its plan, which may need Spark.

        `audit` and `hides_values` are the operation's, see `OperationContext`. Raises the same errors as
        `Operation.run_operation`.
        """

    def answer_query(self, query: str, limit: int | None, audit: Audit) -> QueryAnswer:
        """Answers a query over the tables of the project, without Spark; values of masked columns are hashes.

        Raises TooManyQueries, and the errors of `answer_limited_query`.
        """

    def describe_table(self, table: TableName) -> TableDetails:
        """Returns the details of a table: its query, columns and data tests; reads the catalog, without Spark."""

    def read_trend(self, table: TableName) -> TableTrend:
        """Reads the freshness and the rows of a table over the last days, from the service's table."""

    def read_rows(self, table: TableName, max_rows: int) -> TableRows:
        """Reads at most `max_rows` rows of a table, without Spark; values of masked columns are hashes."""

    def open_changes(self, table: str, start: str | None, end: str | None) -> ChangeRows:
        """Opens the change rows of a table after version `start` and up to version `end`, without Spark.

        None for `start` means all change rows that the table still has, None for `end` the newest version. Raises
        ConfigError for an unknown table or version, or if the table has no primary key.
        """

    def submit_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Job:
        """Queues an operation as a job; raises ConfigError for unknown tables or invalid arguments.

        `audit` and `hides_values` are the operation's, see `OperationContext`.
        """

    def refresh_tables(self, tables: Sequence[str]) -> None:
        """Refreshes models at the next check of the tables, despite pauses after failures and `target_lag`.

        Without names, all models are refreshed.
        """

    def cancel_job(self, number: str) -> Job | None:
        """Removes a waiting job from the queue, or cancels the Spark jobs of a running one; returns the job.

        None if there is no such job, or if it can't be cancelled.
        """

    def pause_tables(self, tables: Sequence[str], upkeep_only: bool) -> None:
        """Pauses refreshes and upkeep of tables until `resume_tables` is called; with `upkeep_only`, only their upkeep.

        Without names, all tables are paused. Raises ConfigError for an unknown name.
        """

    def resume_tables(self, tables: Sequence[str]) -> None:
        """Ends the pause of the named tables; without names, of all tables."""


class LiveService(Protocol):
    """State of a service for HTTP, the page and metrics.

    All methods return at once, and may be called by any thread. `events` has an event for each change: kind `table`
    with a TableOverview, `job` with a Job, `forgotten_job` with the number of a discarded job, `service` with the
    ServiceState, and `batch` with an ingested batch.
    """

    events: EventLog

    @property
    def requests(self) -> Requests:
        """The requests that the service accepts."""

    def get_state(self) -> ServiceState:
        """Returns the state of the service itself."""

    def list_tables(self) -> Sequence[TableOverview]:
        """Returns overviews of all tables, layer by layer."""

    def list_sources(self) -> Sequence[SourceOverview]:
        """Returns overviews of all ingested sources."""

    def find_table(self, name: str) -> TableOverview | None:
        """Returns the overview of the table `name`, with or without catalog and schema.

        None if no table or several tables match.
        """

    def list_jobs(self) -> Sequence[Job]:
        """Returns jobs that wait or run, then jobs that ended recently, newest first."""

    def find_job(self, number: str) -> Job | None:
        """Returns the job with this number; None if `list_jobs` no longer lists it."""

    def list_upkeep(self) -> Sequence[Upkeep]:
        """Lists the planned upkeep in the order in which it will be done."""
