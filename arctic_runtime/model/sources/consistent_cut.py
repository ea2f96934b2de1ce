"""Versions of the tables of a source that show it at one place, with all of a transaction or nothing of it.

The commits of a batch have its position, whichever of its tables they are to, and the progress of the source has the
position of the last batch that all tables have. So the newest commit of a table up to that position is such a version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.state import Commit


def find_version_at(commits: Iterable[Commit], position: str) -> Commit | None:
    """The newest of a table's commits, oldest first, that has nothing after a position of its source.

    None if that is not known: the position is inside of a transaction or a snapshot, or older commits are gone.
    """
    if not _is_whole(position):
        return None
    newest, match = None, None
    for commit in commits:
        run = RunSummary.decode(commit.summary)
        newest = run.position or newest
        if newest is not None and _is_within(newest, position) and not run.position_events:
            match = commit
    return match


def _is_whole(position: str) -> bool:
    """Whether a position is at the end of a transaction, if its source has such."""
    match _read_json(position):
        case {"offset": {"snapshot": _}}:
            return False
        case {"offset": dict(), "seen": _}:
            return False
        case dict():
            return True
        case _:
            return False


def _is_within(position: str, other: str) -> bool:
    """Whether all events up to a position of a source are up to another one too. Rows of a snapshot come before all."""
    place, end = _parse_log_positions(_read_json(position)), _parse_log_positions(_read_json(other))
    if place is None or end is None:
        return False
    return place.keys() <= end.keys() and all(at <= end[log] for log, at in place.items())


def _parse_log_positions(position: Any) -> dict[Any, Any] | None:
    """Position in each log of a source, in values that can be compared; None if that is not known."""
    seen: dict[str, Any] = (position.get("seen") if isinstance(position, dict) else None) or {}
    match position:
        case {"offset": {"snapshot": _}}:
            return {}
        case {"offset": {"lsn": int(lsn)}}:
            return {"log": (int(position["offset"].get("lsn_commit") or lsn), int(seen.get("lsn") or 0))}
        case {"offset": {"file": str(file), "pos": int(place)}}:
            begin = (_parse_file_number(file), place, -1)
            return {"log": max(begin, (_parse_file_number(seen["file"]), seen["pos"], seen["row"])) if seen else begin}
        case {"batch": int(number)}:
            return {"files": number}
        case dict() if position and all(isinstance(log, dict) for log in position.values()):
            return {(topic, number): at for topic, log in position.items() for number, at in log.items()}
        case _:
            return None


def _parse_file_number(file: str) -> int:
    return int(file.rpartition(".")[2])


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
