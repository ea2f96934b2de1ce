"""What files to write anew: what every reader pays for them as they lie, against what it costs to put them right."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from arctic_runtime.model.compaction import (
    Begun,
    CompactionMode,
    CompactionPlan,
    CompactionStep,
    DataFile,
    FileTotals,
    Fold,
    LeftAlone,
    Node,
    Place,
    Renew,
    Rewrite,
    TableFiles,
    Way,
    describe_compaction,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.renewal import renewal

OPEN_BYTES = 4 * 1024 * 1024
"""To open a file costs a reader about as much as to read so many bytes of it; Spark counts the same."""

SMALL_FILE_BYTES = 16 * 1024 * 1024
"""Smaller files are worth being put together."""

COMMIT_BYTES = 64 * 1024 * 1024
"""What a commit costs, however little it writes: where readers lose less than that, nothing is done unasked."""

SHOWN_NODES = 20
"""So many of the nodes that are left alone are told to people."""

GROUP_BYTES = 1024 * 1024 * 1024
GROUP_NODES = 50
"""At most so much is written anew in one commit; what was done before a process died stays done."""


def compaction(
    model: Model,
    state: TableState,
    files: Sequence[TableFiles],
    mode: CompactionMode,
    done: Collection[Place] = (),
    begun: Sequence[Begun] = (),
) -> CompactionPlan:
    """What is to be done to the tables whose files are `files`, and why the rest is left alone.

    `auto` and `major` go by the model's thresholds, `minor` joins small files wherever there are two, and `full`
    leaves no base with more files than it needs or with a deleted row. `major` and `full` first merge what is not
    merged yet; the files that this makes are planned for after it. Places in `done` are left alone.
    """
    steps: list[CompactionStep] = list(_merges(model, state, files, mode, begun)) if mode in ("major", "full") else []
    left: list[LeftAlone] = []
    renewed = [step.table for step in steps if isinstance(step, Renew)]
    for table in files:
        if table.table in renewed:
            continue
        rewrites, others = _planned(table, _limits(model, table, mode), mode, done)
        steps += rewrites
        left += others
    return CompactionPlan(tuple(steps), tuple(left))


def is_worth_a_look(model: Model, table: TableName, totals: FileTotals) -> bool:
    """Whether to look for what `auto` could do in a table; to read its manifests costs more than a run may lose.

    Never where its files are too few to be over a threshold. Else now and then: so many commits apart that a node
    gets over its threshold by half at the most.
    """
    limits = model.config.compaction
    allowed = limits.change_files if table == model.table.changes else limits.small_files
    has_deleted = totals.deleted > 0 and table != model.table.changes
    return (totals.files > allowed or has_deleted) and totals.appends % max(1, allowed // 2) == 0


def describe_plan(plan: CompactionPlan) -> list[str]:
    """Lines for people: what is to be done and after how many reads it pays, and some of what is left alone."""
    lines = []
    for step in plan.steps:
        lines.append(f"to do: {describe_compaction(step)}")
        if isinstance(step, Renew | Rewrite) and step.waste:
            lines.append(f"  pays for itself after {-(-step.bytes // step.waste)} full read(s)")
    lines += [f"left alone: {left.table}, {left.node}: {left.reason}" for left in plan.left[:SHOWN_NODES]]
    more = len(plan.left) - SHOWN_NODES
    return [*lines, *([f"and {more} more node(s) are left alone"] if more > 0 else [])] or ["nothing to do"]


def plan_waste(plan: CompactionPlan) -> int:
    """What readers of a table pay until everything planned is done, in bytes, files to open counted as some."""
    return sum(step.bytes if isinstance(step, Fold) else step.waste for step in plan.steps)


@dataclass(frozen=True)
class _Limits:
    """What a node may have: so many small files, such a share of deleted rows; no file too many if `least`."""

    small_files: int
    deleted_share: float
    least: bool = False


def _limits(model: Model, table: TableFiles, mode: CompactionMode) -> _Limits:
    wanted = model.config.compaction
    asked = mode in ("minor", "full")
    if table.table == model.table.changes:
        return _Limits(1 if asked else wanted.change_files, 1.0)
    return _Limits(1 if asked else wanted.small_files, 1.0 if asked else wanted.deleted_share, mode == "full")


def _merges(
    model: Model, state: TableState, files: Sequence[TableFiles], mode: CompactionMode, begun: Sequence[Begun]
) -> Iterator[Fold | Renew]:
    """What merges the changes: the base written anew in the same pass where they are many, else a fold."""
    base = next((table for table in files if table.table == model.base), None)
    anew = renewal(model, state, base, mode == "full", begun) if base is not None else None
    yield from [anew] if anew is not None else _folds(model, state)


def _folds(model: Model, state: TableState) -> Iterator[Fold]:
    if state.changes is None or state.base is None or state.base.merged is None:
        return
    pending = state.changes.after(state.base.merged)
    if pending:
        rows, size = sum(commit.rows for commit in pending), sum(commit.bytes for commit in pending)
        yield Fold(model.base, len(pending), rows, size, "every reader has to lay them over the base")


def _planned(
    table: TableFiles, limits: _Limits, mode: CompactionMode, done: Collection[Place]
) -> tuple[list[Rewrite], list[LeftAlone]]:
    ways = _ways(table, limits, done)
    chosen = {node: way for node, way in zip(table.nodes, ways, strict=True) if way is not None}
    left = [LeftAlone(table.table, node, _why_left(node, table, limits)) for node in table.nodes if node not in chosen]
    lost = sum(_waste(node, way, table) for node, way in chosen.items())
    if mode == "auto" and lost < COMMIT_BYTES:
        reason = f"readers lose {lost:,} bytes in this table, less than the {COMMIT_BYTES:,} that a commit costs"
        return [], [*left, *(LeftAlone(table.table, node, reason) for node in chosen)]
    joined, sorted_ = ([node for node in chosen if chosen[node] == way] for way in ("join", "sort"))
    return [*_rewrites(table, "join", joined, limits), *_rewrites(table, "sort", sorted_, limits)], left


def _ways(table: TableFiles, limits: _Limits, done: Collection[Place]) -> list[Way | None]:
    """What each node needs. Where files of several specs lie side by side, they come under one all at once or not."""
    if len({node.spec for node in table.nodes}) > 1:
        is_open = limits.least and any(table.place(node) not in done for node in table.nodes)
        return ["sort" if is_open else None for _ in table.nodes]
    return [None if table.place(node) in done else _way(node, table, limits) for node in table.nodes]


def _way(node: Node, table: TableFiles, limits: _Limits) -> Way | None:
    if limits.least:
        has_deleted = any(file.deleted for file in node.files)
        return "sort" if has_deleted or len(node.files) > _needed(node.bytes, table) else None
    if node.deleted_share > limits.deleted_share:
        return "sort"
    return "join" if len(_small(node, table)) > limits.small_files else None


def small_limit(table: TableFiles) -> int:
    """The size below which a file is small; two files of this size fit into one."""
    return min(SMALL_FILE_BYTES, table.target_bytes // 2)


def _small(node: Node, table: TableFiles) -> list[DataFile]:
    return [file for file in node.files if file.bytes < small_limit(table)]


def _needed(size: int, table: TableFiles) -> int:
    return max(1, -(-size // table.target_bytes))


def _touched(node: Node, way: Way, table: TableFiles) -> Sequence[DataFile]:
    return _small(node, table) if way == "join" else node.files


def _waste(node: Node, way: Way, table: TableFiles) -> int:
    """What a reader of the node pays that it would not after: files to open, and deleted rows to read past."""
    files = _touched(node, way, table)
    deleted = sum(file.bytes * file.deleted // max(1, file.rows) for file in files)
    opened = len(files) + sum(1 for file in files if file.deleted)
    return max(0, opened - _needed(sum(file.bytes for file in files) - deleted, table)) * OPEN_BYTES + deleted


def _rewrites(table: TableFiles, way: Way, nodes: Sequence[Node], limits: _Limits) -> Iterator[Rewrite]:
    for group in _groups(nodes, way, table):
        files = [file for node in group for file in _touched(node, way, table)]
        yield Rewrite(
            table=table.table,
            expected=table.snapshot,
            way=way,
            nodes=tuple(group),
            whole=len(group) == len(table.nodes),
            files=len(files),
            bytes=sum(file.bytes for file in files),
            waste=sum(_waste(node, way, table) for node in group),
            small_bytes=small_limit(table),
            target_bytes=table.target_bytes,
            reason=_why(group, way, table, limits),
        )


def _groups(nodes: Sequence[Node], way: Way, table: TableFiles) -> Iterator[list[Node]]:
    if len({node.spec for node in nodes}) > 1:
        yield list(nodes)
        return
    group: list[Node] = []
    size = 0
    for node in nodes:
        more = sum(file.bytes for file in _touched(node, way, table))
        if group and (size + more > GROUP_BYTES or len(group) == GROUP_NODES):
            yield group
            group, size = [], 0
        group.append(node)
        size += more
    if group:
        yield group


def _why(nodes: Sequence[Node], way: Way, table: TableFiles, limits: _Limits) -> str:
    if way == "join":
        most = max(len(_small(node, table)) for node in nodes)
        return f"up to {most} small files in a node, more than {limits.small_files}"
    if limits.least:
        return "more files than needed, or deleted rows"
    share = max(node.deleted_share for node in nodes)
    return f"up to {share:.0%} of a node's rows are deleted, more than {limits.deleted_share:.0%}"


def _why_left(node: Node, table: TableFiles, limits: _Limits) -> str:
    if len({other.spec for other in table.nodes}) > 1:
        return "files of several partition specs lie side by side; a full compaction brings them under one"
    told = f"{len(node.files)} files, {len(_small(node, table))} of them small, {node.deleted_share:.0%} deleted"
    if limits.least:
        return f"{told}: no fewer are needed"
    shares = f" and {limits.deleted_share:.0%} deleted" if limits.deleted_share < 1 else ""
    return f"{told}: up to {limits.small_files} small files{shares} are left alone"
