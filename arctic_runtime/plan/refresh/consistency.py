"""Whether the upstreams of a model agree on the versions of the tables from which their rows come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.model.properties import REPAIRED
from arctic_runtime.model.run_summary import RunSummary, is_run
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version

LoadState = Callable[[str, Version], SourceState | None]
"""Function that returns the state of a table, by its name, at the given version or a later one; None if it is unknown.
"""


@dataclass(frozen=True)
class VersionRange:
    """The versions of a table, from `first` to `last`, at which the rows of a model above it are the same."""

    first: Version
    last: Version


def find_newer_version(
    states: Iterable[SourceState], load: LoadState, pinned: Mapping[str, Version]
) -> tuple[str, str] | None:
    """Returns an upstream and a table whose rows it shows at a newer version than the one in `pinned`.

    Both are names. None if there is no such table: then a query over `states` and tables at their pinned versions reads
    no table at two versions, as far as the upstreams are not older. Upstreams whose rows were computed in full don't
    count, as such runs read newer versions than their invocation.
    """
    for upstream in states:
        for name, versions in trace_versions(upstream, load):
            pin = pinned.get(name)
            if pin is not None and pin.table == versions.first.table and pin.sequence < versions.first.sequence:
                return str(upstream.name), name
    return None


def find_mixed_versions(states: Iterable[SourceState], load: LoadState) -> str | None:
    """Returns the name of a table that a query over `states` would read at two versions with different rows, or None.

    The query reads a table directly or through the rows of other upstreams, which show a version of it.
    """
    common: dict[str, VersionRange] = {}
    for upstream in states:
        for name, versions in trace_versions(upstream, load):
            shared = _intersect(common.get(name, versions), versions)
            if shared is None:
                return name
            common[name] = shared
    return None


def trace_versions(upstream: SourceState, load: LoadState) -> Iterator[tuple[str, VersionRange]]:
    """Yields each table from which the rows of `upstream` come, itself first, with its versions that these rows show.

    A table may come several times. Runs whose commits have expired, and those that computed all rows, are not followed.
    """
    own = VersionRange(upstream.version, upstream.version)
    waiting: list[tuple[SourceState | None, str, VersionRange]] = [(upstream, str(upstream.name), own)]
    seen: set[tuple[str, VersionRange]] = set()
    while waiting:
        state, name, versions = waiting.pop()
        if (name, versions) in seen:
            continue
        seen.add((name, versions))
        yield name, versions
        state = state or load(name, versions.last)
        if state is not None and state.kind == "changes":
            waiting += [(None, above, read) for above, read in _list_versions_read(state, versions).items()]


def _list_versions_read(state: SourceState, shown: VersionRange) -> Mapping[str, VersionRange]:
    """Returns the versions of its own upstreams that a model read for its rows at the versions `shown`, by name."""
    commits = [commit for commit in state.commits if commit.version.table == shown.first.table]
    first = _find_run(commits, shown.first.sequence)
    if first is None or first.mode != "incremental" or not first.offsets:
        return {}
    last = _find_run(commits, _find_last_sequence(commits, shown.last.sequence)) or first
    offsets = last.offsets if last.mode == "incremental" and last.offsets else first.offsets
    return {name: VersionRange(version, offsets.get(name, version)) for name, version in first.offsets.items()}


def _find_run(commits: Iterable[Commit], sequence: int) -> RunSummary | None:
    """Returns the record of the newest run whose commit has at most this sequence number."""
    runs = [commit for commit in commits if is_run(commit) and commit.version.sequence <= sequence]
    return RunSummary.decode(runs[-1].summary) if runs else None


def _find_last_sequence(commits: Iterable[Commit], shown: int) -> int:
    """Returns the sequence number of the last commit whose rows are those at the sequence number `shown`."""
    last = shown
    for commit in commits:
        if commit.version.sequence > shown:
            if commit.rows or REPAIRED in commit.summary:
                break
            last = commit.version.sequence
    return last


def _intersect(one: VersionRange, other: VersionRange) -> VersionRange | None:
    """Returns the versions that two ranges have in common; None if there are none."""
    if one.first.table != other.first.table:
        return None
    first = max(one.first, other.first, key=lambda version: version.sequence)
    last = min(one.last, other.last, key=lambda version: version.sequence)
    return VersionRange(first, last) if first.sequence <= last.sequence else None
