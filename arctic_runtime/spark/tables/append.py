"""Change rows are published: appended to the change table in one commit, with the checks that it needs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from arctic_runtime.effects import effect
from arctic_runtime.errors import DataError
from arctic_runtime.model.bounds import is_bounded
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import ACTION, BEFORE, TIMESTAMP, find_column
from arctic_runtime.model.shape import DELETE, FLAWS, INSERT, UPDATE, UPSERT, Shape
from arctic_runtime.model.step import (
    AppendChanges,
    Mode,
)
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, name, number, statement, text
from arctic_runtime.spark.tables.bounds import Ranges, counted, is_scanned, located_by
from arctic_runtime.spark.tables.commit import (
    said,
    swap_in,
    tips,
)
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.frames import (
    column,
    examples,
    uncompiled,
)

_ACTIONS = (INSERT, UPDATE, DELETE, UPSERT)


_ROWS, _NOTHING = "rows", "deletions of nothing"
"""What is counted besides rows of each action: all rows, and deletions of rows that were not there."""


def publish(
    changes: ChangeSet, context: Context, overtaken: Callable[[DataFrame], Appended | None] = lambda _: None
) -> Appended:
    """Appends change rows in one commit, if the change table still is as observed; readers see all of them or none.

    Rows are ordered by key, but for those of a first load, which is read as a whole. Rows under an action of `FLAWS`
    end the attempt with a DataError that shows some. Where another writer was faster, `overtaken` gets the change rows
    as they were written, and may publish others in their place. Raises CommitConflict where it does not, and what the
    change set's `confirm` raises.
    """
    step, shape = changes.commit, changes.shape
    seen = Observation()
    kinds = _kinds(_usual(step.mode, context.model), step.mode, context.model, shape)
    ranges = _ranges(context, shape)
    aggregates = [*_counts(kinds), *(ranges.aggregates() if ranges else ())]
    timed = changes.rows.withColumn(TIMESTAMP, F.expr(_time(context.now)))
    parts = timed if changes.is_gathered else timed.hint("rebalance")
    key = shape.key if step.mode != "create" else ()
    ordered = parts.sortWithinPartitions(*[column(part) for part in key]) if key else parts
    # Outermost: a stage that turns out to be empty is dropped with whatever it counted. What is counted costs much for
    # each kind, so only those are that rows usually are of.
    written = ordered.observe(seen, F.count(F.lit(1)).alias(_ROWS), *map(F.expr, aggregates))

    def write(branch: tuple[str, ...]) -> Appended:
        writer = written.writeTo(name(*branch)).options(
            **{"isolation-level": "serializable", **said(changes.summary.encode())}
        )
        effect("commit.append", writer.append, f"append changes to {step.table}", SPARK)
        observed = observed_counts(seen)
        counts = {kind: int(observed.get(kind) or 0) for kind in kinds}
        is_whole = sum(counts.values()) == observed.get(_ROWS)
        if not is_whole:
            counts = count_again(context, step, branch, shape)
        found = dict.fromkeys((*_ACTIONS, *FLAWS), 0) | counts
        if any(found[flaw] for flaw in FLAWS):
            raise _flawed(context, branch, shape, found)
        changes.confirm()
        replaced = ranges.bounds(observed) if ranges is not None and is_whole else None
        return Appended(step.expected, {action: found[action] for action in _ACTIONS}, replaced)

    def again(tip: int) -> Appended | None:
        return overtaken(_written_rows(context, step, tip))

    return swap_in(context.attempt, step.table, step.expected, write, again)


def _written_rows(context: Context, step: AppendChanges, tip: int) -> DataFrame:
    """The rows that an attempt has appended, up to the snapshot `tip` of its branch."""
    table = name(*step.table.parts)
    if tip == step.expected:
        return context.spark.table(table).limit(0)
    reader = context.spark.read.option("start-snapshot-id", str(step.expected)).option("end-snapshot-id", str(tip))
    return reader.table(table)


def observed_counts(seen: Observation) -> dict[str, Any]:
    """What was observed while rows were written; empty where a server that is busy does not tell."""
    return dict(seen.get)


def _ranges(context: Context, shape: Shape) -> Ranges | None:
    """Between what the rows lie that change rows replace, where a base is asked for them next."""
    base = context.state.base
    if base is None or context.model.config.merge == "on_read" or is_scanned(base.rows, context.thresholds.pruning):
        return None
    values = {
        part: (value, kept.type)
        for part, value in located_by(context.model).items()
        if (kept := find_column(shape.columns, part)) and is_bounded(kept.type)
    }
    return Ranges(values, statement("{action} <> {kind}", action=name(ACTION), kind=text(INSERT)))


def count_again(context: Context, step: AppendChanges, branch: Sequence[str], shape: Shape) -> dict[str, int]:
    """Counts the rows of every kind that were just appended to a branch; none where nothing was."""
    (tip,) = tips(context.spark, step.table, branch[-1].removeprefix("branch_")).values()
    if tip == step.expected:
        return {}
    rows = _written_rows(context, step, tip)
    counts = _counts(_kinds((*_ACTIONS, *FLAWS), step.mode, context.model, shape))
    return {str(kind): int(count) for kind, count in rows.agg(*map(F.expr, counts)).collect()[0].asDict().items()}


def _usual(mode: Mode, model: Model) -> tuple[str, ...]:
    """The actions of all rows of most runs."""
    if mode == "create":
        return (INSERT,)
    return (UPSERT, DELETE) if mode == "incremental" and model.config.changelog == "input" else (INSERT, UPDATE, DELETE)


def _kinds(actions: Sequence[str], mode: Mode, model: Model, shape: Shape) -> dict[str, Sql]:
    """Of what kind a row is: its action; where rows are looked up, one that was not there is not what is deleted."""
    is_one = "{action} = {kind}"
    kinds = {kind: statement(is_one, action=name(ACTION), kind=text(kind)) for kind in actions}
    is_looked_up = model.config.changelog == "lookup" or mode != "incremental"
    if DELETE in kinds and is_looked_up and shape.before_type is not None:
        parts = {"is_one": kinds[DELETE], "before": name(BEFORE)}
        kinds[_NOTHING] = statement("{is_one} AND {before} IS NULL", **parts)
        kinds[DELETE] = statement("{is_one} AND {before} IS NOT NULL", **parts)
    return kinds


def _counts(kinds: Mapping[str, Sql]) -> list[Sql]:
    return [counted(is_one, kind) for kind, is_one in kinds.items()]


def _time(now: datetime.datetime) -> Sql:
    """When a change row happened, or the time of the run where that is not known."""
    micros = (now - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
    run = uncompiled(statement("timestamp_micros({micros})", micros=number(micros)), name(ACTION))
    return statement("coalesce({own}, {run})", own=name(TIMESTAMP), run=run)


def _flawed(context: Context, branch: Sequence[str], shape: Shape, found: Mapping[str, int]) -> DataError:
    flaw = next(flaw for flaw in FLAWS if found[flaw])
    rows = context.spark.table(name(*branch)).where(F.col(ACTION) == flaw)
    key = context.model.config.entity_key
    shown = [*key, *shape.not_null] if flaw == "!null column" else key
    example = rows.select(*[column(part) for part in dict.fromkeys(shown)]).distinct().limit(3).collect()
    named = ", ".join(dict.fromkeys(shown)) or "(none: the query must give one row)"
    checks = "".join(f"  check: {check}\n" for check in shape.checks) if flaw == "!broken check" else ""
    return DataError(
        f"{context.model.table}: {found[flaw]} row(s) of the query have a {flaw[1:]}; nothing was written.\n"
        f"  column: {named}\n{checks}{examples(example)}"
        "  expected: a unique primary key without nulls, and rows that satisfy the contract\n"
        "  what to do: repair or filter the rows in the query, or add columns to `primary_key` until it is unique"
    )
