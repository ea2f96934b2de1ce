"""Writes the data classes of a project as JSON values, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Compaction, Model, ModelConfig, Retention, Transform

KEPT_CLASSES: Mapping[str, type[Any]] = {
    known.__name__: known
    for known in (
        Column,
        Compaction,
        IngestedTable,
        IngestSource,
        Model,
        ModelConfig,
        ProjectNode,
        Retention,
        TableName,
        Transform,
    )
}
_SEQUENCES: Mapping[str, Callable[[Iterable[Any]], Any]] = {"tuple": tuple, "list": list, "frozenset": frozenset}
_PLAIN = (str, int, float, bool, type(None))


def encode_value(value: Any) -> Any:
    """Returns a value of a data class as a JSON value; raises TypeError if it is of a type that no field has.

    Whatever is not a text, a number, a boolean or null is a list that begins with the name of its type.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in (tuple, list):
        return [kind.__name__, *map(encode_value, value)]
    if kind is frozenset:
        return ["frozenset", *map(encode_value, sorted(value))]
    if kind is dict:
        return ["dict", *([encode_value(key), encode_value(part)] for key, part in value.items())]
    if KEPT_CLASSES.get(kind.__name__) is kind:
        return [kind.__name__, {name: encode_value(part) for name, part in _list_set_fields(value)}]
    raise TypeError(f"{kind.__name__} can't be written")


def _list_set_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields name and value of the fields that differ from their defaults."""
    for described in fields(value):
        part = getattr(value, described.name)
        if part != _get_default(described):
            yield described.name, part


def _get_default(described: Field[Any]) -> Any:
    if described.default_factory is not MISSING:
        return described.default_factory()
    return described.default


def decode_value(encoded: Any) -> Any:
    """Returns the value that `encode_value` has encoded; raises an error of Python for anything else."""
    if not isinstance(encoded, list):
        return encoded
    name, *parts = encoded
    if name in _SEQUENCES:
        return _SEQUENCES[name](map(decode_value, parts))
    if name == "dict":
        return {decode_value(key): decode_value(part) for key, part in parts}
    (known,) = parts
    return KEPT_CLASSES[name](**{key: decode_value(part) for key, part in known.items()})
