"""Differences of tables: what people read, and limits that a pipeline sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import (
    ColumnDiff,
    DiffCost,
    RowExample,
    TableDiff,
    ValueChange,
    read_diff_limits,
)
from arctic_runtime.operations.differences import describe_as_markdown, describe_diff, describe_diffs

SAME = TableDiff(
    TableName("lake", "dev", "orders"),
    TableName("lake", "prod", "orders"),
    {"added": 0, "removed": 0, "changed": 0},
    other_rows=2000,
)
OTHER = replace(
    SAME,
    counts={"added": 1, "removed": 2, "changed": 1200},
    columns=(ColumnDiff("amount", 1200, (ValueChange("1", "2", 1100), ValueChange(None, "a" * 50, 100))),),
    added_columns=(Column("more", "string"),),
    removed_columns=(Column("old|one", "int"),),
    retyped_columns=(("n", "int", "bigint"),),
    examples=(
        RowExample("added", {"id": 7}, None, {"id": 7, "amount": 1, "more": "x"}),
        RowExample("removed", {"id": 8}, {"id": 8, "amount": 1, "old|one": None}, None),
        RowExample("changed", {"id": 9}, {"id": 9, "amount": 1, "n": 1}, {"id": 9, "amount": 2, "n": 1}),
    ),
)


def test_a_difference_is_described_with_values_and_examples() -> None:
    assert list(describe_diffs([SAME, SAME], 40)) == ["no differences: lake.dev.orders, lake.dev.orders"]
    assert list(describe_diff(OTHER, 40)) == [
        "lake.dev.orders beside lake.prod.orders",
        "  rows: 1 added, 2 removed, 1,200 changed, of 2,000",
        "  column added: more (string)",
        "  column removed: old|one (int)",
        "  column n: int became bigint",
        f"  amount: 1,200 changed, most often 1 → 2 (1,100); null → {'a' * 39}… (100)",
        "  added: id=7; amount=1; more=x",
        "  removed: id=8; amount=1; old|one=null",
        "  changed: id=9; amount: 1 → 2",
    ]


def test_versions_and_the_cost_are_described() -> None:
    of_versions = replace(OTHER, other_rows=None, versions=("1", "good"), cost=DiffCost(1.25, 2300, 4500))
    lines = list(describe_diff(of_versions, 40))
    assert lines[:2] == ["lake.dev.orders from 1 to good", "  rows: 1 added, 2 removed, 1,200 changed"]
    assert lines[-1] == "  compared in 1.2 s, files of 2,300 rows and 4,500 bytes, all rows"
    without = replace(of_versions, cost=DiffCost(0.5), reads_changes=True)
    assert list(describe_diff(without, 40))[-1] == "  compared in 0.5 s, change rows"


def test_markdown_shows_each_text_as_it_is() -> None:
    lines = list(describe_as_markdown([SAME, OTHER], 40))
    assert lines[-2:] == ["", "No differences: orders"]
    assert list(describe_as_markdown([SAME], 40)) == ["No differences: orders"]
    assert lines[2] == "| orders | 1 | 2 | 1,200 | +more, -old\\|one, n: int → bigint, amount (1,200) |"
    assert lines[3:6] == ["", "**orders**", ""]
    assert "- removed: id=8; amount=1; old\\|one=null" in lines
    hostile = RowExample("added", {"id": "<b>`x`"}, None, {"id": "<b>`x`"})
    assert list(describe_as_markdown([replace(OTHER, examples=(hostile,))], 40))[-1] == "- added: id=&lt;b&gt;\\`x\\`"


@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ("removed>0", True),
        ("removed>2", False),
        ("removed>1.5", True),
        ("changed>60%", False),
        ("changed>59.9%", True),
        ("removed > 2, added>0", True),
        ("removed>2,added>1,changed>1200", False),
    ],
)
def test_limits_are_numbers_or_percentages_of_rows(limits: str, exceeded: bool) -> None:
    found = read_diff_limits("fail_on", limits)
    assert any(limit.is_exceeded(OTHER) for limit in found) == exceeded
    assert not any(limit.is_exceeded(SAME) for limit in found)
    assert ",".join(map(str, found)) == limits.replace(" ", "")


def test_any_row_is_too_much_for_a_percentage_of_nothing() -> None:
    (limit,) = read_diff_limits("fail_on", "added>100%")
    assert limit.is_exceeded(replace(OTHER, other_rows=0))
    assert not limit.is_exceeded(replace(SAME, other_rows=0))


@pytest.mark.parametrize("limits", ["", "removed", "removed<1", "moved>1", "removed>x", "removed>1,", "removed>-1"])
def test_other_limits_are_refused(limits: str) -> None:
    with pytest.raises(ConfigError, match="fail_on"):
        read_diff_limits("fail_on", limits)
