"""What the state of an upstream says of rows that are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit, Removed, SourceState
from arctic_runtime.model.version import Version, Window


@pytest.mark.parametrize(
    ("trimmed", "forgotten", "is_compacted"), [(0, 0, False), (7, 0, True), (7, 7, False), (9, 7, True)]
)
def test_change_rows_are_gone_by_compaction_unless_forgetting_alone_took_them(
    trimmed: int, forgotten: int, is_compacted: bool
) -> None:
    name, version = TableName("lake", "dwd", "up"), Version("u", 1, 9)
    source = SourceState(name, "changes", version, (), (), 3, trimmed=trimmed, forgotten=forgotten)
    assert source.is_compacted is is_compacted


def commit(snapshot: int, sequence: int, **parts: Any) -> Commit:
    made = Commit(Version("u", snapshot, sequence), None, "append", rows=1, bytes=1, summary={}, at_ms=0)
    return replace(made, **parts)


def test_commits_of_format_version_1_are_told_apart_by_their_place_in_the_history() -> None:
    """They all have the sequence number 0."""
    commits = (commit(5, 0), commit(3, 0), commit(9, 0, operation="overwrite"), commit(7, 1))
    source = SourceState(TableName("lake", "dwd", "up"), "plain", commits[-1].version, commits, (), 2)
    for at, start in enumerate(commits):
        assert source.list_commits_between(Window("up", start.version, source.version)) == commits[at + 1 :]
    assert source.list_commits_between(Window("up", None, source.version)) == commits
    assert source.list_commits_between(Window("up", Version("u", 1, 0), source.version)) == commits[3:]
    assert source.list_commits_between(Window("up", commits[0].version, commits[2].version)) == commits[1:3]


def test_rows_of_format_version_1_may_have_been_added_before_or_after_any_of_its_commits() -> None:
    removal = commit(7, 2, operation="delete", removed=(Removed(0, 3), Removed(1, 4)))
    assert removal.count_removed_after(Version("u", 5, 0)) is None
    assert removal.count_removed_after(Version("u", 6, 1)) == 0
    assert replace(removal, removed=(Removed(1, 4),)).count_removed_after(Version("u", 5, 0)) == 4
