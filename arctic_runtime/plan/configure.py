"""From what a user wrote in a model's configuration to a checked ModelConfig."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, get_args

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import RESERVED, same_name
from arctic_runtime.model.layout import MAX_NODES, TARGET_PROPERTY
from arctic_runtime.model.table import (
    Changelog,
    FormatVersion,
    Input,
    Merge,
    ModelConfig,
    OnConfigurationChange,
    OnMatch,
    OnSchemaChange,
    Refresh,
    Transform,
    Unit,
)
from arctic_runtime.plan.maintenance_settings import read_compaction, read_retention

KEYS = (
    "primary_key",
    "unique_key",
    "partition_by",
    "hash_key",
    "sort_key",
    "merge",
    "input",
    "refresh",
    "sequence_by",
    "delete_when",
    "truncate_when",
    "on_match",
    "exclude_columns",
    "renamed_columns",
    "history",
    "changelog",
    "keep",
    "on_schema_change",
    "on_configuration_change",
    "compaction",
    "retention",
    "nodes",
    "target_file_bytes",
    "node_bytes",
    "format_version",
    "tblproperties",
)
"""Every configuration key of the `arctic` materialization, in the order of the reference."""

ONLY_ALLOWED: Mapping[str, tuple[Any, ...]] = {
    "truncate_when": (),
    "history": ("none",),
    "keep": ("net",),
}
"""Keys that are known but not built yet → the values that ask for what happens anyway."""

_CHANGES_ONLY = ("sequence_by", "delete_when", "on_match", "exclude_columns", "changelog")
_FILLED_BY_DBT = ("on_schema_change", "on_configuration_change")

_SMALLEST_FILE = 2**20
_SIZE = re.compile(r"(?P<number>[1-9]\d{0,8})\s*(?P<unit>[KMG]iB)")
_UNIT_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

_QUOTED = r"`(?:[^`]|``)+`"
_IDENTITY = re.compile(rf"{_QUOTED}|[^()`]+")
_TRANSFORM = re.compile(
    r"(?P<unit>[A-Za-z]+)\s*\(\s*(?:(?P<number>\d+)\s*,)?\s*"
    rf"(?P<column>{_QUOTED}|[^(),`]+?)\s*\)"
)
_UNITS: Mapping[str, Unit] = {
    "bucket": "bucket",
    "truncate": "truncate",
    "year": "years",
    "years": "years",
    "month": "months",
    "months": "months",
    "day": "days",
    "days": "days",
    "date": "days",
    "hour": "hours",
    "hours": "hours",
    "identity": "identity",
}


def configure(raw: Mapping[str, Any], where: str, known: Collection[str] = ()) -> ModelConfig:
    """Checks a model's configuration and returns it typed.

    `raw` holds the keys that the user set; `known` are keys that belong to dbt or to others and are not looked
    at. `where` names the model in messages. Raises ConfigError with everything that is wrong, not only the
    first thing.
    """
    found: list[str] = [*_unknown(raw, known), *_unsupported(raw)]
    values: dict[str, Any] = {}
    for key, read in _READERS.items():
        if raw.get(key) is not None:
            try:
                values[key] = read(key, raw[key])
            except ConfigError as error:
                found.append(str(error))
    found.extend(_missing_key(raw))
    if not found:
        config = _assemble(values)
        found.extend(_contradictions(config, values))
    if found:
        raise ConfigError(f"{where}: its configuration can't be used.\n" + "\n".join(f"  - {text}" for text in found))
    return config


def user_keys(config: Mapping[str, Any], written: Collection[str]) -> dict[str, Any]:
    """The keys of dbt's merged configuration that a user wrote: dbt fills some of ours with defaults of its own."""
    return {key: config[key] for key in config if key not in _FILLED_BY_DBT or key in written}


def _unknown(raw: Mapping[str, Any], known: Collection[str]) -> Iterable[str]:
    names = [*KEYS, *known]
    for key in raw:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "put keys of your own below `meta`"
            yield f"unknown key `{key}`; {hint}"


def _unsupported(raw: Mapping[str, Any]) -> Iterable[str]:
    for key, allowed in ONLY_ALLOWED.items():
        value = raw.get(key)
        if value is not None and value not in allowed:
            instead = f"; supported now: {', '.join(map(str, allowed))}" if allowed else ""
            yield f"`{key}: {value}` is not supported yet{instead}"


def _missing_key(raw: Mapping[str, Any]) -> Iterable[str]:
    if raw.get("primary_key") is None and raw.get("unique_key") is None:
        yield "`primary_key` is missing; name the columns that identify a row, or `[]` for a query with one row"


def _assemble(values: dict[str, Any]) -> ModelConfig:
    fields = {key: value for key, value in values.items() if key != "unique_key"}
    fields.setdefault("primary_key", values.get("unique_key", ()))
    key = fields["primary_key"]
    fields.setdefault("hash_key", key[0] if key else None)
    return ModelConfig(**fields)


def _contradictions(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for rule in _RULES:
        yield from rule(config, values)


def _one_key(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if "unique_key" in values and values.get("primary_key", values["unique_key"]) != values["unique_key"]:
        yield "`primary_key` and `unique_key` differ; keep `primary_key`"


def _hash_key_in_key(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.hash_key is not None and not _is_among(config.hash_key, config.primary_key):
        yield f"`hash_key: {config.hash_key}` must be one of the primary key's columns: {list(config.primary_key)}"


def _repeated(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for key in ("primary_key", "partition_by", "sort_key", "exclude_columns"):
        names = [name.lower() for name in _listed(config, key)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"`{key}` names `{name}` more than once"


def _listed(config: ModelConfig, key: str) -> tuple[str, ...]:
    """The columns or transforms that a configuration key lists."""
    return {
        "primary_key": config.primary_key,
        "partition_by": tuple(map(str, config.partition_by)),
        "sort_key": config.sort_key,
        "exclude_columns": config.exclude_columns,
    }[key]


def _reserved(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for name in (*config.primary_key, *config.sort_key):
        if name.lower() in RESERVED:
            yield f"`{name}` is a name that change rows reserve; rename the column in the query"


def _excluded_key(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    kept = (*config.primary_key, *config.sort_key, *(transform.column for transform in config.partition_by))
    for name in config.exclude_columns:
        if _is_among(name, kept):
            yield f"`exclude_columns` drops `{name}`, which the key, the partitions or the sort order need"


def _renamed_layout(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    kept = (*config.primary_key, *config.sort_key, *(transform.column for transform in config.partition_by))
    for new, old in config.renamed_columns.items():
        for name in (new, old):
            if _is_among(name, kept):
                yield f"`renamed_columns` names `{name}`, which the key, the partitions or the sort order need"
    if len({old.lower() for old in config.renamed_columns.values()}) < len(config.renamed_columns):
        yield "`renamed_columns` gives one old name to several columns"


def _changes_only(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.input == "state":
        for key in _CHANGES_ONLY:
            if key in values:
                yield f"`{key}` says how change events apply; it needs `input: changes`"


def _input_changelog(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.changelog == "input" and config.on_match != "replace":
        yield f"`changelog: input` never looks at the old row, which `on_match: {config.on_match}` needs"


def _refresh_of_changes(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.input == "changes" and config.refresh != "auto":
        yield f"`refresh: {config.refresh}` is for what a query says the table is; it needs `input: state`"


def _node_partition(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for transform in config.partition_by:
        if transform.is_bucket_of(config.hash_key):
            yield f"`partition_by: {transform}` buckets the hash key, which nodes do already; use `nodes`"


def _one_target(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if "target_file_bytes" in values and TARGET_PROPERTY in config.tblproperties:
        yield f"`target_file_bytes` and `{TARGET_PROPERTY}` in `tblproperties` say the same; keep `target_file_bytes`"


_RULES: tuple[Callable[[ModelConfig, Mapping[str, Any]], Iterable[str]], ...] = (
    _one_key,
    _hash_key_in_key,
    _repeated,
    _reserved,
    _excluded_key,
    _renamed_layout,
    _changes_only,
    _input_changelog,
    _refresh_of_changes,
    _node_partition,
    _one_target,
)


def _is_among(name: str, names: Iterable[str]) -> bool:
    return any(same_name(name, other) for other in names)


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"`{key}` must be a column name or a list of them; found {value!r}")
    return tuple(names)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"`{key}` must be a text; found {value!r}")
    return value


def _choice(kind: Any) -> Callable[[str, Any], Any]:
    values = get_args(kind)
    names = [str(allowed) for allowed in values]

    def read(key: str, value: Any) -> Any:
        if value in values and not isinstance(value, bool):
            return value
        close = difflib.get_close_matches(str(value), names, n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise ConfigError(f"`{key}` must be one of {', '.join(names)}; found {value!r}{hint}")

    return read


def _transforms(key: str, value: Any) -> tuple[Transform, ...]:
    return tuple(_transform(text) for text in _names(key, value))


def _transform(text: str) -> Transform:
    if _IDENTITY.fullmatch(text.strip()):
        return Transform("identity", _unquote(text.strip()))
    match = _TRANSFORM.fullmatch(text.strip())
    unit = _UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise ConfigError(
            f"`partition_by: {text}` is no Iceberg transform; write a column, or one of "
            "years(c), months(c), days(c), hours(c), bucket(n, c), truncate(w, c)"
        )
    if (unit in ("bucket", "truncate")) != (match["number"] is not None):
        raise ConfigError(f"`partition_by: {text}`: bucket and truncate take a number first, the others take none")
    number = int(match["number"]) if match["number"] is not None else None
    if number is not None and not 0 < number < 2**31:
        raise ConfigError(f"`partition_by: {text}`: the number must be at least 1, and fit into 32 bits")
    return Transform(unit, _unquote(match["column"]), number)


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


def _nodes(key: str, value: Any) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
        raise ConfigError(f"`{key}` must be auto or a power of two; found {value!r}")
    if value > MAX_NODES:
        raise ConfigError(f"`{key}` must be at most {MAX_NODES}; found {value}")
    return int(value)


def read_size(key: str, value: Any) -> int:
    """Bytes, from a number or a text such as `64 MiB`; raises ConfigError."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return int(match["number"]) * _UNIT_BYTES[match["unit"]]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"`{key}` must be a number of bytes, or a text such as 64 MiB or 1 GiB; found {value!r}")
    return int(value)


def _size_of_files(key: str, value: Any) -> int:
    size = read_size(key, value)
    if size < _SMALLEST_FILE:
        raise ConfigError(
            f"`{key}` must be at least 1 MiB: smaller files take longer to open than to read; found {value!r}"
        )
    return size


def _renamed(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for of in value.items() for name in of):
        raise ConfigError(f"`{key}` must be a mapping of new names to old ones; found {value!r}")
    return dict(value)


def _properties(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"`{key}` must be a mapping of Iceberg table properties; found {value!r}")
    if "format-version" in value:
        raise ConfigError(f"`{key}` can't set format-version, which is the base's alone; use `format_version`")
    reserved = [name for name in value if str(name).startswith("arctic.")]
    if reserved:
        raise ConfigError(f"`{key}` can't set {reserved}: names that start with `arctic.` are the table's own state")
    return {str(name): str(text).lower() if isinstance(text, bool) else str(text) for name, text in value.items()}


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "primary_key": _names,
    "unique_key": _names,
    "partition_by": _transforms,
    "hash_key": _text,
    "sort_key": _names,
    "merge": _choice(Merge),
    "input": _choice(Input),
    "refresh": _choice(Refresh),
    "sequence_by": _text,
    "delete_when": _text,
    "on_match": _choice(OnMatch),
    "exclude_columns": _names,
    "renamed_columns": _renamed,
    "changelog": _choice(Changelog),
    "on_schema_change": _choice(OnSchemaChange),
    "on_configuration_change": _choice(OnConfigurationChange),
    "compaction": read_compaction,
    "retention": read_retention,
    "nodes": _nodes,
    "target_file_bytes": _size_of_files,
    "node_bytes": _size_of_files,
    "format_version": _choice(FormatVersion),
    "tblproperties": _properties,
}
