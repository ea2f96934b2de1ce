"""Tables without a key: what is to be done before rows are appended to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.files.layout import format_layout
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import LAYOUT
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.model.step import CreateAppended, EvolveSchema, SetLayout
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.refresh.reconcile import plan_preparation
from arctic_runtime.plan.refresh.schema import TypeConflict

LOG = TableName("lake", "ods", "log")
COLUMNS = (Column("at", "bigint"), Column("what", "string"))
DAYS = Transform("days", "at")
MODEL = Model(LOG, "", ModelConfig((), partition_by=(DAYS,), sort_key=("what",)), ingested_from="public.log")


def a_table(model: Model = MODEL) -> ChangeTableState:
    return ChangeTableState("log", COLUMNS, (), {LAYOUT: format_layout(model.config)})


def test_a_table_is_created_and_then_laid_out() -> None:
    assert plan_preparation(MODEL, None, (), COLUMNS) == (CreateAppended(LOG, COLUMNS),)
    (step,) = plan_preparation(MODEL, replace(a_table(), properties={}), (DAYS,), COLUMNS)
    assert isinstance(step, SetLayout)
    assert (step.drop, step.add, step.sort_key) == ((), (), ("what",))
    assert plan_preparation(MODEL, a_table(), (DAYS,), COLUMNS) == ()


def test_a_layout_that_changed_is_brought_to_the_table_field_by_field() -> None:
    bucket = Transform("bucket", "at", 4)
    other = replace(MODEL, config=replace(MODEL.config, partition_by=(bucket,), tblproperties={"a": "1"}))
    (step,) = plan_preparation(other, a_table(), (Transform("days", "AT"),), COLUMNS)
    assert isinstance(step, SetLayout)
    assert (step.drop, step.add) == ((Transform("days", "AT"),), (bucket,))
    assert dict(step.properties)["a"] == "1"
    assert step.text == format_layout(other.config)


def test_columns_follow_the_source_as_its_policy_says() -> None:
    more = (*COLUMNS, Column("who", "string"))
    added = SchemaChange(add=(Column("who", "string"),))
    assert plan_preparation(MODEL, a_table(), (DAYS,), more) == (EvolveSchema(LOG, added, False),)
    frozen = replace(MODEL, config=replace(MODEL.config, on_schema_change="fail"))
    with pytest.raises(ConfigError, match=r"public\.log has other columns, and `schema_changes` is `freeze`"):
        plan_preparation(frozen, a_table(), (DAYS,), more)


def test_a_type_that_the_table_can_not_take_is_told_without_a_query() -> None:
    """An ingested table has none, in which somebody could cast a column."""
    other = tuple(replace(column, type="boolean") for column in COLUMNS)
    with pytest.raises(TypeConflict) as raised:
        plan_preparation(MODEL, a_table(), (DAYS,), other)
    assert "query" not in str(raised.value)
    assert "in public.log: boolean" in str(raised.value)
    assert "`arctic reset log --yes`, then `arctic resync log`" in str(raised.value)
