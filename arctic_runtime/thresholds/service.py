"""Thresholds of the service (`arctic serve`): refreshes of models, upkeep, HTTP and lineage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceThresholds:
    """Thresholds of the service: refreshes of models, the lease of the leading service, jobs and events."""

    poll_seconds: float = 1.0
    """Pause between two checks for new versions of tables."""

    look_share: float = 0.2
    """Maximum share of the time that checks for new versions take; after a long check the pause is longer."""

    look_pause_seconds: float = 60.0
    """Longest pause between two such checks, however long the last one took; the machine may have slept meanwhile."""

    project_poll_seconds: float = 2.0
    """Pause between two checks for changed files of the dbt project."""

    clock_seconds: float = 60.0
    """Pause after which a model is refreshed again whose query reads the time of day, as with `now()`."""

    unknown_day_seconds: float = 3600.0
    """The same pause for a query that reads only the day, while the time zone of its session is not known."""

    retry_seconds: float = 1.0
    """Pause after a model's first failure; each further failure in a row doubles it."""

    retry_doublings: int = 8
    """Maximum number of doublings of the pause after failures, so that it grows up to four minutes."""

    source_retry_seconds: float = 15.0
    """Longest pause before a failed ingestion is tried again: a database that is back is read again soon after."""

    event_wait_seconds: float = 1.0
    """Longest wait of a thread for events before it checks if it should end."""

    remembered_jobs: int = 10_000
    """Number of newest ended jobs that the metrics remember, so that they count none of them twice."""

    lease_seconds: float = 30.0
    """Time for which the lease of a leading service is valid without renewal; then a service on standby takes over."""

    lease_renewal_seconds: float = 10.0
    """Time between two renewals of the lease of a service."""

    lease_poll_seconds: float = 2.0
    """Pause between two checks by a service on standby if it can take the lease."""

    lease_snapshots: int = 100
    """Number of snapshots of the service's table, one per renewal of the lease, above which old ones are expired."""

    kept_lease_snapshots: int = 10
    """Number of newest snapshots of the service's table that are kept when old ones are expired."""

    events: int = 2000
    """Maximum number of events that are kept for clients that reconnect."""

    ended_jobs: int = 200
    """Maximum number of ended jobs that are shown; these are the newest."""

    job_lines: int = 100
    """Maximum number of lines of progress that are kept for a job."""

    operations: int = 2
    """Maximum number of operations of users that run in parallel."""

    cancel_seconds: float = 0.2
    """Pause after which operations that still run while the service ends are cancelled again."""

    steady_seconds: float = 60.0
    """Run time of an ingestion after which its next failure counts as the first one.

    The pause before the next try grows only if the ingestion fails several times in a row after a shorter time.
    """

    flow_seconds: float = 60.0
    """Period for which a table's changed rows count as recent."""

    as_of_event_seconds: float = 30.0
    """Least advance of `as_of`, the time up to which a table has all changes, that clients get an event for."""

    shown_sql_characters: int = 100_000
    """Maximum number of characters of a model's query that are shown; the rest is cut off."""

    shown_columns: int = 1000
    """Maximum number of columns of a table that are shown, and of its data tests."""

    shown_origins: int = 50
    """Maximum number of columns that are shown as origins of one column, or of the choice of rows."""

    sample_seconds: float = 900.0
    """Time between two samples of the freshness and the rows of all tables, which the service's table keeps."""

    sample_days: int = 14
    """Number of days for which these samples are kept."""

    sample_rows: int = 50
    """Maximum number of sample rows of a table that are shown."""

    sample_value_characters: int = 500
    """Maximum number of characters of a value in a sample row; the rest is cut off."""


@dataclass(frozen=True)
class UpkeepThresholds:
    """Thresholds of upkeep: compaction and expiry of tables by the service."""

    starvation_seconds: float = 3600.0
    """Time after which due upkeep comes before all other upkeep, even if the other one saves readers more."""

    kept_minutes: float = 10.0
    """Minutes for which unused bytes of the budget can still be used."""

    poll_seconds: float = 1.0
    """Pause between two checks for due upkeep."""

    settle_seconds: float = 10.0
    """Time from a write to a table to the check of its upkeep; later writes do not postpone the check."""

    look_seconds: float = 600.0
    """Time between two checks of a table without writes, because its versions become old enough to expire."""

    retry_seconds: float = 10.0
    """Pause after the first failure of a table's upkeep; each further failure in a row doubles it."""

    retry_doublings: int = 9
    """Maximum number of doublings of the pause after failures, so that it grows up to 85 minutes."""

    overdue_factor: float = 4.0
    """Factor on the bytes of waste at which upkeep is due, above which a refresh compacts its table itself."""


@dataclass(frozen=True)
class LineageThresholds:
    """Limits for lineage events that are sent to another system."""

    queued_reports: int = 1000
    """Maximum number of refreshes whose lineage is queued; the lineage of further refreshes is dropped."""

    observed_seconds: float = 300.0
    """Time for which the observed tables and columns that a model reads are reused, unless its query changes."""

    close_seconds: float = 5.0
    """Longest wait of a process, when it ends, for queued lineage to be sent."""


@dataclass(frozen=True)
class TelemetryThresholds:
    """Limits for the metrics and traces of a command."""

    close_seconds: float = 6.0
    """Longest wait of a process, when it ends, for all receivers; longer than that for lineage, which warns itself."""

    lock_seconds: float = 2.0
    """Longest wait for other commands that write metrics files to the same folder."""

    lock_poll_seconds: float = 0.05
    """Pause between two attempts to lock this folder."""

    write_seconds: float = 15.0
    """Pause between two writes of the metrics file by a command that does not end by itself."""


@dataclass(frozen=True)
class HttpThresholds:
    """Limits of the service's HTTP interface."""

    heartbeat_seconds: float = 15.0
    """Time without events after which a stream of events sends a heartbeat."""

    event_wait_seconds: float = 0.5
    """Longest wait of a thread for events before it checks if it should end."""

    encoded_events: int = 4096
    """Maximum number of events whose encoded text is cached for other streams."""

    state_seconds: float = 5.0
    """Time for which the encoded state of all tables is reused without an event; its ages of data grow meanwhile."""

    compressed_bytes: int = 1024
    """Length of a response, in bytes, from which on it is compressed."""

    compression_level: int = 3
    """Compression level of gzip; higher levels take more time than they save in transfer."""

    start_seconds: float = 10.0
    """Longest wait until a started server answers."""

    stop_seconds: int = 5
    """Time that unfinished requests may still take when the server stops."""

    head_seconds: float = 5.0
    """Time in which a client must send the head of a request; otherwise its connection is dropped."""

    body_levels: int = 32
    """Maximum number of levels of arrays and objects in the body of a request; no route needs more than a few."""

    exports: int = 4
    """Maximum number of parallel exports of change rows; `ExportThresholds` limits the memory of each."""

    waiting_connections: int = 1024
    """Maximum number of connections that wait to be accepted."""


@dataclass(frozen=True)
class QueryThresholds:
    """Limits of a query that a service or `arctic mcp` answers by DuckDB; `arctic sql` has its own options."""

    parallel: int = 2
    """Maximum number of queries that a service answers at the same time."""

    rows: int = 10_000
    """Maximum number of rows of an answer."""

    answer_bytes: int = 16 * 1024**2
    """Maximum size of the rows of an answer, in memory."""

    memory_mb: int = 1_000
    """Memory of DuckDB for a query, in MB."""

    spilled_mb: int = 4_000
    """Space on disk for what does not fit into that memory, in MB."""

    seconds: float = 20.0
    """Longest duration of a query; less than a request may take."""

    interrupt_seconds: float = 0.05
    """Pause between two interrupts of a query that took too long."""


@dataclass(frozen=True)
class AgentThresholds:
    """Limits of answers to agents, besides those that users set."""

    wait_seconds: float = 20.0
    """Longest wait for a job that a question starts; then the answer has its number. Less than a request may take."""

    poll_seconds: float = 0.1
    """Pause between two checks if such a job has ended."""

    shortest_text: int = 40
    """Number of characters to which a text is cut at the least, so that an answer has few enough bytes."""

    shown_cuts: int = 20
    """Maximum number of places of which an answer says that they were cut."""

    error_characters: int = 4_000
    """Maximum number of characters of each part of an error, which may have texts that were sent, or rows."""
