"""The rows of a source in a window of versions: if they can be read, and if change rows hold the rows before."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.columns import BEFORE, find_column
from arctic_runtime.model.properties import CHANGELOG, REPAIRED
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.thresholds import IncrementalThresholds


def check_window(state: SourceState, window: Window) -> None:
    """Raises NotMaintained if the changes of a source in `window` can't be determined, or are not reliable."""
    start = window.start
    if start is None:
        raise NotMaintained("SOURCE_UNKNOWN", f"{state.name} was not read by the last run")
    if start.table != window.end.table:
        raise NotMaintained("SOURCE_REPLACED", f"{state.name} was dropped and created again")
    if state.format_version < 2:
        raise NotMaintained("UNSUPPORTED", f"{state.name} is of format version 1, whose commits have no order")
    if state.kind != "changes":
        if start.snapshot not in state.snapshots:
            raise NotMaintained("UPSTREAM_EXPIRED", f"{state.name} no longer keeps the version that the last run read")
        return
    oldest = state.commits[0]
    if not state.keeps_version(start) and (oldest.parent is None or oldest.version.sequence < start.sequence):
        raise NotMaintained(
            "SOURCE_REPLACED", f"{state.name} no longer has the version that the last run read among its ancestors"
        )
    if not state.can_read_all_after(start):
        raise NotMaintained("UPSTREAM_EXPIRED", f"{state.name} no longer keeps all changes since the last run")
    if not _has_only_appends(state, window):
        raise NotMaintained("SOURCE_REPLACED", f"the change table of {state.name} was rewritten")
    if any(REPAIRED in commit.summary for commit in state.list_commits_between(window)):
        raise NotMaintained(
            "SOURCE_REPAIRED", f"{state.name} was repaired; rows that earlier runs read from it may be wrong"
        )


def has_before_images(state: SourceState, window: Window) -> bool:
    """Whether the change rows in `window` hold the rows before the changes; expired commits can't be checked."""
    has_before = find_column(state.columns, BEFORE) is not None and not has_key_only_rows(state, window)
    return has_before and has_looked_up_rows(state, window)


def has_key_only_rows(state: SourceState, window: Window) -> bool:
    """Whether `window` may have change rows from a time at which all columns of their table were key columns.

    Such change rows have no `_before`.
    """
    return (window.start.sequence if window.start else 0) < state.key_only_until


def has_looked_up_rows(state: SourceState, window: Window) -> bool:
    """Whether the actions of the change rows in `window` are exact: no run wrote them with `changelog: input`."""
    return not any(CHANGELOG in commit.summary for commit in state.list_commits_between(window))


def is_appended(state: SourceState, window: Window) -> bool:
    """Whether the commits of a table that is no arctic model only append rows in `window`.

    Otherwise its changes are determined by a comparison of its versions at the start and the end of the window.
    """
    return window.start is not None and state.keeps_version(window.start) and _has_only_appends(state, window)


def _has_only_appends(state: SourceState, window: Window) -> bool:
    return all(commit.operation in ("append", "replace") for commit in state.list_commits_between(window))


def check_changed_share(model: Model, state: SourceState, window: Window, limits: IncrementalThresholds) -> None:
    """Raises NotMaintained if so many rows of a source changed in `window` that a full computation costs less.

    Only models with `refresh: auto` are checked.
    """
    if model.config.refresh != "auto" or window.start is None:
        return
    if state.kind != "changes" and not is_appended(state, window):
        if state.rows > limits.compared_version_rows:
            raise NotMaintained(
                "COST",
                f"{state.name} was rewritten, and its {state.rows:,} rows are too many to compare",
            )
        return
    rows = state.count_rows_in(window)
    if rows > max(limits.always_incremental_rows, limits.changed_share * state.rows):
        raise NotMaintained("COST", f"{rows:,} of {state.rows:,} rows of {state.name} have changed, which is too many")
