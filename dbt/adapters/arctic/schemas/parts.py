"""Parts of JSON schemas: keys with their description and default, and Jinja in the place of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from arctic_runtime.plan.config.value_reader import TEXT, Schema, Setting, close_object

_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_CODE: Final = re.compile(r"`([^`]+)`")
JINJA: Final[Schema] = {"$ref": "#/$defs/jinja"}
NULL: Final[Schema] = {"type": "null"}
_DEFINITIONS: Final[Schema] = {"jinja": {"description": "Jinja", "type": "string", "pattern": r"\{[{%]"}}


def build_document(title: str, properties: Schema, definitions: Mapping[str, Schema]) -> dict[str, Any]:
    """Builds the schema of a YAML file with these properties beside others, which are not checked."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        **properties,
        "$defs": {**_DEFINITIONS, **definitions},
    }


def describe_keys(settings: Iterable[Setting], allows_null: bool = False) -> dict[str, Schema]:
    """Returns the schema of each key by its name; with `allows_null`, null leaves a key out."""
    return {key.name: describe_key(key.read.schema, key.meaning, key.default, allows_null) for key in settings}


def describe_key(schema: Schema, meaning: str, default: str = "", allows_null: bool = False) -> dict[str, Any]:
    """Returns the schema of a key; `meaning` and `default` are Markdown, and only code is a default value.

    Values of any depth may be Jinja instead.
    """
    described = _allow_jinja({"anyOf": [schema, NULL]} if allows_null else schema)
    code = _CODE.fullmatch(default)
    value = {} if code is None else {"default": yaml.safe_load(code[1])}
    return {"description": _strip_links(meaning), **value, **described}


def close_keys(properties: Mapping[str, Schema | bool], **others: Any) -> dict[str, Any]:
    """Returns the schema of a mapping with no other keys than these."""
    return {"type": "object", **close_object(properties), **others}


def _strip_links(text: str) -> str:
    return _LINK.sub(r"\1", text)


def _allow_jinja(schema: Schema) -> dict[str, Any]:
    inner = allow_jinja_inside(schema)
    if _accepts_any_text(schema):
        return inner
    notes = {name: inner.pop(name) for name in ("description", "default", "examples") if name in inner}
    return {**notes, "anyOf": [*(inner["anyOf"] if [*inner] == ["anyOf"] else [inner]), JINJA]}


def allow_jinja_inside(schema: Schema) -> dict[str, Any]:
    """Allows Jinja for the values in an object or an array."""
    changed = dict(schema)
    if "anyOf" in schema:
        changed["anyOf"] = [allow_jinja_inside(part) for part in schema["anyOf"]]
    if "properties" in schema:
        changed["properties"] = {name: _allow_jinja(part) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            changed[name] = _allow_jinja(schema[name])
    if "description" in schema:
        changed["description"] = _strip_links(schema["description"])
    return changed


def _accepts_any_text(schema: Schema) -> bool:
    return "string" in schema.get("type", ()) and schema.get("pattern") in (None, TEXT["pattern"])
