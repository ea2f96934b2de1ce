"""Commits stand before a dead letter, in its batch or after it, as far as that is known."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.dead_letters.outcome import CommitWindow, find_commit_window, list_commit_kinds
from arctic_runtime.ingest.dead_letters.table import decode_schema, encode_schema, encode_version
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.model.properties import POSITION, POSITION_EVENTS, REASON
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version


def v(sequence: int) -> Version:
    return Version("log", sequence * 10, sequence)


def commit(sequence: int, position: str, events: int = 0, reason: str = "CHANGES") -> Commit:
    summary = {REASON: reason, POSITION: position} | ({POSITION_EVENTS: str(events)} if events else {})
    return Commit(v(sequence), None, "append", 1, 1, summary, 0)


TABLE = ChangeTableState(
    "log",
    (),
    (
        commit(1, "a", reason="FIRST_RUN"),
        commit(2, "a", events=5),
        commit(3, "a", reason="REPLAYED"),
        commit(4, "b"),
        commit(5, "b", reason="RESTORED"),
        commit(6, "c", reason="RESYNCED"),
        commit(7, "d"),
    ),
    {},
)


@pytest.mark.parametrize(
    ("since", "position", "expected"),
    [
        (encode_version(v(1)), "b", CommitWindow(1, 4, is_own=True, is_known=True)),
        (encode_version(v(1)), "none of its commits", CommitWindow(1, 4, is_own=False, is_known=True)),
        (encode_version(v(4)), "c", CommitWindow(4, 7, is_own=False, is_known=True)),
        (encode_version(v(7)), "e", CommitWindow(7, None, is_own=False, is_known=True)),
        (encode_version(None), "a", CommitWindow(-1, 1, is_own=True, is_known=True)),
        (encode_version(Version("another", 10, 1)), "b", CommitWindow(-1, None, is_own=False, is_known=False)),
        (None, None, CommitWindow(-1, None, is_own=False, is_known=False)),
    ],
)
def test_the_first_commit_that_completes_a_batch_bounds_that_of_a_dead_letter(
    since: str | None, position: str | None, expected: CommitWindow
) -> None:
    assert find_commit_window(TABLE, since, position) == expected


def test_commits_that_are_no_events_have_kinds_of_their_own() -> None:
    assert list_commit_kinds(TABLE) == {
        1: "events",
        2: "events",
        3: "replay",
        4: "events",
        6: "snapshot",
        7: "events",
    }


def test_a_schema_is_read_as_it_was_written() -> None:
    schema = SourceSchema(
        (SourceColumn("id", "bigint"), SourceColumn("kind", "string", "enum_index", labels=("a", "b"), padded_to=3)),
        ("id",),
    )
    assert decode_schema(encode_schema(schema)) == schema
