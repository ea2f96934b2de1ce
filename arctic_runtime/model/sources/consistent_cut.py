"""Versions of the tables of a source that show it at one place, with all of a transaction or nothing of it.

The commits of a batch have its position, whichever of its tables they are to, and the progress of the source has the
position of the last batch that all tables have. So the newest commit of a table up to that position is such a version.
"""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.positions import ParsePosition
from arctic_runtime.model.state import Commit


def find_version_at(commits: Iterable[Commit], position: str, parse: ParsePosition) -> Commit | None:
    """The newest of a table's commits, oldest first, that has nothing after a position of its source.

    `parse` reads positions of that source. None if the version is not known: the position is inside of a transaction or
    a snapshot, or older commits are gone.
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
