"""Commits that happen only if the table is unchanged since it was observed.

An Iceberg append never conflicts, so two runs could both append the same window. Here a write goes to a branch that
starts at the observed snapshot, and main is fast-forwarded to it: that fails unless main still is that snapshot.
Before, the branch has to hold the attempt's own commits and nothing else, which each of them names in its summary: the
commit of a branch that was dropped meanwhile would otherwise come on top of whatever main is by then. A table that is
overwritten as a whole needs no branch: Iceberg itself compares what it was with what it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect, wait_for_lock
from arctic_runtime.errors import ArcticError, CommitConflict, CommitUnknown
from arctic_runtime.model.branch import BranchCommit, BranchState, explain_refused_publish
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT, BRANCH_PREFIX, MERGED
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.spark.engine.java.java_errors import SPARK, SPARK_ERRORS
from arctic_runtime.spark.engine.settings import override_settings
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    quote_name,
    quote_number,
    quote_text,
    write_properties,
)
from arctic_runtime.thresholds import CommitThresholds

T = TypeVar("T")

_SNAPSHOT_COLUMNS = ("snapshot_id", "parent_id", "operation", "summary")


@dataclass(frozen=True)
class Attempt:
    """One attempt to commit: its session, and the token in the names of its branches.

    Without a `reader`, for a table of another catalog, Spark is asked for the state of branches.
    """

    spark: SparkSession
    reader: CatalogReader | None
    token: str
    thresholds: CommitThresholds


@dataclass(frozen=True)
class WriterBranch:
    """The branch `name` of a table, which one writer fills on top of the snapshot `expected`.

    Commits of the writer name it. Several processes may fill a branch that `is_shared`, each as the same writer.
    """

    table: TableName
    name: str
    expected: int
    writer: str
    is_shared: bool = False


def swap_in(
    attempt: Attempt,
    table: TableName,
    expected: int,
    write: Callable[[tuple[str, ...]], T],
    overtaken: Callable[[int], T | None] = lambda _: None,
) -> T:
    """Runs `write` on a branch of the snapshot `expected`, then moves main to the branch, if main is unmoved.

    `write` gets the parts of the branch's name, and may raise to end the attempt; its result is returned. All commits
    of `write` have to be done when it returns. Where another writer was faster, `overtaken` is called with the
    snapshot that `write` has made, and its result is returned. Raises CommitConflict if that is None: the table is
    then as that writer left it.
    """
    spark, branch, writer = attempt.spark, f"{BRANCH_PREFIX}{attempt.token}", f"{attempt.token}-{uuid.uuid4().hex[:8]}"
    written = WriterBranch(table, branch, expected, writer)
    parts = {"table": quote_name(*table.parts), "branch": quote_name(branch)}
    create = fill_statement(
        "ALTER TABLE {table} CREATE BRANCH {branch} AS OF VERSION {v}", v=quote_number(expected), **parts
    )
    perform_statement("commit.branch", spark, create)
    try:
        with override_settings(spark, build_summary_settings({ATTEMPT: writer})):
            result = write(table.to_branch_parts(branch))
        try:
            publish_branch(attempt, written)
        except CommitConflict:
            own = _find_written_snapshot(attempt, written)
            again = None if own is None else overtaken(own)
            if again is None:
                raise
            return again
        return result
    finally:
        clear_away(attempt, table, branch)


def _find_written_snapshot(attempt: Attempt, branch: WriterBranch) -> int | None:
    """The snapshot that a writer left on its branch; None if the branch holds something else."""
    state = read_branch_state(attempt.spark, attempt.reader, branch.table, branch.name)
    reason = explain_refused_publish(replace(state, main=branch.expected), branch.expected, branch.writer)
    return state.tip if reason is None else None


def publish_branch(attempt: Attempt, branch: WriterBranch) -> None:
    """Moves main to a branch, also where the answer to that gets lost.

    Raises CommitConflict if main has moved, or if the branch does not consist of commits of its writer on top of the
    expected snapshot. A shared branch may have been published already.
    """
    spark, reader = attempt.spark, attempt.reader
    state = read_branch_state(spark, reader, branch.table, branch.name)
    if state.is_published and (branch.is_shared or state.tip == branch.expected):
        return
    reason = explain_refused_publish(state, branch.expected, branch.writer, branch.is_shared)
    if reason is not None:
        raise CommitConflict(
            f"Another writer committed first.\n  while: commit {branch.name} to {branch.table}", actual=reason
        )
    try:
        fast_forward(spark, branch.table, branch.name)
    except (ArcticError, *SPARK_ERRORS) as error:
        if not _has_been_published(spark, reader, branch.table, branch.name, error):
            raise


def overwrite_table(rows: DataFrame, table: TableName, expected: int, summary: Mapping[str, str]) -> None:
    """Puts `rows` in the place of all rows of a table in one commit, if the table still is the snapshot `expected`.

    Raises CommitConflict if it is not: every file that was added or taken away since is in the way.
    """
    options = {
        "distribution-mode": "none",
        "fanout-enabled": "true",
        **build_isolation_options(expected),
        **build_summary_options(summary),
    }
    writer = rows.writeTo(quote_name(*table.parts)).options(**options)
    perform_effect("base.overwrite", lambda: writer.overwrite(F.lit(True)), f"overwrite {table}", SPARK)


def build_merged_summary(version: Version) -> dict[str, str]:
    """The summary of a base's commit that says up to which version of the change table the base is merged."""
    return {MERGED: encode_versions({"changes": version})}


def build_isolation_options(expected: int) -> dict[str, str]:
    """Options of an overwriting commit that conflicts with every change of the table since a snapshot."""
    return {"isolation-level": "serializable", "validate-from-snapshot-id": str(expected)}


def build_summary_options(summary: Mapping[str, str]) -> dict[str, str]:
    """Options of a writer whose commit's summary is to say something."""
    return {f"snapshot-property.{key}": value for key, value in summary.items()}


def build_summary_settings(summary: Mapping[str, str]) -> dict[str, str]:
    """The same as settings of a session: statements take no options."""
    return {f"spark.sql.iceberg.{key}": value for key, value in build_summary_options(summary).items()}


def read_tips(spark: SparkSession, table: TableName, *refs: str) -> dict[str, int]:
    """The snapshots that branches or tags of a table stand at, of those that there are."""
    refs_rows = spark.table(quote_name(*table.parts, "refs")).where(F.col("name").isin(*refs))
    return {str(row["name"]): int(row["snapshot_id"]) for row in refs_rows.select("name", "snapshot_id").collect()}


def fast_forward(spark: SparkSession, table: TableName, branch: str) -> None:
    """Moves main to the branch; raises CommitConflict if main is not behind it."""
    call = fill_statement(
        "CALL {catalog}.system.fast_forward(table => {table}, branch => 'main', to => {to})",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        to=quote_text(branch),
    )
    perform_statement("commit.publish", spark, call)


def _has_been_published(
    spark: SparkSession, reader: CatalogReader | None, table: TableName, branch: str, error: Exception
) -> bool:
    """Whether main was moved to the branch although that seemed to fail: an answer can get lost."""
    try:
        return read_branch_state(spark, reader, table, branch).is_published
    except (ArcticError, *SPARK_ERRORS):
        raise CommitUnknown(
            f"It is not known whether a commit went through.\n  while: commit {branch} to {table}",
            actual=str(error),
            fix="run again; the next run looks for it first and applies nothing twice",
        ) from error


def read_branch_state(spark: SparkSession, reader: CatalogReader | None, table: TableName, branch: str) -> BranchState:
    """Reads the heads of main and of a branch, and who wrote the table's snapshots.

    Asks Spark if there is no `reader`.
    """
    if reader is not None:
        return observe_branch(reader, table, branch)
    tips_found = wait_for_lock(lambda: read_tips(spark, table, "main", branch), f"look for {branch} of {table}", SPARK)
    rows = wait_for_lock(
        lambda: spark.table(quote_name(*table.parts, "snapshots")).select(*_SNAPSHOT_COLUMNS).collect(),
        f"read the snapshots of {table}",
        SPARK,
    )
    commits = {
        at: BranchCommit(parent, operation, (summary or {}).get(ATTEMPT)) for at, parent, operation, summary in rows
    }
    return BranchState(tips_found.get("main"), tips_found.get(branch), commits)


def drop_branches(spark: SparkSession, table: TableName, branches: tuple[str, ...]) -> None:
    """Drops branches; those that were already dropped are not an error."""
    for branch in branches:
        _drop_branch("commit.drop_abandoned", spark, table, branch)


def clear_away(attempt: Attempt, table: TableName, branch: str) -> None:
    """Drops a used branch; if that fails the commit stays, and a later run drops it."""
    for _ in range(attempt.thresholds.drop_branch_attempts):
        with suppress(ArcticError, *SPARK_ERRORS):
            _drop_branch("commit.drop_branch", attempt.spark, table, branch)
            return


def _drop_branch(effect_name: str, spark: SparkSession, table: TableName, branch: str) -> None:
    drop = fill_statement(
        "ALTER TABLE {table} DROP BRANCH IF EXISTS {branch}", table=quote_name(*table.parts), branch=quote_name(branch)
    )
    perform_statement(effect_name, spark, drop)


def perform_statement(effect_name: str, spark: SparkSession, sql: Sql) -> DataFrame:
    """Performs an effect that is a statement, which Spark does when it is given it; returns the statement's result."""
    return perform_effect(effect_name, lambda: spark.sql(sql), sql, SPARK)


def set_properties(effect_name: str, spark: SparkSession, table: TableName, values: Mapping[str, str]) -> None:
    """Sets properties of a table, in a commit of its own."""
    parts = {"table": quote_name(*table.parts), "values": write_properties(values.items())}
    perform_statement(effect_name, spark, fill_statement("ALTER TABLE {table} SET TBLPROPERTIES ({values})", **parts))


def set_tag(effect_name: str, spark: SparkSession, table: TableName, tag: str, snapshot: int) -> None:
    """Sets a tag of a table at a snapshot, wherever it stood before."""
    parts = {"table": quote_name(*table.parts), "tag": quote_name(tag), "v": quote_number(snapshot)}
    template = "ALTER TABLE {table} CREATE OR REPLACE TAG {tag} AS OF VERSION {v}"
    perform_statement(effect_name, spark, fill_statement(template, **parts))


def drop_tag(effect_name: str, spark: SparkSession, table: TableName, tag: str) -> None:
    """Drops a tag of a table; one that was already deleted is not an error."""
    parts = {"table": quote_name(*table.parts), "tag": quote_name(tag)}
    perform_statement(effect_name, spark, fill_statement("ALTER TABLE {table} DROP TAG IF EXISTS {tag}", **parts))
