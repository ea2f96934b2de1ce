"""Functions that translate settings of other dbt adapters to configuration keys of arctic models."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import RESERVED
from arctic_runtime.plan.config.foreign_treatments import Translation

_COLUMN: Final = re.compile(r"\w+|`[^`]+`|\"[^\"]+\"")
_OUTER_COMMA: Final = re.compile(r",(?![^()]*\))")
_CALL: Final = re.compile(r"(?P<function>\w+)\s*\(\s*(?P<column>[^(),]+?)\s*\)")
_DATE_TRUNC: Final = re.compile(r"date_?trunc\s*\(\s*'?(?P<unit>\w+)'?\s*,\s*(?P<column>[^(),]+?)\s*\)", re.IGNORECASE)
_COLUMN_FIRST: Final = re.compile(
    r"(?P<function>bucket|truncate)\s*\(\s*(?P<column>[^(),]+?)\s*,\s*(?P<number>\d+)\s*\)", re.IGNORECASE
)
_FORMAT_VERSION: Final = "format-version"
_LAG: Final = re.compile(r"(?P<number>\d+)\s*(?P<unit>second|minute|hour|day)s?", re.IGNORECASE)

_GRANULARITIES: Final = {"hour": "hours", "day": "days", "month": "months", "year": "years"}
_FUNCTIONS: Final = {
    "toyyyymm": "months",
    "tostartofmonth": "months",
    "toyyyymmdd": "days",
    "todate": "days",
    "tostartofday": "days",
    "tostartofhour": "hours",
    "toyear": "years",
    "tostartofyear": "years",
}
"""Maps functions of ClickHouse, as in a PARTITION BY, to Iceberg transforms that give the same partitions."""


def suggest_sort_key(value: Any, config: Mapping[str, Any]) -> Translation:
    """Uses the columns by which another warehouse clusters or sorts a table as `sort_key`, unless that is set."""
    columns = _list_columns(value)
    if columns is None:
        return Translation({}, "not used as `sort_key`, since not all of it are columns")
    if config.get("sort_key"):
        return Translation({}, "not used, since there is a `sort_key`")
    unusable = {name.lower() for name in (*RESERVED, *_list_changed_columns(config))}
    if unusable & {column.lower() for column in columns}:
        return Translation({}, "not used as `sort_key`, since a column is reserved, excluded or renamed")
    return Translation({"sort_key": columns}, "used as `sort_key`")


def _list_columns(value: Any) -> list[str] | None:
    """Returns the columns in a text such as `a, b`, or in a list, each once; None if a part is an expression."""
    parts = _split_parts(value)
    if not parts or not all(_COLUMN.fullmatch(part) for part in parts):
        return None
    columns = {_unquote_text(part).lower(): _unquote_text(part) for part in reversed(parts)}
    return list(reversed(columns.values()))


def _split_parts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return []
    inner = (text.strip()[1:-1] if re.fullmatch(r"\(.*\)", text.strip(), re.DOTALL) else text for text in texts)
    return [part.strip() for text in inner for part in _OUTER_COMMA.split(text) if part.strip()]


def _list_changed_columns(config: Mapping[str, Any]) -> list[str]:
    excluded, renamed = config.get("exclude_columns") or [], config.get("renamed_columns") or {}
    names = [excluded] if isinstance(excluded, str) else list(excluded)
    return [*map(str, names), *(str(name) for pair in dict(renamed).items() for name in pair)]


def translate_properties(value: Any, config: Mapping[str, Any]) -> Translation | None:
    """Makes `format-version` among the properties of a table the `format_version`, if there is none.

    Returns None if the properties are without it.
    """
    if not isinstance(value, Mapping) or _FORMAT_VERSION not in value:
        return None
    others = {name: text for name, text in value.items() if name != _FORMAT_VERSION}
    keys: dict[str, Any] = {"tblproperties": others} if others else {}
    if config.get("format_version") is not None:
        return Translation(keys, f"`{_FORMAT_VERSION}` is not used, since there is a `format_version`")
    version = str(value[_FORMAT_VERSION]).strip()
    keys["format_version"] = int(version) if version.isdecimal() else version
    return Translation(keys, f"`{_FORMAT_VERSION}` is used as `format_version`")


def translate_partition_by(value: Any, config: Mapping[str, Any]) -> Translation | None:
    """Translates BigQuery's mapping, and ClickHouse's functions, to Iceberg transforms; None for other values."""
    transforms = list_transforms(value)
    if transforms is None:
        return None
    if isinstance(value, Mapping):
        _check_range(value, config)
    return Translation({"partition_by": transforms}, "translated to Iceberg's transforms")


def translate_partitioned_by(value: Any, config: Mapping[str, Any]) -> Translation:
    """Uses Athena's `partitioned_by` as `partition_by`, unless that is set.

    Buckets of key columns are left out for arctic models, because the base table has such buckets anyway.
    """
    if config.get("partition_by"):
        return Translation({}, "not used, since there is a `partition_by`")
    transforms = list_transforms_column_first(value)
    if config.get("materialized") == "arctic":
        key = config.get("primary_key") or config.get("unique_key") or []
        transforms = _drop_buckets(transforms, [key] if isinstance(key, str) else key)
    keys = {"partition_by": transforms} if transforms else {}
    return Translation(keys, "used as `partition_by`")


def _drop_buckets(transforms: list[str], key: Collection[str]) -> list[str]:
    names = {name.lower() for name in key}
    matches = ((text, re.fullmatch(r"bucket\(\d+, (.+)\)", text, re.IGNORECASE)) for text in transforms)
    return [text for text, match in matches if match is None or _unquote_text(match[1]).lower() not in names]


def list_transforms(value: Any) -> list[str] | None:
    """Translates another adapter's `partition_by` to Iceberg transforms; None for columns and Iceberg transforms."""
    if isinstance(value, Mapping):
        return [_translate_mapping(value)]
    parts = _split_parts(value)
    transforms = [_translate_function(part) for part in parts]
    return transforms if transforms != parts else None


def list_transforms_column_first(value: Any) -> list[str]:
    """Translates transforms of Athena and Trino, with the column before the number, to Iceberg transforms."""
    return [_swap_arguments(part) for part in _split_parts(value)]


def _swap_arguments(text: str) -> str:
    match = _COLUMN_FIRST.fullmatch(text)
    if match is None or match["column"].isdigit():
        return text
    return f"{match['function']}({match['number']}, {_write_column(_unquote_text(match['column']))})"


def _translate_function(text: str) -> str:
    call, trunc = _CALL.fullmatch(text), _DATE_TRUNC.fullmatch(text)
    if trunc is not None and trunc["unit"].lower() in _GRANULARITIES:
        return _write_transform(_GRANULARITIES[trunc["unit"].lower()], _unquote_text(trunc["column"]))
    if call is not None and call["function"].lower() in _FUNCTIONS:
        return _write_transform(_FUNCTIONS[call["function"].lower()], _unquote_text(call["column"]))
    return text


def _translate_mapping(value: Mapping[Any, Any]) -> str:
    field, kind = value.get("field"), str(value.get("data_type") or "date").lower()
    if not isinstance(field, str) or not field:
        raise ConfigError("`partition_by` is a mapping without a `field`; name the column in it, or write a transform")
    if value.get("time_ingestion_partitioning"):
        raise ConfigError(
            f"`partition_by: time_ingestion_partitioning` leaves the column {field} out of the table, which can't be "
            "honoured; partition by a column of the query"
        )
    if kind == "int64":
        return f"truncate({_read_range(value)[1]}, {_write_column(field)})"
    unit = _GRANULARITIES.get(str(value.get("granularity") or "day").lower())
    if kind not in ("date", "timestamp", "datetime") or unit is None:
        raise ConfigError(
            f"`partition_by` of {field} must have the data type date, timestamp, datetime or int64, and one of the "
            f"granularities {', '.join(_GRANULARITIES)}; found "
            f"{value.get('data_type')!r} and {value.get('granularity')!r}"
        )
    return _write_transform(unit, field)


def _read_range(value: Mapping[Any, Any]) -> tuple[int, int]:
    """Returns `start` and `interval` of BigQuery's `range` of integers; raises ConfigError if they are not valid."""
    parts = value.get("range")
    start, interval = (parts.get("start", 0), parts.get("interval")) if isinstance(parts, Mapping) else (0, None)
    if not isinstance(start, int) or not isinstance(interval, int) or not 0 < interval < 2**31:
        raise ConfigError(
            f"`partition_by` of int64 needs a `range` with `start`, `end` and `interval`; found {parts!r}"
        )
    return start, interval


def _check_range(value: Mapping[Any, Any], config: Mapping[str, Any]) -> None:
    """Raises ConfigError for ranges that Iceberg divides at other numbers, if runs replace whole partitions."""
    if str(value.get("data_type")).lower() != "int64" or config.get("incremental_strategy") != "insert_overwrite":
        return
    start, interval = _read_range(value)
    if config.get("materialized") == "incremental" and start % interval:
        raise ConfigError(
            f"`partition_by` has ranges that begin at {start}, which is no multiple of {interval}: `insert_overwrite` "
            "would replace other rows; let `start` be a multiple of `interval`"
        )


def translate_lag(value: Any, _config: Mapping[str, Any]) -> Translation | None:
    """Translates Snowflake's `target_lag`, such as `10 minutes` and `downstream`; None for other values."""
    text = value.strip() if isinstance(value, str) else ""
    if text.lower() == "downstream":
        return Translation({}, "`downstream` is left out: a model is refreshed as soon as its upstreams change")
    match = _LAG.fullmatch(text)
    if match is None:
        return None
    return Translation({"target_lag": match["number"] + match["unit"][0].lower()}, "used as `target_lag`")


def _write_transform(unit: str, column: str) -> str:
    return f"{unit}({_write_column(column)})"


def _write_column(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _unquote_text(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in '`"' else name
