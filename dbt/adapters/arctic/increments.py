"""Increments of several statements, which readers see in one step: they write to a branch that becomes the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.settle import BRANCH_PREFIX, lineage
from arctic_runtime.spark.commit import drop_branches, retried, swap_in, tips
from arctic_runtime.spark.statement import name

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

T = TypeVar("T")


def branch_name(token: str) -> str:
    return BRANCH_PREFIX + token


def in_one_step(
    spark: SparkSession, table: TableName, branch: str, observe: Callable[[], Table | None], write: Callable[[], T]
) -> T:
    """Runs `write`, whose statements name the branch, and makes the branch the table.

    `observe` gives the table where this process can read the catalog. Where another writer commits in the meantime,
    it starts over from what that left. Raises CommitConflict where others are always faster; the table is then as
    they left it. Branches of runs that died go as soon as none of them can become the table any more.
    """
    token = branch.removeprefix(BRANCH_PREFIX)

    def once() -> T:
        found = observe()
        if found is not None:
            drop_branches(spark, table, tuple(_stale(found)))
        head = found.metadata.current_snapshot_id if found else None
        return swap_in(spark, table, _head(spark, table) if head is None else head, token, lambda _: write())

    return retried(once)


def _head(spark: SparkSession, table: TableName) -> int:
    """The snapshot that the table is now; a table without one gets an empty one."""
    found = tips(spark, table, "main")
    if not found:
        rows = spark.table(name(*table.parts))
        rows.limit(0).writeTo(name(*table.parts)).append()
        found = tips(spark, table, "main")
    return found["main"]


def _stale(found: Table) -> Iterator[str]:
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in found.metadata.snapshots}
    head = found.metadata.current_snapshot_id
    for ref, tip in found.metadata.refs.items():
        if ref.startswith(BRANCH_PREFIX) and head is not None and head not in lineage(tip.snapshot_id, parents):
            yield ref
