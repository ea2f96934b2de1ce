"""The JSON schema of profiles.yml, as far as its targets are of type `arctic`."""

from __future__ import annotations

from typing import Any, Final

from arctic_runtime.plan.config.value_reader import TEXT, Schema
from arctic_runtime.service.agents.settings import AGENT_SETTINGS
from arctic_runtime.service.settings import UPKEEP_SETTINGS, describe_http
from arctic_runtime.service.telemetry.configured import TELEMETRY_SETTINGS
from dbt.adapters.arctic.profile_keys import DATABASE, SETTINGS
from dbt.adapters.arctic.schemas.parts import NULL, allow_jinja_inside, build_document, close_keys, describe_keys

_CONNECTS: Final[Schema] = {"properties": {"method": {"const": "connect"}}, "required": ["method"]}
_STARTS: Final[Schema] = {"properties": {"method": {"const": "session"}}}
_OTHER_MACHINE: Final[Schema] = {"properties": {"url": {"pattern": "^sc:"}}, "required": ["url"]}
_HAS_CATALOG: Final[Schema] = {"anyOf": [{"required": ["warehouse"]}, {"required": ["catalog_config"]}]}
_RULES: Final[tuple[Schema, ...]] = (
    {"if": _CONNECTS, "then": {"required": ["url"]}},
    {"if": {"allOf": [_CONNECTS, _OTHER_MACHINE]}, "then": {"properties": {"warehouse": NULL, "master": NULL}}},
    {"if": _STARTS, "then": {"properties": {"url": NULL}, **_HAS_CATALOG}},
)
"""Rules between keys."""


def build_schema() -> dict[str, Any]:
    """Builds the schema; targets of other adapters are not checked."""
    target = close_keys(describe_keys((*SETTINGS, DATABASE)), required=["type", "schema"], allOf=list(_RULES))
    is_arctic = {"properties": {"type": {"const": "arctic"}}, "required": ["type"]}
    output = {"type": "object", "if": is_arctic, "then": {"$ref": "#/$defs/target"}}
    outputs = {"type": "object", "additionalProperties": output}
    profile = {"type": "object", "properties": {"target": {"type": "string"}, "outputs": outputs}}
    files = {"properties": {"config": True}, "additionalProperties": profile}
    return build_document(
        "profiles.yml with targets of dbt-arctic",
        files,
        {"target": target, **_describe_serve(), **_describe_telemetry()},
    )


def _describe_telemetry() -> dict[str, Schema]:
    return {"telemetry": close_keys(describe_keys(TELEMETRY_SETTINGS))}


def _describe_serve() -> dict[str, Schema]:
    http = allow_jinja_inside(describe_http())
    records = {name: allow_jinja_inside(record) for name, record in http.pop("$defs").items()}
    upkeep = close_keys(describe_keys(UPKEEP_SETTINGS), type=["object", "null"])
    agents = close_keys(describe_keys(AGENT_SETTINGS), type=["object", "null"])
    schema = {**TEXT, "type": ["string", "null"]}
    keys = {"schema": schema, "http": {"anyOf": [http, NULL]}, "upkeep": upkeep, "agents": agents}
    return {"serve": close_keys(keys), **records}
