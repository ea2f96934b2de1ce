"""Whether a table is what its model says, and its history what it claims: recomputed, not believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE
from arctic_runtime.model.expiry import trimmed_until
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.observe import last_with_other_columns
from arctic_runtime.plan import decide as decisions
from arctic_runtime.plan.decide import Request, consumed, decide, last_run
from arctic_runtime.plan.declared import Declared
from arctic_runtime.plan.increment import Upstreams
from arctic_runtime.plan.incremental.tree import Node, scans
from arctic_runtime.spark import events, increments, totals
from arctic_runtime.spark.diff import DELETE, INSERT, UPDATE, UPSERT, Shape, differ, state_changes
from arctic_runtime.spark.frames import (
    COMMIT_ORDER,
    column,
    columns_of,
    current_rows,
    newest_changes,
    read_table,
)
from arctic_runtime.spark.run import Run
from arctic_runtime.spark.statement import name

EXAMPLES = 3
SAMPLED = 1000
_HELD = ("__arctic_previous", "__arctic_previous_action", "__arctic_place", "__arctic_copy")


@dataclass(frozen=True)
class Finding:
    """One check of one table: how many rows break it, some of them, or why it could not be made."""

    check: str
    broken: int = 0
    examples: tuple[str, ...] = ()
    left_out: str = ""


def verify(run: Run) -> tuple[Finding, ...]:
    """Checks one model's table against its query, its change table, and the change table against itself."""
    state = run.observe()
    upstreams = run.observe_upstreams()
    if state.changes is None or state.base is None:
        return (Finding("table", left_out="it was not built yet"),)
    return (
        _query_gives_the_table(run, state, upstreams),
        _changes_fold_to_the_table(run, state),
        _keys_are_unique(run, state),
        *_totals_are_right(run, state, upstreams),
        *_history(run, state),
    )


def _query_gives_the_table(run: Run, state: TableState, upstreams: Upstreams) -> Finding:
    check = "the query gives the table"
    reason = _why_not_recomputed(run, state, upstreams)
    if reason:
        return Finding(check, left_out=reason)
    rows = _recomputed(run, state, upstreams)
    return _compared(run, state, rows, check)


def _why_not_recomputed(run: Run, state: TableState, upstreams: Upstreams) -> str:
    config = run.model.config
    if config.input == "changes":
        if config.sequence_by and config.on_match != "replace":
            return f"with on_match: {config.on_match} the table depends on the order in which events arrived"
        return _why_not_its_events(state)
    decision = decide(run.model, state, upstreams, Request())
    if upstreams.reads.unstable:
        return f"its answer changes by itself ({', '.join(upstreams.reads.unstable)})"
    if decision.reason == "SOURCE_UNKNOWN":
        return f"it reads what has no versions: {decision.because}"
    return "" if decision.mode == "unchanged" else "it is behind its upstreams; run it first"


def _why_not_its_events(state: TableState) -> str:
    """Why a table is something else than what its events say, where it was not computed anew since."""
    last = decisions.last_run(state.changes) or {}
    declared = Declared.read(last)
    if declared.places:
        return f"rows were declared: {declared.describe()}"
    return f"it was restored to version {last[decisions.RESTORED]}" if decisions.RESTORED in last else ""


def _recomputed(run: Run, state: TableState, upstreams: Upstreams) -> DataFrame:
    spark = run.session()
    if run.model.config.input == "state":
        return spark.sql(run.model.sql)
    run.register_consumed(consumed(last_run(state.changes)), upstreams)
    query = run.query(spark)
    shape = run.shape_of(state, columns_of(query))
    net = events.net_events(run.model, query, shape)
    return net.where("not deleted").select(*[F.col(f"a{i}").alias(kept.name) for i, kept in enumerate(shape.columns)])


def _changes_fold_to_the_table(run: Run, state: TableState) -> Finding:
    changes = _all_changes(run, state)
    assert state.changes is not None
    newest = newest_changes(changes, run.model.config.primary_key, state.changes.count_after(None))
    folded = newest.where(F.col(ACTION) != DELETE)
    return _compared(run, state, folded, "the changes fold to the table")


def _keys_are_unique(run: Run, state: TableState) -> Finding:
    """A comparison by key would not see that a row is there twice."""
    table = current_rows(run.session(), run.model, state)
    assert table is not None
    key = [column(part) for part in run.model.config.primary_key] or [F.lit(0).alias("__arctic_key")]
    counted = table.groupBy(*key).agg(F.count(F.lit(1)).alias("__arctic_rows"))
    return _finding("each key stands once in the table", counted.where(F.col("__arctic_rows") > 1))


def _totals_are_right(run: Run, state: TableState, upstreams: Upstreams) -> Iterable[Finding]:
    """Of the versions that the newest run read, to which they belong, whatever has come since."""
    check = "the totals are those of the rows that were read"
    last = last_run(state.changes)
    if state.totals is None or last is None:
        return
    plan = totals.plan_of(run.model, upstreams, last[decisions.TOTALS])
    if plan is None:
        yield Finding(check, left_out="they are of another query; run it first")
        return
    read = consumed(last)
    gone = _not_kept(plan.state, upstreams, read)
    if gone:
        yield Finding(check, left_out=f"the versions that were read are gone ({', '.join(gone)})")
        return
    windows = {of: Window(of, None, version) for of, version in read.items()}
    increments.register_images(run.session(), (plan.state,), upstreams, windows)
    yield _finding(check, totals.differing(run.session(), run.model, state.totals, plan))


def _not_kept(tree: Node, upstreams: Upstreams, read: Mapping[str, Version]) -> list[str]:
    """The sources of a tree of which the version that was read can't be read again."""
    names = dict.fromkeys(str(scan.source) for scan in scans(tree))
    return [of for of in names if of not in read or not _is_kept(upstreams.states[of], read[of])]


def _is_kept(source: SourceState | None, version: Version) -> bool:
    if source is None or source.version.table != version.table:
        return False
    return source.keeps(version) if source.kind == "changes" else version.snapshot in source.snapshots


def _compared(run: Run, state: TableState, expected: DataFrame, check: str) -> Finding:
    """What would have to change for the table to be as expected."""
    shape = run.shape_of(state, columns_of(expected))
    table = current_rows(run.session(), run.model, state)
    differences = state_changes(expected, table, shape)
    told = differences.drop("_ts", SEQUENCE).withColumnRenamed(ACTION, "missing_change")
    return _finding(check, told)


def _history(run: Run, state: TableState) -> Iterable[Finding]:
    """All rules in one pass: a finding for each, of at most `SAMPLED` rows together."""
    shape = run.shape_of(state, ())
    assert state.changes is not None
    trimmed = trimmed_until(state.changes.properties).sequence
    rules = _rules(shape, last_with_other_columns(run.reader, run.model.table.changes), trimmed)
    breaks = F.array_compact(F.array(*[F.when(rule, F.lit(check)) for check, rule in rules.items()]))
    placed = _with_previous(_all_changes(run, state), shape).withColumn("__arctic_breaks", breaks)
    broken = placed.drop(*_HELD).where(F.size("__arctic_breaks") > 0).limit(SAMPLED)
    rows = [row.asDict(recursive=True) for row in broken.collect()]
    found = [(set(row.pop("__arctic_breaks")), str(row)) for row in rows]
    for check in rules:
        examples = tuple(text for checks, text in found if check in checks)
        yield Finding(check, len(examples), examples[:EXAMPLES])


def _with_previous(changes: DataFrame, shape: Shape) -> DataFrame:
    key = [column(part) for part in shape.key] or [F.lit(0)]
    order = Over.partitionBy(*key).orderBy(F.col("__arctic_place"), F.col(SEQUENCE))
    copies = Over.partitionBy(*key, F.col("__arctic_place")).orderBy(F.col(SEQUENCE))
    image = F.struct(*[column(kept.name) for kept in shape.rest] or [F.lit(True).alias("exists")])
    return changes.withColumn("__arctic_place", F.col(COMMIT_ORDER)).withColumns(
        {
            "__arctic_previous": F.lag(image).over(order),
            "__arctic_previous_action": F.lag(ACTION).over(order),
            "__arctic_copy": F.row_number().over(copies),
        }
    )


def _rules(shape: Shape, other_columns_until: int, trimmed: int) -> dict[str, Expression]:
    """Promise → the change rows that break it.

    Rows up to the commit `other_columns_until` may have differed in columns that are gone. Of those up to the commit
    `trimmed` what came before may be gone, so nothing is said of it.
    """
    action, was = F.col(ACTION), F.col("__arctic_previous_action")
    is_whole = F.col("__arctic_place") > trimmed
    there = was.isNotNull() & (was != DELETE)
    absent, there = ~there & is_whole, there & is_whole
    rules = {
        "each key changes once in a commit": F.col("__arctic_copy") > 1,
        "every action is known": ~F.coalesce(action.isin(INSERT, UPDATE, DELETE, UPSERT), F.lit(False)),
        "inserts make rows that were not there": (action == INSERT) & there,
        "updates change rows that were there": (action == UPDATE) & absent,
    }
    if not shape.rest:
        return rules
    told = F.col(BEFORE).isNotNull()
    same_as_told = _same(("__arctic_previous",), (BEFORE,), shape)
    unchanged = _same((BEFORE,), (), shape)
    return {
        **rules,
        "deletes that tell a row delete one": (action == DELETE) & told & absent,
        "_before is the row as it was": told & there & ~same_as_told,
        "updates tell the row before": (action == UPDATE) & ~told,
        "no update changes nothing": (action == UPDATE)
        & told
        & unchanged
        & (F.col("__arctic_place") > other_columns_until),
    }


def _same(left: Sequence[str], right: Sequence[str], shape: Shape) -> Expression:
    """Whether two images of a row are alike, which are in structs of these names, or in the row itself."""
    return ~F.expr(differ((name(*left, of.name), name(*right, of.name), of.type) for of in shape.rest))


def _all_changes(run: Run, state: TableState) -> DataFrame:
    assert state.changes is not None
    assert state.changes.head is not None
    return read_table(run.session(), run.model.table.changes, state.changes.head.snapshot)


def _finding(check: str, broken: DataFrame) -> Finding:
    rows = broken.limit(SAMPLED).collect()
    shown = tuple(str(row.asDict(recursive=True)) for row in rows[:EXAMPLES])
    return Finding(check, len(rows), shown)
