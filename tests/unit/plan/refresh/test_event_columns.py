"""Columns that a model of change events names: the query has to have them, in types that fit."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh.event_rules import check_events, select_optional_columns

STORED = (Column("id", "int"), Column("Name", "string"), Column("email", "string"), Column("lsn", "int"))


def a_model(**config: Any) -> Model:
    declared = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "columns_to_update": "changed", **config}
    return Model(TableName("lake", "dwd", "customers"), "select 1", read_configuration(declared, "m"))


@pytest.mark.parametrize(
    "kind",
    [
        "array<string>",
        "map<string,boolean>",
        "struct<name:boolean,EMAIL:boolean>",
        "struct<id:boolean,name:boolean,email:boolean,lsn:boolean>",
    ],
)
def test_a_list_of_names_and_masks_say_which_columns_an_event_has(kind: str) -> None:
    check_events(a_model(), (*STORED, Column("changed", kind)), STORED)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("string", "can't say which columns an event has(?s:.*)found: string"),
        ("array<int>", "found: array<int>"),
        ("map<string,string>", "found: map<string,string>"),
        ("struct<name:boolean,email:int>", "found: struct<name:boolean,email:int>"),
        ("struct<name:boolean>", "columns without a field: email(?s:.*)fields without a column: none"),
        ("struct<name:boolean,email:boolean,mail:boolean>", "without a field: none(?s:.*)without a column: mail"),
    ],
)
def test_other_types_and_masks_of_other_columns_are_refused(kind: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_events(a_model(), (*STORED, Column("changed", kind)), STORED)


def test_a_query_without_the_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="changed"):
        check_events(a_model(), STORED, STORED)


def test_key_and_order_are_columns_of_every_event() -> None:
    assert [column.name for column in select_optional_columns(a_model(), STORED)] == ["Name", "email"]
    flows = a_model(sequence_by={"LSN": ["name", "email"]})
    assert [column.name for column in select_optional_columns(flows, STORED)] == ["Name", "email"]
