"""Thresholds of ingestion of change data, and of the sources that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.engine import MIB


@dataclass(frozen=True)
class IngestThresholds:
    """Thresholds of ingestion: leases of sources, dead letters, and loads of new tables."""

    lease_seconds: float = 60.0
    """Time for which a process's lease on a source is valid without renewal; then another process may take over."""

    lease_renewal_seconds: float = 20.0
    """Time between two renewals of the lease on a source."""

    dead_letter_snapshots: int = 100
    """Number of snapshots of a dead letter table above which old ones are expired.

    Each batch with dead letters adds a snapshot, and a call to expire snapshots takes a second.
    """

    kept_dead_letter_snapshots: int = 50
    """Number of newest snapshots of a dead letter table that are kept when old ones expire.

    A replay of dead letters needs the same snapshot until the letters of one table are replayed.
    """

    lease_poll_seconds: float = 2.0
    """Pause between two checks by a process on standby if it can take the lease on a source."""

    named_dead_letters: int = 10_000
    """Maximum number of dead letters that one commit to a table without a key applies; its summary lists them all."""

    look_seconds: float = 60.0
    """Pause between two checks for new tables in a source's database."""

    confirmed_seconds: float = 150.0
    """Time for which tables count as fresh after a read of their source; an idle source is read about every minute."""

    join_seconds: float = 5.0
    """Maximum lag behind the source at which tables that are loaded alongside a stream join the stream.

    The stream pauses for about as long.
    """


@dataclass(frozen=True)
class DebeziumThresholds:
    """Sizes, pauses and time limits for reads of databases by Debezium's engine."""

    poll_events: int = 8_192
    """Maximum number of events that the engine hands over at once."""

    converting_threads: int = 2
    """Number of threads that convert events to JSON; Debezium's default is one."""

    batch_bytes: int = 128 * MIB
    """Bytes of JSON in a batch from which on no further events are added to it."""

    gather_seconds: float = 1.0
    """Time for which rows of a snapshot are gathered for one commit, in addition to rows that are queued already."""

    waiting_bytes: int = 128 * MIB
    """Bytes of JSON in this process's queue of events from which on the source is not read."""

    take_seconds: float = 0.2
    """Longest wait for a batch before a check if the source's end was reached or the stream was stopped."""

    push_seconds: float = 1.0
    """Pause between two messages that are written to the source's log, to know without events that its end was read."""

    idle_seconds: float = 60.0
    """Time without events after which the stored position is advanced anyway, so that the source can delete its log."""

    silence_seconds: float = 10.0
    """Time without events or heartbeats after which the connection of a binary log's reader counts as lost.

    The server sends several heartbeats a second.
    """

    start_seconds: float = 60.0
    """The same time for a reader that has just been started, and has to read the definitions of tables first."""

    probe_seconds: float = 3.0
    """Pause between two probes whether a source's server answers; they go on however long a batch takes."""

    probe_timeout_seconds: float = 5.0
    """Longest wait for the answer to a probe, and for the connection of a probe."""

    lock_seconds: float = 20.0
    """Longest wait for the locks of a statement that alters the publication.

    It is shorter than the time after which a connection that does not answer counts as lost.
    """

    heartbeat_millis: int = 200
    """Interval of the engine's heartbeats, which report its position while there are no events.

    If no event follows a transaction, a heartbeat shows that the transaction has ended.
    """

    flush_seconds: float = 0.3
    """Time that the engine is given to acknowledge batches at the source before it is closed."""

    close_seconds: float = 8.0
    """Longest wait for the engine to stop."""

    close_poll_seconds: float = 0.05
    """Pause between two attempts to stop an engine that is starting."""

    release_seconds: float = 10.0
    """Longest wait for the server to notice that the last reader of a replication slot has ended."""

    release_poll_seconds: float = 0.2
    """Pause between two checks if the server has noticed that the reader of a replication slot has ended."""

    reconnect_seconds: float = 900.0
    """Longest wait for a server that became unreachable while its stream was read."""

    reconnect_poll_seconds: float = 1.0
    """Pause between two attempts to reach a server again."""

    heap_bytes: int = 512 << 20
    """Maximum heap, in bytes, of the JVM in which Debezium runs; half of it is for new objects."""


@dataclass(frozen=True)
class TransportThresholds:
    """Sizes of batches from files and Kafka, and waits for new events."""

    batch_files: int = 1_000
    """Maximum number of files of one batch."""

    batch_bytes: int = 256 * MIB
    """Maximum bytes of the files of one batch, as they are stored; a larger file is a batch of its own."""

    batch_events: int = 1_000_000
    """Maximum number of events of one batch from Kafka."""

    answer_seconds: float = 10.0
    """The longest wait for Kafka's answer to a request for offsets, and for that of a schema registry."""

    registry_retries: int = 3
    """How often a request to a schema registry is repeated that is refused, or that a proxy answers."""

    registry_pause_seconds: float = 0.5
    """Pause before the second repetition of such a request; each later pause is twice as long."""

    answer_pause_seconds: float = 0.1
    """Pause before a request to Kafka is repeated for a partition whose leader is changing."""

    file_log_snapshots: int = 100
    """Number of snapshots of a file log, the table of files that were read, from which on it is rewritten.

    Each batch adds a snapshot.
    """

    poll_seconds: float = 1.0
    """Pause before the next check for new events if the last one returned none."""

    idle_seconds: float = 60.0
    """Time after which a source without new events is reported as idle again."""
