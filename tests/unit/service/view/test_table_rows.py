"""Sample rows: values are texts, long ones are cut, and masked ones can't be read or guessed."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.table_details import build_table_rows

ORDERS = TableName("lake", "dwd", "orders")
PLAIN, MASK = Mask(b"k", {}), Mask(b"k", {"email": True}, ["hunter2"])


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
    shown = build_table_rows(ORDERS, [row], PLAIN, 100)
    assert shown.columns == tuple(row)
    assert shown.rows == (
        ("9007199254740993", "1.50", "2026-01-01T00:00:00+00:00", '["a", "\u00e4"]', "00ff", None, "true"),
    )


def test_long_values_are_cut() -> None:
    (row,) = build_table_rows(ORDERS, [{"note": "x" * 50}], PLAIN, 10).rows
    assert row == ("x" * 9 + "\u2026",)


def test_masked_values_are_hashes_that_tell_only_whether_they_are_equal() -> None:
    rows = [{"email": email} for email in ("a@x", "b@x", "a@x", None)]
    shown = build_table_rows(ORDERS, rows, MASK, 100)
    first, second, third, absent = (row[0] for row in shown.rows)
    assert first == third != second
    assert absent is None
    assert first is not None
    assert "a@x" not in first
    assert build_table_rows(ORDERS, rows, Mask(b"other", MASK.columns), 100).rows[0][0] != first
    assert shown.masked == ("email",)


def test_secrets_are_hidden_in_other_columns() -> None:
    (row,) = build_table_rows(ORDERS, [{"password": "p", "urls": ["https://me:hunter2@host"]}], MASK, 100).rows
    assert row[0] == MASK.hide_value("password", "p")
    assert row[1] is not None
    assert row[1].startswith('["https://me:masked:')
    assert "hunter2" not in row[1]


def test_a_table_without_rows_has_no_columns_to_show() -> None:
    assert build_table_rows(ORDERS, [], MASK, 100).columns == ()
