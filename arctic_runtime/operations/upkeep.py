"""Upkeep of tables, which the service does by itself: compaction and expiry that are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.files.compaction import describe_compaction
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.plan.maintenance.compaction import plan_waste
from arctic_runtime.plan.maintenance.expiry import describe_expiry
from arctic_runtime.plan.maintenance.landing import describe_landing
from arctic_runtime.plan.maintenance.upkeep import DueUpkeep, UpkeepOperation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Maintained:
    """A table that gets upkeep, with the tables of the models that may read it.

    Versions that `readers` have not read yet must not expire. For a landing table, `models` are the models that may
    read it.
    """

    model: Model
    readers: tuple[TableName, ...] = ()
    models: tuple[Model, ...] = ()

    @property
    def table(self) -> TableName:
        return self.model.table


@dataclass(frozen=True)
class UpkeepResult:
    """Result of one upkeep operation: lines for people, and the number of bytes that it rewrote."""

    lines: tuple[str, ...]
    bytes: int = 0


def find_due_upkeep(table: Maintained, reader: CatalogReader, now: float) -> list[DueUpkeep]:
    """Lists the upkeep that a table needs, without Spark and without performing it.

    `now`, in seconds since 1970, is stored in each entry as the time since which it is due. Returns an empty list if
    the table does not exist yet.
    """
    if table.model.is_landing:
        return _find_due_landing(table, reader, now)
    from arctic_runtime.spark.maintenance.compaction import find_due_compaction
    from arctic_runtime.spark.maintenance.expiry import find_due_expiry

    session = OperationContext(reader, _refuse_spark, ()).open_table(table.model)
    state = session.observe_state()
    if state.appended is None and (state.changes is None or state.base is None):
        return []
    due_jobs = []
    plan = find_due_compaction(session) if table.model.config.compaction.automatic else None
    if plan is not None:
        size, lines = sum(step.bytes for step in plan.steps), tuple(map(describe_compaction, plan.steps))
        due_jobs.append(DueUpkeep(table.table, "compact", now, size, plan_waste(plan), lines))
    expiry = find_due_expiry(session, table.readers)
    if expiry is not None:
        due_jobs.append(DueUpkeep(table.table, "expire", now, 0, 0, tuple(describe_expiry(expiry, "to go"))))
    return due_jobs


def perform_upkeep(
    table: Maintained, operation: UpkeepOperation, context: OperationContext, most_bytes: float
) -> UpkeepResult:
    """Performs the upkeep `operation` on a table.

    A compaction stops before a step with which it would rewrite more than `most_bytes` bytes in total. Raises
    CommitConflict if other writers were faster at every attempt.
    """
    match operation:
        case "compact":
            from arctic_runtime.spark.maintenance.compaction import compact_table

            done = compact_table(context.open_table(table.model), "auto", context.progress, most_bytes)
            return UpkeepResult(tuple(f"done: {describe_compaction(step)}" for step in done.steps), done.bytes)
        case "expire":
            return UpkeepResult(tuple(_expire_table(table, context)))
        case _:
            assert_never(operation)


def _expire_table(table: Maintained, context: OperationContext) -> Sequence[str]:
    if table.model.is_landing:
        from arctic_runtime.spark.maintenance.expiry import expire_landing

        expired = expire_landing(table.model, table.models, context.reader, context.spark)
        return describe_landing(expired, "gone")
    from arctic_runtime.spark.maintenance.expiry import expire_versions

    return describe_expiry(expire_versions(context.open_table(table.model), table.readers), "gone")


def _find_due_landing(table: Maintained, reader: CatalogReader, now: float) -> list[DueUpkeep]:
    from arctic_runtime.spark.maintenance.expiry import plan_landing

    plan = plan_landing(table.model, table.models, reader)
    if plan.delete is None and plan.expire is None:
        return []
    return [DueUpkeep(table.table, "expire", now, 0, 0, tuple(describe_landing(plan, "to go")))]


def _refuse_spark() -> SparkSession:
    raise AssertionError("what is due is found without Spark")
