"""Commits, reports, Spark and the catalog."""

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
    """Pause between two attempts to get that lock."""


@dataclass(frozen=True)
class ReportThresholds:
    """Limits of a report's contents."""

    examples: int = 3
    """Examples of rows for each broken promise."""

    sampled_rows: int = 1000
    """Rows that break promises, as far as they are counted."""

    shown_nodes: int = 20
    """File groups that a compaction plan lists as left alone."""

    tree_lines: int = 64
    """Lines of a printed hash tree."""

    dead_letter_reasons: int = 3
    """Most reasons of dead letters that an error shows, those of most dead letters."""


@dataclass(frozen=True)
class EngineThresholds:
    """Starting, reaching and stopping Spark, and reading the catalog."""

    kept_metadata: int = 64
    """Metadata files of tables that are kept as they were read: one of 200 snapshots takes a megabyte."""

    session_idle_seconds: float = 600.0
    """A session that was not used for longer is not used again: a server forgets it after an hour."""

    parallel_actions: int = 4
    """Actions that one run performs at the same time."""

    jvm_start_seconds: float = 120.0
    """The longest wait for a JVM to start."""

    jvm_start_poll_seconds: float = 0.02
    """Pause between two looks for a started JVM."""

    jvm_stop_seconds: float = 30.0
    """The longest wait for a JVM to end by itself before it is killed."""

    jvm_exit_code_seconds: float = 5.0
    """The longest wait for the exit code of a JVM whose connection broke."""

    spark_watch_seconds: float = 1.0
    """Pause between two checks of a process that runs forever whether its Spark is still there."""

    spark_end_seconds: float = 30.0
    """How long such a process may take to end by itself if its Spark is gone."""

    new_objects_share: float = 0.125
    """The part of the heap of such a process' Spark that is for new objects, and as much is for others at first."""

    server_start_seconds: float = 150.0
    """The longest wait for a kept Spark Connect server to start."""

    server_stop_seconds: float = 60.0
    """The longest wait for a kept server to stop."""

    server_poll_seconds: float = 0.05
    """Pause between two looks for a kept server."""

    server_watch_seconds: float = 0.5
    """Pause between two looks of a kept server at whether it is still wanted."""

    server_lock_seconds: float = 1.0
    """The longest wait for the address or the lock of a kept server."""

    server_probe_seconds: float = 0.02
    """Longer than a client holds the lock of a kept server to see whether a process has it."""

    connect_seconds: float = 10.0
    """The longest wait for a TCP connection to a Spark Connect server."""

    connect_retries: int = 7
    """Retries of a request to a Spark Connect server."""

    connect_backoff_millis: int = 8_000
    """The longest pause between two such retries."""

    shown_log_lines: int = 10
    """Lines of the log of a Spark that ended, as an error shows them."""

    kept_logs: int = 20
    """Log files of Spark that are kept."""

    kept_archives: int = 4
    """Class-data archives that are kept."""
