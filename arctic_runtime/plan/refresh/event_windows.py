"""Plans the window of versions that a model of change events reads of a source, and checks that it can be read."""

from __future__ import annotations

from arctic_runtime.errors import SourceError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.increment import Upstreams


def plan_event_window(model: Model, name: TableName, upstreams: Upstreams, start: Version | None) -> Window:
    """Plans the window after `start`, None for all events, up to the newest version of the source `name`.

    Raises SourceError if there is no such source, or if rows after `start` can't be determined.
    """
    source = upstreams.states.get(str(name))
    if source is None:
        raise SourceError(
            f"{model.table}: the changes of {name} can't be read.",
            expected="an Iceberg table with at least one snapshot",
            actual="none",
            fix="write to the table first, or correct the name in changes(…)",
        )
    if start is not None:
        _check_continues(model, name, source, start)
    return Window(str(name), start, source.version)


def _check_continues(model: Model, name: TableName, source: SourceState, start: Version) -> None:
    refresh = f"run `dbt run --full-refresh` for {model.table.name} to compare with everything that is there now"
    if source.version.table != start.table:
        raise SourceError(
            f"{model.table}: upstream {name} was dropped and created again since the last run.",
            expected=f"table {start.table}",
            actual=f"table {source.version.table}",
            fix=refresh,
        )
    snapshots = [commit.version.snapshot for commit in source.commits]
    is_kept = start.snapshot in snapshots
    if not is_kept and source.commits[0].version.sequence < start.sequence:
        raise SourceError(
            f"{model.table}: upstream {name} was rolled back to a version before the one that the last run read.",
            expected=f"snapshot {start.snapshot}, or a descendant of it",
            actual=f"snapshot {source.version.snapshot}, which is not a descendant",
            fix=refresh,
        )
    if not is_kept and source.commits[0].parent is None:
        raise SourceError(
            f"{model.table}: upstream {name} was replaced since the last run.",
            expected=f"snapshot {start.snapshot} among the ancestors of its current snapshot",
            actual=f"a new history that begins with snapshot {source.commits[0].version.snapshot}",
            fix=f"{refresh}; or read it with `input: state`",
        )
    new = source.commits[snapshots.index(start.snapshot) + 1 :] if is_kept else source.commits
    rewritten = next((commit for commit in new if not _keeps_new_rows(commit, start)), None)
    if rewritten is not None:
        raise SourceError(
            f"{model.table}: upstream {name} had commits other than appends since the last run.",
            expected="only appends, and deletions of rows that were read",
            actual=_describe_rewritten(rewritten, start),
            fix=f"{refresh}; or read it with `input: state`",
        )
    if source.format_version < 3 and not is_kept:
        raise SourceError(
            f"{model.table}: upstream {name} no longer keeps the snapshot that the last run read (UPSTREAM_EXPIRED).",
            expected=f"snapshot {start.snapshot}",
            actual=f"snapshot {source.commits[0].version.snapshot} as the oldest",
            fix=f"{refresh}; keep its snapshots longer, or upgrade it to format version 3",
        )
    if not source.can_read_all_after(start) and source.kind != "changes":
        raise SourceError(
            f"{model.table}: upstream {name} no longer keeps all rows since the last run (UPSTREAM_EXPIRED).",
            expected=f"rows after sequence number {start.sequence}",
            actual=f"those up to sequence number {source.trimmed} may have been deleted by `arctic expire`",
            fix=f"{refresh}; expire the table where all models that read it are known",
        )
    if not source.can_read_all_after(start):
        raise SourceError(
            f"{model.table}: upstream {name} no longer keeps all changes since the last run (UPSTREAM_EXPIRED).",
            expected=f"change rows after sequence number {start.sequence}",
            actual=f"up to sequence number {source.trimmed}, only the newest change row of each key",
            fix=f"{refresh}; set `retention: changes` of {name} to more than the time between runs",
        )


def _keeps_new_rows(commit: Commit, start: Version) -> bool:
    """Whether `commit` certainly leaves all rows unchanged that were added after the version `start`."""
    if commit.operation == "delete":
        return commit.count_removed_after(start) == 0
    return commit.operation in ("append", "replace")


def _describe_rewritten(commit: Commit, start: Version) -> str:
    lost = commit.count_removed_after(start)
    what = f"{commit.operation} in snapshot {commit.version.snapshot}"
    if lost is not None:
        return f"{what}, which took away {lost} row(s) that were not read yet"
    return f"{what}, which may have changed or taken away rows that were not read yet"
