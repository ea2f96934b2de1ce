"""Compaction: files are written anew, and nobody sees more than that reading has become cheaper."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from typing_extensions import assert_never

from arctic_runtime.catalog.manifests import observe_files, observe_totals
from arctic_runtime.catalog.partial_progress import observe_begun
from arctic_runtime.effects import effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.compaction import (
    CompactionMode,
    CompactionPlan,
    CompactionStep,
    Fold,
    Node,
    NodeRange,
    PartitionValue,
    Place,
    Relevel,
    Renew,
    Rewrite,
    TableFiles,
    describe_compaction,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState, built
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.compaction import compaction, done_by, is_worth_a_look
from arctic_runtime.plan.reconcile import stale_branches
from arctic_runtime.plan.split import split as split_alone
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, listed, name, number, statement, text, type_name
from arctic_runtime.spark.maintenance.base_rewrite import renew
from arctic_runtime.spark.maintenance.bucket_resizing import beside, rewriting
from arctic_runtime.spark.tables.commit import merged_to, said, swap_in
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.steps import perform
from arctic_runtime.spark.tables.table_session import TableSession

MAX_LOST_RACES = 5
WAIT_SECONDS = 0.5
ANY_SIZE = 2**62

Planner = Callable[[Iterable[Place]], tuple[TableState, CompactionPlan]]


@dataclass(frozen=True)
class Compacted:
    """What was done, and what a plan for what there is now leaves alone; `next` was too large for what is left."""

    steps: tuple[CompactionStep, ...]
    plan: CompactionPlan
    next: CompactionStep | None = None

    @property
    def bytes(self) -> int:
        """What was read, and written once."""
        return sum(step.bytes for step in self.steps)


def plan_compaction(
    session: TableSession, mode: CompactionMode, done: Iterable[Place] = ()
) -> tuple[TableState, CompactionPlan]:
    """What a compaction would do, without Spark; raises ConfigError where there is no table yet."""
    state = session.observe()
    built(state, session.model.table)
    tables = _observed(session, (session.model.base, session.model.table.changes))
    begun = observe_begun(session.reader, session.model.base)
    return state, compaction(session.model, state, tables, mode, frozenset(done), begun)


def is_due(session: TableSession) -> bool:
    """Whether a compaction in the mode `auto` has something to do; most of the time that is told by counts alone."""
    model = session.model
    names = [
        of for of in (model.base, model.table.changes) if is_worth_a_look(model, of, observe_totals(session.reader, of))
    ]
    return bool(names and compaction(model, session.observe(), _observed(session, names), "auto").steps)


def compact_if_due(session: TableSession) -> None:
    """Compaction after a run, where the model does not turn it off; it gives way to other writers."""
    if not session.model.config.compaction.automatic:
        return
    with suppress(CommitConflict):
        if is_due(session):
            with session.timings.timed("compact"):
                compact(session, "auto")


def _observed(session: TableSession, names: Iterable[TableName]) -> list[TableFiles]:
    found = [observe_files(session.reader, of) for of in names]
    return [table for table in found if table is not None]


def plan_split(session: TableSession, done: Iterable[Place] = ()) -> tuple[TableState, CompactionPlan]:
    """What splitting alone would do, without Spark; raises ConfigError where there is no table yet."""
    state = session.observe()
    _, base = built(state, session.model.table)
    (table,) = _observed(session, [session.model.base]) or [TableFiles(session.model.base, base.snapshot, (), 1)]
    return state, split_alone(session.model, table, frozenset(done))


def split(session: TableSession) -> Compacted:
    """Splits nodes that outgrow their limit, and puts small ones together; else as `compact` does."""
    return _performed(session, partial(plan_split, session))


def compact(
    session: TableSession,
    mode: CompactionMode,
    tell: Callable[[str], None] = lambda _: None,
    most_bytes: float = math.inf,
) -> Compacted:
    """Does what is planned, one commit after the other; each stays done whatever happens after it.

    Every step is planned for what is there when its turn comes, and goes through only if nobody committed meanwhile.
    `tell` is given a line for people when a step begins, and after each part of one that has several. No step is begun
    that takes the bytes of all over `most_bytes`.
    Raises CommitConflict where writers were always faster, and ConfigError where there is no table yet.
    """
    return _performed(session, partial(plan_compaction, session, mode), tell, most_bytes)


def _performed(
    session: TableSession, planned: Planner, tell: Callable[[str], None] = lambda _: None, most_bytes: float = math.inf
) -> Compacted:
    performed: list[CompactionStep] = []
    lost = 0
    while True:
        try:
            state, step = _next_step(session, planned, performed)
            if step is None or sum(of.bytes for of in (*performed, step)) > most_bytes:
                return Compacted(tuple(performed), planned(())[1], step)
            tell(describe_compaction(step))
            _perform(step, session, state, tell)
        except CommitConflict as conflict:
            lost += 1
            if lost == MAX_LOST_RACES:
                raise _given_up(session.model, performed) from conflict
            time.sleep(WAIT_SECONDS)
        else:
            performed.append(step)


def _next_step(
    session: TableSession, planned: Planner, performed: Sequence[CompactionStep]
) -> tuple[TableState, CompactionStep | None]:
    """Brings base and view up to date, then plans one more step; what was done is not looked at a second time."""
    state = session.settled(session.observe())
    for stale in stale_branches(session.model, state, session.now):
        perform(stale, session.context(state))
    state, plan = planned(done_by(performed))
    has_merged = any(isinstance(step, Fold | Renew) for step in performed)
    return state, next((step for step in plan.steps if isinstance(step, Rewrite | Relevel) or not has_merged), None)


def _perform(step: CompactionStep, session: TableSession, state: TableState, tell: Callable[[str], None]) -> None:
    match step:
        case Fold():
            session.settled(state, fold=True)
        case Renew():
            renew(step, session.context(state), lambda part: tell(_done(step, part)))
            session.settled(session.observe())
        case Rewrite():
            _rewrite(step, session.context(state))
        case Relevel():
            relevel(step, session, state)
        case _:
            assert_never(step)


def _done(step: Renew, part: NodeRange) -> str:
    return f"  nodes {part} of {step.table} are done, part {step.ranges.index(part) + 1} of {len(step.ranges)}"


def _given_up(model: Model, performed: Sequence[CompactionStep]) -> CommitConflict:
    return CommitConflict(
        f"{model.table}: others committed to it {MAX_LOST_RACES} times while its files were rewritten; they go first.\n"
        f"  done before, and kept: {len(performed)} step(s)\n"
        "  what to do: run `arctic compact` again when fewer runs write to this table"
    )


def relevel(step: Relevel, session: TableSession, state: TableState) -> None:
    """Brings nodes to another depth of their tree in one commit; raises CommitConflict where others came first."""
    context = session.context(state)
    _rewrite(rewriting(step, context, session.reader), context)


def _rewrite(step: Rewrite, context: Context) -> None:
    state = context.state
    assert state.base is not None
    assert state.changes is not None
    is_base = step.table == context.model.base
    if is_base and state.base.snapshot != step.expected:
        raise CommitConflict(f"{step.table} moved on while its files were observed.")
    call = _call(step, context)

    def write(branch: tuple[str, ...]) -> None:
        filled = statement("{call}, branch => {branch})", call=call, branch=text(branch[-1].removeprefix("branch_")))
        what = f"rewrite files of {step.table}"
        (done,) = effect("compaction.rewrite", lambda: context.spark.sql(filled).collect(), what, SPARK)
        if is_base and done["rewritten_data_files_count"] and state.base is not None and state.base.merged is not None:
            _stamp(context.spark, branch, state.base.merged)

    swap_in(context.attempt, step.table, step.expected, write)


def _stamp(spark: SparkSession, branch: tuple[str, ...], merged: Version) -> None:
    """Says again what the base is merged to: its newest snapshot has to, and the rewriting one can't be given it."""
    writer = spark.table(name(*branch)).limit(0).writeTo(name(*branch)).options(**said(merged_to(merged)))
    effect("compaction.stamp", writer.append, f"say what {'.'.join(branch)} is merged to", SPARK)


def _call(step: Rewrite, context: Context) -> Sql:
    """The call that rewrites, open at its end for the branch.

    Iceberg finds the files by the condition and takes them whole, so a condition that is too wide costs only time.
    """
    model = context.model
    order = _order(model) if step.table == model.base and (step.way == "sort" or model.config.sort_key) else Sql("")
    sorting = statement(", strategy => 'sort', sort_order => {order}", order=text(order)) if order else Sql("")
    told = Sql("") if step.whole else _where(model, step)
    where = statement(", where => {where}", where=text(told)) if told else told
    return statement(
        "CALL {catalog}.system.rewrite_data_files(table => {table}{sorting}{where}, options => map({options})",
        catalog=name(step.table.catalog),
        table=text(name(*step.table.parts)),
        sorting=sorting,
        where=where,
        options=listed(part for pair in _options(step).items() for part in map(text, pair)),
    )


def _options(step: Rewrite) -> dict[str, str]:
    under = {"target-file-size-bytes": str(step.target_bytes)}
    if step.spec is not None:
        under["output-spec-id"] = str(step.spec)
    if step.way == "sort":
        return {**under, "rewrite-all": "true"}
    return {
        **under,
        "min-file-size-bytes": str(step.small_bytes),
        "max-file-size-bytes": str(ANY_SIZE),
        "min-input-files": "2",
        "delete-ratio-threshold": "1.0",
    }


def _order(model: Model) -> Sql:
    columns = dict.fromkeys((*model.config.sort_key, *model.config.primary_key))
    return listed(statement("{c} ASC NULLS FIRST", c=name(column)) for column in columns)


def _where(model: Model, step: Rewrite) -> Sql:
    return listed([_is_in(model, node, step.buckets) for node in step.nodes], " OR ")


def _is_in(model: Model, node: Node, buckets: Sequence[int]) -> Sql:
    told = [_is(model.table.catalog, value) for value in node.partition if value.type]
    told += beside(model, node, buckets)
    return statement("({all})", all=listed(told, " AND ")) if told else Sql("true")


def _is(catalog: str, of: PartitionValue) -> Sql:
    source = name(of.transform.column)
    if of.value is None:
        return statement("{c} IS NULL", c=source)
    value = statement("CAST({value} AS {type})", value=text(of.value), type=type_name(of.type))
    if of.transform.unit == "identity":
        return statement("{c} = {value}", c=source, value=value)
    width = Sql("") if of.transform.parameter is None else statement("{n}, ", n=number(of.transform.parameter))
    return statement(
        "{function}({width}{c}) = {value}",
        function=name(catalog, "system", of.transform.unit),
        width=width,
        c=source,
        value=value,
    )
