"""Finds versions of a source's tables at which all of them have the same events: whole transactions or nothing.

All commits of a batch, to any of its tables, record the batch's position. The progress of the source records the
position of the last batch that all tables have. So the newest commit of a table up to that position is such a version.
"""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.positions import ParsePosition
from arctic_runtime.model.state import Commit


def find_version_at(commits: Iterable[Commit], position: str, parse: ParsePosition) -> Commit | None:
    """Returns the newest of a table's `commits` that contains no events after `position` of its source.

    `commits` are sorted, the oldest first, and `parse` parses positions of that source. Returns None if the version is
    not known: the position is inside of a transaction or a snapshot, or older commits have expired.
    """
    end = parse(position)
    if not end.is_whole:
        return None
    newest, match = None, None
    for commit in commits:
        run = RunSummary.decode(commit.summary)
        newest = run.position or newest
        if newest is not None and parse(newest).is_within(end) and not run.position_events:
            match = commit
    return match
