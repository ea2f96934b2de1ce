"""Plans reconciliation: steps that bring a model's base table and views up to date, or prepare a table without a key.

The change table is the source of truth. After every run, finished or failed, these steps update the model's other
relations; there are no steps if all are up to date.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.columns import FEED_COLUMNS, Column, strip_change_columns
from arctic_runtime.model.files.layout import NEWEST_FORMAT, TARGET_PROPERTY, format_layout, format_of, is_laid_out
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CHANGES_VIEW, CURRENT_VIEW, LAYOUT
from arctic_runtime.model.refs import list_abandoned_branches
from arctic_runtime.model.run_summary import is_run
from arctic_runtime.model.state import (
    BaseState,
    ChangeTableState,
    Commit,
    ConflictingRelation,
    NamedViewState,
    TableState,
)
from arctic_runtime.model.step import (
    AdoptBase,
    CreateAppended,
    CreateBase,
    DropBranches,
    DropChangesView,
    DropConflictingRelation,
    DropCurrentView,
    DropTable,
    EvolveSchema,
    MergeBase,
    NoteChangesView,
    NoteCurrentView,
    ReplaceChangesView,
    ReplaceCurrentView,
    ReplaceView,
    SetLayout,
    SetWriteOrder,
    Step,
)
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.adoption import is_being_adopted
from arctic_runtime.plan.refresh.schema import plan_schema
from arctic_runtime.thresholds import ExpiryThresholds, MergeThresholds


def plan_reconciliation(
    model: Model, state: TableState, thresholds: MergeThresholds, fold: bool = False, defer: bool = False
) -> tuple[Step, ...]:
    """Plans the next steps that bring the model's base and view to the newest version of its change table.

    The steps are valid for this `state` only. After them, observe the table and call this again, until there are no
    steps. `fold` and `defer` are for models with `merge: on_read`: with `fold`, any number of unmerged change rows is
    merged into the base; with `defer`, none are merged as long as a view can show them.
    """
    changes, base = state.changes, state.base
    if changes is None or changes.head is None or not any(map(is_run, changes.commits)):
        return ()
    if base is None:
        return _create_base(model, changes, state)
    if _is_repaired(changes, base):
        return _plan_base_replacement(model, changes, format_of(base.properties))
    if model.config.on_configuration_change != "continue" and not is_laid_out(model.config, base.properties):
        return _plan_base_replacement(model, changes, format_of(base.properties))
    if model.config.sort_key and not base.has_write_order and is_laid_out(model.config, base.properties):
        return (SetWriteOrder(model.base),)
    merge = None if defer and _can_wait(model, changes, base) else _plan_merge(model, changes, base, thresholds, fold)
    if merge is not None:
        return (merge,)
    view = _plan_view(model, changes, base, state)
    if view is None:
        return (*_plan_current_view(model, changes, base, state), *_plan_changes_view(model, changes, state))
    return (DropConflictingRelation(state.conflicting), view) if state.conflicting is not None else (view,)


def plan_branch_cleanup(
    model: Model, state: TableState, now: datetime.datetime, thresholds: ExpiryThresholds
) -> tuple[DropBranches, ...]:
    """Plans to drop the branches that failed attempts have left in each table of the model.

    A branch counts as left by a failed attempt if main has had newer commits for so long that no attempt can still be
    writing to the branch at the time `now`.
    """
    before_ms = round(now.timestamp() * 1000) - 1000 * thresholds.abandoned_branch_seconds
    steps = []
    parts = ((model.table.changes, state.changes), (model.base, state.base), (model.table, state.appended))
    for table, part in parts:
        if part is not None:
            head = _get_head_snapshot(part)
            names = list_abandoned_branches(part.branches, part.parents, part.times, head, before_ms)
            steps.extend([DropBranches(table, names)] if names else [])
    return tuple(steps)


def _get_head_snapshot(part: ChangeTableState | BaseState) -> int | None:
    return part.snapshot if isinstance(part, BaseState) else part.head.snapshot if part.head else None


def _create_base(model: Model, changes: ChangeTableState, state: TableState) -> tuple[Step, ...]:
    conflicting = state.conflicting
    if is_being_adopted(model, state):
        assert changes.baseline is not None
        return (AdoptBase(model.base, changes.baseline, changes.commits[0].version),)
    if conflicting is None and changes.baseline is not None and changes.baseline.table == model.base:
        raise CorruptState(
            f"{model.base}: the table with the rows from before its adoption is gone.",
            expected=f"snapshot {changes.baseline.snapshot} of {model.base}",
            actual="no table",
            fix=f"restore the table; or `arctic reset {model.table.name} --yes` deletes the rest",
        )
    if conflicting is None or conflicting.name != model.base:
        return (_plan_new_base(model, changes, replaces=model.base in state.unfinished),)
    if conflicting.kind == "table" and model.config.format_version == NEWEST_FORMAT:
        return (_plan_new_base(model, changes, replaces=True),)
    was_on_read = state.view is not None and state.view.head is not None
    left = (DropConflictingRelation(ConflictingRelation(model.table.base, "table")),) if was_on_read else ()
    return (DropConflictingRelation(conflicting), _plan_new_base(model, changes, replaces=False), *left)


def _plan_base_replacement(model: Model, changes: ChangeTableState, current_format: int) -> tuple[Step, ...]:
    if current_format > model.config.format_version:
        if changes.baseline is not None:
            raise ConfigError(
                f"{model.table}: the format version of a table that was adopted can't be lowered.",
                expected=f"`format_version: {current_format}`",
                actual=f"`format_version: {model.config.format_version}`",
                fix=f"set `format_version: {current_format}`",
            )
        return (DropTable(model.base), _plan_new_base(model, changes, replaces=False))
    return (_plan_new_base(model, changes, replaces=True),)


def _plan_new_base(model: Model, changes: ChangeTableState, replaces: bool) -> CreateBase:
    head = changes.commits[-1].summary
    size = head.get("total-files-size") or sum(commit.bytes for commit in changes.commits)
    known = [version for version in (_get_newest_version(changes), changes.newest_repair) if version]
    return CreateBase(model.base, max(known, key=lambda candidate: candidate.sequence), int(size), replaces)


def _is_repaired(changes: ChangeTableState, base: BaseState) -> bool:
    """Whether the change table has a repair of invalid rows that the base lacks, so that the base must be rebuilt."""
    repair = changes.newest_repair
    return repair is not None and (base.merged is None or base.merged.sequence < repair.sequence)


def _plan_merge(
    model: Model, changes: ChangeTableState, base: BaseState, thresholds: MergeThresholds, fold: bool
) -> MergeBase | None:
    if base.merged is None or base.merged.table != changes.uuid:
        raise CorruptState(
            f"{model.base}: the base does not record which version of {model.table.changes} it contains.",
            expected=f"a version of table {changes.uuid}",
            actual=str(base.merged),
            fix="drop the base; the next run rebuilds it from the change table",
        )
    pending = changes.list_commits_after(base.merged)
    may_wait = model.config.merge == "on_read" and not fold
    if not pending or (may_wait and not _is_worth_folding(model, changes, base, thresholds)):
        return None
    return MergeBase(
        model.base, base.snapshot, base.merged, _get_newest_version(changes), changes.count_after(base.merged)
    )


def _can_wait(model: Model, changes: ChangeTableState, base: BaseState) -> bool:
    return model.config.merge == "on_read" and base.merged is not None and changes.keeps_version(base.merged)


def compute_merge_relaxation(base_rows: int, pending: Sequence[Commit], thresholds: MergeThresholds) -> float:
    """Computes the factor by which the limits of unmerged change rows are raised if commits follow each other quickly.

    Writers wait while a run merges, so frequent commits should cause fewer merges. The factor is 1 if the mean time
    between the `pending` commits is enough for a merge into `base_rows` rows. Otherwise it is the square root of the
    time of such a merge divided by the mean time, at most `longest_wait_factor`.
    """
    between = (pending[-1].at_ms - pending[0].at_ms) / 1000 / (len(pending) - 1) if len(pending) > 1 else 0.0
    if between <= 0:
        return 1.0
    slower = math.sqrt(base_rows / thresholds.merged_rows_per_second / between)
    return min(thresholds.longest_wait_factor, max(1.0, slower))


def is_overwritten(model: Model, base: BaseState, thresholds: MergeThresholds) -> bool:
    """Whether a merge writes all rows of the base anew, since a delete and an append of changed rows take longer."""
    is_small = base.rows <= thresholds.overwritten_base_rows
    return not model.config.partition_by and (
        is_small or base.rows * len(base.columns) <= thresholds.overwritten_base_values
    )


def compute_commit_limit(model: Model, base: BaseState, thresholds: MergeThresholds) -> int:
    """Computes the number of unmerged commits from which on a table that is merged on read is merged.

    If the table is read once after each commit, that is the number of reads that unmerged rows have delayed by as much
    as a merge takes; at most `unmerged_commits`.
    """
    rows = 0 if is_overwritten(model, base, thresholds) else base.rows
    merge = thresholds.merge_seconds + rows / thresholds.merged_rows_per_second
    return min(thresholds.unmerged_commits, math.ceil(merge / thresholds.unmerged_read_seconds))


def _is_worth_folding(model: Model, changes: ChangeTableState, base: BaseState, thresholds: MergeThresholds) -> bool:
    assert base.merged is not None
    pending = changes.list_commits_after(base.merged)
    if not changes.keeps_version(base.merged):
        return True  # A view reads ranges of snapshots, and the first snapshot of this range has expired.
    times = compute_merge_relaxation(base.rows, pending, thresholds)
    many = changes.count_rows_after(base.merged) > times * thresholds.unmerged_share * base.rows
    return many or len(pending) >= times * compute_commit_limit(model, base, thresholds)


def _plan_view(model: Model, changes: ChangeTableState, base: BaseState, state: TableState) -> ReplaceView | None:
    if model.config.merge != "on_read":
        return None
    assert base.merged is not None
    view = state.view
    pinned = (view.base_snapshot, view.merged, view.head) if view else None
    newest = max(base.merged, _get_newest_version(changes), key=lambda version: version.sequence)
    current = (base.snapshot, base.merged.snapshot, newest.snapshot)
    if view is not None and pinned == current and view.columns == base.columns:
        return None
    commits = changes.count_after(base.merged) if changes.list_commits_after(base.merged) else 0
    return ReplaceView(model.table, base.snapshot, base.merged, newest, commits)


def _plan_current_view(model: Model, changes: ChangeTableState, base: BaseState, state: TableState) -> tuple[Step, ...]:
    """Plans how to create, replace or drop the view of current versions, by the configuration key `current_view`."""
    named = _NamedView(model.current_view, changes.properties.get(CURRENT_VIEW, ""), state.current_views, base.columns)
    return _plan_named_view(
        model,
        named,
        drop=DropCurrentView,
        note=lambda name: NoteCurrentView(model.table.changes, name),
        replace=lambda view: ReplaceCurrentView(view, model.table),
    )


def _plan_changes_view(model: Model, changes: ChangeTableState, state: TableState) -> tuple[Step, ...]:
    """Plans how to create, replace or drop the view of change rows, by the configuration key `changes_view`."""
    columns = (*strip_change_columns(changes.columns), *FEED_COLUMNS)
    named = _NamedView(model.changes_view, changes.properties.get(CHANGES_VIEW, ""), state.changes_views, columns)
    return _plan_named_view(
        model,
        named,
        drop=DropChangesView,
        note=lambda name: NoteChangesView(model.table.changes, name),
        replace=lambda view: ReplaceChangesView(view, model.table),
    )


@dataclass(frozen=True)
class _NamedView:
    """A view of current versions or of change rows: its configured name, None if it is not configured, and columns.

    `noted` is the view's name in the change table's properties. `views` are the existing relations of both names.
    """

    wanted: TableName | None
    noted: str
    views: tuple[NamedViewState, ...]
    columns: tuple[Column, ...]


def _plan_named_view(
    model: Model,
    named: _NamedView,
    drop: Callable[[TableName], Step],
    note: Callable[[str], Step],
    replace: Callable[[TableName], Step],
) -> tuple[Step, ...]:
    """Plans the steps for a view of a model; `drop`, `note` and `replace` build the steps.

    The view's name is stored in the change table before the view is created, so that a later run knows the view to
    drop.
    """
    wanted = named.wanted
    own = {view.name: view for view in named.views if view.is_own}
    former = model.table.with_name(named.noted) if named.noted else None
    steps = [drop(former)] if former is not None and former in own and former != wanted else []
    if named.noted != (wanted.name if wanted else ""):
        steps.append(note(wanted.name if wanted else ""))
    is_free = all(view.is_own for view in named.views if view.name == wanted)
    if wanted and is_free and (wanted not in own or own[wanted].columns != named.columns):
        steps.append(replace(wanted))
    return tuple(steps)


def _get_newest_version(changes: ChangeTableState) -> Version:
    newest = changes.newest
    assert newest is not None
    return newest


Preparation = CreateAppended | EvolveSchema | SetLayout


def plan_preparation(
    model: Model, table: ChangeTableState | None, fields: Sequence[Transform], stored: tuple[Column, ...]
) -> tuple[Preparation, ...]:
    """Plans the next steps that create the table, or fit its columns and layout to rows with the columns `stored`.

    After the steps, observe the table and call this again, until there are no steps. `fields` are the table's present
    partition fields. Existing files are not rewritten when the layout changes. Raises ConfigError for a type to which a
    column can't be changed, and for any difference that `on_schema_change` forbids.
    """
    if table is None:
        return (CreateAppended(model.table, stored),)
    change = plan_schema(model, table.columns, stored)
    evolution = () if change.is_empty else (EvolveSchema(model.table, change, is_change_table=False),)
    return (*evolution, *_plan_layout(model, table, fields))


def _plan_layout(model: Model, table: ChangeTableState, fields: Sequence[Transform]) -> tuple[SetLayout, ...]:
    config = model.config
    if LAYOUT in table.properties and is_laid_out(config, table.properties):
        return ()
    wanted = {_normalize_transform(transform): transform for transform in config.partition_by}
    known = {_normalize_transform(transform): transform for transform in fields}
    return (
        SetLayout(
            table=model.table,
            drop=tuple(transform for own, transform in known.items() if own not in wanted),
            add=tuple(transform for own, transform in wanted.items() if own not in known),
            sort_key=config.sort_key,
            properties=((TARGET_PROPERTY, str(config.target_file_bytes)), *config.tblproperties.items()),
            text=format_layout(config),
        ),
    )


def _normalize_transform(transform: Transform) -> str:
    """Returns the text of a transform in lower case, because Iceberg ignores case."""
    return str(transform).lower()
