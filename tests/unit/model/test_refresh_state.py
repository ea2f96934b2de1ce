"""The state of a refresh's sources is what Iceberg's draft of materialized views asks for, and stays with the rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, REFRESH_STATE, RUN
from arctic_runtime.model.refresh_state import encode_refresh_state
from arctic_runtime.model.run_summary import SCHEMA_ONLY, RunSummary, find_refresh_state
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version

NAME = {"type": "string", "minLength": 1}
SOURCE = {
    "name": NAME,
    "namespace": {"type": "array", "items": NAME, "minItems": 1},
    "catalog": NAME,
    "uuid": NAME,
}
TABLE = {
    "properties": {
        **SOURCE,
        "type": {"const": "table"},
        "snapshot-id": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        "ref": NAME,
    },
    "required": ["type", "name", "namespace", "uuid", "snapshot-id"],
}
VIEW = {
    "properties": {**SOURCE, "type": {"const": "view"}, "version-id": {"type": "integer"}},
    "required": ["type", "name", "namespace", "uuid", "version-id"],
}
DRAFT = {
    "properties": {
        "view-version-id": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        "refresh-start-timestamp-ms": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        "source-states": {
            "type": "array",
            "items": {"oneOf": [{"additionalProperties": False, **kind} for kind in (TABLE, VIEW)]},
        },
    },
    "required": ["view-version-id", "refresh-start-timestamp-ms", "source-states"],
    "additionalProperties": False,
}
"""The fields of a refresh state and of its sources in the draft of April 2026, as a JSON schema."""

EVENTS = TableName("lake", "default", "events")
EXAMPLE = {
    "view-version-id": 1,
    "refresh-start-timestamp-ms": 1573518435000,
    "source-states": [
        {
            "type": "table",
            "namespace": ["default"],
            "name": "events",
            "uuid": "d4a10b5c-1e8a-4b72-9d67-3f4a8c9e1b2d",
            "snapshot-id": 6148331192489823102,
        }
    ],
}
"""The example of the draft, in the catalog of its view."""

LEVELS = st.text("abc_é ", min_size=1).filter(str.strip)
SOURCES = st.dictionaries(
    st.builds(TableName, st.sampled_from(["lake", "sea"]), LEVELS, LEVELS),
    st.builds(Version, st.uuids().map(str), st.integers(0, 2**63 - 1), st.integers(0)),
)


def test_the_example_of_the_draft_is_valid_and_is_written_as_there() -> None:
    Draft202012Validator(DRAFT).validate(EXAMPLE)
    version = Version("d4a10b5c-1e8a-4b72-9d67-3f4a8c9e1b2d", 6148331192489823102, 7)
    written = json.loads(encode_refresh_state({EVENTS: version}, "lake", 1573518435000))
    assert written == {**EXAMPLE, "view-version-id": 0}


@given(SOURCES, st.integers(0, 2**53))
def test_every_refresh_state_has_the_fields_of_the_draft(sources: dict[TableName, Version], started_ms: int) -> None:
    text = encode_refresh_state(sources, "lake", started_ms)
    written = json.loads(text)
    Draft202012Validator(DRAFT).validate(written)
    assert "\n" not in text
    named = {
        TableName(state.get("catalog", "lake"), *state["namespace"], state["name"]): state["snapshot-id"]
        for state in written["source-states"]
    }
    assert named == {table: version.snapshot for table, version in sources.items()}


def commit(sequence: int, **summary: str) -> Commit:
    names = {"run": RUN, "mode": MODE, "state": REFRESH_STATE}
    entries = {names[name]: text for name, text in summary.items()}
    return Commit(Version("log", 10 * sequence, sequence), None, "append", 1, 1, entries, 0)


CHANGES = ChangeTableState(
    "log",
    (),
    (
        commit(2, run="a", mode="create", state="first"),
        commit(3),
        commit(4, run="b", mode=SCHEMA_ONLY),
        commit(5, run="c", mode="incremental", state="second"),
        commit(6, run="d", mode="full"),
    ),
    {},
)


@pytest.mark.parametrize(
    ("sequence", "state"), [(1, None), (2, "first"), (3, "first"), (4, "first"), (5, "second"), (6, None)]
)
def test_a_base_has_the_state_of_the_newest_run_whose_rows_it_contains(sequence: int, state: str | None) -> None:
    assert find_refresh_state(CHANGES, Version("log", 0, sequence)) == state
    assert find_refresh_state(None, Version("log", 0, sequence)) is None


def test_rows_that_are_restored_keep_the_state_of_their_sources() -> None:
    summary: Any = RunSummary(offsets={}, refresh_state="of then")
    assert summary.to_repeat("full", "RESTORED").refresh_state == "of then"
    assert summary.select_row_entries().refresh_state == "of then"
