"""Sample rows: values are texts, long ones are cut, and masked ones can't be read or guessed."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.table_rows import build_table_rows

ORDERS = TableName("lake", "dwd", "orders")


def test_values_become_texts_and_null_stays_null() -> None:
    row = {
        "id": 9007199254740993,
        "price": Decimal("1.50"),
        "at": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "tags": ["a", "\u00e4"],
        "raw": b"\x00\xff",
        "none": None,
        "is_new": True,
    }
    shown = build_table_rows(ORDERS, [row], (), b"k", 100)
    assert shown.columns == tuple(row)
    assert shown.rows == (
        ("9007199254740993", "1.50", "2026-01-01T00:00:00+00:00", '["a", "\u00e4"]', "00ff", None, "true"),
    )


def test_long_values_are_cut() -> None:
    (row,) = build_table_rows(ORDERS, [{"note": "x" * 50}], (), b"k", 10).rows
    assert row == ("x" * 9 + "\u2026",)


def test_masked_values_are_hashes_that_tell_only_whether_they_are_equal() -> None:
    rows = [{"email": email} for email in ("a@x", "b@x", "a@x", None)]
    shown = build_table_rows(ORDERS, rows, {"email"}, b"k", 100)
    first, second, third, absent = (row[0] for row in shown.rows)
    assert first == third != second
    assert absent is None
    assert first is not None
    assert "a@x" not in first
    assert build_table_rows(ORDERS, rows, {"email"}, b"other", 100).rows[0][0] != first
    assert shown.masked == ("email",)


def test_a_table_without_rows_has_no_columns_to_show() -> None:
    assert build_table_rows(ORDERS, [], {"email"}, b"k", 100).columns == ()
