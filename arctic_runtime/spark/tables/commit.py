"""Commits to tables that succeed only if the table is unchanged since it was observed.

An Iceberg append never conflicts, so two runs could both append the changes of the same window. To prevent this, rows
are written to a branch that starts at the observed snapshot, and main is fast-forwarded to the branch, which fails
unless main still is at that snapshot. Before the fast-forward, it is checked that the branch has only commits of this
attempt, whose summaries have the attempt's token: if another process dropped the branch meanwhile, Iceberg would have
created it again on top of the current main. A table that is overwritten as a whole needs no branch: Iceberg itself
checks that it is unchanged.

For catalogs in a database or with a server, the catalog's client changes branches and tags, in milliseconds. For
others, statements of Spark do the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.table_refs import change_refs
from arctic_runtime.effects import perform_effect, wait_for_lock
from arctic_runtime.errors import ArcticError, CommitConflict, CommitUnknown
from arctic_runtime.model import refs
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT, BRANCH_PREFIX, MERGED, REFRESH_STATE
from arctic_runtime.model.refs import BranchCommit, BranchState, explain_refused_publish
from arctic_runtime.model.run_summary import find_refresh_state
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.spark.engine.java.java_errors import SPARK, SPARK_ERRORS
from arctic_runtime.spark.engine.jobs import override_settings
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

_NO_OPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Attempt:
    """One attempt to commit to tables: its Spark session, and the token in the names of its branches.

    `reader` reads the state of branches; if it is None, for a table of another catalog, Spark reads it.
    """

    spark: SparkSession
    reader: CatalogReader | None
    token: str
    thresholds: CommitThresholds


@dataclass(frozen=True)
class WriterBranch:
    """A branch of a table that starts at the snapshot `expected`, and to which one writer commits.

    The summaries of its commits have the writer's name. If it `is_shared`, several processes may commit to it under
    this name.
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
    """Calls `write` with a new branch at the snapshot `expected`, then publishes the branch if main is still there.

    `write` gets the parts of the branch's name, and must have finished its commits when it returns. Its result is
    returned; an error that it raises ends the attempt. If another writer committed first, calls `overtaken` with the id
    of the last snapshot of the branch and returns its result, or raises CommitConflict if this result is None. Drops
    the branch in the end.
    """
    spark, branch, writer = attempt.spark, f"{BRANCH_PREFIX}{attempt.token}", f"{attempt.token}-{uuid.uuid4().hex[:8]}"
    written = WriterBranch(table, branch, expected, writer)
    create_branch("commit.branch", attempt, table, branch, expected)
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
    """Returns the head snapshot of a writer's branch; None if the branch is missing or has other writers' commits."""
    state = read_branch_state(attempt.spark, attempt.reader, branch.table, branch.name)
    reason = explain_refused_publish(replace(state, main=branch.expected), branch.expected, branch.writer)
    return state.tip if reason is None else None


def create_branch(
    effect_name: str, attempt: Attempt, table: TableName, branch: str, snapshot: int, may_exist: bool = False
) -> None:
    """Creates a branch of a table at a snapshot; if it `may_exist`, an existing branch stays as it is.

    Raises CommitConflict if it exists and may not.
    """
    reader = attempt.reader
    if reader is not None and reader.can_change_refs:
        _change_refs(
            effect_name, reader, table, partial(refs.add_branch, branch=branch, snapshot=snapshot, may_exist=may_exist)
        )
        return
    statement = fill_statement(
        "ALTER TABLE {table} CREATE BRANCH IF NOT EXISTS {branch} AS OF VERSION {v}"
        if may_exist
        else "ALTER TABLE {table} CREATE BRANCH {branch} AS OF VERSION {v}",
        table=quote_name(*table.parts),
        branch=quote_name(branch),
        v=quote_number(snapshot),
    )
    perform_statement(effect_name, attempt.spark, statement)


def publish_branch(attempt: Attempt, branch: WriterBranch) -> None:
    """Moves main to the head of a branch; if the catalog's answer is lost, checks whether main was moved.

    Where the catalog's client does this, the same commit drops the branch. Raises CommitConflict if main is no longer
    at the expected snapshot, or if the branch has commits of other writers. Does nothing if a shared branch is
    published already.
    """
    spark, reader = attempt.spark, attempt.reader
    state = read_branch_state(spark, reader, branch.table, branch.name)
    if state.is_published and (branch.is_shared or state.tip == branch.expected):
        return
    tip = _check_publishable(state, branch)
    try:
        if reader is not None and reader.can_change_refs:
            _publish_by_client(attempt, reader, branch, tip)
        else:
            fast_forward(spark, branch.table, branch.name)
    except (ArcticError, *SPARK_ERRORS) as error:
        if not _has_been_published(attempt, branch, tip, error):
            raise


def _publish_by_client(attempt: Attempt, reader: CatalogReader, branch: WriterBranch, tip: int) -> None:
    """Moves main to the head of a branch and drops the branch, in one commit, which has `tip` or commits on top of it.

    What is known of the branch is checked again at the commit. Spark then computes anew what it keeps of the table.
    """

    def publish_refs(table: refs.TableRefs) -> refs.Refs:
        state = table.read_state(branch.name)
        _check_publishable(state, branch)
        if not state.is_in_branch(tip):
            raise _build_conflict(branch, f"the branch lacks snapshot {tip}")
        return refs.publish_branch(table, branch.name)

    _change_refs("commit.publish", reader, branch.table, publish_refs)
    attempt.spark.catalog.refreshTable(quote_name(*branch.table.parts))


def _check_publishable(state: BranchState, branch: WriterBranch) -> int:
    """Returns the head of a branch that can be published; raises CommitConflict if it can't."""
    reason = explain_refused_publish(state, branch.expected, branch.writer, branch.is_shared)
    if reason is not None or state.tip is None:
        raise _build_conflict(branch, reason)
    return state.tip


def _build_conflict(branch: WriterBranch, reason: str | None) -> CommitConflict:
    return CommitConflict(
        f"Another writer committed first.\n  while: commit {branch.name} to {branch.table}", actual=reason
    )


def overwrite_table(rows: DataFrame, table: TableName, expected: int, summary: Mapping[str, str]) -> None:
    """Replaces all rows of a table by `rows` in one commit, if the table's snapshot still is `expected`.

    `summary` has entries for the summary of the commit. Raises CommitConflict if any file was added or removed since.
    """
    options = {"distribution-mode": "none", "fanout-enabled": "true", **build_summary_options(summary)}
    replace_rows("base.overwrite", rows, table, expected, f"overwrite {table}", options)


def replace_rows(
    effect_name: str,
    rows: DataFrame,
    table: TableName,
    expected: int,
    description: str,
    options: Mapping[str, str] = _NO_OPTIONS,
) -> None:
    """Replaces all rows of a table by `rows` in one commit, with `options` of the DataFrame writer.

    `description` describes the commit in errors. Raises CommitConflict if any file was added or removed since the
    snapshot `expected`.
    """
    writer = rows.writeTo(quote_name(*table.parts)).options(**options, **build_isolation_options(expected))
    perform_effect(effect_name, lambda: writer.overwrite(F.lit(True)), description, SPARK)


def build_base_summary(version: Version, changes: ChangeTableState | None) -> dict[str, str]:
    """Builds the entries for the summary of a base table's commit, which contains `changes` up to `version`.

    These are the version itself and, if it is known, the state of the sources from which the rows were computed.
    """
    state = find_refresh_state(changes, version)
    return {MERGED: encode_versions({"changes": version}), **({} if state is None else {REFRESH_STATE: state})}


def build_isolation_options(expected: int) -> dict[str, str]:
    """Builds writer options by which an overwrite fails if the table has changed since the snapshot `expected`."""
    return {"isolation-level": "serializable", "validate-from-snapshot-id": str(expected)}


def build_summary_options(summary: Mapping[str, str]) -> dict[str, str]:
    """Builds options of a DataFrame writer that add `summary` to the summary of its commit."""
    return {f"snapshot-property.{key}": value for key, value in summary.items()}


def build_summary_settings(summary: Mapping[str, str]) -> dict[str, str]:
    """Builds session settings that add `summary` to the summary of each commit by a SQL statement."""
    return {f"spark.sql.iceberg.{key}": value for key, value in build_summary_options(summary).items()}


def read_tips(spark: SparkSession, table: TableName, *names: str) -> dict[str, int]:
    """Reads the snapshot ids of the branches or tags `names` of a table, by name; missing ones are left out."""
    rows = spark.table(quote_name(*table.parts, "refs")).where(F.col("name").isin(*names))
    return {str(row["name"]): int(row["snapshot_id"]) for row in rows.select("name", "snapshot_id").collect()}


def fast_forward(spark: SparkSession, table: TableName, branch: str) -> None:
    """Moves main to the head of `branch`; raises CommitConflict if main is not an ancestor of it."""
    call = fill_statement(
        "CALL {catalog}.system.fast_forward(table => {table}, branch => 'main', to => {to})",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        to=quote_text(branch),
    )
    perform_statement("commit.publish", spark, call)


def _has_been_published(attempt: Attempt, branch: WriterBranch, tip: int, error: Exception) -> bool:
    """Whether main has `tip`, the head of a branch, although the call for this has failed with `error`.

    This happens if only the catalog's answer was lost. Raises CommitUnknown if the table can't be read.
    """
    try:
        return read_branch_state(attempt.spark, attempt.reader, branch.table, branch.name).is_in_main(tip)
    except (ArcticError, *SPARK_ERRORS):
        raise CommitUnknown(
            f"It is not known whether a commit went through.\n  while: commit {branch.name} to {branch.table}",
            actual=str(error),
            fix="run again; the next run looks for it first and applies nothing twice",
        ) from error


def read_branch_state(spark: SparkSession, reader: CatalogReader | None, table: TableName, branch: str) -> BranchState:
    """Reads the heads of main and of a branch, and the table's snapshots with the writers of their commits.

    Uses the catalog's metadata, or Spark if `reader` is None.
    """
    if reader is not None:
        return observe_branch(reader, table, branch)
    tips = wait_for_lock(lambda: read_tips(spark, table, "main", branch), f"look for {branch} of {table}", SPARK)
    rows = wait_for_lock(
        lambda: spark.table(quote_name(*table.parts, "snapshots")).select(*_SNAPSHOT_COLUMNS).collect(),
        f"read the snapshots of {table}",
        SPARK,
    )
    commits = {
        at: BranchCommit(parent, operation, (summary or {}).get(ATTEMPT)) for at, parent, operation, summary in rows
    }
    return BranchState(tips.get("main"), tips.get(branch), commits)


def drop_branches(
    spark: SparkSession, reader: CatalogReader | None, table: TableName, branches: tuple[str, ...]
) -> None:
    """Drops branches of a table, if possible in one commit; it is no error if some do not exist."""
    _drop_branches("commit.drop_abandoned", spark, reader, table, branches)


def clear_away(attempt: Attempt, table: TableName, branch: str) -> None:
    """Drops a branch that is no longer needed; raises no error if this fails, since a later run drops it."""
    for _ in range(attempt.thresholds.drop_branch_attempts):
        with suppress(ArcticError, *SPARK_ERRORS):
            _drop_branches("commit.drop_branch", attempt.spark, attempt.reader, table, (branch,))
            return


def _drop_branches(
    effect_name: str, spark: SparkSession, reader: CatalogReader | None, table: TableName, branches: tuple[str, ...]
) -> None:
    if reader is not None and reader.can_change_refs:
        if branches:
            _change_refs(effect_name, reader, table, partial(refs.remove_refs, names=branches, kind="branch"))
        return
    for branch in branches:
        parts = {"table": quote_name(*table.parts), "branch": quote_name(branch)}
        drop = fill_statement("ALTER TABLE {table} DROP BRANCH IF EXISTS {branch}", **parts)
        perform_statement(effect_name, spark, drop)


def _change_refs(effect_name: str, reader: CatalogReader, table: TableName, change: refs.RefChange) -> None:
    """Changes branches or tags of a table by the catalog's client, as the effect `effect_name`."""
    reader.perform_change(
        effect_name, f"change branches or tags of {table}", lambda: change_refs(reader, table, change)
    )


def commit_summary(effect_name: str, spark: SparkSession, table: tuple[str, ...], summary: Mapping[str, str]) -> None:
    """Commits a snapshot without rows, with `summary`, to a table or branch whose name has the parts `table`."""
    name = quote_name(*table)
    writer = spark.table(name).limit(0).writeTo(name).options(**build_summary_options(summary))
    perform_effect(effect_name, writer.append, f"commit the snapshot properties of {'.'.join(table)}", SPARK)


def perform_statement(effect_name: str, spark: SparkSession, sql: Sql) -> DataFrame:
    """Runs a SQL statement as the effect `effect_name`, an entry of `EFFECTS`, and returns its result.

    The statement must be one that `spark.sql` executes at once, such as DDL. While the catalog is locked, an effect
    that may be performed twice is tried again.
    """
    return perform_effect(effect_name, lambda: spark.sql(sql), sql, SPARK)


def set_properties(effect_name: str, spark: SparkSession, table: TableName, values: Mapping[str, str]) -> None:
    """Sets properties of a table, in a commit of its own."""
    perform_statement(effect_name, spark, write_properties_statement(table, values))


def write_properties_statement(table: TableName, values: Mapping[str, str]) -> Sql:
    """Writes the statement that sets properties of a table."""
    parts = {"table": quote_name(*table.parts), "values": write_properties(values.items())}
    return fill_statement("ALTER TABLE {table} SET TBLPROPERTIES ({values})", **parts)


def set_tag(
    effect_name: str, spark: SparkSession, reader: CatalogReader, table: TableName, tag: str, snapshot: int
) -> None:
    """Sets a tag of a table to a snapshot; if the tag exists at another snapshot, moves it."""
    if reader.can_change_refs:
        _change_refs(effect_name, reader, table, partial(refs.set_tag, tag=tag, snapshot=snapshot))
        return
    parts = {"table": quote_name(*table.parts), "tag": quote_name(tag), "v": quote_number(snapshot)}
    template = "ALTER TABLE {table} CREATE OR REPLACE TAG {tag} AS OF VERSION {v}"
    perform_statement(effect_name, spark, fill_statement(template, **parts))


def drop_tags(
    effect_name: str, spark: SparkSession, reader: CatalogReader, table: TableName, tags: Sequence[str]
) -> None:
    """Drops tags of a table, if possible in one commit; it is no error if some do not exist."""
    if reader.can_change_refs:
        if tags:
            _change_refs(effect_name, reader, table, partial(refs.remove_refs, names=tags, kind="tag"))
        return
    for tag in tags:
        parts = {"table": quote_name(*table.parts), "tag": quote_name(tag)}
        perform_statement(effect_name, spark, fill_statement("ALTER TABLE {table} DROP TAG IF EXISTS {tag}", **parts))
