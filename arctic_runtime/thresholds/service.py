"""Thresholds of the service: scheduling of models, upkeep, HTTP and lineage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceThresholds:
    """Thresholds of the service: refreshes, leadership, jobs and events."""

    poll_seconds: float = 1.0
    """Pause between two checks which tables have new versions."""

    look_share: float = 0.2
    """Largest share of the time that checks for new versions may take: after a long check the next one waits longer."""

    project_poll_seconds: float = 2.0
    """Pause between two checks whether the files of the project have changed."""

    retry_seconds: float = 1.0
    """The pause after a model's first failure; each further failure in a row doubles it."""

    retry_doublings: int = 8
    """How often the pause after a failure is doubled at most; pauses grow up to four minutes."""

    event_wait_seconds: float = 1.0
    """How long a thread that waits for events waits before it checks whether it should end."""

    remembered_jobs: int = 10_000
    """Number of the newest ended jobs that the metrics remember, so that none is counted twice."""

    lease_seconds: float = 30.0
    """How long the lease of a leading service lasts without renewal before a service on standby takes over."""

    lease_renewal_seconds: float = 10.0
    """The time between two renewals of the lease of a service."""

    lease_poll_seconds: float = 2.0
    """Pause between two checks by a service on standby whether it can take the lease."""

    lease_snapshots: int = 100
    """Number of snapshots of the service's table, one per renewal of the lease, above which old ones are expired."""

    kept_lease_snapshots: int = 10
    """Newest snapshots of the service's table that are kept when old ones are expired."""

    events: int = 2000
    """The most events that are kept for clients that were not connected for a while."""

    ended_jobs: int = 200
    """The most ended jobs that are shown, newest first."""

    job_lines: int = 100
    """The most lines of progress that are kept of a job."""

    operations: int = 2
    """The most operations of users that run in parallel."""

    steady_seconds: float = 60.0
    """An ingestion that fails after it ran for longer counts as failing for the first time.

    The pause before it is tried again grows only if it fails sooner several times in a row.
    """

    flow_seconds: float = 60.0
    """The time over which changed rows of a table are counted as recent."""

    as_of_event_seconds: float = 30.0
    """By how much `as_of` of a table must have advanced before clients get an event only for that."""


@dataclass(frozen=True)
class UpkeepThresholds:
    """Thresholds of upkeep: the maintenance of tables by a service."""

    starvation_seconds: float = 3600.0
    """Upkeep that is due for longer is done before all other upkeep, even if that saves readers more."""

    kept_minutes: float = 10.0
    """How long unused bytes of the budget can still be used."""

    poll_seconds: float = 1.0
    """Pause between two checks for upkeep that is due."""

    settle_seconds: float = 10.0
    """The time after a write to a table when its upkeep is checked; later writes do not postpone the check."""

    look_seconds: float = 600.0
    """The time between two checks of a table without writes, since its versions become old enough to expire."""

    retry_seconds: float = 10.0
    """The pause after a table's first failure; each further failure in a row doubles it."""

    retry_doublings: int = 9
    """How often the pause after a failure is doubled at most; pauses grow up to 85 minutes."""

    overdue_factor: float = 4.0
    """A refresh compacts its table itself if readers waste over this multiple of the bytes at which it became due."""


@dataclass(frozen=True)
class LineageThresholds:
    """Limits of sending lineage events to another system."""

    queued_reports: int = 1000
    """The most refreshes whose lineage waits to be sent; the lineage of further refreshes is dropped."""

    observed_seconds: float = 300.0
    """How long the tables and columns that a model reads are not observed again, unless its query changes."""

    close_seconds: float = 5.0
    """How long the service waits at its end for lineage that is not sent yet."""


@dataclass(frozen=True)
class HttpThresholds:
    """Limits of the service's HTTP interface."""

    heartbeat_seconds: float = 15.0
    """The time without events after which a stream of events sends a heartbeat."""

    event_wait_seconds: float = 0.5
    """How long the thread that waits for events waits before it checks whether it should end."""

    encoded_events: int = 4096
    """The most events whose encoded text is kept for other streams."""

    state_seconds: float = 5.0
    """How long the encoded state of all tables is reused without an event; it contains ages, which grow."""

    compressed_bytes: int = 1024
    """Length of an answer, in bytes, from which on it is compressed."""

    compression_level: int = 3
    """Compression level of gzip; higher levels take longer than they save."""

    start_seconds: float = 10.0
    """The longest wait until a started server answers."""

    stop_seconds: int = 5
    """How long unfinished requests may still take when the server stops."""

    head_seconds: float = 5.0
    """How long a client may take to send the head of a request; after that its connection is dropped."""

    exports: int = 4
    """The most clients that read change rows at the same time; each takes the memory of `ExportThresholds`."""

    waiting_connections: int = 1024
    """The most connections that wait to be accepted."""
