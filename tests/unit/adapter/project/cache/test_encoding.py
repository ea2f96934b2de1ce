"""Data classes of a project come back from JSON as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Compaction, Model, ModelConfig, Retention, Transform
from dbt.adapters.arctic.project.cache.encoding import decode_value, encode_value

CONFIG = ModelConfig(
    ("id", "day"),
    partition_by=(Transform("bucket", "id", 16), Transform("days", "day")),
    sequence_groups={"seq": ("a", "b")},
    compaction=Compaction(deleted_share=0.5),
    retention=Retention(None, 3),
    current_view="now",
)
MODEL = Model(
    TableName("lake", "dws", "größe"), "", CONFIG, contract=(Column("id", "bigint"),), masks={"mail": True, "*": False}
)


@pytest.mark.parametrize(
    "value",
    [
        MODEL,
        replace(MODEL, quarantine=replace(MODEL, tested_table=MODEL.table)),
        ([1, (2, [3])], {"a": [(), []], 1: None}, "tuple", ["tuple", 1], {"x": 0.5, "y": True}),
    ],
)
def test_a_value_comes_back_with_all_its_types(value: object) -> None:
    assert repr(decode_value(json.loads(json.dumps(encode_value(value))))) == repr(value)


@pytest.mark.parametrize("value", [print, {1, 2}, object(), [b"x"]])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="can't be written"):
        encode_value(value)
