"""Thresholds of ingestion of change data, and of the sources that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.units import MIB


@dataclass(frozen=True)
class IngestThresholds:
    """Thresholds of ingestion: leases of sources, dead letters, and loads of new tables."""

    lease_seconds: float = 60.0
    """How long the lease of a process that ingests a source lasts without renewal before another process takes over."""

    lease_renewal_seconds: float = 20.0
    """The time between two renewals of the lease on a source."""

    dead_letter_snapshots: int = 100
    """Number of snapshots of a dead letter table above which old ones are expired.

    Each renewal of the lease makes one, and a call to expire them takes a second.
    """

    kept_dead_letter_snapshots: int = 50
    """Newest snapshots of a dead letter table that are kept when old ones expire.

    A replay of dead letters reads one snapshot for as long as it takes to replay those of a table.
    """

    lease_poll_seconds: float = 2.0
    """Pause between two checks by a process on standby whether it can take the lease on a source."""

    named_dead_letters: int = 10_000
    """The most dead letters of a table without a key that one commit applies, since it names all of them."""

    look_seconds: float = 60.0
    """Pause between two checks whether new tables were created that a source includes."""

    confirmed_seconds: float = 150.0
    """How long tables count as fresh after their source was read; an idle source is read about every minute."""

    join_seconds: float = 5.0
    """How far tables that are loaded beside a stream may be behind the source when the stream takes them over.

    The stream pauses for about as long.
    """


@dataclass(frozen=True)
class DebeziumThresholds:
    """Sizes, pauses and time limits of reading databases by Debezium's engine."""

    poll_events: int = 8_192
    """The most events that the engine hands over at once."""

    converting_threads: int = 2
    """Number of threads that convert events to JSON; Debezium's default is one."""

    batch_bytes: int = 128 * MIB
    """Bytes of JSON in a batch from which on no further waiting events are added to it."""

    gather_seconds: float = 1.0
    """How long rows of a snapshot are gathered for one commit, in addition to those that wait already."""

    waiting_bytes: int = 128 * MIB
    """Bytes of JSON that wait in this process to be taken, from which on the source is not read."""

    take_seconds: float = 0.2
    """The longest wait for a batch before a check whether the source's end was reached or reading was stopped."""

    push_seconds: float = 1.0
    """Pause between two messages that are written to the source's log, so that its end is noticed without events."""

    idle_seconds: float = 60.0
    """The time without events after which the position is advanced anyway, so that the source can delete its log."""

    silence_seconds: float = 60.0
    """The time without events or heartbeats after which the connection of a binary log's reader counts as lost."""

    heartbeat_millis: int = 200
    """Interval at which the engine reports how far it has read while there are no events; the end of a transaction that
    no event follows is known by such a report."""

    flush_seconds: float = 0.3
    """The time that the engine needs to acknowledge batches at the source, before it is closed."""

    close_seconds: float = 8.0
    """The longest wait for the engine to stop."""

    close_poll_seconds: float = 0.05
    """Pause between two attempts to stop an engine that is starting."""

    release_seconds: float = 10.0
    """The longest wait until the server has noticed that the last reader of a replication slot has ended."""

    release_poll_seconds: float = 0.2
    """Pause between two checks whether the server has noticed that the reader of a replication slot has ended."""

    reconnect_seconds: float = 900.0
    """The longest wait for a server that became unreachable while its stream was read."""

    reconnect_poll_seconds: float = 1.0
    """Pause between two attempts to reach a server again."""

    heap_bytes: int = 512 << 20
    """Largest heap, in bytes, of the JVM that Debezium runs in; half of it is for new objects."""


@dataclass(frozen=True)
class TransportThresholds:
    """Sizes of batches from files and Kafka, and waits for new events."""

    batch_files: int = 1_000
    """The most files of one batch."""

    batch_bytes: int = 256 * MIB
    """The most bytes of the files of one batch, as they are stored; a larger file is a batch of its own."""

    batch_events: int = 1_000_000
    """The most events of one batch from Kafka."""

    answer_seconds: float = 10.0
    """The longest wait for Kafka's answer to a request for offsets."""

    answer_pause_seconds: float = 0.1
    """Pause before Kafka is asked again for a partition whose leader changes."""

    file_log_snapshots: int = 100
    """Number of snapshots of a file log, one for each batch, from which on the log is rewritten."""

    poll_seconds: float = 1.0
    """Pause before the next check for new events if there were none."""

    idle_seconds: float = 60.0
    """The time after which a source without new events is reported again as idle."""
