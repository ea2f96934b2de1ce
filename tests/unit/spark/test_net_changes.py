"""The SQL of net changes, in DuckDB: each key's row before a window and after it, whatever happened in between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import duckdb
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.columns import Column
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.window_changes import write_net_changes

CONNECTION = duckdb.connect(config={"threads": 1})
COLUMNS = (Column("k", "int"), Column("v", "string"))
NAMES = ("k", "v", "_action", "_ts", "_seq", "_before")

values = st.sampled_from(["a", "b"]) | st.none()
states = st.dictionaries(st.integers(0, 4), values, max_size=5)


def list_changes(old: dict[int, Any], new: dict[int, Any], commit: int, seq: int = 0) -> list[tuple[Any, ...]]:
    """The change rows from one state to the next: key, value, action, value before, commit and `_seq`."""
    rows = [(k, v, "insert", None, False, commit, seq) for k, v in new.items() if k not in old]
    rows += [(k, v, "update", old[k], True, commit, seq) for k, v in new.items() if k in old and old[k] != v]
    return rows + [(k, v, "delete", v, True, commit, seq) for k, v in old.items() if k not in new]


def compute_net(rows: list[tuple[Any, ...]], is_single: bool) -> dict[int, tuple[Any, Any]]:
    parts = list(zip(*rows, strict=True)) or [()] * 7
    CONNECTION.execute(
        """create or replace table changes as
           select k, v, _action, _seq, case when has then struct_pack(v := old) end as _before,
                  commit as _last_updated_sequence_number
           from (select unnest(?::integer[]) as k, unnest(?::varchar[]) as v, unnest(?::varchar[]) as _action,
                        unnest(?::varchar[]) as old, unnest(?::boolean[]) as has, unnest(?::bigint[]) as commit,
                        unnest(?::bigint[]) as _seq)""",
        [list(part) for part in parts],
    )
    sql = write_net_changes(quote_name("changes"), ["k"], NAMES, COLUMNS, COLUMNS, is_single)
    found = CONNECTION.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall()
    assert len({key for key, _, _ in found}) == len(found)
    return {key: (before, after) for key, before, after in found}


def expect_net(history: list[dict[int, Any]]) -> dict[int, tuple[Any, Any]]:
    first, last = history[0], history[-1]
    touched = {k for old, new in pairwise(history) for k in old.keys() | new.keys() if is_changed(old, new, k)}
    return {
        key: tuple({"k": key, "v": state[key]} if key in state else None for state in (first, last))  # type: ignore[misc]
        for key in touched
    }


def is_changed(old: dict[int, Any], new: dict[int, Any], key: int) -> bool:
    return (key in old) != (key in new) or old.get(key) != new.get(key)


@settings(max_examples=150, deadline=None)
@given(history=st.lists(states, min_size=1, max_size=5))
def test_many_commits_become_one_row_per_key(history: list[dict[int, Any]]) -> None:
    steps = enumerate(pairwise(history), 7)
    rows = [row for commit, (old, new) in steps for row in list_changes(old, new, commit)]
    assert compute_net(rows, is_single=False) == expect_net(history)


@settings(max_examples=100, deadline=None)
@given(history=st.lists(states, min_size=1, max_size=5))
def test_many_events_of_one_commit_are_ordered_by_seq(history: list[dict[int, Any]]) -> None:
    steps = enumerate(pairwise(history))
    rows = [row for seq, (old, new) in steps for row in list_changes(old, new, 7, seq)]
    assert compute_net(rows, is_single=False) == expect_net(history)


@settings(max_examples=50, deadline=None)
@given(old=states, new=states)
def test_rows_of_one_commit_need_no_group(old: dict[int, Any], new: dict[int, Any]) -> None:
    rows = list_changes(old, new, 7)
    assert compute_net(rows, is_single=True) == compute_net(rows, is_single=False) == expect_net([old, new])


def test_the_delete_of_a_row_that_was_not_there_changes_nothing() -> None:
    assert compute_net([(1, None, "delete", None, False, 7, 0)], is_single=True) == {1: (None, None)}
