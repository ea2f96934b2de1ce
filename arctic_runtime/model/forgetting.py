"""Data classes for the deletion of rows from all tables and their history (`arctic forget`), for privacy requests.

They are the request, the plan for each table, and the certificate of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class Forget:
    """Request to forget rows of a table: those with one of `keys`, or those for which the predicate `where` is true.

    `keys` are texts: the values of all key columns of the first key, then those of the next key, and so on. `where` is
    SQL. If `drop_savepoints`, savepoints that contain the rows are dropped; if `drop_clones`, all clones of the tables
    that contain the rows.
    """

    keys: tuple[str, ...] = ()
    where: str | None = None
    drop_savepoints: bool = False
    drop_clones: bool = False


@dataclass(frozen=True)
class CloneToForget:
    """Part of a plan to forget rows, for one clone that holds them.

    `action` is `drop`, or `none` if the clone is in use and the request does not allow to drop it: then nothing is
    forgotten. `reason` says why. `used_at` is the time of the clone's last run; None if it was not run.
    """

    clone: TableName
    origin: TableName
    made_at: str
    used_at: str | None
    action: Literal["drop", "none"]
    reason: str


@dataclass(frozen=True)
class TableToForget:
    """Part of a plan to forget rows, for one table: number of keys, and files and bytes to rewrite.

    `change_rows` is the number of change rows of these keys, which is the history that is lost, but for one row of each
    key that is still there afterwards. `snapshots` is the number of snapshots to expire, and `savepoints` are the names
    of savepoints that contain the rows.
    """

    table: TableName
    keys: int
    change_rows: int
    files: int
    bytes: int
    snapshots: int
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForgetPlan:
    """Plan to forget rows, for all tables that contain them, the requested table first.

    `dead_letters` is the number of dead letters to delete; `notes` are texts for users.
    """

    tables: tuple[TableToForget, ...]
    dead_letters: int = 0
    notes: tuple[str, ...] = ()
    clones: tuple[CloneToForget, ...] = ()


@dataclass(frozen=True)
class TableForgotten:
    """Result of a request to forget rows, for one table."""

    table: TableName
    keys: int
    """Number of forgotten keys."""

    rewritten_files: int = 0
    rewritten_bytes: int = 0
    expired_snapshots: int = 0
    removed_files: int = 0
    dropped_savepoints: tuple[str, ...] = ()
    scanned_files: int = 0
    """Number of data files that were read afterwards to check the result, with files of no snapshot."""

    left: tuple[str, ...] = ()
    """Texts that describe rows which the table's files still contain."""


@dataclass(frozen=True)
class Certificate:
    """Record of a request to forget rows, with its results."""

    table: TableName
    """The table that the request named."""

    at: str
    """Time of the request."""

    tables: tuple[TableForgotten, ...]
    """Results for this table and for all tables that are computed from it."""

    dead_letters: int = 0
    """Number of deleted dead letters."""

    left: tuple[str, ...] = ()
    """Texts that describe rows which still exist outside of `tables`."""

    notes: tuple[str, ...] = ()
    """Texts about storage that was not checked."""

    dropped_clones: tuple[str, ...] = ()
    """Names of clones that were dropped with their files."""

    @property
    def is_clean(self) -> bool:
        return not self.left and not any(table.left for table in self.tables)


def join_plans(plans: Sequence[ForgetPlan]) -> ForgetPlan:
    """Joins the plans for a quarantine and for its table, which have the same dead letters."""
    return ForgetPlan(
        tuple(table for plan in plans for table in plan.tables),
        max(plan.dead_letters for plan in plans),
        tuple(dict.fromkeys(note for plan in plans for note in plan.notes)),
        tuple(clone for plan in plans for clone in plan.clones),
    )


def join_certificates(certificates: Sequence[Certificate]) -> Certificate:
    """Joins the results for a quarantine and for its table, which is the last one and names the result."""
    return replace(
        certificates[-1],
        tables=tuple(table for certificate in certificates for table in certificate.tables),
        dead_letters=sum(certificate.dead_letters for certificate in certificates),
        left=tuple(dict.fromkeys(text for certificate in certificates for text in certificate.left)),
        notes=tuple(dict.fromkeys(note for certificate in certificates for note in certificate.notes)),
        dropped_clones=tuple(clone for certificate in certificates for clone in certificate.dropped_clones),
    )


_ACTIONS = {"drop": "to drop", "none": "held by"}


def describe_clone(clone: CloneToForget) -> str:
    """Describes a clone that holds rows to forget: its name, its origin, when it was made, and when it was last run."""
    run = "not run since" if clone.used_at is None else f"last run {clone.used_at}"
    return f"clone {clone.clone} of {clone.origin}, made {clone.made_at}, {run}"


def describe_forget_plan(plan: ForgetPlan) -> list[str]:
    """Describes the plan to forget rows for users, as lines of text."""
    lines = [f"{_ACTIONS[clone.action]}: {describe_clone(clone)}: {clone.reason}" for clone in plan.clones]
    lines += [
        f"to forget: {table_plan.keys:,} key(s) of {table_plan.table} with {table_plan.change_rows:,} change row(s); "
        f"{table_plan.files} file(s), "
        f"{table_plan.bytes:,} bytes, to rewrite; "
        f"{table_plan.snapshots} snapshot(s) to expire"
        for table_plan in plan.tables
    ]
    lines += [f"to forget: {plan.dead_letters} dead letter(s)"] if plan.dead_letters else []
    lines += [
        f"held by a savepoint: {name} of {table_plan.table}; it goes with --drop-savepoints, "
        "and without nothing is done"
        for table_plan in plan.tables
        for name in table_plan.savepoints
    ]
    return [*(lines or ["nothing to forget"]), *_format_notes(plan.notes)]


def describe_certificate(certificate: Certificate) -> list[str]:
    """Describes the result of a request to forget rows for users, as lines of text."""
    lines = [f"dropped: clone {clone} with its files" for clone in certificate.dropped_clones]
    lines += [
        f"forgotten: {table_result.keys:,} key(s) of {table_result.table}; "
        f"{table_result.rewritten_files} file(s) rewritten, "
        f"{table_result.expired_snapshots} snapshot(s) expired, {table_result.scanned_files} file(s) read afterwards"
        for table_result in certificate.tables
    ]
    lines += [f"forgotten: {certificate.dead_letters} dead letter(s)"] if certificate.dead_letters else []
    lines += [
        f"LEFT: {table_result.table}: {left}" for table_result in certificate.tables for left in table_result.left
    ]
    lines += [f"LEFT: {left}" for left in certificate.left]
    return [*(lines or ["nothing to forget"]), *_format_notes(certificate.notes)]


def _format_notes(notes: Iterable[str]) -> list[str]:
    return [f"note: {note}" for note in notes]
