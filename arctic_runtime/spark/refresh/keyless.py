"""Runs models without a primary key: appends the rows that the query computes from change events."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.manifests import observe_specs
from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.properties import RUN
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.plan.refresh.decide import check_not_overtaken
from arctic_runtime.plan.refresh.reconcile import plan_preparation
from arctic_runtime.refresh_planner import NO_ROWS
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.keyless import append_rows, replace_rows
from arctic_runtime.spark.tables.rows.frames import format_examples, to_column
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def append_events(session: TableSession, context: Context, rows: DataFrame, summary: RunSummary) -> Appended:
    """Appends `rows` in one commit, with `summary` as the record of the run; in a full refresh, replaces all rows.

    `rows` must have the columns for which the table was prepared. Raises DataError if rows break the contract, and
    CommitConflict if another writer was faster.
    """
    _check_contract(context.model, rows)
    table = context.state.appended
    assert table is not None
    assert table.head is not None
    write = replace_rows if summary.mode == "full" else append_rows
    write(rows, summary, context)
    now = session.observe_state().appended
    assert now is not None
    own = next((row for row in now.commits if row.summary.get(RUN) == summary.run), None)
    return Appended(table.head.snapshot, {**NO_ROWS, INSERT: own.rows if own is not None else 0})


def prepare_to_append(session: TableSession, state: TableState, stored: tuple[Column, ...]) -> Context:
    """Creates the table, or changes it, for rows with the columns `stored`; returns the context for their commit.

    Raises CommitConflict if another writer commits meanwhile, since the run has chosen its events by `state`.
    """
    model, now = session.model, state
    while steps := plan_preparation(model, now.appended, _list_partition_fields(session, now), stored):
        for step in steps:
            perform_step(step, session.build_context(now))
        now = session.observe_state()
    check_not_overtaken(state, now, f"bring the columns of {model.table} up to date")
    return session.build_context(now)


def _list_partition_fields(session: TableSession, state: TableState) -> tuple[Transform, ...]:
    """Returns the fields of the table's current partition spec; none if the table does not exist."""
    if state.appended is None:
        return ()
    specs = observe_specs(session.reader, session.model.table)
    return specs.transforms[specs.default]


def _check_contract(model: Model, rows: DataFrame) -> None:
    flaws = [to_column(part).isNull() for part in model.not_null]
    flaws += [~F.coalesce(F.expr(check), F.lit(True)) for check in model.checks]
    broken = rows.where(reduce(or_, flaws)).limit(3).collect() if flaws else []
    if broken:
        promised = [*(f"{part} is not null" for part in model.not_null), *model.checks]
        raise DataError(
            f"{model.table}: rows of the query break the contract; nothing was written.\n{format_examples(broken)}",
            expected="; ".join(promised),
            fix="repair or filter the rows in the query",
        )
