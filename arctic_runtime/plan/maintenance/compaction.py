"""Chooses the files that a compaction rewrites.

The cost of a rewrite is compared with the bytes that each reader reads unnecessarily until the files are rewritten:
deleted rows, and files that must be opened although fewer would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from arctic_runtime.model.files.compaction import (
    CompactionMode,
    CompactionPlan,
    CompactionStep,
    DataFile,
    FileTotals,
    GroupId,
    LeftAlone,
    MergeUnmerged,
    RewriteBase,
    RewriteFiles,
    TableFiles,
    Way,
    describe_compaction,
)
from arctic_runtime.model.files.layout import ROOT
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.base_rewrite import plan_base_rewrite
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, list_bucket_counts, list_units
from arctic_runtime.plan.maintenance.split import (
    SIDE_BY_SIDE,
    explain_unsplit,
    plan_resize_steps,
    plan_resizes,
    select_worthwhile,
    split_into_commits,
)
from arctic_runtime.thresholds import CompactionThresholds, ReportThresholds, Thresholds


def plan_file_compaction(
    model: Model,
    state: TableState,
    files: Sequence[TableFiles],
    mode: CompactionMode,
    thresholds: Thresholds,
) -> CompactionPlan:
    """Plans the rewrites of files of a model's tables; also lists the file groups that are left alone, with reasons.

    The modes `auto` and `major` use the model's thresholds. `minor` joins small files if a file group has at least two.
    `full` rewrites each file group of the base that has more files than it needs, or a deleted row. `major` and `full`
    first merge the unmerged change rows; if that is a base rewrite, no other rewrites of the base are planned. All
    modes but `minor` split buckets of the base that exceed their limit, and merge small ones. File groups that this
    compaction has already rewritten are left alone.
    """
    merges = _plan_merges(model, state, files, mode, thresholds) if mode in ("major", "full") else ()
    steps: list[CompactionStep] = list(merges)
    left: list[LeftAlone] = []
    renewed = [step.table for step in steps if isinstance(step, RewriteBase)]
    for table in files:
        if table.table in renewed:
            continue
        planned, others = _plan_table(table, model, mode, thresholds)
        steps += planned
        left += others
    return CompactionPlan(tuple(steps), tuple(left))


def list_rewritten_groups(performed: Iterable[CompactionStep]) -> set[GroupId]:
    """Lists the file groups that the `performed` steps have rewritten, and that need no further rewrite.

    A rewrite of file groups from several depths of a hash tree writes one file for each of them, so these are finished
    only after a second rewrite.
    """
    times: Counter[GroupId] = Counter()
    for step in performed:
        if not isinstance(step, MergeUnmerged | RewriteBase):
            under = step.spec if isinstance(step, RewriteFiles) else None
            is_mixed = under is not None and any(node.spec != under for node in step.nodes)
            times.update({(step.table, node.spec, node.partition): 1 if is_mixed else 2 for node in step.nodes})
    return {group for group, count in times.items() if count >= 2}


def is_worth_a_look(model: Model, table: TableName, totals: FileTotals) -> bool:
    """Whether a run should plan a compaction of mode `auto` for a table; this reads all manifests, which takes time.

    False if the `totals` from the snapshot summaries show that no threshold can be exceeded. Otherwise True after each
    number of commits that is half of the threshold for files, and for a large base also after half of `node_bytes` was
    added.
    """
    if _is_large(model, table, totals) and totals.added_bytes > model.config.node_bytes // 2:
        return True
    return may_be_due(model, table, totals) and totals.appends % max(1, _get_file_limit(model, table) // 2) == 0


def may_be_due(model: Model, table: TableName, totals: FileTotals) -> bool:
    """Whether a compaction of mode `auto` may have anything to rewrite in a table, by the `totals` of its files."""
    is_over = totals.files > _get_file_limit(model, table) or totals.deleted > 0
    return is_over or _is_large(model, table, totals)


def _get_file_limit(model: Model, table: TableName) -> int:
    limits = model.config.compaction
    return limits.change_files if table == model.table.changes else limits.small_files


def _is_large(model: Model, table: TableName, totals: FileTotals) -> bool:
    is_base = table != model.table.changes
    return is_base and model.config.hash_key is not None and totals.bytes > model.config.node_bytes


def describe_plan(plan: CompactionPlan, thresholds: ReportThresholds) -> list[str]:
    """Describes a plan for users, as lines of text: its steps, and the file groups that are left alone.

    For each step, the number of full reads of the table is given that together save the cost of the step.
    """
    lines = []
    for step in plan.steps:
        lines.append(f"to do: {describe_compaction(step)}")
        if isinstance(step, RewriteBase | RewriteFiles) and step.waste:
            lines.append(f"  pays for itself after {-(-step.bytes // step.waste)} full read(s)")
    shown = plan.left[: thresholds.shown_nodes]
    lines += [f"left alone: {left.table}, {left.node}: {left.reason}" for left in shown]
    more = len(plan.left) - len(shown)
    return [*lines, *([f"and {more} more node(s) are left alone"] if more > 0 else [])] or ["nothing to do"]


def plan_waste(plan: CompactionPlan) -> int:
    """Sums up the bytes that each reader reads unnecessarily until the plan is performed.

    Each file that needs to be opened only until then counts as a number of bytes.
    """
    folded = sum(step.bytes for step in plan.steps if isinstance(step, MergeUnmerged))
    return folded + sum(step.waste for step in plan.steps if isinstance(step, RewriteBase | RewriteFiles))


@dataclass(frozen=True)
class _Limits:
    """Limits above which a file group is rewritten: its number of small files, and its share of deleted rows.

    If `least`, a file group is rewritten if it has more files than it needs, or a deleted row.
    """

    small_files: int
    deleted_share: float
    thresholds: CompactionThresholds
    least: bool = False


def _get_limits(model: Model, table: TableFiles, mode: CompactionMode, thresholds: Thresholds) -> _Limits:
    wanted, costs = model.config.compaction, thresholds.compaction
    asked = mode in ("minor", "full")
    if table.table == model.table.changes:
        share = {"minor": 1.0, "full": 0.0}.get(mode, wanted.deleted_share)
        return _Limits(1 if asked else wanted.change_files, share, costs)
    return _Limits(1 if asked else wanted.small_files, 1.0 if asked else wanted.deleted_share, costs, mode == "full")


def _plan_merges(
    model: Model,
    state: TableState,
    files: Sequence[TableFiles],
    mode: CompactionMode,
    thresholds: Thresholds,
) -> Iterator[MergeUnmerged | RewriteBase]:
    """Plans the merge of unmerged change rows: by a base rewrite if there are many, otherwise by an ordinary merge."""
    base = next((table for table in files if table.table == model.base), None)
    limits = thresholds.base_rewrite
    anew = plan_base_rewrite(model, state, base, mode == "full", limits) if base is not None else None
    yield from [anew] if anew is not None else _plan_folds(model, state)


def _plan_folds(model: Model, state: TableState) -> Iterator[MergeUnmerged]:
    if state.changes is None or state.base is None or state.base.merged is None:
        return
    pending = state.changes.list_commits_after(state.base.merged)
    if pending:
        rows, size = sum(commit.rows for commit in pending), sum(commit.bytes for commit in pending)
        yield MergeUnmerged(model.base, len(pending), rows, size, "every reader has to lay them over the base")


def _plan_table(
    table: TableFiles, model: Model, mode: CompactionMode, thresholds: Thresholds
) -> tuple[list[CompactionStep], list[LeftAlone]]:
    limits = _get_limits(model, table, mode, thresholds)
    tree_units = list_units(table, model.config.hash_key)
    if tree_units is None:
        return _plan_single_spec_rewrite(table, limits)
    is_base = table.table == model.base
    splits = is_base and mode != "minor"
    resizes = plan_resizes(table, tree_units, model, mode == "full", thresholds) if splits else []
    resizes = select_worthwhile(resizes, mode, limits.thresholds)
    gone = {id(resize.unit) for resize in resizes}
    rest = [unit for unit in tree_units if id(unit) not in gone]
    ways = [
        None if table.has_finished(unit.file_groups) else _choose_rewrite_mode(unit, table, limits) for unit in rest
    ]
    chosen = [(unit, way) for unit, way in zip(rest, ways, strict=True) if way is not None]
    stay = (
        (unit, _explain_skip(unit, table, limits, model if is_base else None))
        for unit, way in zip(rest, ways, strict=True)
        if way is None
    )
    left = [LeftAlone(table.table, node, reason) for unit, reason in stay for node in unit.file_groups]
    steps: list[CompactionStep] = list(plan_resize_steps(table, tree_units, resizes, limits.thresholds))
    lost, cost = sum(_estimate_waste(unit, way, table, limits) for unit, way in chosen), limits.thresholds.commit_bytes
    if mode == "auto" and lost < cost:
        reason = f"readers lose {lost:,} bytes in this table, less than the {cost:,} that a commit costs"
        return steps, [
            *left,
            *(LeftAlone(table.table, node, reason) for unit, _ in chosen for node in unit.file_groups),
        ]
    return [*steps, *_plan_rewrites(table, tree_units, chosen, limits)], left


def _plan_single_spec_rewrite(table: TableFiles, limits: _Limits) -> tuple[list[CompactionStep], list[LeftAlone]]:
    """Plans the rewrite of all files to one partition spec, for a table whose files have unrelated specs.

    This is done only in a full compaction, and only once; otherwise all files are left alone.
    """
    if not limits.least or table.has_finished(table.file_groups):
        return [], [LeftAlone(table.table, node, SIDE_BY_SIDE) for node in table.file_groups]
    whole = CompactionUnit((), ROOT, table.file_groups, (ROOT,) * len(table.file_groups))
    return [_build_rewrite(table, "sort", [whole], limits)], []


def _choose_rewrite_mode(unit: CompactionUnit, table: TableFiles, limits: _Limits) -> Way | None:
    if limits.least:
        has_deleted = any(file.deleted for file in unit.files)
        needed = sum(_count_needed_files(node.bytes, table) for node in unit.file_groups)
        return "sort" if has_deleted or unit.is_mixed or len(unit.files) > needed else None
    if unit.deleted_share > limits.deleted_share:
        return "sort"
    return "join" if len(_select_small_files(unit, table, limits)) > limits.small_files else None


def get_small_file_bytes(table: TableFiles, thresholds: CompactionThresholds) -> int:
    """Returns the size in bytes below which a file counts as small: at most half of the table's target size."""
    return min(thresholds.small_file_bytes, table.target_bytes // 2)


def _select_small_files(unit: CompactionUnit, table: TableFiles, limits: _Limits) -> list[DataFile]:
    limit = get_small_file_bytes(table, limits.thresholds)
    return [file for file in unit.files if file.bytes < limit]


def _count_needed_files(size: int, table: TableFiles) -> int:
    return max(1, -(-size // table.target_bytes))


def _select_touched_files(unit: CompactionUnit, way: Way, table: TableFiles, limits: _Limits) -> Sequence[DataFile]:
    return _select_small_files(unit, table, limits) if way == "join" else unit.files


def _estimate_waste(unit: CompactionUnit, way: Way, table: TableFiles, limits: _Limits) -> int:
    """Estimates the bytes that a rewrite of `unit` saves each reader: deleted rows, and files that need not be opened.

    The `way` "join" rewrites only small files, "sort" all files of the unit.
    """
    files = _select_touched_files(unit, way, table, limits)
    deleted = sum(file.bytes * file.deleted // max(1, file.rows) for file in files)
    opened = len(files) + sum(1 for file in files if file.deleted)
    spared = max(0, opened - _count_needed_files(sum(file.bytes for file in files) - deleted, table))
    return spared * limits.thresholds.open_file_bytes + deleted


def _plan_rewrites(
    table: TableFiles,
    tree_units: Sequence[CompactionUnit],
    chosen: Sequence[tuple[CompactionUnit, Way]],
    limits: _Limits,
) -> Iterator[RewriteFiles]:
    """Plans the rewrites of the `chosen` units, in commits of limited size.

    Buckets keep their depth in the hash tree. A unit with files of several depths is written at the depth that has most
    of its bytes.
    """
    buckets = list_bucket_counts(tree_units)
    ordered = sorted(chosen, key=lambda pair: (pair[1], pair[0].spec))
    size_of, kind_of = (
        (lambda pair: _sum_touched_bytes(pair[0], pair[1], table, limits)),
        (lambda pair: (pair[1], pair[0].spec)),
    )
    for group in split_into_commits(ordered, size_of, kind_of, limits.thresholds):
        way, spec = group[0][1], group[0][0].spec
        yield replace(_build_rewrite(table, way, [unit for unit, _ in group], limits), spec=spec, buckets=buckets)


def _build_rewrite(table: TableFiles, way: Way, group: Sequence[CompactionUnit], limits: _Limits) -> RewriteFiles:
    files = [file for unit in group for file in _select_touched_files(unit, way, table, limits)]
    nodes = tuple(node for unit in group for node in unit.file_groups)
    return RewriteFiles(
        table=table.table,
        expected=table.snapshot,
        way=way,
        nodes=nodes,
        whole=len(nodes) == len(table.file_groups),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        waste=sum(_estimate_waste(unit, way, table, limits) for unit in group),
        small_bytes=get_small_file_bytes(table, limits.thresholds),
        target_bytes=table.target_bytes,
        reason=_explain_rewrite(group, way, table, limits),
    )


def _sum_touched_bytes(unit: CompactionUnit, way: Way, table: TableFiles, limits: _Limits) -> int:
    return sum(file.bytes for file in _select_touched_files(unit, way, table, limits))


def _explain_rewrite(group: Sequence[CompactionUnit], way: Way, table: TableFiles, limits: _Limits) -> str:
    if way == "join":
        most = max(len(_select_small_files(unit, table, limits)) for unit in group)
        return f"up to {most} small files in a node, more than {limits.small_files}"
    if limits.least:
        return "more files than needed, or deleted rows"
    share = max(unit.deleted_share for unit in group)
    return f"up to {share:.0%} of a node's rows are deleted, more than {limits.deleted_share:.0%}"


def _explain_skip(unit: CompactionUnit, table: TableFiles, limits: _Limits, model: Model | None) -> str:
    cannot = model and model.config.hash_key and explain_unsplit(unit, model.config.node_bytes)
    if cannot and not limits.least:
        return cannot
    small = len(_select_small_files(unit, table, limits))
    files = f"{len(unit.files)} files, {small} of them small, {unit.deleted_share:.0%} deleted"
    if limits.least:
        return f"{files}: no fewer are needed"
    shares = f" and {limits.deleted_share:.0%} deleted" if limits.deleted_share < 1 else ""
    return f"{files}: up to {limits.small_files} small files{shares} are left alone"
