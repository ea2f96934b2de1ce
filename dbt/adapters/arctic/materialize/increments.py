"""Publishes the result of several statements in one step: they write to a branch, which then becomes the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from arctic_runtime.catalog.observation.tables import list_abandoned_table_branches
from arctic_runtime.effects import perform_effect, retry_on_conflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, quote_name
from arctic_runtime.spark.tables.commit import Attempt, drop_branches, read_tips, swap_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriterV2, SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.thresholds import Thresholds

T = TypeVar("T")


def branch_name(token: str) -> str:
    return BRANCH_PREFIX + token


def build_attempt(spark: SparkSession, reader: CatalogReader | None, branch: str, thresholds: Thresholds) -> Attempt:
    """Builds the Attempt that writes to `branch`; `reader` is None if this process can't read the catalog."""
    return Attempt(spark, reader, branch.removeprefix(BRANCH_PREFIX), thresholds.commits)


def publish_in_one_step(attempt: Attempt, table: TableName, write: Callable[[], T]) -> T:
    """Calls `write`, whose statements write to the attempt's branch, and publishes the branch as the table.

    Returns the result of `write`. If another writer commits in the meantime, `write` is called again on the table's new
    state. Raises CommitConflict if that happens at every attempt; the table then has only the commits of others.
    Branches that ended processes have left are dropped once no attempt can be writing to them.

    The branch begins with a commit without rows, whose summary has the attempt's token. A commit that deletes whole
    files has no token, so this commit shows whether the branch is still the one on which the statements began.
    """
    spark, reader, branch = attempt.spark, attempt.reader, branch_name(attempt.token)

    def publish_once() -> T:
        loaded_table = reader.load_table(table.schema, table.name) if reader is not None else None
        if reader is not None and loaded_table is not None:
            before = time.time() - reader.thresholds.expiry.abandoned_branch_seconds
            drop_branches(spark, reader, table, list_abandoned_table_branches(loaded_table, round(before * 1000)))
        head = loaded_table.metadata.current_snapshot_id if loaded_table else None
        expected = _ensure_head(spark, table) if head is None else head

        def write_to(parts: tuple[str, ...]) -> T:
            mark = _build_empty_writer(spark, quote_name(*parts))
            perform_effect("incremental.mark_branch", mark.append, f"append no rows to {branch} of {table}", SPARK)
            return write()

        return swap_in(attempt, table, expected, write_to)

    return retry_on_conflict(publish_once, attempt.thresholds.attempts)


def _ensure_head(spark: SparkSession, table: TableName) -> int:
    """Returns the id of the table's current snapshot; commits an empty one first if the table has none."""
    tip_snapshots = read_tips(spark, table, "main")
    if not tip_snapshots:
        writer = _build_empty_writer(spark, quote_name(*table.parts))
        perform_effect("incremental.first_snapshot", writer.append, f"append no rows to {table}", SPARK)
        tip_snapshots = read_tips(spark, table, "main")
    return tip_snapshots["main"]


def _build_empty_writer(spark: SparkSession, table: Sql) -> DataFrameWriterV2:
    return spark.table(table).limit(0).writeTo(table)
