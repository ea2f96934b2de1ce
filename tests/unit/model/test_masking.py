"""Masked values: a canary never shows, equal values look equal, and nobody without the key can try values."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.columns import Column
from arctic_runtime.model.masking import Mask, combine_masks
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import ColumnDiff, RowExample, TableDiff, ValueChange
from arctic_runtime.operations.differences import describe_as_markdown, describe_diffs, to_json

CANARY = "canary-4711"
MASK = Mask(b"k" * 32, {"email": True, "api_token": False}, ["hunter2"])

texts = st.text(max_size=8).map(lambda text: f"{text}{CANARY}{text}")
leaves = texts | texts.map(str.encode)
nested = st.recursive(
    leaves | st.none() | st.integers(),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(texts, part, max_size=2),
)


def show(diff: TableDiff) -> str:
    lines = [*describe_diffs([diff], 40), *describe_as_markdown([diff], 40)]
    return "\n".join([*lines, json.dumps(to_json(diff), default=str), repr(asdict(diff))])


@given(value=nested)
def test_a_masked_value_is_in_no_output(value: Any) -> None:
    row = {"Email": value, "n": 1}
    diff = TableDiff(
        TableName("lake", "dev", "m"),
        TableName("lake", "prod", "m"),
        {"added": 1, "removed": 1, "changed": 1},
        3,
        (ColumnDiff("Email", 1, (ValueChange(str(value), None, 1), ValueChange(None, str(value), 1))),),
        removed_columns=(Column("password", "string"),),
        examples=(
            RowExample("added", {"Email": value}, None, row),
            RowExample("removed", {"Email": value}, {**row, "password": value}, None),
            RowExample("changed", {"Email": value}, {**row, "old": f"login hunter2 {1}"}, row),
        ),
        column_names=("Email", "n"),
    )
    masked = diff.mask_values(MASK)
    shown = show(masked)
    assert CANARY not in shown
    assert CANARY.encode().hex() not in shown
    assert "hunter2" not in shown
    assert masked.masked_columns == ("Email", "password")
    assert masked.counts == diff.counts


@pytest.mark.parametrize(
    "value", ["text", 12, Decimal("1.50"), 1.5, True, datetime.date(2026, 1, 2), b"\x00\x01", [1, 2], {"a": None}]
)
def test_a_hash_depends_on_key_column_and_value(value: Any) -> None:
    shown = MASK.hide_value("email", value)
    assert shown.startswith("masked:")
    assert shown == MASK.hide_value("EMAIL", value)
    others = [
        Mask(b"l" * 32, MASK.columns).hide_value("email", value),
        Mask(MASK.key, {"phone": True}).hide_value("phone", value),
        MASK.hide_value("email", f"{value}!"),
        f"masked:{hashlib.sha256(str(value).encode()).hexdigest()[:12]}",
    ]
    assert shown not in others


def test_nulls_and_other_columns_are_shown() -> None:
    assert MASK.hide_value("email", None) is None
    assert MASK.hide_value("n", 7) == 7
    assert MASK.hide_row(None) is None
    assert MASK.hide_value("api_token", "x") == "x"


@pytest.mark.parametrize("column", ["password", "user_passwd", "API_KEY", "client_secret", "accesstoken"])
def test_a_column_whose_name_says_secret_is_masked(column: str) -> None:
    assert Mask(b"k", {}).hides_column(column)
    assert not Mask(b"k", {column.lower(): False}).hides_column(column)
    assert not Mask(b"k", {"*": False}).hides_column(column)


@pytest.mark.parametrize("column", ["key", "order_key", "id", "amount", "passenger_id"])
def test_an_ordinary_column_is_not_masked(column: str) -> None:
    assert not Mask(b"k", {}).hides_column(column)
    assert Mask(b"k", {"*": True}).hides_column(column)


def test_a_mask_of_either_table_counts() -> None:
    assert combine_masks({"a": False, "b": True}, {"a": True}) == {"a": True, "b": True}
    assert combine_masks({"a": False}, {"*": True}) == {"a": True, "*": True}
    assert combine_masks({}, {}) == {}


def test_neither_key_nor_secrets_are_in_the_text_of_a_mask() -> None:
    assert "kkkk" not in repr(MASK)
    assert "hunter2" not in repr(MASK)
