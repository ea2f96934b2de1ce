"""Parses Avro schemas, and rewrites them so that Spark decodes records to JSON without a loss.

Source: the specification of Apache Avro 1.12, "Schema Declaration".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.model.columns import OWN_PREFIX

AvroType = Mapping[str, Any]
"""A type as in a schema's JSON, but always an object: `type` is its kind, and names are replaced by what they name.

A union is of the kind `union`, with `branches`. `name` of a record, an enum or a fixed is its full name. All other
attributes stay as they are written, such as `logicalType` and Kafka Connect's `connect.name`.
"""

SCHEMA_ID = f"{OWN_PREFIX}schema_id"
"""The field with the id of its schema that every decoded record has in addition; null if it could not be decoded."""

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_NAMED = frozenset(("record", "error", "enum", "fixed"))


@dataclass(frozen=True)
class AvroSchema:
    """A schema by its id in a registry; `root` is its type.

    `writer` and `reader` are JSON for Avro's schema resolution of records, and empty for other types: `writer` decodes
    the same bytes without logical types, so that decimals are bytes and timestamps are numbers, and `reader` adds the
    field SCHEMA_ID.
    """

    id: int
    root: AvroType
    writer: str = ""
    reader: str = ""


class _UnusableSchema(Exception):
    """Raised for a schema that can't be used; the text says why."""


def parse_avro_schema(schema_id: int, text: str, where: str) -> AvroSchema:
    """Parses the JSON of a schema; raises SourceError, which names `where`, if Spark could not decode its records."""
    try:
        root = _Resolver().resolve_type(json.loads(text), "")
        writer = _PlainWriter().write_type(root)
    except (_UnusableSchema, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = (
            str(error) if isinstance(error, _UnusableSchema) else f"it is no schema of Avro ({type(error).__name__})"
        )
        raise SourceError(
            f"The Avro schema {schema_id} can't be used.",
            where=where,
            expected="types that are defined, none of which contains itself",
            actual=reason,
            fix="write such messages into a topic of their own, or change the schema",
        ) from error
    if root["type"] != "record":
        return AvroSchema(schema_id, root)
    marker = {"name": SCHEMA_ID, "type": "int", "default": schema_id}
    reader = {**writer, "fields": [*writer["fields"], marker]}
    return AvroSchema(schema_id, root, json.dumps(writer), json.dumps(reader))


def strip_null(kind: AvroType) -> AvroType:
    """Returns the type of values that are not null: a union of null and one other type becomes that type.

    A union of two numbers of one family becomes the wider one, as which Spark decodes it.
    """
    if kind["type"] != "union":
        return kind
    others = [branch for branch in kind["branches"] if branch["type"] != "null"]
    wider = _WIDER.get(frozenset(branch["type"] for branch in others)) if len(others) == 2 else None
    if wider is not None:
        return {"type": wider}
    return others[0] if len(others) == 1 else kind


class _Resolver:
    """Replaces names of types by their definitions."""

    def __init__(self) -> None:
        self._known: dict[str, AvroType] = {}
        self._open: set[str] = set()

    def resolve_type(self, written: Any, namespace: str) -> AvroType:
        """Resolves a type inside of `namespace`; raises _Refused for an unknown name and for a recursive type."""
        if isinstance(written, str):
            return {"type": written} if written in PRIMITIVES else self._find_named(written, namespace)
        if isinstance(written, Sequence):
            return {"type": "union", "branches": [self.resolve_type(branch, namespace) for branch in written]}
        kind = written["type"]
        if not isinstance(kind, str):
            return {**_strip_odd_attributes(written), **self.resolve_type(kind, namespace)}
        written = _strip_odd_attributes(written)
        if kind in _NAMED:
            return self._define_named(written, namespace)
        if kind == "array":
            return {**written, "items": self.resolve_type(written["items"], namespace)}
        if kind == "map":
            return {**written, "values": self.resolve_type(written["values"], namespace)}
        return written if kind in PRIMITIVES else {**written, **self._find_named(kind, namespace)}

    def _find_named(self, name: str, namespace: str) -> AvroType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self._open:
                raise _UnusableSchema(f"{candidate} contains itself")
            if candidate in self._known:
                return self._known[candidate]
        raise _UnusableSchema(f"it names the type {full}, and does not define it")

    def _define_named(self, written: AvroType, namespace: str) -> AvroType:
        name = str(written["name"])
        own = name.rpartition(".")[0] if "." in name else str(written.get("namespace", namespace) or "")
        full = name if "." in name or not own else f"{own}.{name}"
        _check_definition(full, written)
        defined = {**written, "name": full}
        if written["type"] in ("record", "error"):
            self._open.add(full)
            fields = [{**field, "type": self.resolve_type(field["type"], own)} for field in written["fields"]]
            self._open.remove(full)
            _check_twins(full, [str(field["name"]) for field in fields])
            defined |= {"type": "record", "fields": fields}
        self._known[full] = defined
        return defined


_ATTRIBUTES: Mapping[str, type | tuple[type, ...]] = {
    "logicalType": str,
    "connect.name": str,
    "connect.type": str,
    "connect.parameters": Mapping,
}


def _strip_odd_attributes(written: AvroType) -> AvroType:
    """Leaves out attributes that are not what their names say, and incomplete decimals, as Avro demands."""
    kept = {name: value for name, value in written.items() if isinstance(value, _ATTRIBUTES.get(name, object))}
    is_whole = all(type(kept.get(part, 0)) is int for part in ("precision", "scale")) and "precision" in kept
    if kept.get("logicalType") == "decimal" and not is_whole:
        del kept["logicalType"]
    return kept


def _check_definition(name: str, written: AvroType) -> None:
    """Raises _Refused if a named type has fields without names, symbols that are no texts, or a size that is none."""
    match written["type"]:
        case "enum":
            is_sound = all(isinstance(symbol, str) for symbol in written["symbols"])
        case "fixed":
            is_sound = type(written["size"]) is int and written["size"] >= 0
        case _:
            is_sound = all(isinstance(one["name"], str) for one in written["fields"])
    if not is_sound:
        raise _UnusableSchema(f"{name} is not defined as Avro demands")


def _check_twins(record: str, names: Sequence[str]) -> None:
    """Raises _Refused if two fields differ only in case, since Spark could not tell them apart."""
    lower = [name.lower() for name in names]
    twins = sorted(name for name in names if lower.count(name.lower()) > 1)
    if twins:
        raise _UnusableSchema(f"the fields {', '.join(twins)} of {record} differ only in case")


class _PlainWriter:
    """Writes a resolved type as JSON for Spark: the same binary encoding, without logical types and namespaces."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def write_type(self, kind: AvroType) -> Any:
        """Converts a resolved type; raises _Refused for a kind that Avro does not have."""
        match kind["type"]:
            case "union":
                _check_branches(kind["branches"])
                return [self.write_type(branch) for branch in kind["branches"]]
            case "array":
                return {"type": "array", "items": self.write_type(kind["items"])}
            case "map":
                return {"type": "map", "values": self.write_type(kind["values"])}
            case "record" | "enum" | "fixed":
                return self._write_named(kind)
            case primitive:
                return primitive

    def _write_named(self, kind: AvroType) -> Any:
        if kind["name"] in self._names:
            return self._names[kind["name"]]
        name = kind["name"].rpartition(".")[2]
        while name in self._names.values():
            name += "_"
        self._names[kind["name"]] = name
        match kind["type"]:
            case "record":
                fields = [{"name": field["name"], "type": self.write_type(field["type"])} for field in kind["fields"]]
                return {"type": "record", "name": name, "fields": fields}
            case "enum":
                return {"type": "enum", "name": name, "symbols": kind["symbols"]}
            case _:
                return {"type": "fixed", "name": name, "size": kind["size"]}


def _check_branches(branches: Sequence[AvroType]) -> None:
    """Raises _Refused if two branches of a union have one name, since Spark names members by it without its case."""
    names = [str(branch.get("name", branch["type"])).rpartition(".")[2].lower() for branch in branches]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise _UnusableSchema(f"a union has several types of the name {', '.join(twins)}")
