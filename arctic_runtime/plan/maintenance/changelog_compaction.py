"""Choice of the change rows that may go.

These are old ones that a newer row of their key has replaced, once all who read have read both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from arctic_runtime.model.files.expiry import Age, CompactChangelog, read_ages, read_trimmed_age
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import ChangelogThresholds


def plan_changelog_trim(
    model: Model, state: TableState, wanted: Mapping[str, Version], now_ms: int
) -> tuple[CompactChangelog | None, tuple[str, ...]]:
    """Up to where change rows are old and read by all, and who has yet to read some that are old enough.

    `wanted` says what for a version of the table is kept.
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
    """Whether a run should do it by itself."""
    seconds = model.config.retention.changes_seconds or 0
    return plan.until.at_ms - _read_trimmed_age(changes).at_ms >= 1000 * seconds // thresholds.compactions


def select_ages_to_keep(
    model: Model, state: TableState, gone: Collection[int], thresholds: ChangelogThresholds
) -> tuple[Age, ...]:
    """The ages that are to be known when the snapshots `gone` are: few, and none of what was trimmed."""
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
    """Up to where it was done. The property says so before it is, so it stands only where no commit can say."""
    texts = [text for commit in changes.commits if (text := commit.summary.get(COMPACTED_UNTIL))]
    if texts:
        return read_ages(texts[-1])[0]
    return Age(0, 0) if changes.begins else read_trimmed_age(changes.properties)


def _list_commit_ages(changes: ChangeTableState) -> list[Age]:
    """Times of the commits that added rows, oldest first, as far as they are known."""
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
