"""Thresholds of commits, reports, Spark and the catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitThresholds:
    """Retries of commits and waits for locks."""

    attempts: int = 5
    """Attempts of a run that starts again after a lost commit race."""

    drop_branch_attempts: int = 5
    """Attempts to drop a branch that is no longer needed."""

    lock_wait_seconds: float = 60.0
    """The longest wait for the lock of the catalog's database."""

    lock_poll_seconds: float = 0.2
    """Pause between two attempts to get the lock of the catalog's database."""

    observation_rounds: int = 5
    """How often the snapshots of several tables are looked up until no commit came between."""


@dataclass(frozen=True)
class ReportThresholds:
    """The most entries, such as reasons and rows, that reports to people read or show."""

    examples: int = 3
    """Example rows that are shown for each broken promise."""

    sampled_rows: int = 1000
    """The most rows that break promises which are read and counted."""

    shown_nodes: int = 20
    """The most file groups that a printed compaction plan lists as left alone."""

    tree_lines: int = 64
    """The most lines of a printed hash tree."""

    shown_changes: int = 1000
    """The most change rows that are shown unless the user gives a limit."""

    dead_letter_reasons: int = 3
    """The most reasons of dead letters that an error shows; the most frequent ones are shown."""


@dataclass(frozen=True)
class ExportThresholds:
    """Limits of the memory that an export of change rows takes."""

    batch_rows: int = 8192
    """Rows that are read, converted and sent together."""

    sorted_rows: int = 131_072
    """The most rows that are sorted in memory: those of consecutive small commits, or of one commit."""


@dataclass(frozen=True)
class EngineThresholds:
    """Thresholds of starting, reaching and stopping Spark, and of reading the catalog."""

    kept_metadata: int = 64
    """The most metadata files of tables that are kept in memory: one with 200 snapshots takes a megabyte."""

    store_connect_seconds: float = 2.0
    """The longest wait for a TCP connection to an object store, of which this process makes up to three."""

    store_request_seconds: float = 20.0
    """The longest time without a byte in which this process waits for an answer of an object store."""

    store_probe_request_seconds: float = 2.0
    """Like `store_request_seconds`, for the first question of a process, which shows whether the store answers."""

    store_probe_seconds: float = 8.0
    """The longest wait for the answer to that question, with all its repetitions."""

    session_idle_seconds: float = 600.0
    """A session that was idle for longer is not used again: a Spark Connect server drops sessions after an hour."""

    parallel_actions: int = 4
    """The most actions that one run performs in parallel."""

    jvm_start_seconds: float = 120.0
    """The longest wait for a JVM to start."""

    jvm_start_poll_seconds: float = 0.02
    """Pause between two checks whether a JVM has started."""

    jvm_stop_seconds: float = 30.0
    """The longest wait for a JVM to end by itself before it is killed."""

    jvm_exit_code_seconds: float = 5.0
    """The longest wait for the exit code of a JVM whose connection broke."""

    spark_watch_seconds: float = 1.0
    """Pause between two checks whether Spark still runs, in a process that runs without end."""

    spark_end_seconds: float = 30.0
    """The longest wait for a process that runs without end to exit by itself after its Spark has ended."""

    new_objects_share: float = 0.125
    """Share of Spark's largest heap that is for new objects, in a process that runs without end.

    The heap begins with twice as much.
    """

    server_start_seconds: float = 150.0
    """The longest wait for a kept Spark Connect server (`url: local`) to start."""

    server_stop_seconds: float = 60.0
    """The longest wait for a kept Spark Connect server to stop."""

    server_poll_seconds: float = 0.05
    """Pause between two checks whether a kept server has started or stopped."""

    server_watch_seconds: float = 0.5
    """Pause between two checks by a kept server whether it should stop."""

    server_lock_seconds: float = 1.0
    """The longest wait for the address or the lock of a kept server."""

    server_probe_seconds: float = 0.02
    """The wait for the lock of a kept server after which a running server is assumed to hold it.

    It is longer than a client holds the lock for such a check.
    """

    connect_seconds: float = 10.0
    """The longest wait for a TCP connection to a Spark Connect server."""

    connect_retries: int = 7
    """Retries of a request to a Spark Connect server."""

    connect_backoff_millis: int = 8_000
    """The longest pause between two retries of a request to a Spark Connect server."""

    shown_log_lines: int = 10
    """The last lines of Spark's log that an error shows if Spark has ended."""

    kept_logs: int = 20
    """The most log files of Spark that are kept."""

    kept_archives: int = 4
    """The most class-data archives, by which a JVM starts faster, that are kept."""
