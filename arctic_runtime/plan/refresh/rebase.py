"""Plans a rebase: a run keeps its computed change rows although other runs of the model have committed meanwhile.

A change row of a key depends only on the stored row and the events of this key. So the change rows of a key are still
correct if the other runs have read no event of the key; those of other keys are computed again. The offsets in the
commits of the other runs determine the events that these have read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.ivm.frontend.reads import keeps_events_apart
from arctic_runtime.model.run_summary import RunSummary, find_last_run, get_offsets, is_run
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.decide import Decision


@dataclass(frozen=True)
class Rebase:
    """Division of a run's windows, by source, after other runs have committed.

    `theirs` are the windows that the other runs have read since this run observed the table. `left` are the remaining
    windows, whose events this run still has to apply.
    """

    theirs: Mapping[str, Window]
    left: Mapping[str, Window]

    @property
    def offsets(self) -> dict[str, Version]:
        """Versions up to which all runs together will have read each source, after this run."""
        return {upstream: window.end for upstream, window in self.left.items()}

    @property
    def is_needed(self) -> bool:
        """Whether there are events that this run still has to apply."""
        return any(not window.is_empty for window in self.left.values())


def plan_rebase(
    model: Model, planned: ChangeTableState, now: ChangeTableState | None, decision: Decision, summary: RunSummary
) -> Rebase | None:
    """Plans how a run continues after other runs have changed the table from the state `planned` to `now`.

    The change rows of this run, with the record `summary`, were computed for the state `planned`. Returns None if the
    run has to start again, which is so in these cases: change rows of a key depend on events of other keys; the model
    has `frozen_where`; the table or its columns were replaced; a commit in between is not an incremental run of the
    same query; the events that the other runs have read are not known; or there are no events left to apply.
    """
    if now is None or not _is_by_key(model) or decision.mode != "incremental":
        return None
    before, after = find_last_run(planned), find_last_run(now)
    if before is None or after is None or now.columns != planned.columns or now.uuid != planned.uuid:
        return None
    between = _list_commits_between(planned, now)
    if not between or not all(_has_applied_events(commit, summary) for commit in between):
        return None
    windows = {
        upstream: _split_window(window, get_offsets(before), get_offsets(after))
        for upstream, window in decision.windows.items()
    }
    theirs = {upstream: parts[0] for upstream, parts in windows.items() if parts is not None}
    left = {upstream: parts[1] for upstream, parts in windows.items() if parts is not None}
    plan = Rebase(theirs, left)
    return plan if len(left) == len(windows) and plan.is_needed else None


def _is_by_key(model: Model) -> bool:
    config = model.config
    is_rows = config.input == "changes" and not config.has_history and not model.is_appended
    is_counted = config.frozen_where is not None  # A change that is not applied would count in both attempts.
    return is_rows and config.truncate_when is None and not is_counted and keeps_events_apart(model.sql)


def _list_commits_between(planned: ChangeTableState, now: ChangeTableState) -> tuple[Commit, ...]:
    """Lists the commits of `now` after the newest one of `planned`, oldest first; none if `now` lacks that commit."""
    assert planned.head is not None
    places = [place for place, commit in enumerate(now.commits) if commit.version == planned.head]
    return now.commits[places[0] + 1 :] if places else ()


def _has_applied_events(commit: Commit, summary: RunSummary) -> bool:
    if not is_run(commit) or commit.operation != "append":
        return False
    run = RunSummary.decode(commit.summary)
    return run.mode == "incremental" and run.query == summary.query


def _split_window(
    window: Window, before: Mapping[str, Version], after: Mapping[str, Version]
) -> tuple[Window, Window] | None:
    """Splits `window` of a source into the part that other runs have read and the rest; None if these are not known.

    `before` and `after` are the offsets of the table before and after the other runs. If these have read beyond the
    window, the rest is empty.
    """
    start, end = before.get(window.upstream), after.get(window.upstream)
    if start is None or end is None or window.start != start or len({start.table, end.table, window.end.table}) > 1:
        return None
    last = max(end, window.end, key=lambda version: version.sequence)
    return Window(window.upstream, start, end), Window(window.upstream, end, last)
