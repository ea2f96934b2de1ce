"""Finds a consistent cut of a source's tables: versions at which all tables have the events of the same transactions.

All commits of an ingested batch record the batch's position in the source, whichever table they are to. The progress of
the source records the position of the last batch that is committed to all tables. The newest commit of each table up to
that position belongs to the consistent cut.
"""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.positions import ParsePosition
from arctic_runtime.model.state import Commit


def find_version_at(commits: Iterable[Commit], position: str, parse: ParsePosition) -> Commit | None:
    """Returns the newest of a table's `commits` at which the table has no events after `position` of its source.

    `commits` are sorted, the oldest first, and `parse` parses positions of the source. Returns None if `position` is
    inside of a transaction or a snapshot, or if the commit has expired.
    """
    end = parse(position)
    if not end.is_transaction_end:
        return None
    newest, match = None, None
    for commit in commits:
        run = RunSummary.decode(commit.summary)
        newest = run.position or newest
        if newest is not None and parse(newest).is_within(end) and not run.position_events:
            match = commit
    return match
