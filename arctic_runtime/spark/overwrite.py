"""All rows of a table declared as of a place in the order of its events; what came later still applies on top."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import SEQUENCE, find_column, plain_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import not_built
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.plan import decide as decisions
from arctic_runtime.plan.decide import Request, decide, last_run
from arctic_runtime.spark.commit import retried
from arctic_runtime.spark.compute import seen
from arctic_runtime.spark.diff import Shape, state_changes
from arctic_runtime.spark.execute import append_changes
from arctic_runtime.spark.frames import as_key, columns_of, current_rows, match
from arctic_runtime.spark.run import Run
from arctic_runtime.spark.statement import name

_KEPT = (decisions.CONSUMED, decisions.QUERY, decisions.HIGH_MARK)
"""What the last run said, and what still holds."""


def overwrite(run: Run, source: TableName, as_of: str) -> dict[str, int]:
    """Makes a table of change events hold what `source` has, as of a place in their order; returns rows by action.

    A key of which an event after `as_of` was read keeps what that made of it. Events up to `as_of` that are read later
    change nothing. What is published are the differences, so to declare the same again publishes none. `source` is
    any table or view that Spark can read, with all columns of the table. Raises ConfigError where the model has no
    order of events, where columns are missing, and where something later was declared before; DataError where a key
    is null or stands twice; CommitConflict where others were always faster.
    """
    _check_model(run.model)
    return retried(partial(_overwritten, run, source, as_of))


def _overwritten(run: Run, source: TableName, as_of: str) -> dict[str, int]:
    state, upstreams = run.settled(run.observe()), run.observe_upstreams()
    last = last_run(state.changes)
    if state.changes is None or state.changes.head is None or state.base is None or last is None:
        raise not_built(run.model.table)
    decide(run.model, state, upstreams, Request())
    context = run.context(state)
    shape = run.shape_of(state, plain_columns(state.changes.columns))
    _check_place(run, shape, as_of, last.get(decisions.DECLARED))
    rows = context.spark.table(name(*source.parts))
    _check_columns(run.model, rows, shape)
    place = F.lit(as_of).cast(shape.sequence_type)
    known = seen(context.spark, run.model, state.changes, upstreams, decisions.consumed(last))
    keys = known.where(F.col(SEQUENCE) > place).select(*as_key(run.model.config.primary_key)).distinct()
    old = current_rows(context.spark, run.model, state)
    assert old is not None
    declared, replaced = (_without(of, keys, run.model) for of in (rows, old))
    found = state_changes(declared, replaced, shape, context.now_literal).withColumn(SEQUENCE, place)
    step = AppendChanges(run.model.table.changes, state.changes.head.snapshot, "full", "OVERWRITTEN")
    said = {decisions.RUN: context.token, decisions.MODE: step.mode, decisions.REASON: step.reason}
    said |= {key: last[key] for key in _KEPT if key in last}
    counts = append_changes(step, context, found, shape, {**said, decisions.DECLARED: as_of}, False, None)
    run.settled(run.observe())
    return counts


def _without(rows: DataFrame, keys: DataFrame, model: Model) -> DataFrame:
    return rows.join(keys, match(rows, model.config.primary_key), "left_anti")


def _check_model(model: Model) -> None:
    config = model.config
    if config.input != "changes" or config.sequence_by is None or config.on_match != "replace":
        raise ConfigError(
            f"{model.table}: its rows can't be declared as of a place in the order of events.\n"
            "  expected: input: changes, sequence_by, and on_match: replace\n"
            f"  found: input: {config.input}, sequence_by: {config.sequence_by}, on_match: {config.on_match}\n"
            "  what to do: a table of `input: state` is what its query says, so change what that reads"
        )


def _check_place(run: Run, shape: Shape, as_of: str, declared: str | None) -> None:
    kind = shape.sequence_type
    given, before = (F.lit(of).try_cast(kind) for of in (as_of, declared))
    row = run.session().range(1).select(given.isNotNull().alias("known"), (given < before).alias("older")).collect()[0]
    if not row["known"]:
        raise ConfigError(
            f"{run.model.table}: {as_of!r} is no place in the order of its events.\n"
            f"  expected: a value of `{run.model.config.sequence_by}`, which is {kind}"
        )
    if row["older"]:
        raise ConfigError(
            f"{run.model.table}: its rows were declared as of something later before; nothing was written.\n"
            f"  expected: {declared} or later\n  found: {as_of}\n"
            "  what to do: declare newer rows; a full refresh reads all events anew, and forgets what was declared"
        )


def _check_columns(model: Model, rows: DataFrame, shape: Shape) -> None:
    found = columns_of(rows)
    missing = [of.name for of in shape.columns if find_column(found, of.name) is None]
    if missing:
        raise ConfigError(
            f"{model.table}: what it is to hold has not all of its columns; nothing was written.\n"
            f"  missing: {', '.join(missing)}\n  found: {', '.join(of.name for of in found)}\n"
            "  what to do: give them, null where nothing is known"
        )
