"""Increments of several statements, which readers see in one step: they write to a branch that becomes the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from arctic_runtime.catalog.observe import abandoned_branches_of
from arctic_runtime.effects import effect, retried
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.tables.commit import Attempt, drop_branches, swap_in, tips

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.thresholds import Thresholds

T = TypeVar("T")


def branch_name(token: str) -> str:
    return BRANCH_PREFIX + token


def in_one_step(
    spark: SparkSession,
    reader: CatalogReader | None,
    table: TableName,
    branch: str,
    thresholds: Thresholds,
    write: Callable[[], T],
) -> T:
    """Runs `write`, whose statements name the branch, and makes the branch the table.

    `reader` reads the catalog where this process can. Where another writer commits in the meantime, it starts over from
    what that left. Raises CommitConflict where others are always faster; the table is then as they left it. Branches
    of runs that died go once nobody can be writing to them any more.
    """
    token = branch.removeprefix(BRANCH_PREFIX)

    def once() -> T:
        found = reader.load_table(table.schema, table.name) if reader is not None else None
        if found is not None:
            kept_seconds = thresholds.expiry.abandoned_branch_seconds
            drop_branches(spark, table, abandoned_branches_of(found, round(time.time() * 1000), kept_seconds))
        head = found.metadata.current_snapshot_id if found else None
        expected = _head(spark, table) if head is None else head
        return swap_in(Attempt(spark, reader, token, thresholds.commits), table, expected, lambda _: write())

    return retried(once, thresholds.commits.attempts)


def _head(spark: SparkSession, table: TableName) -> int:
    """The snapshot that the table is now; a table without one gets an empty one."""
    found = tips(spark, table, "main")
    if not found:
        writer = spark.table(name(*table.parts)).limit(0).writeTo(name(*table.parts))
        effect("incremental.first_snapshot", writer.append, f"append no rows to {table}", SPARK)
        found = tips(spark, table, "main")
    return found["main"]
