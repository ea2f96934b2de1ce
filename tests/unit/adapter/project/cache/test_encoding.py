"""Data classes of a project come back from JSON as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Compaction, Model, ModelConfig, Retention, Transform
from dbt.adapters.arctic.project.cache.encoding import KEPT_CLASSES, decode_value, encode_value

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
        replace(MODEL, foreign_tables=frozenset({MODEL.table})),
        ([1, (2, [3])], {"a": [(), []], 1: None}, "tuple", ["tuple", 1], {"x": 0.5, "y": True}),
    ],
)
def test_a_value_comes_back_with_all_its_types(value: object) -> None:
    assert repr(decode_value(json.loads(json.dumps(encode_value(value))))) == repr(value)


@pytest.mark.parametrize("value", [print, {1, 2}, object(), [b"x"]])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="can't be written"):
        encode_value(value)


def list_types(hint: Any) -> Iterator[Any]:
    """Lists a type and those of its parts, without its unions and literals."""
    origin = get_origin(hint)
    if origin not in (Union, UnionType, Literal, None):
        yield origin
    if origin is None:
        yield hint
    if origin is not Literal:
        for part in get_args(hint):
            yield from list_types(part)


@pytest.mark.parametrize("name", KEPT_CLASSES)
def test_every_field_of_a_kept_class_can_be_written(name: str) -> None:
    """A field of another type would make every command compile the project, with no word about it.

    The source of a model is not kept: it is added to the tables that the catalog has.
    """
    written = {str, int, float, bool, NoneType, tuple, list, dict, frozenset, Mapping, Sequence, Any, ...}
    hints = {
        field: hint
        for field, hint in get_type_hints(KEPT_CLASSES[name]).items()
        if (name, field) != ("Model", "source")
    }
    types = {kind for hint in hints.values() for kind in list_types(hint)}
    assert types - written - {*KEPT_CLASSES.values()} == set()
