"""The JSON schema of the configuration of models, in dbt_project.yml and in files that describe models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from arctic_runtime.manifest.served_settings import SERVED_SETTINGS
from arctic_runtime.plan.config.configuration import CONFIGURATION
from arctic_runtime.plan.config.foreign_config import ON_FOREIGN_CONFIG, READ_ON_FOREIGN_CONFIG
from arctic_runtime.plan.config.foreign_settings import FOREIGN_SETTINGS, SETTINGS_BY_NAME, format_treatment
from arctic_runtime.plan.config.foreign_treatments import ARCTIC, ForeignSetting, Translated
from arctic_runtime.plan.config.value_reader import Schema
from dbt.adapters.arctic.schemas.parts import build_document, close_keys, describe_key, describe_keys

DBT_KEYS: Final = (
    *("access", "alias", "batch_size", "begin", "catalog_name", "column_types", "concurrent_batches", "contract"),
    *("database", "docs", "enabled", "event_time", "freshness", "full_refresh", "grants", "group"),
    *("incremental_strategy", "latest_version_pointer", "lookback", "materialized", "meta", "on_configuration_change"),
    *("on_error", "on_schema_change", "packages", "persist_docs", "post-hook", "post_hook", "pre-hook", "pre_hook"),
    *("quoting", "schema", "sql_header", "static_analysis", "submission_method", "tags", "unique_key"),
)
"""Keys of models that dbt has itself, in all of its releases with which the adapter works."""

_FOLDER: Final[Schema] = {"type": ["object", "null"]}


def build_schema() -> dict[str, Any]:
    """Builds the schema; unknown keys are refused unless the same mapping has another `materialized` than `arctic`."""
    keys = _describe_config()
    model = {
        "type": "object",
        "properties": {
            "config": {"$ref": "#/$defs/config"},
            "meta": {"$ref": "#/$defs/meta"},
            "versions": {"type": "array", "items": {"properties": {"config": {"$ref": "#/$defs/config"}}}},
        },
    }
    models = {"if": {"type": "array"}, "then": {"items": {"$ref": "#/$defs/model"}}, "else": {"$ref": "#/$defs/folder"}}
    in_meta: dict[str, Schema] = {key.name: {"$ref": f"#/$defs/key_{key.name}"} for key in CONFIGURATION}
    definitions = {
        **{f"key_{name}": schema for name, schema in keys.items()},
        "meta": {
            "description": "your own data about the model; in `arctic` keys of the service and of arctic models",
            "type": ["object", "null"],
            "properties": {"arctic": close_keys({**describe_keys(SERVED_SETTINGS), **in_meta})},
        },
        "model": model,
        "config": _build_config(keys),
        "folder": _build_folder(keys),
    }
    return build_document("Models of dbt-arctic", {"properties": {"models": models}}, definitions)


def _describe_config() -> dict[str, Schema]:
    """Returns the schema of each known key: those of dbt, of other adapters, and of arctic models."""
    keys: dict[str, Schema] = {name: {"description": "a key of dbt"} for name in DBT_KEYS}
    keys |= {setting.name: {"description": _describe_foreign(setting)} for setting in FOREIGN_SETTINGS}
    keys["materialized"] = {"description": "`arctic`, or a materialization of dbt", "type": "string"}
    keys["meta"] = {"$ref": "#/$defs/meta"}
    for key in CONFIGURATION:
        values = [key.read.schema, *_list_foreign_values(key.name)]
        schema: Schema = {"anyOf": values} if len(values) > 1 else values[0]
        keys[key.name] = describe_key(schema, key.meaning, key.default, allows_null=True)
    meaning = "whether settings of other adapters that change nothing are an error"
    keys[ON_FOREIGN_CONFIG] = describe_key(READ_ON_FOREIGN_CONFIG.schema, meaning, "`warn`", allows_null=True)
    return keys


def _describe_foreign(setting: ForeignSetting) -> str:
    return f"a setting of {', '.join(setting.adapters)}; {format_treatment(setting.arctic)}"


def _list_foreign_values(name: str) -> list[Schema]:
    setting = SETTINGS_BY_NAME.get(name)
    treatment = None if setting is None else setting.arctic
    return [treatment.values] if isinstance(treatment, Translated) and treatment.values is not None else []


def _build_config(keys: Iterable[str]) -> dict[str, Any]:
    """Builds the schema of `config` of a model."""
    names = list(keys)
    return {
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/key_{name}"} for name in names},
        **_unless_other_materialization(["materialized"], close_keys(dict.fromkeys(names, True))),
    }


def _build_folder(keys: Iterable[str]) -> dict[str, Any]:
    """Builds the schema of a folder in dbt_project.yml: keys with `+`, keys with a plain value, and inner folders."""
    names = list(keys)
    plus = {f"+{name}": {"$ref": f"#/$defs/key_{name}"} for name in names}
    inner = {"$ref": "#/$defs/folder"}
    plain = {name: {"if": {"type": "object"}, "then": inner, "else": {"$ref": f"#/$defs/key_{name}"}} for name in names}
    known = dict.fromkeys([*plus, *plain], True)
    strict = {
        "allOf": [
            {"properties": known, "patternProperties": {"^[^+]": True}, "additionalProperties": False},
            {"properties": known, "patternProperties": {r"^\+": True}, "additionalProperties": _FOLDER},
        ]
    }
    return {
        **_FOLDER,
        "properties": {**plus, **plain},
        "patternProperties": {"^[^+]": {"if": {"type": "object"}, "then": inner}},
        **_unless_other_materialization(["+materialized", "materialized"], strict),
    }


def _unless_other_materialization(names: list[str], strict: Schema) -> dict[str, Any]:
    """Returns the part of a schema that is `strict`, unless one of the keys `names` is another materialization."""
    other = {"not": {"const": ARCTIC}}
    has_other = [{"properties": {name: other}, "required": [name]} for name in names]
    return {"if": {"anyOf": has_other}, "then": True, "else": strict}
