"""Prepares the tables of a model for the rows of its query, and appends rows to a table without a primary key."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.manifests import observe_specs
from arctic_runtime.errors import CommitConflict, DataError
from arctic_runtime.model.columns import SEQUENCE, Column, find_column, strip_change_columns
from arctic_runtime.model.properties import KEEP, RUN
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import INSERT, Shape, build_shape
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import CreateChangeTable, DropTable, EvolveSchema, SetProperties
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.plan.refresh.decide import check_not_overtaken
from arctic_runtime.plan.refresh.existing_tables import check_table, has_same_key, is_replaceable_without_loss
from arctic_runtime.plan.refresh.reconcile import plan_preparation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.schema import TypeConflict, plan_schema, plan_sequence
from arctic_runtime.refresh_planner import NO_ROWS
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.keyless import append_rows, replace_rows
from arctic_runtime.spark.tables.rows.frames import format_examples, to_column
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def prepare_tables(
    table: TableSession, context: Context, stored: tuple[Column, ...], sequence_type: str
) -> tuple[Context, Shape]:
    """Creates the change table, or changes its columns and those of the base table to `stored`.

    Returns the context with the new state of the tables, and the shape of change rows. Raises ConfigError if a column
    can't change to its new type, and for any difference that `on_schema_change` forbids. Raises CommitConflict if
    another writer commits meanwhile, since the plan of this run depends on the state before that commit; also if empty
    tables had to be dropped, so that the next attempt creates them again.
    """
    model = table.model
    state = context.state
    if state.changes is not None and not has_same_key(model, state.changes):
        check_table(model, state, Request())  # The table may have rows since the run was planned.
        raise _drop_empty_tables(context, state, "keys")
    if state.changes is None:
        perform_step(CreateChangeTable(model.table.changes, stored, sequence_type), context)
        state = table.observe_state()
    assert state.changes is not None
    steps: list[EvolveSchema | SetProperties] = [*_plan_evolution(context, state, stored, sequence_type)]
    if model.config.keep == "all" and not state.changes.keeps_all:
        steps.append(SetProperties("keep.mark", model.table.changes, {KEEP: "all"}))
    for step in steps:
        perform_step(step, context)
    if steps:
        state = table.observe_state()
    check_not_overtaken(context.state, state, f"bring the columns of {model.table} up to date")
    return replace(context, state=state), build_shape(model, state, stored)


def _plan_evolution(
    context: Context, state: TableState, stored: tuple[Column, ...], sequence_type: str
) -> list[EvolveSchema]:
    """Plans the steps by which the change table and the base table get the columns `stored`.

    A table that has these columns already gets no step. `sequence_type` is the Spark type that the column `_seq` of the
    change table must have.

    If a column's type can't be changed to the new one, raises TypeConflict if the tables may have rows. If they have
    none, drops both tables and raises CommitConflict: the run is then attempted again, and that attempt creates the
    tables with the new types.
    """
    model: Model = context.model
    assert state.changes is not None
    own = [(model.table.changes, strip_change_columns(state.changes.columns), True)]
    if state.base is not None:
        own.append((model.base, state.base.columns, False))
    order = find_column(state.changes.columns, SEQUENCE)
    try:
        steps = [
            EvolveSchema(table, plan_schema(model, table_columns, stored), is_log)
            for table, table_columns, is_log in own
        ]
        if order is not None:
            order_change = plan_sequence(model, order.type, sequence_type)
            steps.append(EvolveSchema(model.table.changes, order_change, is_change_table=True))
    except TypeConflict:
        if not is_replaceable_without_loss(model, state):
            raise
        raise _drop_empty_tables(context, state, "columns") from None
    return [step for step in steps if not step.change.is_empty]


def _drop_empty_tables(context: Context, state: TableState, other: str) -> CommitConflict:
    """Drops a model's tables, which have no rows; returns the error that makes the run begin again.

    `other` names the properties with which the next attempt creates them differently, such as `keys`.
    """
    model = context.model
    for table in ((model.base,) if state.base is not None else ()) + (model.table.changes,):
        perform_step(DropTable(table), context)
    return CommitConflict(
        f"{model.table}: its tables, which had no rows, were dropped to be created with other {other}.", fix="run again"
    )


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
