"""Notes of models of other projects in the properties of a table that they read."""

from __future__ import annotations

import pytest

from arctic_runtime.model.foreign_readers import name_note, read_notes, select_waiting
from arctic_runtime.model.names import TableName

SALES = TableName("lake", "finance", "sales")


@pytest.mark.parametrize("table", [SALES, TableName("lake", "a.b", "c=d`e'f")])
def test_a_note_names_its_model_whatever_that_is_called(table: TableName) -> None:
    assert read_notes({name_note(table): "5", "arctic.kind": "changes"}) == {table: 5}


@pytest.mark.parametrize("broken", [{"arctic.reader.nobody": "5"}, {name_note(SALES): "yesterday"}])
def test_a_note_that_can_not_be_read_keeps_nothing_and_fails_nothing(broken: dict[str, str]) -> None:
    assert read_notes(broken) == {}


def test_expiry_waits_for_a_model_until_its_note_is_old() -> None:
    notes = {SALES: 10_000}
    assert select_waiting(notes, 10_000 + 59_999, seconds=60) == notes
    assert select_waiting(notes, 10_000 + 60_000, seconds=60) == {}
