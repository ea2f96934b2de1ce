"""Chooses the snapshots that expire, and the change rows that are deleted: those that no reader needs any more.

These are always the oldest snapshots of a table, so that the remaining ones are a range without gaps.

A change row may be deleted by changelog compaction if a newer change row of the same key has replaced it, and all
readers have read both.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import describe_release
from arctic_runtime.model.files.expiry import (
    Age,
    CompactChangelog,
    DatedSnapshot,
    DropTags,
    ExpireSnapshots,
    ExpiryPlan,
    RetainedSnapshot,
    Snapshots,
    SnapshotUse,
    read_ages,
    read_trimmed_age,
)
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.refs import parse_cut
from arctic_runtime.model.run_summary import find_last_load, run_commits
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model, Retention
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import ChangelogThresholds, ExpiryThresholds, Thresholds


def plan_changelog_compaction(
    model: Model, state: TableState, wanted: Mapping[str, Version], now_ms: int
) -> tuple[CompactChangelog | None, tuple[str, ...]]:
    """Plans to delete replaced change rows up to a commit that is old enough and that all readers have read.

    The step is None if there is nothing to delete. The texts name the readers for which old rows are kept. `wanted`
    maps reasons to keep a version of the table, such as a savepoint, to the version. `now_ms` is the time in
    milliseconds since 1970.
    """
    changes, seconds = state.changes, model.config.retention.changes_seconds
    if changes is None or changes.head is None or seconds is None:
        return None, ()
    done = _read_trimmed_age(changes)
    old = [
        age
        for age in _list_commit_ages(changes)
        if age.at_ms < now_ms - 1000 * seconds and age.sequence > done.sequence
    ]
    if not old:
        return None, ()
    needs = dict(_list_readers(state, wanted))
    read = [age for age in old if age.sequence <= min(needs.values())]
    waits = tuple(reason for reason, sequence in needs.items() if sequence < old[-1].sequence)
    return (CompactChangelog(model.table.changes, changes.head.snapshot, read[-1]) if read else None), waits


def is_due(model: Model, changes: ChangeTableState, plan: CompactChangelog, thresholds: ChangelogThresholds) -> bool:
    """Whether a run should perform `plan` automatically, because enough time has passed since the last deletion."""
    seconds = model.config.retention.changes_seconds or 0
    return plan.until.at_ms - _read_trimmed_age(changes).at_ms >= 1000 * seconds // thresholds.compactions


def select_ages_to_keep(
    model: Model, state: TableState, gone: Collection[int], thresholds: ChangelogThresholds
) -> tuple[Age, ...]:
    """Selects the commit times that must be stored in the change table before the snapshots `gone` expire.

    Only commits with a minimum distance in time are selected, so that these are few. Commits whose replaced change rows
    are deleted already are left out.
    """
    changes, seconds = state.changes, model.config.retention.changes_seconds
    if changes is None or seconds is None:
        return ()
    done = _read_trimmed_age(changes).sequence
    here = {commit.version.sequence for commit in changes.commits if commit.version.snapshot not in gone}
    apart_ms = 1000 * seconds // thresholds.kept_ages
    ages: list[Age] = []
    for age in _list_commit_ages(changes):
        is_apart = not ages or age.at_ms - ages[-1].at_ms >= apart_ms
        if age.sequence > done and age.sequence not in here and is_apart:
            ages.append(age)
    return tuple(ages)


def _read_trimmed_age(changes: ChangeTableState) -> Age:
    """Returns the sequence number and time of the commit up to which replaced change rows were deleted.

    They are read from the newest commit with an entry for them in its summary. The table's property is written before
    the deletion, so it is used only if no commit has the entry and the oldest commits have expired.
    """
    texts = [text for commit in changes.commits if (text := commit.summary.get(COMPACTED_UNTIL))]
    if texts:
        return read_ages(texts[-1])[0]
    return Age(0, 0) if changes.begins else read_trimmed_age(changes.properties)


def _list_commit_ages(changes: ChangeTableState) -> list[Age]:
    """Lists the sequence numbers and times of commits that added rows, oldest first.

    Times of expired commits are read from the table's properties.
    """
    ages = {age.sequence: age for age in read_ages(changes.properties.get(COMMIT_TIMES))}
    ages |= {
        commit.version.sequence: Age(commit.version.sequence, commit.at_ms) for commit in changes.commits if commit.rows
    }
    return [ages[sequence] for sequence in sorted(ages)]


def _list_readers(state: TableState, wanted: Mapping[str, Version]) -> Iterator[tuple[str, int]]:
    merged = state.base.merged if state.base else None
    yield "the base is merged up to it", merged.sequence if merged else 0
    for reason, version in wanted.items():
        yield reason, version.sequence


Needs = Iterator[tuple[int, str]]
"""Pairs of a sequence number, from which on snapshots of a table are needed, and the reason."""


def plan_snapshot_expiry(
    model: Model, state: TableState, use: SnapshotUse, now_ms: int, thresholds: Thresholds
) -> ExpiryPlan:
    """Plans the expiry of snapshots, change rows and tags of the model's tables at the time `now_ms`.

    `use` has the snapshots of the tables, and the versions up to which other models have read them. Raises ConfigError
    if the model's retention lets nothing expire.
    """
    age = model.config.retention.age_seconds
    if age is None and model.config.retention.changes_seconds is None:
        raise ConfigError(
            f"{model.table}: nothing can expire.",
            actual="`retention: off`",
            fix="set `retention: {changes: '7d', versions: '5d'}` in the model's configuration",
        )
    read = _list_consumer_versions(state, use.consumers)
    changelog_step, waits = plan_changelog_compaction(model, state, read, now_ms)
    if age is None:
        return ExpiryPlan((), (), changelog_step, (), waits)
    kept_from_ms = _compute_kept_from(model, state, now_ms)
    wanted = {**read, **_list_last_versions(state, model.config.retention.retain_last)}
    needs: dict[str, Callable[[Snapshots], Needs]] = {
        str(model.table.changes): lambda _: _list_change_table_needs(state, wanted),
        str(model.base): lambda base: _list_base_needs(state, base, wanted),
        str(model.table.totals): lambda totals: _list_aggregate_state_needs(state, totals),
    }
    if state.appended is not None:
        needs[str(model.table)] = lambda _: _list_keyless_needs(state.appended, wanted)
    idle = _list_idle_tags(state, use.tables, now_ms, thresholds.expiry)
    tags = (*idle, *_list_old_cuts(use.tables, now_ms - 1000 * age))
    steps: list[ExpireSnapshots] = []
    kept_snapshots: list[RetainedSnapshot] = []
    for table in _remove_tags(use.tables, tags):
        needed = [*_list_newest_need(table), *needs[str(table.table)](table)]
        if not table.can_expire:
            why = "its files may belong to another table too, and the catalog deletes them with the snapshots"
            kept_snapshots += [RetainedSnapshot(table.table, snapshot.id, why) for snapshot in table.lineage[:1]]
            continue
        cut = cut_of(needed)
        gone = list_expired_snapshots(table, cut, kept_from_ms)
        steps += [ExpireSnapshots(table.table, gone, table.shares_files)] if gone else []
        kept_snapshots += list_kept_snapshots(table, needed, cut)
    gone_from = {step.table: step.snapshots for step in steps}
    ages = select_ages_to_keep(model, state, gone_from.get(model.table.changes, ()), thresholds.changelog)
    return ExpiryPlan(tuple(steps), tuple(kept_snapshots), changelog_step, ages, waits, tags)


def may_expire(model: Model, state: TableState, now_ms: int, thresholds: Thresholds) -> bool:
    """Whether there are so many old snapshots or change rows that a run should plan their expiry."""
    log = state.appended or state.changes
    if log is None:
        return False
    kept_from_ms = _compute_kept_from(model, state, now_ms)
    old = [commit for commit in log.commits if commit.at_ms < kept_from_ms]
    if len(old) >= _compute_snapshot_threshold(log, thresholds.expiry):
        return True
    changelog_step = None if state.changes is None else plan_changelog_compaction(model, state, {}, now_ms)[0]
    return changelog_step is not None and is_due(model, log, changelog_step, thresholds.changelog)


def select_due_steps(model: Model, state: TableState, plan: ExpiryPlan, thresholds: Thresholds) -> ExpiryPlan:
    """Selects the steps of `plan` that a run performs automatically, because they expire enough to be worthwhile."""
    log = state.appended or state.changes
    if log is None:
        return replace(plan, steps=(), tags=(), changelog_compaction=None)
    enough = sum(len(step.snapshots) for step in plan.steps) >= _compute_snapshot_threshold(log, thresholds.expiry)
    compacts = plan.changelog_compaction is not None and is_due(
        model, log, plan.changelog_compaction, thresholds.changelog
    )
    due_plan = replace(plan, changelog_compaction=plan.changelog_compaction if compacts else None)
    return due_plan if enough else replace(due_plan, steps=(), tags=())


def compute_kept_from(retention: Retention, times_ms: Sequence[int], now_ms: int) -> int:
    """Computes the time in milliseconds from which on versions stay; 0 if they never expire.

    `times_ms` are the times of all versions, oldest first.
    """
    if retention.age_seconds is None:
        return 0
    by_age, max_versions = now_ms - 1000 * retention.age_seconds, retention.max_versions
    return by_age if max_versions is None or len(times_ms) <= max_versions else max(by_age, times_ms[-max_versions])


def _compute_kept_from(model: Model, state: TableState, now_ms: int) -> int:
    times = [commit.at_ms for commit in run_commits(state.log)]
    return compute_kept_from(model.config.retention, times, now_ms)


def _compute_snapshot_threshold(changes: ChangeTableState, thresholds: ExpiryThresholds) -> float:
    return max(thresholds.snapshots, thresholds.snapshot_share * len(changes.commits))


def describe_expiry(plan: ExpiryPlan, verb: str) -> list[str]:
    """Describes the plan for users, as lines of text; `verb` is "to go" before its execution and "gone" afterwards."""
    lines = _describe_changelog_compaction(plan, verb)
    lines += [f"{verb}: {describe_release(step)}" for step in plan.clones]
    lines += [f"{verb}: {_describe_tag(step, tag)}" for step in plan.tags for tag in step.tags]
    lines += [f"{verb}: {len(step.snapshots)} snapshot(s) of {step.table}" for step in plan.steps]
    for snapshot in plan.kept:
        newer = "" if snapshot.alone else " and newer"
        lines.append(f"kept: {snapshot.table}, snapshot {snapshot.snapshot}{newer}: {snapshot.reason}")
    return lines or ["nothing to do"]


def _describe_tag(step: DropTags, tag: str) -> str:
    is_cut = parse_cut(tag) is not None
    return f"old cut {tag} of {step.table}" if is_cut else f"tag {tag} of {step.table}, which no view reads"


def _describe_changelog_compaction(plan: ExpiryPlan, verb: str) -> list[str]:
    step = plan.changelog_compaction
    if step is None:
        return [f"kept: change rows that are old enough to go: {reason}" for reason in plan.waits_for]
    until = datetime.datetime.fromtimestamp(step.until.at_ms / 1000, datetime.timezone.utc)
    what = f"rows of {step.table} up to {until:%Y-%m-%d %H:%M} UTC that newer ones have replaced"
    waits = [f"kept: newer change rows that are old enough to go: {reason}" for reason in plan.waits_for]
    return [f"{verb}: {what}", *waits]


def _list_idle_tags(
    state: TableState, tables: Sequence[Snapshots], now_ms: int, thresholds: ExpiryThresholds
) -> Iterator[DropTags]:
    """Yields steps that drop tags for a view if the view does not read their snapshots; failed runs leave such tags.

    The tag of the snapshot that the view reads is kept. So is a tag whose snapshot was replaced by a newer one less
    than `view_tag_seconds` ago, because a run that is still at work may be about to create a view that reads it.
    """
    pinned = state.view.base_snapshot if state.view else None
    until = now_ms - 1000 * thresholds.view_tag_seconds
    for table in tables:
        replaced = _map_replacement_times(table)
        idle = [
            name
            for name, snapshot in table.view_tags.items()
            if snapshot != pinned and replaced.get(snapshot, now_ms) < until
        ]
        if idle:
            yield DropTags(table.table, tuple(sorted(idle)))


def _list_old_cuts(tables: Sequence[Snapshots], until_ms: float) -> Iterator[DropTags]:
    """Yields steps that drop the cuts of builds which were published before `until_ms`."""
    for table in tables:
        old = sorted(name for name in table.cut_tags if (parse_cut(name) or 0) < until_ms)
        if old:
            yield DropTags(table.table, tuple(old))


def _map_replacement_times(table: Snapshots) -> dict[int, int]:
    """Maps the id of each snapshot to the time at which a newer one replaced it; the newest snapshot has no entry.

    Snapshots of failed attempts, which were never the newest, are mapped to their own commit times.
    """
    pairs = zip(table.lineage, table.lineage[1:], strict=False)
    return {old.id: new.at_ms for old, new in pairs} | {lost.id: lost.at_ms for lost in table.others}


def _remove_tags(tables: Sequence[Snapshots], dropped: Sequence[DropTags]) -> Iterator[Snapshots]:
    """Yields the tables without tags of views and cuts; snapshots of those not in `dropped` are added to `held`."""
    gone = {(step.table, tag) for step in dropped for tag in step.tags}
    for table in tables:
        tags = [*table.view_tags.items(), *table.cut_tags.items()]
        left = {snapshot_id for tag, snapshot_id in tags if (table.table, tag) not in gone}
        yield replace(table, held=table.held | left, view_tags={}, cut_tags={})


def cut_of(needs: Sequence[tuple[int, str]]) -> int:
    """Returns the smallest sequence number in `needs`, from which on snapshots are needed; 0 if `needs` is empty."""
    return min((sequence for sequence, _ in needs), default=0)


def list_expired_snapshots(table: Snapshots, cut: int, older_than_ms: int) -> tuple[int, ...]:
    """Lists the ids of snapshots that may expire: the oldest ones, up to the first that is needed or too young.

    Snapshots with a sequence number from `cut` on are needed; those with a commit time from `older_than_ms` on are too
    young. Old snapshots of failed attempts are included; snapshots that a tag or a branch holds are left out.
    """
    expirable = []
    for snapshot in table.lineage:
        if snapshot.sequence >= cut or snapshot.at_ms >= older_than_ms:
            break
        expirable.append(snapshot.id)
    expirable += [snapshot.id for snapshot in table.others if snapshot.at_ms < older_than_ms]
    return tuple(snapshot_id for snapshot_id in expirable if snapshot_id not in table.held)


def list_kept_snapshots(table: Snapshots, needs: Sequence[tuple[int, str]], cut: int) -> Iterator[RetainedSnapshot]:
    """Lists the snapshots that are kept, with reasons: the first needed one, and older ones with a tag or branch.

    `cut` is the smallest sequence number in `needs`, from which on snapshots are needed.
    """
    for sequence, reason in needs:
        if sequence == cut:
            cut_snapshot = next((snapshot.id for snapshot in table.lineage if snapshot.sequence >= cut), 0)
            yield RetainedSnapshot(table.table, cut_snapshot, reason)
    for snapshot in (*table.lineage, *table.others):
        if snapshot.id in table.held and snapshot.sequence < cut:
            yield RetainedSnapshot(table.table, snapshot.id, "a tag or a branch holds it", alone=True)


def _list_newest_need(table: Snapshots) -> Needs:
    if table.lineage:
        yield table.lineage[-1].sequence, "it is the newest"


def _list_consumer_versions(state: TableState, consumers: Mapping[str, Version]) -> dict[str, Version]:
    """Maps the reason to keep a version to this version, for the versions up to which consumers have read the table.

    Consumers that have read an earlier table of the same name, which was dropped since, are left out.
    """
    uuid = state.log.uuid if state.log else None
    return {f"{name} has read up to it": offset for name, offset in consumers.items() if offset.table == uuid}


def _list_last_versions(state: TableState, count: int | None) -> dict[str, Version]:
    """Maps the reason to keep the `count` newest versions to the oldest of them; empty if `count` is None."""
    runs = [commit.version for commit in run_commits(state.log)]
    return {f"it is one of the last {count} versions": runs[-count:][0]} if count and runs else {}


def _list_change_table_needs(state: TableState, wanted: Mapping[str, Version]) -> Needs:
    """Yields the sequence numbers of needed snapshots of the change table, except its newest, with the reasons.

    If a needed version has expired already, the snapshots after it are needed.
    """
    changes, base, view = state.changes, state.base, state.view
    if changes is None:
        return
    if changes.newest is not None:
        yield changes.newest.sequence, "it brought the newest rows"
    last = find_last_load(changes)
    yield (last.version.sequence if last else 0), "it says what the last run read"
    if base is not None:
        yield (base.merged.sequence if base.merged else 0), "the base is merged up to it"
    pinned = {view.merged, view.head} - {None} if view is not None else set()
    for commit in changes.commits:
        if commit.version.snapshot in pinned:
            yield commit.version.sequence, "the view reads from it"
    for reason, version in wanted.items():
        yield version.sequence, reason


def _list_keyless_needs(table: ChangeTableState | None, wanted: Mapping[str, Version]) -> Needs:
    """Yields the sequence numbers of snapshots of a table without a key that are needed besides its newest."""
    last = find_last_load(table)
    yield (last.version.sequence if last else 0), "it says which events the table has"
    for reason, version in wanted.items():
        yield version.sequence, reason


def _list_base_needs(state: TableState, base: Snapshots, wanted: Mapping[str, Version]) -> Needs:
    """Yields the sequence numbers of snapshots of the base that are needed besides its newest, with the reasons.

    They are those of the newest snapshot with a merged version, the snapshot that the view reads, and the snapshots
    with the rows of the `wanted` versions.
    """
    merged_snapshots = [(snapshot, snapshot.merged) for snapshot in base.lineage if snapshot.merged is not None]
    yield (merged_snapshots[-1][0].sequence if merged_snapshots else 0), "it says what the base is merged to"
    if state.view is not None:
        for snapshot in base.lineage:
            if snapshot.id == state.view.base_snapshot:
                yield snapshot.sequence, "the view reads it"
    for reason, version in wanted.items():
        rows = _find_newest_until(merged_snapshots, version)
        if rows is not None:
            yield rows.sequence, f"it has the rows of a version: {reason}"


def _list_aggregate_state_needs(state: TableState, totals: Snapshots) -> Needs:
    """Yields the sequence number of the snapshot of `totals` with the aggregate state of the model's newest version.

    A newer snapshot may exist, from a run whose commit to the change table failed.
    """
    for snapshot in totals.lineage:
        if snapshot.id == state.aggregate_state:
            yield snapshot.sequence, "it is the aggregate state of the newest version"


def _find_newest_until(
    merged_snapshots: Sequence[tuple[DatedSnapshot, Version]], offset: Version
) -> DatedSnapshot | None:
    until = (snapshot for snapshot, merged in reversed(merged_snapshots) if merged.sequence <= offset.sequence)
    return next(until, None)
