"""Expressions over the stored and the arriving row: which columns they use, and how they read over two structs."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.merge_expressions import NEW, OLD, bind_rows, list_row_columns
from arctic_runtime.spark.engine.statement import write_expression

ROWS = {OLD: ("o", {"a": "a0", "b c": "a1", "tags": "a2"}), NEW: ("n", {"a": "n0", "op": "n1"})}


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("old.a + new.A", "`o`.`a0` + `n`.`n0`"),
        (
            "case when NEW.op = 'old.a' then old.`b c` else 0 end",
            "CASE WHEN `n`.`n1` = 'old.a' THEN `o`.`a1` ELSE 0 END",
        ),
        ("old.a.field", "`o`.`a0`.field"),
        ("transform(old.tags, t -> t + new.a)", "TRANSFORM(`o`.`a2`, t -> t + `n`.`n0`)"),
    ],
)
def test_columns_of_both_rows_are_read_from_two_structs(text: str, over: str) -> None:
    assert write_expression(bind_rows(text, ROWS)).replace("(", "").replace(")", "") == over.replace("(", "").replace(
        ")", ""
    )


def test_the_columns_of_a_row_are_named_once() -> None:
    assert list_row_columns("old.a + new.op + old.a", OLD) == ("a",)
    assert list_row_columns("old.a + new.op + old.a", NEW) == ("op",)


def test_a_column_that_a_row_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(ConfigError, match=r"uses `new.b`, and there is no such column.\n  expected: one of a, op"):
        bind_rows("old.a + new.b", ROWS)
