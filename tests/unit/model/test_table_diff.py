"""Masks of columns in differences: equal values have equal hashes, and no value is shown."""

from __future__ import annotations

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, TableDiff, ValueChange, mask_diff

TABLE = TableName("lake", "dwd", "m")
VALUES = st.text(min_size=12, max_size=20) | st.none()


@given(VALUES, VALUES, st.binary(min_size=16, max_size=16))
def test_masked_values_are_hashes(before: str | None, after: str | None, secret: bytes) -> None:
    rows = [{"ID": 1, "Name": value, "n": 5} for value in (before, after)]
    diff = TableDiff(
        TABLE,
        TABLE,
        {"added": 0, "removed": 0, "changed": 1},
        1,
        (ColumnDiff("Name", 1, (ValueChange(before, after, 1),)), ColumnDiff("n", 1, (ValueChange("1", "2", 1),))),
        examples=(
            RowExample("changed", {"Name": before}, rows[0], rows[1]),
            RowExample("added", {"ID": 1}, None, rows[1]),
        ),
    )
    masked = mask_diff(diff, ("name",), secret)
    (change,) = masked.columns[0].values
    assert (change.before == change.after) == (before == after)
    assert (change.before is None) == (before is None)
    for value in (before, after):
        if value is not None:
            assert json.dumps(value) not in json.dumps(asdict(masked), default=str)
    assert masked.columns[1] == diff.columns[1]
    first, second = masked.examples
    assert first.key["Name"] == (first.before or {})["Name"] == change.before
    assert (second.before, (second.after or {})["n"], second.key) == (None, 5, {"ID": 1})
    if before is not None:
        other = mask_diff(diff, ("name",), secret + b"x").columns[0].values[0].before
        assert other != change.before
    assert mask_diff(diff, (), secret) is diff
