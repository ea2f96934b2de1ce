"""Ingestion of change data, and the sources that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.units import MIB


@dataclass(frozen=True)
class IngestThresholds:
    """Ingestion of change data."""

    lease_seconds: float = 60.0
    """How long a process may ingest a source without a sign of life before another one takes over."""

    lease_renewal_seconds: float = 20.0
    """The time between two such signs."""

    dead_letter_snapshots: int = 100
    """Snapshots of a dead letter table, one for each sign, from which on old ones expire: a call takes a second."""

    kept_dead_letter_snapshots: int = 50
    """Its newest snapshots, which are kept then: a replay of dead letters reads one for as long as a table takes."""

    lease_poll_seconds: float = 2.0
    """Pause between two looks of a process on standby."""

    named_dead_letters: int = 10_000
    """How many dead letters of a table without a key one commit applies at most: it names all of them."""

    look_seconds: float = 60.0
    """Pause between two looks for tables that a source includes and that were made in the meantime."""

    confirmed_seconds: float = 150.0
    """How long tables count as fresh after a look at their source, of which an idle one has one about every minute."""

    join_seconds: float = 5.0
    """The age of tables that are loaded beside a stream at which the stream takes them on, and pauses for as long."""


@dataclass(frozen=True)
class DebeziumThresholds:
    """Reading databases by Debezium's engine."""

    poll_events: int = 8_192
    """Most events that the engine hands over at a time."""

    converting_threads: int = 2
    """Threads that write events as JSON. By itself Debezium uses one."""

    batch_bytes: int = 128 * MIB
    """Bytes of JSON from which on no further events that wait join a batch."""

    gather_seconds: float = 1.0
    """How long rows of a snapshot are gathered for one commit, beyond what waits already."""

    waiting_bytes: int = 128 * MIB
    """Bytes of JSON that wait in this process until they are taken; from there on the source is not read."""

    take_seconds: float = 0.2
    """The longest wait for a batch before it is looked whether the source's end is reached, or reading stopped."""

    push_seconds: float = 1.0
    """Pause between two messages into the source's log, by which its end is noticed where nothing else comes."""

    idle_seconds: float = 60.0
    """The time without events after which the position moves on all the same, so that the source forgets its log."""

    silence_seconds: float = 60.0
    """The time without any sign of life after which the reader of a binary log is taken for lost."""

    heartbeat_millis: int = 200
    """Pause between two looks of the engine at how far it has read where no events come: the end of a transaction that
    nothing follows is known by that."""

    flush_seconds: float = 0.3
    """The time in which the engine acknowledges batches at the source, which closing it would interrupt."""

    close_seconds: float = 8.0
    """The longest wait for the engine to stop."""

    close_poll_seconds: float = 0.05
    """Pause between two attempts to stop an engine that is starting."""

    release_seconds: float = 10.0
    """The longest wait until the server has noticed that the last reader of a replication slot has ended."""

    release_poll_seconds: float = 0.2
    """Pause between two looks at that."""

    reconnect_seconds: float = 900.0
    """The longest wait for a server that went away while its stream was read."""

    reconnect_poll_seconds: float = 1.0
    """Pause between two attempts to reach it."""

    heap_bytes: int = 512 << 20
    """The most memory for objects of the JVM that Debezium runs in. Half of it is for new ones."""


@dataclass(frozen=True)
class TransportThresholds:
    """Limits of change data that is read at once."""

    batch_files: int = 1_000
    """Files of one batch at most."""

    batch_bytes: int = 256 * MIB
    """Bytes of the files of one batch at most, as they are stored; a larger file is a batch of its own."""

    batch_events: int = 1_000_000
    """Events of one batch from Kafka at most."""

    answer_seconds: float = 10.0
    """The longest wait for an answer of Kafka to a question for offsets."""

    answer_pause_seconds: float = 0.1
    """Pause before Kafka is asked again for a partition whose leader changes."""

    file_log_snapshots: int = 100
    """Snapshots of a file log, one for each batch, from which on it is rewritten."""

    poll_seconds: float = 1.0
    """Pause between two looks for new events where there were none."""

    idle_seconds: float = 60.0
    """The time after which it is reported again that a source has no new events."""
