"""Which change rows may go: old ones that a newer row of their key has replaced, once all who read have read both."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from arctic_runtime.model.expiry import Age, CompactChangelog, read_ages, trimmed_until
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import ChangelogThresholds


def trim(
    model: Model, state: TableState, wanted: Mapping[str, Version], now_ms: int
) -> tuple[CompactChangelog | None, tuple[str, ...]]:
    """Up to where change rows are old and read by all, and who has yet to read some that are old enough.

    `wanted` says what for a version of the table is kept.
    """
    changes, seconds = state.changes, model.config.retention.changes_seconds
    if changes is None or changes.head is None or seconds is None:
        return None, ()
    done = _done(changes)
    old = [age for age in _known(changes) if age.at_ms < now_ms - 1000 * seconds and age.sequence > done.sequence]
    if not old:
        return None, ()
    needs = dict(_needs(state, wanted))
    read = [age for age in old if age.sequence <= min(needs.values())]
    waits = tuple(reason for reason, sequence in needs.items() if sequence < old[-1].sequence)
    return (CompactChangelog(model.table.changes, changes.head.snapshot, read[-1]) if read else None), waits


def is_due(model: Model, changes: ChangeTableState, found: CompactChangelog, thresholds: ChangelogThresholds) -> bool:
    """Whether a run should do it by itself."""
    seconds = model.config.retention.changes_seconds or 0
    return found.until.at_ms - _done(changes).at_ms >= 1000 * seconds // thresholds.compactions


def kept_ages(
    model: Model, state: TableState, gone: Collection[int], thresholds: ChangelogThresholds
) -> tuple[Age, ...]:
    """The ages that are to be known when the snapshots `gone` are: few, and none of what was trimmed."""
    changes, seconds = state.changes, model.config.retention.changes_seconds
    if changes is None or seconds is None:
        return ()
    done = _done(changes).sequence
    here = {commit.version.sequence for commit in changes.commits if commit.version.snapshot not in gone}
    apart_ms = 1000 * seconds // thresholds.kept_ages
    kept: list[Age] = []
    for age in _known(changes):
        is_apart = not kept or age.at_ms - kept[-1].at_ms >= apart_ms
        if age.sequence > done and age.sequence not in here and is_apart:
            kept.append(age)
    return tuple(kept)


def _done(changes: ChangeTableState) -> Age:
    """Up to where it was done. The property says so before it is, so it stands only where no commit can say."""
    texts = [text for commit in changes.commits if (text := commit.summary.get(COMPACTED_UNTIL))]
    if texts:
        return read_ages(texts[-1])[0]
    return Age(0, 0) if changes.begins else trimmed_until(changes.properties)


def _known(changes: ChangeTableState) -> list[Age]:
    """When commits that brought rows were made, oldest first, as far as that is known."""
    ages = {age.sequence: age for age in read_ages(changes.properties.get(COMMIT_TIMES))}
    ages |= {of.version.sequence: Age(of.version.sequence, of.at_ms) for of in changes.commits if of.rows}
    return [ages[sequence] for sequence in sorted(ages)]


def _needs(state: TableState, wanted: Mapping[str, Version]) -> Iterator[tuple[str, int]]:
    merged = state.base.merged if state.base else None
    yield "the base is merged up to it", merged.sequence if merged else 0
    for reason, version in wanted.items():
        yield reason, version.sequence
