"""Purges rows: deletes change rows, and rewrites files so that they do not contain rows marked as deleted any more.

Only files with deleted rows are rewritten, and row lineage is preserved, as by any compaction. So readers of changes
and their offsets are not affected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.expiry import Age, format_ages, read_trimmed_age
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL, FORGOTTEN, FORGOTTEN_UNTIL
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.version import Version
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables.commit import (
    build_merged_summary,
    build_summary_settings,
    commit_summary,
    perform_statement,
    set_properties,
    swap_in,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.delete import TARGET, RowMatch, build_key_conditions, delete_matching
from arctic_runtime.spark.tables.files.file_rewrite import ANY_COUNT, ANY_SIZE, sort_order
from arctic_runtime.spark.tables.rows.bounds import EVERYWHERE
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, Keys


@dataclass(frozen=True)
class Purged:
    """The change rows to purge: those of `keys` in commits before the sequence number `since`.

    All of them are in commits up to `until`; so a reader of changes that has not read this commit yet may miss rows.
    """

    keys: Keys
    since: int
    until: Age


@dataclass(frozen=True)
class Rewritten:
    """Number of rewritten files, and the sum of their bytes."""

    files: int
    bytes: int

    def __add__(self, other: Rewritten) -> Rewritten:
        return Rewritten(self.files + other.files, self.bytes + other.bytes)


def purge_changes(purged: Purged, context: Context) -> None:
    """Deletes the change rows that `purged` describes, in one commit.

    Before that, sets properties of the change table by which a reader that has not read these change rows notices that
    they are missing. Raises CommitConflict if another writer committed meanwhile.
    """
    changes, table = context.state.changes, context.model.table.changes
    assert changes is not None
    assert changes.head is not None
    before = read_trimmed_age(changes.properties)
    newest_read = max(purged.until, before, key=lambda age: age.sequence)
    until = {COMPACTED_UNTIL: format_ages([newest_read])}
    is_whole = before.sequence == int(changes.properties.get(FORGOTTEN_UNTIL, 0))
    only = {FORGOTTEN_UNTIL: str(newest_read.sequence)} if is_whole else {}
    older = fill_statement(
        "{place} < {since}", place=quote_name(TARGET, COMMIT_ORDER), since=quote_number(purged.since)
    )
    newest = max(int(changes.properties.get(FORGOTTEN, 0)), purged.since)
    set_properties("forget.mark", context.spark, table, {**until, **only, FORGOTTEN: str(newest)})

    def write_delete(branch: tuple[str, ...]) -> None:
        with override_settings(context.spark, build_summary_settings(until)):
            on, where = build_key_conditions(context.model.config.entity_key), [purged.keys.near, older]
            delete_matching("forget.delete", context, branch, RowMatch(purged.keys.rows, on, where))

    swap_in(context.attempt, table, changes.head.snapshot, write_delete)


def rewrite_changes(near: Sql, context: Context) -> Rewritten:
    """Rewrites the files of the change table that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if another writer
    committed meanwhile.
    """
    changes, table = context.state.changes, context.model.table.changes
    assert changes is not None
    assert changes.head is not None

    def write_rewrite(branch: tuple[str, ...]) -> Rewritten:
        return _rewrite_deleted(context, table, branch, near)

    return swap_in(context.attempt, table, changes.head.snapshot, write_rewrite)


def purge_base(near: Sql, context: Context) -> Rewritten:
    """Rewrites the files of the base table that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if another writer
    committed meanwhile.
    """
    base, table = context.state.base, context.model.base
    assert base is not None
    assert base.merged is not None
    merged = build_merged_summary(base.merged)

    def write_rewrite(branch: tuple[str, ...]) -> Rewritten:
        done = _rewrite_deleted(context, table, branch, near)
        commit_summary("forget.record", context.spark, branch, merged)
        return done

    return swap_in(context.attempt, table, base.snapshot, write_rewrite)


def record_run(context: Context) -> None:
    """Commits the newest run's summary to the change table again, without rows, so that earlier snapshots can expire.

    Raises CommitConflict if another writer committed meanwhile.
    """
    changes = context.state.changes
    assert changes is not None
    assert changes.head is not None
    last = find_last_run(changes)
    assert last is not None
    record = last.to_repeat("full", "FORGOTTEN").encode()
    table, spark = context.model.table.changes, context.spark
    swap_in(
        context.attempt,
        table,
        changes.head.snapshot,
        lambda branch: commit_summary("forget.record", spark, branch, record),
    )


def record_merged(merged: Version, context: Context) -> None:
    """Records, in a commit without rows, that changes up to the version `merged` are merged into the base table.

    Raises CommitConflict if another writer committed meanwhile.
    """
    base, table, spark = context.state.base, context.model.base, context.spark
    assert base is not None
    record = build_merged_summary(merged)
    swap_in(
        context.attempt, table, base.snapshot, lambda branch: commit_summary("forget.record", spark, branch, record)
    )


def rewrite_manifests(spark: SparkSession, table: TableName) -> None:
    """Rewrites the manifests of a table, since they still list deleted files and the bounds of their values."""
    call = fill_statement(
        "CALL {catalog}.system.rewrite_manifests(table => {table}, use_caching => false)",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
    )
    perform_statement("forget.manifests", spark, call)


def _rewrite_deleted(context: Context, table: TableName, branch: Sequence[str], near: Sql) -> Rewritten:
    """Rewrites, on a branch, the files of `table` that contain deleted rows, without these rows.

    Considers only files that may have rows that meet the SQL condition `near`. Raises CommitConflict if some files
    could not be rewritten.
    """
    is_sorted = table == context.model.base and bool(context.model.config.sort_key)
    order = fill_statement(", strategy => 'sort', sort_order => {o}", o=quote_text(sort_order(context.model)))
    options = {
        "delete-file-threshold": "1",
        "min-input-files": str(ANY_COUNT),
        "min-file-size-bytes": "0",
        "max-file-size-bytes": str(ANY_SIZE),
        "delete-ratio-threshold": "1.0",
    }
    call = fill_statement(
        "CALL {catalog}.system.rewrite_data_files(table => {table}{sorting}{where}, options => map({options}), "
        "branch => {branch})",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        sorting=order if is_sorted else Sql(""),
        where=Sql("") if near == EVERYWHERE else fill_statement(", where => {near}", near=quote_text(near)),
        options=join_parts(part for pair in options.items() for part in map(quote_text, pair)),
        branch=quote_text(branch[-1].removeprefix("branch_")),
    )
    what = f"rewrite files of {table} that hold forgotten rows"
    (done,) = perform_effect("forget.rewrite", lambda: context.spark.sql(call).collect(), what, SPARK)
    if done["failed_data_files_count"]:
        raise CommitConflict(f"{table}: some files could not be rewritten.", fix="run `arctic forget` again")
    return Rewritten(done["rewritten_data_files_count"], done["rewritten_bytes_count"])
