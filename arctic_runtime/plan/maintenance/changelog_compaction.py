"""Plans changelog compaction, the deletion of old change rows.

A change row may be deleted if a newer change row of the same key has replaced it, and all readers have read both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from arctic_runtime.model.files.expiry import Age, CompactChangelog, read_ages, read_trimmed_age
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import ChangelogThresholds


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
