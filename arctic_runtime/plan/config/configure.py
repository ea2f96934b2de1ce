"""Reads a model's configuration, checks it, and returns it as a ModelConfig."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from arctic_runtime.errors import ConfigError, find_nearest
from arctic_runtime.model.columns import HISTORY_COLUMNS, RECORDED_FROM, RESERVED, VALID_FROM, is_same_name
from arctic_runtime.model.files.layout import TARGET_PROPERTY
from arctic_runtime.model.merge_columns import COMMUTATIVE
from arctic_runtime.model.table import ModelConfig
from arctic_runtime.plan.config.configuration import CONFIGURATION, KEYS

NO_KEY = "none"
"""Value of `primary_key` that stands for a user's `null`: the table has no primary key."""

_KEYED_ONLY = (
    "unique_key",
    "hash_key",
    "merge",
    "sequence_by",
    "columns_to_update",
    "unavailable_value",
    "delete_when",
    "truncate_when",
    "on_match",
    "merge_columns",
    "renamed_columns",
    "history",
    "changelog",
    "keep",
    "frozen_where",
    "nodes",
    "node_bytes",
    "format_version",
)
"""Configuration keys that are not allowed if `primary_key` is `null`, so that events are appended as rows."""


def read_configuration(
    raw: Mapping[str, Any], where: str, known: Collection[str] = (), may_lack_key: bool = False
) -> ModelConfig:
    """Checks a model's configuration and returns it with typed values.

    `raw` has the keys that the user set; `known` are the names of keys of dbt and other packages, which are ignored.
    `where` names the model in messages. Raises one ConfigError with all problems, not only the first. With
    `may_lack_key` the primary key may be missing; if it is, contradictions between keys are not checked.
    """
    is_keyless = may_lack_key and lacks_key(raw)
    raw, is_appended = _strip_absent_key(raw)
    problems: list[str] = list(_check_unknown_keys(raw, known))
    values: dict[str, Any] = {}
    for key in CONFIGURATION:
        if raw.get(key.name) is not None:
            try:
                values[key.name] = key.read(key.name, raw[key.name])
            except ConfigError as error:
                problems.append(str(error))
    problems.extend([] if is_appended or is_keyless else _check_missing_key(raw))
    if not problems:
        config = replace(_assemble_config(values), is_appended=is_appended)
        problems.extend([] if is_keyless else _check_contradictions(config, values))
    if problems:
        raise ConfigError(f"{where}: invalid configuration.\n" + "\n".join(f"  - {text}" for text in problems))
    return config


def _strip_absent_key(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Removes `primary_key` from `raw` if its value is `null` or NO_KEY; also returns whether it is."""
    key_value = raw.get("primary_key", ())
    is_none = key_value is None or (isinstance(key_value, str) and key_value.lower() == NO_KEY)
    return {key: value for key, value in raw.items() if key != "primary_key" or not is_none}, is_none


def select_user_keys(config: Mapping[str, Any], written: Collection[str]) -> dict[str, Any]:
    """Removes from dbt's merged configuration the defaults that dbt itself has filled in for keys of arctic models.

    `written` are the names of the keys that the user has set. A `primary_key` that the user has set to `null` becomes
    NO_KEY.
    """
    filled = {key.name for key in CONFIGURATION if key.is_filled_by_dbt}
    keys = {key: config[key] for key in config if key not in filled or key in written}
    says_none = "primary_key" in written and keys.get("primary_key") is None
    return {**keys, "primary_key": NO_KEY} if says_none else keys


def _check_unknown_keys(raw: Mapping[str, Any], known: Collection[str]) -> Iterable[str]:
    names = [*KEYS, *known]
    for key in raw:
        if key not in names:
            nearest = find_nearest(key, names)
            hint = f"did you mean `{nearest}`?" if nearest else "put keys of your own below `meta`"
            yield f"unknown key `{key}`; {hint}"


def lacks_key(raw: Mapping[str, Any]) -> bool:
    """Whether the user has set neither `primary_key` nor `unique_key`; `raw` is as `select_user_keys` returns it."""
    return raw.get("primary_key") is None and raw.get("unique_key") is None


def _check_missing_key(raw: Mapping[str, Any]) -> Iterable[str]:
    if lacks_key(raw):
        yield (
            "`primary_key` is missing; name the columns that identify a row, `[]` for a query with one row, or `null` "
            "for change events that are appended"
        )


def _assemble_config(values: dict[str, Any]) -> ModelConfig:
    fields = {key: value for key, value in values.items() if key != "unique_key"}
    fields.setdefault("primary_key", values.get("unique_key", ()))
    if isinstance(fields.get("sequence_by"), dict):
        fields["sequence_groups"] = fields.pop("sequence_by")
    key = fields["primary_key"]
    fields.setdefault("hash_key", key[0] if key else None)
    if fields.get("history", "none") != "none":
        fields["primary_key"] = (*key, VALID_FROM, *((RECORDED_FROM,) if fields.get("valid_time") else ()))
    return ModelConfig(**fields)


def _check_contradictions(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for rule in _RULES:
        yield from rule(config, values)


def _check_one_key(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if "unique_key" in values and values.get("primary_key", values["unique_key"]) != values["unique_key"]:
        yield "`primary_key` and `unique_key` differ; keep `primary_key`"


def _check_keyless_options(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if not config.is_appended:
        return
    if config.input != "changes":
        yield "`primary_key: null` is for change events that are appended; it needs `input: changes`"
    for key in _KEYED_ONLY:
        if key in values:
            yield f"`{key}` needs a primary key, and `primary_key: null` says that there is none"


def _hash_key_in_key(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.hash_key is not None and not _is_among(config.hash_key, config.entity_key):
        yield f"`hash_key: {config.hash_key}` must be one of the primary key's columns: {list(config.entity_key)}"


def _check_repeated_columns(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for key in ("primary_key", "partition_by", "sort_key", "exclude_columns", "track"):
        names = [name.lower() for name in _list_columns(config, key)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"`{key}` names `{name}` more than once"


def _list_columns(config: ModelConfig, key: str) -> tuple[str, ...]:
    """Returns the columns or transforms in the value of the configuration key `key`."""
    return {
        "primary_key": config.primary_key,
        "partition_by": tuple(map(str, config.partition_by)),
        "sort_key": config.sort_key,
        "exclude_columns": config.exclude_columns,
        "track": config.track,
    }[key]


def _check_reserved_columns(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for name in (*config.primary_key, *config.sort_key):
        if name.lower() in RESERVED:
            yield f"`{name}` is a name that change rows reserve; rename the column in the query"


def _check_excluded_columns(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    layout_columns = (*config.primary_key, *config.sort_key, *(transform.column for transform in config.partition_by))
    for name in config.exclude_columns:
        if _is_among(name, layout_columns):
            yield f"`exclude_columns` drops `{name}`, which the key, the partitions or the sort order need"


def _check_renamed_columns(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    layout_columns = (*config.primary_key, *config.sort_key, *(transform.column for transform in config.partition_by))
    for new, old in config.renamed_columns.items():
        for name in (new, old):
            if _is_among(name, layout_columns):
                yield f"`renamed_columns` names `{name}`, which the key, the partitions or the sort order need"
    if len({old.lower() for old in config.renamed_columns.values()}) < len(config.renamed_columns):
        yield "`renamed_columns` gives one old name to several columns"


def _check_event_options(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.input == "state":
        for key in CONFIGURATION:
            if key.needs_changes and key.name in values:
                yield f"`{key.name}` says how change events apply; it needs `input: changes`"


def _check_input_changelog(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.changelog == "input" and config.on_match != "replace":
        yield f"`changelog: input` never looks at the old row, which `on_match: {config.on_match}` needs"


def _merge_functions(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    names = [name.lower() for name in config.merge_columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"`merge_columns` names `{name}` more than once"
    for name, function in config.merge_columns.items():
        if _is_among(name, (*config.primary_key, *config.exclude_columns)):
            yield f"`merge_columns` names `{name}`, which is in `primary_key` or `exclude_columns`"
        if function not in COMMUTATIVE and config.sequence_by is None:
            yield f"`merge_columns: {name}: {function}` depends on the order of events; it needs `sequence_by`"
    if config.merge_columns and config.changelog == "input":
        yield "`changelog: input` never looks at the old row, which `merge_columns` needs"


def _check_flows(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    groups = config.sequence_groups
    if not groups:
        return
    names = [column.lower() for sequence, columns in groups.items() for column in (sequence, *columns)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"`sequence_by` names `{name}` more than once"
    for name in names:
        if _is_among(name, (*config.primary_key, *config.exclude_columns)):
            yield f"`sequence_by` names `{name}`, which is in `primary_key` or `exclude_columns`"
    for key, value, default in (
        ("on_match", config.on_match, "replace"),
        ("changelog", config.changelog, "lookup"),
        ("keep", config.keep, "net"),
        ("truncate_when", config.truncate_when, None),
    ):
        if value != default:
            yield f"`{key}: {value}` needs one order of all events; `sequence_by` has one for each flow"
    if config.delete_when is not None and config.merge_columns:
        yield "`delete_when` and `merge_columns` need one order of all events; `sequence_by` has one for each flow"


def _check_partial_events(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    keys = [key for key in ("columns_to_update", "unavailable_value") if values.get(key) is not None]
    if not keys:
        return
    for key, value, default, why in (
        ("on_match", config.on_match, "replace", "says by itself which columns of an event count"),
        ("changelog", config.changelog, "lookup", "never looks at the old row, which keeps the other columns"),
        ("history", config.history, "none", "needs events with whole rows"),
    ):
        if value != default:
            yield f"`{key}: {value}` {why}; leave out {_quote_keys(keys)}"
    for name, function in config.merge_columns.items():
        if function == "first":
            yield (
                f"`merge_columns: {name}: first` needs events with whole rows: a null does not show whether an earlier "
                f"event had the column; leave out {_quote_keys(keys)}"
            )
    orders = (*filter(None, (config.sequence_by,)), *config.sequence_groups)
    flows = (item for columns in config.sequence_groups.values() for item in columns)
    used = (*config.primary_key, *orders, *flows, *config.merge_columns)
    if config.columns_to_update is not None and _is_among(config.columns_to_update, used):
        yield f"`columns_to_update: {config.columns_to_update}` is not stored, and another key uses it as a column"


def _quote_keys(keys: Iterable[str]) -> str:
    return " and ".join(f"`{key}`" for key in keys)


def _check_truncations(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.truncate_when is not None and config.changelog == "input":
        yield "`changelog: input` never looks at the table, which `truncate_when` needs"


def _keep_all(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.keep == "all" and config.input == "state":
        yield "`keep: all` says which change events are kept; it needs `input: changes`"
    if config.keep == "all" and config.changelog == "input":
        yield "`changelog: input` never looks at the old row, which `keep: all` needs"


def _refresh_of_changes(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if config.input == "changes" and config.refresh != "auto":
        yield f"`refresh: {config.refresh}` is for what a query says the table is; it needs `input: state`"


def _check_query_change(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    """Yields a message for each key with which the rows of earlier queries can't stay after an edit of the query."""
    if config.on_query_change != "forward":
        return
    if config.input == "changes":
        yield "`on_query_change: forward` is for `input: state`; an edited query of change events holds for later ones"
    if config.refresh == "full":
        yield "`on_query_change: forward` follows changes by the edited query, which `refresh: full` never does"
    if config.on_failed_row == "quarantine":
        yield (
            "`on_query_change: forward` would leave rows in the table that the tests of the edited query hold back; "
            "leave out `on_failed_row: quarantine`"
        )


def _check_options_without_history(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    """Yields a message for each key that is allowed only with `history: scd2`, if the table has no history."""
    if not config.has_history:
        for name in ("track", "valid_time", "keep_deleted", "current_view"):
            if name in values:
                yield f"`{name}` says how versions of a row are kept; it needs `history: scd2`"


def _check_history_rules(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    """Yields a message for each key that a table with history can't have.

    Versions are computed from events that have all columns, one event after the other.
    """
    if not config.has_history:
        return
    if config.merge_columns:
        yield "`history: scd2` needs events with whole rows; `merge_columns` makes them of several events"
    if config.keep == "all":
        yield "`history: scd2` keeps every version of a row already; leave out `keep: all`"
    if config.truncate_when is not None:
        yield "`history: scd2` closes versions one by one; write deletes to the source instead of `truncate_when`"


def _check_history(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if not config.has_history:
        return
    if not config.entity_key:
        yield "`history: scd2` needs a primary key with a column; of a query with one row, select a constant as the key"
    if config.input == "changes" and config.sequence_by is None:
        yield "`history: scd2` with `input: changes` needs `sequence_by`: its values are the times in `_valid_from`"
    if config.on_match != "replace":
        yield f"`history: scd2` needs events with whole rows; `on_match: {config.on_match}` takes a part of a row"
    if config.changelog == "input":
        yield "`history: scd2` looks up the stored versions of a row, which `changelog: input` never does"
    yield from _check_bitemporal(config)
    renamed = (name for pair in config.renamed_columns.items() for name in pair)
    key = values.get("primary_key", values.get("unique_key", ()))
    used = (*key, *config.exclude_columns, *config.track, *renamed)
    for name in used:
        if _is_among(name, HISTORY_COLUMNS):
            yield f"`{name}` is a column that `history: scd2` adds; rename the column in the query"
    for name in config.track:
        if _is_among(name, config.entity_key):
            yield f"`track` names `{name}`, which is in the primary key: another value there is another row"
        if _is_among(name, config.exclude_columns):
            yield f"`track` names `{name}`, which `exclude_columns` drops"


def _check_bitemporal(config: ModelConfig) -> Iterable[str]:
    if config.valid_time is None:
        return
    if config.input == "state":
        yield "`valid_time` is a column of change events; it needs `input: changes`"
    if config.track:
        yield "`track` has no meaning with `valid_time`: every event is a version"
    if not config.keep_deleted:
        yield "`keep_deleted: false` deletes versions, which a table with `valid_time` never does"


def _check_quarantine(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    """Yields a message for each key with which the rows that fail tests can't be in a table of their own."""
    if config.on_failed_row != "quarantine":
        return
    if config.input == "changes":
        yield (
            "`on_failed_row: quarantine` tests the rows of a query; with `input: changes` it returns events. "
            "Put it on a model of `input: state` that reads this one"
        )
    if config.has_history:
        yield (
            "`on_failed_row: quarantine` would end the versions of a row that fails; with `history: scd2`, put it on "
            "the model that this one reads"
        )
    if not config.entity_key and not config.is_appended and config.input == "state":
        yield "`on_failed_row: quarantine` needs a primary key with a column, by which a row returns"


def _check_frozen_rows(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    """Yields a message for a predicate that can't be kept, and for each key with which frozen rows can't stay."""
    if config.frozen_where is None:
        return
    # Imported here, since most commands need no parser of SQL.
    from arctic_runtime.ivm.frontend.frozen_predicate import check_frozen_predicate

    try:
        check_frozen_predicate(config.frozen_where)
    except ConfigError as error:
        yield f"`frozen_where`: {error}"
    for key, value, default, why in (
        ("history", config.history, "none", "ends versions and begins new ones, and never changes what a row was"),
        ("changelog", config.changelog, "lookup", "never looks at the old row, which may be frozen"),
        ("keep", config.keep, "net", "publishes the changes between two runs, in which a row may become frozen"),
        ("on_failed_row", config.on_failed_row, "hold", "moves rows out of the table, and frozen rows stay"),
    ):
        if value != default:
            yield f"`{key}: {value}` {why}; leave out `frozen_where`"
    if not config.primary_key and not config.is_appended:
        yield "`frozen_where` needs a primary key with a column: the one row of this query would be frozen or not"


def _check_bucket_partition(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    for transform in config.partition_by:
        if transform.is_bucket_of(config.hash_key):
            yield f"`partition_by: {transform}` buckets the hash key, which nodes do already; use `nodes`"


def _check_target_file_size(config: ModelConfig, values: Mapping[str, Any]) -> Iterable[str]:
    if "target_file_bytes" in values and TARGET_PROPERTY in config.tblproperties:
        yield f"`target_file_bytes` and `{TARGET_PROPERTY}` in `tblproperties` say the same; keep `target_file_bytes`"


_RULES: tuple[Callable[[ModelConfig, Mapping[str, Any]], Iterable[str]], ...] = (
    _check_one_key,
    _check_keyless_options,
    _hash_key_in_key,
    _check_repeated_columns,
    _check_reserved_columns,
    _check_excluded_columns,
    _check_renamed_columns,
    _check_event_options,
    _check_input_changelog,
    _merge_functions,
    _check_flows,
    _check_partial_events,
    _check_truncations,
    _keep_all,
    _refresh_of_changes,
    _check_query_change,
    _check_options_without_history,
    _check_history_rules,
    _check_history,
    _check_quarantine,
    _check_frozen_rows,
    _check_bucket_partition,
    _check_target_file_size,
)


def _is_among(name: str, names: Iterable[str]) -> bool:
    return any(is_same_name(name, other) for other in names)
