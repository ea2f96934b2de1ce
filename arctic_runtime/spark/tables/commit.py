"""Commits that happen only if the table still is what was observed.

An Iceberg append never conflicts, so two runs could both append the same window. Here a write goes to a branch that
starts at the observed snapshot, and main is fast-forwarded to it: that fails unless main still is that snapshot.
Before, the branch has to hold the attempt's own commits and nothing else, which each of them names in its summary: the
commit of a branch that was dropped meanwhile would otherwise come on top of whatever main is by then. A table that is
overwritten as a whole needs no branch: Iceberg itself compares what it was with what it is.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observe import observe_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CatalogError, CommitConflict, CommitUnknown
from arctic_runtime.model.branch import BranchCommit, BranchState, why_not_publish
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT, BRANCH_PREFIX
from arctic_runtime.spark.engine.settings import settings
from arctic_runtime.spark.engine.statement import Sql, name, number, properties, statement, text

T = TypeVar("T")

# Errors of Iceberg that Spark does not know come as py4j's.
SPARK_ERRORS = (PySparkException, Py4JJavaError)

MAX_ATTEMPTS = 5

LOCK_WAIT_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.2
DROP_ATTEMPTS = 5

_LOCKED = ("SQLITE_BUSY", "database is locked", "SQLITE_LOCKED")
_CONFLICT = (
    "is not an ancestor of",
    "CommitFailedException",
    "Cannot commit",
    "does not exist: arctic_",
    "Cannot use branch (does not exist)",
    "already exists",
    "Found conflicting",
    "Found new conflicting",
    "Found concurrently added",
    "Missing required files to delete",
    "Cannot determine history between",
    "Still referenced by refs",
)
_SNAPSHOT_COLUMNS = ("snapshot_id", "parent_id", "operation", "summary")
_READ_ONLY = (
    "SQLITE_READONLY",
    "Permission denied",
    "Read-only file system",
    "AccessDenied",
    "Access Denied",
)
_TOO_LARGE_TO_SEND = (
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
    "Could not execute broadcast",
    "spark.driver.maxResultSize",
)


def was_too_large_to_send(error: Exception) -> bool:
    """Whether Spark gave up since a side of a join, which it was told to send to all tasks, was too large for that."""
    return any(sign in str(error) for sign in _TOO_LARGE_TO_SEND)


def retried(action: Callable[[], T]) -> T:
    """Does what starts with an observation again as long as others commit first; raises CommitConflict in the end."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(CommitConflict):
            return action()
    return action()


def swap_in(
    spark: SparkSession,
    reader: CatalogReader | None,
    table: TableName,
    expected: int,
    token: str,
    write: Callable[[tuple[str, ...]], T],
) -> T:
    """Runs `write` on a branch of the snapshot `expected`, then makes the branch the table, if main is unmoved.

    `write` gets the parts of the branch's name, and may raise to give the attempt up; its result is returned. All
    that it writes has to be committed when it returns. Without a `reader` Spark is asked what the branch holds.
    Raises CommitConflict where another writer was faster: the table is then as that writer left it.
    """
    branch, attempt = f"{BRANCH_PREFIX}{token}", f"{token}-{uuid.uuid4().hex[:8]}"
    parts = {"table": name(*table.parts), "branch": name(branch)}
    run(
        spark,
        statement("ALTER TABLE {table} CREATE BRANCH {branch} AS OF VERSION {v}", v=number(expected), **parts),
    )
    try:
        with settings(spark, said_by_session({ATTEMPT: attempt})):
            result = write(table.branch(branch))
        publish(spark, reader, table, branch, expected, attempt)
        return result
    finally:
        clear_away(spark, table, branch)


def publish(
    spark: SparkSession,
    reader: CatalogReader | None,
    table: TableName,
    branch: str,
    expected: int,
    attempt: str,
    is_shared: bool = False,
) -> None:
    """Makes a branch the table, also where the answer to that gets lost.

    Raises CommitConflict if main has moved, or if the branch is not what `attempt` wrote on top of `expected`. Where
    the attempt `is_shared` by several processes, another one may have published it already.
    """
    state = branch_state(spark, reader, table, branch)
    if state.is_published and (is_shared or state.tip == expected):
        return
    reason = why_not_publish(state, expected, attempt, is_shared)
    if reason is not None:
        raise CommitConflict(f"Another writer committed first.\n  while: commit {branch} to {table}\n  found: {reason}")
    try:
        fast_forward(spark, table, branch)
    except (ArcticError, *SPARK_ERRORS) as error:
        if not _went_through(spark, reader, table, branch, error):
            raise


def overwrite(rows: DataFrame, table: TableName, expected: int, summary: Mapping[str, str]) -> None:
    """Puts `rows` in the place of all rows of a table in one commit, if the table still is the snapshot `expected`.

    Raises CommitConflict where it is not: every file that was added or taken away since is in the way.
    """
    options = {"distribution-mode": "none", "fanout-enabled": "true", **unmoved(expected), **said(summary)}
    writer = rows.writeTo(name(*table.parts)).options(**options)
    write_once(lambda: writer.overwrite(F.lit(True)), f"overwrite {table}")


def unmoved(expected: int) -> dict[str, str]:
    """Options of an overwriting commit that conflicts with every change of the table since a snapshot."""
    return {"isolation-level": "serializable", "validate-from-snapshot-id": str(expected)}


def said(summary: Mapping[str, str]) -> dict[str, str]:
    """Options of a writer whose commit's summary is to say something."""
    return {f"snapshot-property.{key}": value for key, value in summary.items()}


def said_by_session(summary: Mapping[str, str]) -> dict[str, str]:
    """The same as settings of a session: statements take no options."""
    return {f"spark.sql.iceberg.{key}": value for key, value in said(summary).items()}


def tips(spark: SparkSession, table: TableName, *refs: str) -> dict[str, int]:
    """The snapshots that branches or tags of a table stand at, of those that there are."""
    found = spark.table(name(*table.parts, "refs")).where(F.col("name").isin(*refs))
    return {str(row["name"]): int(row["snapshot_id"]) for row in found.select("name", "snapshot_id").collect()}


def fast_forward(spark: SparkSession, table: TableName, branch: str) -> None:
    """Moves main to the branch; raises CommitConflict where main is not behind it."""
    call = statement(
        "CALL {catalog}.system.fast_forward(table => {table}, branch => 'main', to => {to})",
        catalog=name(table.catalog),
        table=text(name(*table.parts)),
        to=text(branch),
    )
    run(spark, call)


def _went_through(
    spark: SparkSession, reader: CatalogReader | None, table: TableName, branch: str, error: Exception
) -> bool:
    """Whether main came to the branch although moving it there seemed to fail: an answer can get lost."""
    try:
        return branch_state(spark, reader, table, branch).is_published
    except (ArcticError, *SPARK_ERRORS):
        raise CommitUnknown(
            f"It is not known whether a commit went through.\n  while: commit {branch} to {table}\n"
            f"  found: {error}\n  what to do: run again; the next run looks for it first and applies nothing twice"
        ) from error


def branch_state(spark: SparkSession, reader: CatalogReader | None, table: TableName, branch: str) -> BranchState:
    """Where main and a branch stand, and who wrote the table's snapshots; Spark tells it where there is no `reader`."""
    if reader is not None:
        return observe_branch(reader, table, branch)
    found = attempt(lambda: tips(spark, table, "main", branch), f"look for {branch} of {table}")
    rows = attempt(
        lambda: spark.table(name(*table.parts, "snapshots")).select(*_SNAPSHOT_COLUMNS).collect(),
        f"read the snapshots of {table}",
    )
    commits = {at: BranchCommit(parent, operation, (said or {}).get(ATTEMPT)) for at, parent, operation, said in rows}
    return BranchState(found.get("main"), found.get(branch), commits)


def drop_branches(spark: SparkSession, table: TableName, branches: tuple[str, ...]) -> None:
    """Drops branches, those that are gone already too."""
    for branch in branches:
        _drop_branch(spark, table, branch)


def clear_away(spark: SparkSession, table: TableName, branch: str) -> None:
    """Drops a branch that has served; what was done stays done where that fails, and a later run drops it."""
    for _ in range(DROP_ATTEMPTS):
        with suppress(ArcticError, *SPARK_ERRORS):
            _drop_branch(spark, table, branch)
            return


def _drop_branch(spark: SparkSession, table: TableName, branch: str) -> None:
    drop = statement(
        "ALTER TABLE {table} DROP BRANCH IF EXISTS {branch}", table=name(*table.parts), branch=name(branch)
    )
    run(spark, drop)


def run(spark: SparkSession, sql: Sql) -> None:
    """Runs a statement for its effect, with this module's errors. Spark does what it says when it is given it."""
    attempt(lambda: spark.sql(sql), sql)


def set_properties(spark: SparkSession, table: TableName, values: Mapping[str, str]) -> None:
    """Sets properties of a table, in a commit of its own."""
    parts = {"table": name(*table.parts), "values": properties(values.items())}
    run(spark, statement("ALTER TABLE {table} SET TBLPROPERTIES ({values})", **parts))


def write_once(action: Callable[[], T], what: str) -> T:
    """Like `attempt` for writes to a branch, which a second try could do twice: a locked catalog is a conflict.

    The branch is nobody else's, so starting over with another one loses nothing.
    """
    try:
        return action()
    except SPARK_ERRORS as error:
        reason = str(error)
        if any(sign in reason for sign in _LOCKED):
            raise CommitConflict(f"The catalog was locked.\n  while: {what}") from error
        raise _explained(error, reason, what) from error


def attempt(action: Callable[[], T], what: str) -> T:
    """Runs an action of Spark: waits for a locked catalog, and tells conflicts from unusable warehouses.

    Iceberg does not retry a locked SQLite database, so that is done here. The action must be one that can be done
    twice, or that fails the second time.
    """
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            return action()
        except SPARK_ERRORS as error:
            reason = str(error)
            if not any(sign in reason for sign in _LOCKED):
                raise _explained(error, reason, what) from error
            if time.monotonic() > deadline:
                raise CatalogError(
                    f"The catalog's database has been locked by another process for {LOCK_WAIT_SECONDS:.0f} s.\n"
                    f"  while: {what}\n  what to do: see who holds catalog.db open (for instance with fuser), and let "
                    "it finish or end it"
                ) from error
            time.sleep(LOCK_POLL_SECONDS)


def _explained(error: Exception, reason: str, what: str) -> Exception:
    said = (str(error.java_exception) if isinstance(error, Py4JJavaError) else reason).strip()
    first = said.splitlines()[0] if said else type(error).__name__
    if any(sign in reason for sign in _CONFLICT):
        return CommitConflict(f"Another writer committed first.\n  while: {what}\n  found: {first}")
    if any(sign in reason for sign in _READ_ONLY):
        return CatalogError(
            f"The warehouse can't be written.\n  while: {what}\n  found: {first}\n"
            "  what to do: check its permissions and the disk, then run again; nothing was published"
        )
    return error
