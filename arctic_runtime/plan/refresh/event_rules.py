"""Detects changes of event rules: the configuration keys by which rows are computed from change events.

A row is the combined effect of all events of its key. If a merge function is changed from `sum` to `max`, for example,
the stored values are no valid start for later events. So each run's commit stores a hash of each rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model, ModelConfig

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


def find_changed_rules(config: ModelConfig, then: Mapping[str, str]) -> tuple[str, ...]:
    """Lists the event rules whose value differs from `then`, an earlier result of `hash_event_rules`.

    A merge function counts as unchanged if only its column was renamed by `renamed_columns`.
    """
    now, before = hash_event_rules(config), dict(then)
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
    lost = [name for name, state in sources.items() if state and (state.trimmed or state.may_have_deleted_rows)]
    declared = last.declared or Declared()
    reasons = {
        f"{', '.join(lost)} may no longer have all events": bool(lost),
        "the table was restored to an older version": last.restored is not None,
        f"rows were declared: {declared.describe_declarations()}": bool(declared.points),
    }
    obstacles = [reason for reason, is_so in reasons.items() if is_so]
    if obstacles:
        raise ConfigError(
            f"{model.table}: {_quote_rules(changed)} changed, and the rows in the table can't be computed again from "
            "their events; nothing was written.",
            expected="upstreams that have all events since the first, and no other origin of rows",
            actual="; ".join(obstacles),
            fix=f"set the old value; {_describe_alternatives(changed)}",
        )


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
