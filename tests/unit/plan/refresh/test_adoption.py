"""Adoption: which tables a model can take over, and what a run makes of one that was taken over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.baseline import Baseline, PlainTable
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE, MODE, REASON, RUN
from arctic_runtime.model.state import ChangeTableState, Commit, ConflictingRelation, TableState
from arctic_runtime.model.step import AdoptBase
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.adoption import check_adoptable, check_baseline, is_being_adopted
from arctic_runtime.plan.refresh.reconcile import plan_reconciliation
from arctic_runtime.thresholds import SHIPPED

TABLE = TableName("lake", "dwd", "orders")
MODEL = Model(TABLE, "select 1 as id", ModelConfig(("id",), hash_key="id"))
COLUMNS = (Column("id", "int"), Column("v", "int"))
PLAIN = PlainTable(TABLE, 7, 1000, 3, 300, COLUMNS, 2, 0, False, {})
BESIDE = ConflictingRelation(TABLE, "table", is_plain=True)
BASE = Baseline(TABLE, 7)


def a_log(baseline: Baseline | None = BASE) -> ChangeTableState:
    version = Version("uuid", 1, 1)
    commit = Commit(version, None, "append", 0, 0, {RUN: "t", MODE: "full", REASON: "ADOPTED"}, 0)
    properties = {BASELINE: baseline.encode()} if baseline else {}
    return ChangeTableState("uuid", COLUMNS, (commit,), properties)


def test_a_plain_table_with_the_key_is_adopted() -> None:
    assert check_adoptable(MODEL, TableState(conflicting=BESIDE), PLAIN) is PLAIN


@pytest.mark.parametrize(
    ("config", "state", "table", "says"),
    [
        ({}, TableState(changes=a_log(None)), PLAIN, "is an arctic table already"),
        ({}, TableState(), None, "nothing to adopt"),
        ({}, TableState(conflicting=replace(BESIDE, is_plain=False)), PLAIN, "nothing to adopt"),
        ({"input": "changes"}, TableState(conflicting=BESIDE), PLAIN, "`input: changes`"),
        ({"history": "scd2"}, TableState(conflicting=BESIDE), PLAIN, "`history: scd2`"),
        ({"merge": "on_read"}, TableState(conflicting=BESIDE), PLAIN, "`merge: on_read`"),
        ({"keep": "all"}, TableState(conflicting=BESIDE), PLAIN, "`keep: all`"),
        ({"primary_key": ("id", "day")}, TableState(conflicting=BESIDE), PLAIN, "no column day"),
        (
            {"format_version": 2},
            TableState(conflicting=BESIDE),
            replace(PLAIN, format_version=3),
            "`format_version: 3`",
        ),
        (
            {},
            TableState(conflicting=BESIDE),
            replace(PLAIN, columns=(*COLUMNS, Column("t", "unsupported"))),
            "can't read its column t",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    config: dict[str, Any], state: TableState, table: PlainTable | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        check_adoptable(replace(MODEL, config=replace(MODEL.config, **config)), state, table)


def test_a_run_ends_an_adoption_that_was_interrupted() -> None:
    state = TableState(changes=a_log(), conflicting=BESIDE)
    assert is_being_adopted(MODEL, state)
    assert plan_reconciliation(MODEL, state, SHIPPED.merge) == (AdoptBase(TABLE, BASE, Version("uuid", 1, 1)),)
    assert not is_being_adopted(MODEL, TableState(changes=a_log(None), conflicting=BESIDE))


def test_a_table_that_is_gone_is_not_built_from_changes_alone() -> None:
    with pytest.raises(CorruptState, match="from before its adoption is gone"):
        plan_reconciliation(MODEL, TableState(changes=a_log()), SHIPPED.merge)


def test_an_adopted_table_stays_merged_on_write() -> None:
    check_baseline(MODEL, a_log())
    with pytest.raises(ConfigError, match="can't be merged on read"):
        check_baseline(replace(MODEL, config=replace(MODEL.config, merge="on_read")), a_log())
