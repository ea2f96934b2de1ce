"""The service: following models, upkeep, HTTP and lineage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceThresholds:
    """Following models."""

    poll_seconds: float = 1.0
    """The time between two looks at where tables stand."""

    look_share: float = 0.2
    """Looks take at most this share of the time: where one takes long, as over many tables, the next one waits."""

    project_poll_seconds: float = 2.0
    """The time between two looks at the files of the project."""

    retry_seconds: float = 1.0
    """The pause after a model's first failure; each further one in a row doubles it."""

    retry_doublings: int = 8
    """How often it is doubled at most: pauses grow up to four minutes."""

    event_wait_seconds: float = 1.0
    """How long a thread that follows events waits for one before it looks whether it is to end."""

    remembered_jobs: int = 10_000
    """The newest jobs whose end metrics remember, so that none is counted twice."""

    lease_seconds: float = 30.0
    """How long a service may lead without a sign of life before one on standby takes over."""

    lease_renewal_seconds: float = 10.0
    """The time between two such signs."""

    lease_poll_seconds: float = 2.0
    """Pause between two looks of a service on standby."""

    lease_snapshots: int = 100
    """Snapshots of the table of the lease, one for each sign, from which on old ones expire."""

    kept_lease_snapshots: int = 10
    """Its newest snapshots, which are kept then."""

    events: int = 2000
    """Events that are kept for readers who were not connected for a while."""

    ended_jobs: int = 200
    """Jobs that are shown after their end, newest first."""

    job_lines: int = 100
    """Lines of progress that are kept of a job."""

    operations: int = 2
    """Operations of users that run side by side."""

    steady_seconds: float = 60.0
    """An ingestion that fails after so long is tried again at once; pauses grow where it fails sooner each time."""

    flow_seconds: float = 60.0
    """The time over which changed rows of a table are counted as recent."""

    as_of_event_seconds: float = 30.0
    """By how much later a table must show its sources before readers of events are notified of that alone."""


@dataclass(frozen=True)
class UpkeepThresholds:
    """Upkeep by a service."""

    starvation_seconds: float = 3600.0
    """Upkeep that is due for longer comes before all that is due for less, however much the readers of others pay."""

    kept_minutes: float = 10.0
    """Unused bytes of the budget are kept for so long."""

    poll_seconds: float = 1.0
    """The time between two looks for due work."""

    settle_seconds: float = 10.0
    """A table that was written to is looked at so much later, and not more often."""

    look_seconds: float = 600.0
    """The time between two looks at a table that nobody wrote to: versions become old enough to expire."""

    retry_seconds: float = 10.0
    """The pause after a table's first failure; each further one in a row doubles it."""

    retry_doublings: int = 9
    """How often it is doubled at most: pauses grow up to 85 minutes."""

    overdue_factor: float = 4.0
    """A refresh does the upkeep of its table itself where so many times as much has come together as makes it due."""


@dataclass(frozen=True)
class LineageThresholds:
    """Sending lineage."""

    queued_reports: int = 1000
    """Refreshes whose lineage waits to be sent; where that many wait, that of later ones is left out."""

    observed_seconds: float = 300.0
    """How long the tables and columns that a model reads count as known, unless its query changes."""

    close_seconds: float = 5.0
    """How long the end of the service waits for lineage that is not sent yet."""


@dataclass(frozen=True)
class HttpThresholds:
    """Serving HTTP."""

    heartbeat_seconds: float = 15.0
    """The time after which a stream without events says that it is alive."""

    event_wait_seconds: float = 0.5
    """How long the thread that waits for events waits before it looks whether it is to end."""

    encoded_events: int = 4096
    """Events whose text is kept for the next stream."""

    state_seconds: float = 5.0
    """How long the text of all tables is used without an event, since ages of some figures go on."""

    compressed_bytes: int = 1024
    """From this length on an answer is compressed."""

    compression_level: int = 3
    """Of gzip: higher ones take longer than they save."""

    start_seconds: float = 10.0
    """How long a server may take to answer at first."""

    stop_seconds: int = 5
    """How long requests under way may take when the server ends."""

    head_seconds: float = 5.0
    """How long the head of a request may take to come; then its connection is dropped."""

    waiting_connections: int = 1024
    """Connections that wait to be accepted."""
