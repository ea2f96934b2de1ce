"""Readers of the configuration keys `compaction`, `retention` and `target_lag`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from arctic_runtime.errors import ConfigError, find_nearest
from arctic_runtime.model.table import MAX_VERSIONS, VERSIONS_SECONDS, Compaction, Retention
from arctic_runtime.plan.config.value_reader import Schema, ValueReader, accept, close_object, is_off

_AGE = re.compile(r"(?P<number>\d{1,6})\s*(?P<unit>[mhdw])")
_LAG = re.compile(r"(?P<number>\d{1,6})\s*(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGES: Final[Schema] = {
    "type": "string",
    "pattern": r"^\s*(?!0+\s*[a-z])[0-9]{1,6}\s*[mhdw]\s*$",
    "examples": ["12h", "5d", "2w"],
}
CLONE_TTL_SCHEMA: Final[Schema] = {"anyOf": [{"enum": ["off", False]}, _AGES]}
"""JSON schema of the values that `read_clone_ttl` accepts."""


@accept({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
def _read_share(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ConfigError(f"`{key}` must be a number above 0 and up to 1; found {value!r}")
    return float(value)


@accept({"type": "integer", "minimum": 1})
def _read_count(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"`{key}` must be a whole number of at least 1; found {value!r}")
    return int(value)


@accept(_AGES)
def read_age(key: str, value: Any) -> int:
    """Reads an age such as `90m` or `5d` as seconds; raises ConfigError for any other value."""
    match = _AGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match["number"]) == 0:
        raise ConfigError(
            f"`{key}` must be an age in minutes, hours, days or weeks, such as 90m, 12h, 5d, 2w; found {value!r}"
        )
    return int(match["number"]) * _SECONDS[match["unit"]]


_COMPACTION_PARTS: Final[Mapping[str, ValueReader[Any]]] = {
    "deleted_share": _read_share,
    "small_files": _read_count,
    "change_files": _read_count,
}
_RETENTION_PARTS: Final[Mapping[str, ValueReader[Any]]] = {
    "versions": read_age,
    "changes": read_age,
    "retain_last": _read_count,
    "max_versions": _read_count,
}


def _describe_parts(parts: Mapping[str, ValueReader[Any]]) -> Schema:
    return {"type": "object", **close_object({name: reader.schema for name, reader in parts.items()})}


@accept({"anyOf": [{"enum": ["auto", "off", True, False]}, _describe_parts(_COMPACTION_PARTS)]})
def read_compaction(key: str, value: Any) -> Compaction:
    """Reads `auto`, `off` or a mapping of thresholds; raises ConfigError for any other value.

    Booleans are allowed because YAML parses `on` and `off` as booleans.
    """
    if isinstance(value, Mapping):
        return Compaction(**_read_parts(key, value, _COMPACTION_PARTS))
    if value in ("auto", "off") or isinstance(value, bool):
        return Compaction(automatic=not is_off(value))
    raise ConfigError(f"`{key}` must be auto, off, or a mapping of thresholds; found {value!r}")


@accept({"anyOf": [{"enum": ["off", False]}, _describe_parts(_RETENTION_PARTS)]})
def read_retention(key: str, value: Any) -> Retention:
    """Reads a mapping with the ages at which versions and change rows may expire, and numbers of versions to keep.

    `max_versions` has a default only if no age and no number of versions is given. With `off`, which YAML parses as a
    boolean, nothing ever expires. Raises ConfigError for any other value.
    """
    if is_off(value):
        return Retention()
    if not isinstance(value, Mapping):
        raise ConfigError(f"`{key}` must be off or a mapping, such as {{versions: '5d'}}; found {value!r}")
    parts = _read_parts(key, value, _RETENTION_PARTS)
    least, is_default = parts.get("retain_last"), "versions" not in parts and "retain_last" not in parts
    most = parts.get("max_versions", MAX_VERSIONS if is_default else None)
    if least is not None and most is not None and most < least:
        raise ConfigError(f"`{key}.max_versions` must be at least `retain_last`, {least}; found {most}")
    age = parts.get("versions", None if least is not None and most is None else VERSIONS_SECONDS)
    return Retention(age, least, parts.get("changes"), most)


def _read_parts(key: str, value: Mapping[Any, Any], readers: Mapping[str, ValueReader[Any]]) -> dict[str, Any]:
    for name in value:
        if name not in readers:
            nearest = find_nearest(str(name), readers)
            hint = f"did you mean `{nearest}`?" if nearest else f"it takes {', '.join(readers)}"
            raise ConfigError(f"`{key}` has an unknown part `{name}`; {hint}")
    return {name: readers[name](f"{key}.{name}", part) for name, part in value.items()}


def read_clone_ttl(value: Any) -> float | None:
    """Reads the profile's key `clone_ttl`, an age such as `14d`, as seconds; None for `off`, which keeps all clones.

    Raises ConfigError for any other value; YAML reads `off` as false.
    """
    return None if is_off(value) else float(read_age("clone_ttl", value))


@accept({"type": "string", "pattern": r"^\s*[0-9]{1,6}\s*[smhd]\s*$", "examples": ["30s", "5m", "1h"]})
def read_lag(key: str, value: Any) -> int:
    """Reads a time span such as `30s`, `5m` or `0s` as seconds; raises ConfigError for any other value."""
    match = _LAG.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(
            f"`{key}` must be a time in seconds, minutes, hours or days, such as 30s, 5m, 1h, 1d; found {value!r}"
        )
    return int(match["number"]) * _SECONDS[match["unit"]]
