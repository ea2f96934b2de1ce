"""Checks the configuration keys by which rows are computed from change events, and detects changes of them.

A row is the combined effect of all events of its key. If a merge function is changed from `sum` to `max`, for example,
the stored values are no valid start for later events. So each run's commit stores a hash of each rule.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.configured_expressions import NEW, OLD, list_row_columns
from arctic_runtime.model.columns import RESERVED, Column, find_column, is_same_name
from arctic_runtime.model.merge_columns import FUNCTIONS, select_expressions
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.refresh.schema import require_column
from arctic_runtime.sql.types import Array, Map, Primitive, Struct, has_map, read_type

_MERGE_RULE_PREFIX = "merge_columns: "
_ORDER_KEYS = ("sequence_by", "valid_time")
"""Keys that define the order of events; values of `_seq` that are stored by one order can't be compared in another."""


def hash_event_rules(config: ModelConfig) -> dict[str, str]:
    """Maps each event rule, a configuration key by which events become rows, to a hash of its value.

    Keys that are not set are left out. `merge_columns` has an entry for each column.
    """
    return {key: hashlib.sha256(value.encode()).hexdigest()[:16] for key, value in _list_event_rules(config)}


def _list_event_rules(config: ModelConfig) -> Iterator[tuple[str, str]]:
    texts = {
        "sequence_by": config.sequence_by,
        "columns_to_update": config.columns_to_update,
        "unavailable_value": config.unavailable_value,
        "delete_when": config.delete_when,
        "truncate_when": config.truncate_when,
        "on_match": None if config.on_match == "replace" else config.on_match,
        "valid_time": config.valid_time,
        "track": repr(sorted(column.lower() for column in config.track)) if config.track else None,
        "keep_deleted": None if config.keep_deleted else "false",
    }
    yield from ((key, text) for key, text in texts.items() if text is not None)
    for sequence, columns in config.sequence_groups.items():
        yield f"sequence_by: {sequence.lower()}", repr(sorted(column.lower() for column in columns))
    for column, function in config.merge_columns.items():
        yield _MERGE_RULE_PREFIX + column.lower(), function


def find_changed_rules(config: ModelConfig, earlier: Mapping[str, str]) -> tuple[str, ...]:
    """Lists the event rules whose value differs from `earlier`, an earlier result of `hash_event_rules`.

    A merge function counts as unchanged if only its column was renamed by `renamed_columns`.
    """
    now, before = hash_event_rules(config), dict(earlier)
    for new, old in config.renamed_columns.items():
        was, called = _MERGE_RULE_PREFIX + old.lower(), _MERGE_RULE_PREFIX + new.lower()
        if was in before and called not in before and was not in now:
            before[called] = before.pop(was)
    return tuple(sorted(key for key in {*now, *before} if now.get(key) != before.get(key)))


def can_continue(model: Model, changed: tuple[str, ...]) -> bool:
    """Whether a run may apply the changed event rules to later events only, without a computation of existing rows.

    True if the model has `on_configuration_change: continue`, and none of the `changed` keys defines the order of
    events.
    """
    return model.config.on_configuration_change == "continue" and not _changes_order(changed)


def check_recomputable(
    model: Model, changed: tuple[str, ...], last: RunSummary, sources: Mapping[str, SourceState | None]
) -> None:
    """Raises ConfigError if all rows can't be computed again from their events, or if the model forbids this.

    `changed` are the changed event rules, and `last` is the summary of the table's last run.
    """
    if model.config.on_configuration_change == "fail":
        raise ConfigError(
            f"{model.table}: {_quote_rules(changed)} changed, and `on_configuration_change` is `fail`.",
            expected="the values that the rows in the table were computed with",
            fix=f"set the old value; {_describe_alternatives(changed, 'apply')}",
        )
    obstacles = list_fold_obstacles(last, _select_complete(model, sources))
    if obstacles:
        raise ConfigError(
            f"{model.table}: {_quote_rules(changed)} changed, and the rows in the table can't be computed again from "
            "their events; nothing was written.",
            expected="upstreams that have all events since the first, and no other origin of rows",
            actual="; ".join(obstacles),
            fix=f"set the old value; {_describe_alternatives(changed)}",
        )


def list_fold_obstacles(last: RunSummary, sources: Mapping[str, SourceState | None]) -> list[str]:
    """Lists for users why rows can't be computed again from all events of their keys; `last` is the last run's record.

    They can't if `sources` may have lost events, or if a restore or an overwrite wrote some of the rows.
    """
    lost = [name for name, state in sources.items() if state and (state.trimmed or state.may_have_deleted_rows)]
    declared = last.declared or Declared()
    reasons = {
        f"{', '.join(lost)} may no longer have all events": bool(lost),
        "the table was restored to an older version": last.restored is not None,
        f"rows were declared: {declared.describe_declarations()}": bool(declared.points),
    }
    return [reason for reason, is_so in reasons.items() if is_so]


def _select_complete(model: Model, sources: Mapping[str, SourceState | None]) -> Mapping[str, SourceState | None]:
    """Returns the sources that need all of their events; a landing table need not have those of frozen rows."""
    if model.config.frozen_where is None:
        return sources
    return {name: state for name, state in sources.items() if state and state.kind == "changes"}


def _describe_alternatives(changed: tuple[str, ...], apply: str = "") -> str:
    ways = [f"set `on_configuration_change: {apply}` to compute all rows again from their events"] if apply else []
    if not _changes_order(changed):
        ways.append("set `on_configuration_change: continue` to apply the new one to later events only")
    ways.append("run with --full-refresh to rebuild the table from the events that the upstreams still have")
    return "; or ".join(ways)


def _changes_order(changed: tuple[str, ...]) -> bool:
    return any(key in _ORDER_KEYS for key in changed)


def _quote_rules(changed: tuple[str, ...]) -> str:
    return ", ".join(f"`{key}`" for key in changed)


_ORDERABLE = re.compile(r"bigint|int|decimal\(\d+,\d+\)|timestamp|timestamp_ntz|date|string|double|float")
_NUMBER = re.compile(r"int|bigint|float|double|decimal\(\d+,\d+\)")


def select_stored_columns(model: Model, query: tuple[Column, ...]) -> tuple[Column, ...]:
    """Selects the columns of `query` that the table stores.

    Left out are `exclude_columns`, the column of `columns_to_update` and, for a model of change events, columns with
    reserved names such as `_action`.
    """
    dropped = {name.lower() for name in (*model.config.exclude_columns, model.config.columns_to_update) if name}
    if model.config.input == "changes":
        dropped |= set(RESERVED)
    return tuple(column for column in query if column.name.lower() not in dropped)


def find_sequence_type(model: Model, query: tuple[Column, ...]) -> str:
    """Returns the type of `_seq`: the type of the `sequence_by` column if there is one, else bigint.

    Raises ConfigError if a column that orders events is missing, or is of a type without an order.
    """
    config = model.config
    named = [name for name in (config.sequence_by, *config.sequence_groups) if name is not None]
    types = [_find_ordered_type(model, query, name) for name in named]
    return types[0] if config.sequence_by is not None else "bigint"


def _find_ordered_type(model: Model, query: tuple[Column, ...], sequence: str) -> str:
    column = find_column(query, sequence)
    if column is None or not _ORDERABLE.fullmatch(column.type):
        raise ConfigError(
            f"{model.table}: `sequence_by: {sequence}` must be a number, a date, a timestamp or a string.",
            actual=column.type if column else "no such column",
            fix="cast it in the query",
        )
    return column.type


def check_events(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError if `merge_columns`, `sequence_by` or `columns_to_update` don't fit the columns of the query.

    `query` are all columns of the query, `stored` those that the table stores.
    """
    _check_merge_columns(model, query, stored)
    _check_flows(model, stored)
    _check_columns_to_update(model, query, stored)


def _check_merge_columns(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    for name, function in model.config.merge_columns.items():
        require_column(model, stored, "merge_columns", name)
        column = find_column(stored, name)
        assert column is not None
        if function in FUNCTIONS and not _accepts_type(function, column.type):
            raise ConfigError(
                f"{model.table}: `merge_columns: {name}: {function}` needs {_TAKEN[function]}.",
                actual=column.type,
                fix="cast the column in the query, or choose another function",
            )
    for text in select_expressions(model.config.merge_columns).values():
        for row, columns in ((OLD, stored), (NEW, query)):
            for name in list_row_columns(text, row):
                require_column(model, columns, f"merge_columns: {text}", name)


def _check_flows(model: Model, stored: tuple[Column, ...]) -> None:
    groups = model.config.sequence_groups
    brought = [column for sequence, columns in groups.items() for column in (sequence, *columns)]
    for name in brought:
        require_column(model, stored, "sequence_by", name)
    known = (*brought, *model.config.primary_key, *model.config.merge_columns)
    others = [column.name for column in stored if not any(is_same_name(column.name, name) for name in known)]
    if groups and others:
        raise ConfigError(
            f"{model.table}: {', '.join(others)} belongs to no flow, so the order of its values is unknown.",
            expected=(
                f"each column in the primary key, in `merge_columns`, or in one of {', '.join(groups)} of `sequence_by`"
            ),
            fix="add it to the columns of its flow, or to `exclude_columns`",
        )


def select_optional_columns(model: Model, stored: tuple[Column, ...]) -> tuple[Column, ...]:
    """Selects the columns of `stored` that an event may lack: all but the primary key and columns that order events."""
    config = model.config
    always = (*config.primary_key, *filter(None, (config.sequence_by,)), *config.sequence_groups)
    return tuple(column for column in stored if not any(is_same_name(column.name, name) for name in always))


def _check_columns_to_update(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    own = model.config.columns_to_update
    if own is None:
        return
    require_column(model, query, "columns_to_update", own)
    column = find_column(query, own)
    assert column is not None
    match read_type(column.type):
        case Array(Primitive("string")) | Map(Primitive("string"), Primitive("boolean")):
            return
        case Struct(fields) if all(kind == Primitive("boolean") for _, kind in fields):
            _check_mask(model, [name for name, _ in fields], query, stored)
        case _:
            raise ConfigError(
                f"{model.table}: `columns_to_update: {own}` can't say which columns an event has.",
                expected=(
                    "array<string>, the names of the columns; or a mask: map<string,boolean>, or a struct of booleans "
                    "with a field for each column"
                ),
                actual=column.type,
                fix="make an array of names in the query, for example with `filter` or `split`",
            )


def _check_mask(model: Model, fields: list[str], query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError if a mask lacks a field for an optional column, or has a field without a column.

    A mask is a struct with a boolean field for each column, which is true if the event has a value for the column.
    `fields` are the names of its fields.
    """
    columns = select_optional_columns(model, stored)
    lacking = [column.name for column in columns if not any(is_same_name(column.name, name) for name in fields)]
    strange = [name for name in fields if find_column(query, name) is None]
    if lacking or strange:
        raise ConfigError(
            f"{model.table}: the mask `columns_to_update: {model.config.columns_to_update}` does not fit the query.\n"
            f"  columns without a field: {', '.join(lacking) or 'none'}\n"
            f"  fields without a column: {', '.join(strange) or 'none'}",
            fix="give the mask a boolean field for each stored column outside the key",
        )


_TAKEN = {"sum": "a number", "union": "an array", "max": "a type with an order", "min": "a type with an order"}


def _accepts_type(function: str, kind: str) -> bool:
    """Whether the merge function `function` is defined for values of the type `kind`."""
    if function == "sum":
        return _NUMBER.fullmatch(kind) is not None
    if function == "union":
        return kind.startswith("array<")
    return function not in ("max", "min") or not has_map(read_type(kind))
