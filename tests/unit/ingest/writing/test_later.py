"""Commits stand before a dead letter, in its batch or after it, as far as that is known."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.writing.later import Bounds, bounds, commit_kinds
from arctic_runtime.ingest.writing.letters import read_schema, schema_text, since_text
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
        (since_text(v(1)), "b", Bounds(1, 4, is_own=True, is_known=True)),
        (since_text(v(1)), "none of its commits", Bounds(1, 4, is_own=False, is_known=True)),
        (since_text(v(4)), "c", Bounds(4, 7, is_own=False, is_known=True)),
        (since_text(v(7)), "e", Bounds(7, None, is_own=False, is_known=True)),
        (since_text(None), "a", Bounds(-1, 1, is_own=True, is_known=True)),
        (since_text(Version("another", 10, 1)), "b", Bounds(-1, None, is_own=False, is_known=False)),
        (None, None, Bounds(-1, None, is_own=False, is_known=False)),
    ],
)
def test_the_first_commit_that_completes_a_batch_bounds_that_of_a_dead_letter(
    since: str | None, position: str | None, expected: Bounds
) -> None:
    assert bounds(TABLE, since, position) == expected


def test_commits_that_are_no_events_have_kinds_of_their_own() -> None:
    assert commit_kinds(TABLE) == {
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
    assert read_schema(schema_text(schema)) == schema
