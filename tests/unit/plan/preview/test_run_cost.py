"""Bytes and rows of a run, from the stored sizes of the tables that it reads and writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.ivm.algebra.tree import Image, Scan
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, RUN
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, SourceState, TableState
from arctic_runtime.model.table import Merge, Model, ModelConfig
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.preview.preview import RunCost
from arctic_runtime.plan.preview.run_cost import RunTables, classify_way, estimate_run_cost
from arctic_runtime.plan.preview.table_sizes import TableSizes, compute_row_bytes, compute_scan_bytes
from arctic_runtime.plan.refresh.cost import Estimate
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.thresholds import SHIPPED

TABLE, UP = TableName("lake", "dwd", "m"), TableName("lake", "ods", "up")
LARGE = 10_000_000


def v(number: int) -> Version:
    return Version("uuid", 100 + number, number)


def a_model(merge: Merge = "on_write") -> Model:
    return Model(TABLE, "select id, a from ods.up", ModelConfig(("id",), merge=merge))


def a_commit(number: int, rows: int, size: int, **summary: str) -> Commit:
    return Commit(v(number), None, "append", rows, size, summary, 0)


SOURCE = SourceState(
    UP,
    "changes",
    v(2),
    (a_commit(0, 1_000, 40_000), a_commit(1, 0, 0), a_commit(2, 100, 8_000)),
    (Column("id", "bigint"), Column("a", "int"), Column("b", "string")),
    3,
    rows=1_000,
    base=UP,
    bases=((7, v(2)),),
)
SIZES = TableSizes(
    FileSizes(1_000, 2, 20_000, {"id": 8_000, "a": 2_000, "b": 9_000}),
    FileSizes(
        1_100,
        3,
        48_000,
        {"id": 9_000, "a": 3_000, "b": 20_000, "_action": 1_000, "_before.a": 3_000, "_before.b": 11_000},
    ),
)
WINDOW = Window(str(UP), v(1), v(2))


def scan(*fields: str, image: Image = "new") -> Scan:
    return Scan(UP, tuple((f"{field}#", field) for field in fields), None, image)


def tables(base_rows: int = 1_000, *commits: Commit) -> RunTables:
    log = ChangeTableState("uuid", (), commits, {})
    base = BaseState("uuid", tuple(Column(name, "int") for name in "ia"), 1, None, base_rows, {})
    own = FileSizes(base_rows, 4, 20 * base_rows, {"id": 15 * base_rows, "a": 4 * base_rows})
    state = TableState(log, base)
    return RunTables(state, {str(UP): SOURCE}, {str(UP): SIZES}, TableSizes(own), [scan("id", "a")], images=2.0)


def cost(decision: Decision, of: RunTables, rows: float, merge: Merge = "on_write") -> RunCost:
    thresholds = replace(SHIPPED, preview=replace(SHIPPED.preview, run_bytes=0))
    return estimate_run_cost(a_model(merge), decision, of, rows, thresholds)


FULL = Decision("full", "QUERY_CHANGED", {str(UP): WINDOW}, ways=(Estimate("full", 2, 2_000, 5.0),))
SCANNED = 20_000 - 9_000
"""Bytes of the columns that the query reads."""


def test_a_scan_reads_its_columns_and_the_changes_of_its_window() -> None:
    assert compute_scan_bytes(scan("id", "a"), SIZES, SOURCE, WINDOW) == SCANNED
    share = (48_000 - 20_000 - 11_000) / 48_000
    assert compute_scan_bytes(scan("id", "a", image="delta"), SIZES, SOURCE, WINDOW) == pytest.approx(8_000 * share)
    both = compute_scan_bytes(scan("id", "a", image="either"), SIZES, SOURCE, WINDOW)
    assert both == pytest.approx(SCANNED + 8_000 * share)


def test_rows_that_are_not_merged_yet_are_read_too() -> None:
    behind = replace(SOURCE, bases=((7, v(1)),))
    read = compute_row_bytes(["id", "a", "b"], SIZES, behind)
    assert read == pytest.approx(20_000 + 8_000)
    assert compute_row_bytes(["id", "a", "b"], SIZES, replace(SOURCE, base=None, kind="table")) == 20_000


def test_a_run_without_work_costs_nothing() -> None:
    assert cost(Decision("unchanged", "NOTHING_NEW"), tables(), 5) == RunCost()


def test_a_full_run_reads_its_sources_and_the_rows_that_it_compares_with() -> None:
    assert cost(FULL, tables(), 0) == RunCost(SCANNED + 20_000, 0.0, 2_000, 0, 5.0)


def test_any_run_reads_metadata_besides_data() -> None:
    own = estimate_run_cost(a_model(), FULL, tables(), 0, SHIPPED)
    assert own.bytes_read == cost(FULL, tables(), 0).bytes_read + SHIPPED.preview.run_bytes


def test_change_rows_are_as_long_as_those_of_runs_after_the_first_one() -> None:
    first, later = a_commit(1, 1_000, 9_000, **{RUN: "a", MODE: "create"}), a_commit(2, 10, 700, **{RUN: "b"})
    assert tables(1_000, first).change_row_bytes == 2 * 20
    assert tables(1_000, first, later).change_row_bytes == 70


def test_a_small_table_is_written_anew_and_a_large_one_gets_the_changed_rows() -> None:
    small, large = cost(FULL, tables(), 10), cost(FULL, tables(LARGE), 10)
    assert small.bytes_written == 10 * 40 + 20_000
    assert large.bytes_written == 10 * 40 + 10 * 20
    share = 1 - (3 / 4) ** 10
    assert large.bytes_read == pytest.approx(SCANNED + 20 * LARGE + 2 * 10 * 40 + 16 * LARGE * share)


def test_few_changed_rows_take_half_of_their_change_rows_and_many_as_much_as_other_rows() -> None:
    of = replace(tables(LARGE), images=6.0)
    assert cost(FULL, of, 10).bytes_written == 10 * (6 * 20 + 60)
    assert cost(FULL, of, LARGE).bytes_written == LARGE * (6 * 20 + 20)


def test_a_table_that_is_merged_on_read_is_merged_once_many_rows_have_changed() -> None:
    few = cost(FULL, tables(LARGE), 10, "on_read")
    assert (few.bytes_written, few.bytes_read) == (10 * 40, SCANNED + 20 * LARGE)
    many = cost(FULL, tables(LARGE), LARGE / 2, "on_read")
    assert many.bytes_written == LARGE / 2 * (40 + 20)


def test_a_first_run_writes_its_rows_twice() -> None:
    new = replace(tables(), state=TableState(), own=TableSizes(), new_row_bytes=12.0)
    first = cost(replace(FULL, mode="create", reason="FIRST_RUN"), new, 1_000)
    assert (first.bytes_written, first.bytes_read) == (2 * 12_000, SCANNED + 12_000)


def test_a_query_that_is_not_analysed_reads_all_columns() -> None:
    assert cost(FULL, replace(tables(), scans=None), 0).bytes_read == 20_000 + 20_000
    events = Decision("full", "QUERY_CHANGED", {str(UP): Window(str(UP), None, v(2))})
    assert cost(events, replace(tables(), scans=None), 0).bytes_read == 48_000 + 20_000


def test_a_run_from_the_own_result_reads_that_alone() -> None:
    own = Decision("incremental", "EDITED")  # type: ignore[arg-type]
    assert classify_way(own) == "own result"
    assert cost(own, tables(), 0) == RunCost(20_000, 0.0, 1_000, 0, 0.0)
