"""Plans the expiry of landing tables, to which other programs append change events.

Rows may be deleted if they are old and all models that read the table have read them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import Age, DeleteFiles, ExpireSnapshots, LandingPlan, LandingState, Snapshots
from arctic_runtime.model.table import Retention
from arctic_runtime.model.version import Version
from arctic_runtime.plan.maintenance.expiry import (
    compute_kept_from,
    cut_of,
    list_expired_snapshots,
    list_kept_snapshots,
)
from arctic_runtime.thresholds import ChangelogThresholds


def plan_landing_expiry(
    state: LandingState,
    retention: Retention,
    readers: Mapping[str, Version | None],
    now_ms: int,
    thresholds: ChangelogThresholds,
) -> LandingPlan:
    """Plans the files of a landing table to delete, and its snapshots to expire, at the time `now_ms`.

    `readers` maps the models that read the table to the version up to which they have read it, None if they have not
    read it yet. Only whole files are deleted; a file with rows of several commits counts as one of the newest of these
    commits. Raises ConfigError if the retention lets nothing expire.
    """
    seconds, versions = retention.changes_seconds, retention.age_seconds
    if seconds is None and versions is None:
        raise ConfigError(
            f"{state.table}: nothing can expire.",
            actual="no `retention`, or `retention: off`",
            fix="set `meta: {arctic: {retention: {changes: 7d}}}` for the table in the source's YAML",
        )
    read = {name: offset for name, offset in readers.items() if offset is not None and offset.table == state.uuid}
    delete, waits = (None, ()) if seconds is None else _plan_deletion(state, read, now_ms - 1000 * seconds)
    snapshots = state.snapshots
    needs = [(snapshots.lineage[-1].sequence, "it is the newest")] if snapshots.lineage else []
    needs += [(offset.sequence, f"{name} has read up to it") for name, offset in read.items()]
    cut = cut_of(needs)
    dated = _date_by_replacement(snapshots)
    kept_from_ms = compute_kept_from(retention, [snapshot.at_ms for snapshot in dated.lineage], now_ms)
    gone = list_expired_snapshots(dated, cut, kept_from_ms)
    return LandingPlan(
        state.table,
        delete,
        ExpireSnapshots(state.table, gone) if gone else None,
        tuple(list_kept_snapshots(snapshots, needs, cut)) if versions is not None else (),
        waits,
        tuple(_select_ages_to_keep(state, now_ms - 1000 * seconds, 1000 * seconds // thresholds.kept_ages))
        if seconds
        else (),
        tuple(name for name, offset in readers.items() if offset is None),
    )


def _date_by_replacement(snapshots: Snapshots) -> Snapshots:
    """Returns the snapshots with the time at which a newer snapshot replaced each in place of its commit time.

    The first run of a model reads the newest snapshot, however old it is, and the next run continues from there. With
    these times, the snapshot is kept for the whole retention after it was replaced, so a first run may take that long.
    """
    lineage = snapshots.lineage
    aged = (replace(old, at_ms=new.at_ms) for old, new in pairwise(lineage))
    return replace(snapshots, lineage=(*aged, *lineage[-1:]))


def _plan_deletion(
    state: LandingState, read: Mapping[str, Version], before_ms: int
) -> tuple[DeleteFiles | None, tuple[str, ...]]:
    """Plans to delete the files whose rows are older than `before_ms` and were read by all readers.

    `read` maps readers to the version up to which they have read. The step is None if there are no such files. The
    texts name the readers for which old rows are kept.
    """
    old = [age for age in _list_commit_ages(state) if age.at_ms < before_ms]
    if not old:
        return None, ()
    aged = [file for file in state.files if file.sequence <= old[-1].sequence]
    newest = max((file.sequence for file in aged), default=0)
    waits = tuple(f"{name} has not read them" for name, offset in read.items() if offset.sequence < newest)
    least = min((offset.sequence for offset in read.values()), default=newest)
    until = [age for age in old if age.sequence <= least]
    files = tuple(file for file in aged if until and file.sequence <= until[-1].sequence)
    return (DeleteFiles(state.table, files, until[-1]) if files else None), waits


def _list_commit_ages(state: LandingState) -> list[Age]:
    """Lists the sequence numbers and times of commits, oldest first, with those of expired commits that are stored."""
    ages = {age.sequence: age for age in state.ages}
    ages |= {snapshot.sequence: Age(snapshot.sequence, snapshot.at_ms) for snapshot in state.snapshots.lineage}
    return [ages[sequence] for sequence in sorted(ages)]


def _select_ages_to_keep(state: LandingState, before_ms: int, apart_ms: int) -> Iterator[Age]:
    """Selects the commit times to store in the table, because other programs may expire its snapshots.

    They are at least `apart_ms` apart, so that they are few. Of the commits before `before_ms`, only the newest is
    selected.
    """
    known = _list_commit_ages(state)
    old = [age for age in known if age.at_ms < before_ms]
    ages = old[-1:]
    yield from ages
    for age in known[len(old) :]:
        if not ages or age.at_ms - ages[-1].at_ms >= apart_ms:
            ages = [age]
            yield age


def describe_landing(plan: LandingPlan, verb: str) -> list[str]:
    """Describes the plan for users, as lines of text; `verb` is "to go" before its execution and "gone" afterwards."""
    lines = []
    if plan.delete is not None:
        rows = sum(file.rows for file in plan.delete.files)
        until = datetime.datetime.fromtimestamp(plan.delete.until.at_ms / 1000, datetime.timezone.utc)
        lines.append(
            f"{verb}: {rows:,} rows of {plan.table} that were appended up to {until:%Y-%m-%d %H:%M} UTC, in "
            f"{len(plan.delete.files):,} file(s)"
        )
    lines += [f"kept: rows of {plan.table} that are old enough to go: {reason}" for reason in plan.waits_for]
    if plan.expire is not None:
        lines.append(f"{verb}: {len(plan.expire.snapshots)} snapshot(s) of {plan.table}")
    for snapshot in plan.kept:
        newer = "" if snapshot.alone else " and newer"
        lines.append(f"kept: {snapshot.table}, snapshot {snapshot.snapshot}{newer}: {snapshot.reason}")
    lines += [
        f"note: {name} was not built yet; its first run reads the rows that are there then" for name in plan.unread
    ]
    return lines or ["nothing to do"]
