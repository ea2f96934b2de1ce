"""Converts a node of a manifest to a model: its keys, and what its contract and its documentation say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.served_settings import SERVED_SETTINGS
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.config.config_readers import read_flag
from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.config.configure import select_user_keys
from arctic_runtime.plan.config.foreign_config import take_foreign_settings
from arctic_runtime.plan.config.foreign_treatments import ARCTIC

_SERVED = frozenset(setting.name for setting in SERVED_SETTINGS)


def read_model_keys(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys that a model has in `meta.arctic`, without those for the service; empty without any.

    Raises ConfigError if `meta.arctic` is no mapping.
    """
    return {key: value for key, value in _read_meta(node).items() if key not in _SERVED}


def is_tested_after_refresh(node: Mapping[str, Any]) -> bool:
    """Whether a service runs the data tests of a model after each refresh.

    Raises ConfigError if `test_after_refresh` is no boolean.
    """
    return read_flag(f"{node['unique_id']}: test_after_refresh", _read_meta(node).get("test_after_refresh", False))


def has_schedule(node: Mapping[str, Any]) -> bool:
    """Whether a node is a model that a service with dbt runs at times."""
    return node["resource_type"] == "model" and bool(_read_meta(node).get("schedule"))


def _read_meta(node: Mapping[str, Any]) -> dict[str, Any]:
    config = node.get("config") or {}
    written = (config.get("meta") or node.get("meta") or {}).get(ARCTIC) or {}
    if not isinstance(written, Mapping):
        raise ConfigError(
            f"{node['unique_id']}: `meta.{ARCTIC}` is not a mapping.",
            expected="keys of the model, such as `primary_key: order_id`",
            actual=repr(written),
        )
    return {str(key): value for key, value in written.items()}


def select_written_keys(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration that users wrote for an arctic model, without dbt's defaults.

    Keys in `meta.arctic` override those in the configuration. Settings of other adapters are left out or translated.
    Raises ConfigError for settings that can't be honoured.
    """
    unrendered = node.get("unrendered_config") or {}
    if isinstance(unrendered.get("freshness"), str):
        raise ConfigError(
            f"{node['unique_id']}: `freshness` of a model is a key of dbt, not a duration; use `target_lag`"
        )
    taken = take_foreign_settings({**node["config"], "materialized": ARCTIC})
    for refusal in taken.refusals:
        raise ConfigError(
            f"{node['unique_id']}: `{refusal.setting}` {refusal.because}.",
            actual=f"{refusal.setting}: {refusal.value!r}",
            fix=refusal.fix,
        )
    in_meta = read_model_keys(node)
    written = {*unrendered, *(node.get("config_call_dict") or {}), *in_meta}
    return select_user_keys({**taken.keys, **in_meta}, written)


def select_known_keys(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of arctic models among `select_written_keys`, and all keys in `meta.arctic`.

    Other keys of the configuration are those of the adapter that wrote the manifest.
    """
    in_meta = read_model_keys(node)
    return {key: value for key, value in select_written_keys(node).items() if key in KEYS or key in in_meta}


def build_model(
    node: Mapping[str, Any],
    table: TableName,
    sql: str,
    config: ModelConfig,
    sources: Mapping[TableName, bool] | None = None,
) -> Model:
    """Builds the model of a node with its compiled query; raises ConfigError if its contract can't be kept.

    `sources` are the tables that the project declares as sources, each with whether the project ingests it. A table
    with the model's name that is not one of them may be replaced by the model; without `sources`, the model replaces no
    table.
    """
    return Model(
        table=table,
        sql=sql.strip().rstrip(";"),
        config=config,
        not_null=list_not_null_columns(node, config.primary_key),
        masks=read_masks(node),
        checks=_list_checks(node),
        contract=_build_contract(node),
        comment=_get_comment(node),
        column_comments=_list_column_comments(node),
        may_replace=sources is not None and table not in sources,
        foreign_tables=frozenset(source for source, is_ingested in (sources or {}).items() if not is_ingested),
    )


def _has_contract(node: Mapping[str, Any]) -> bool:
    return bool((node["config"].get("contract") or {}).get("enforced"))


def _list_constraints(node: Mapping[str, Any]) -> list[tuple[str, list[str], str]]:
    """Lists the type, the columns and the expression ("" for none) of each constraint of an enforced contract."""
    declared = list_declared_constraints(node)
    return [
        (str(getattr(c["type"], "value", c["type"])), columns, c.get("expression") or "") for c, columns in declared
    ]


def list_declared_constraints(node: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], list[str]]]:
    """Lists each constraint of an enforced contract, as written, with its columns; empty if none is enforced."""
    if not _has_contract(node):
        return []
    constraints = [(c, list(c.get("columns") or ())) for c in node.get("constraints") or ()]
    for name, column in (node.get("columns") or {}).items():
        constraints += [(c, [name]) for c in column.get("constraints") or ()]
    return constraints


def list_not_null_columns(node: Mapping[str, Any], key: Sequence[str]) -> tuple[str, ...]:
    """Lists the columns that an enforced contract declares as not null.

    Raises ConfigError if the contract has another primary key than `key`, or a constraint that can't be checked.
    """
    names: list[str] = []
    for kind, columns, _ in _list_constraints(node):
        if kind == "primary_key" and set(columns) - set(key):
            raise ConfigError(
                f"{node['unique_id']}: the primary key of the contract, {columns}, differs from the configured "
                f"`primary_key`, {list(key)}; make them equal"
            )
        if kind == "custom":
            raise ConfigError(
                f"{node['unique_id']}: a `custom` constraint is not supported for materialized='arctic'; "
                "write it as a `check` constraint, or write a dbt test"
            )
        names += columns if kind == "not_null" else []
    return tuple(dict.fromkeys(names))


def _list_checks(node: Mapping[str, Any]) -> tuple[str, ...]:
    expressions = (expression for kind, _, expression in _list_constraints(node) if kind == "check")
    return tuple(dict.fromkeys(filter(None, expressions)))


def _build_contract(node: Mapping[str, Any]) -> tuple[Column, ...]:
    if not _has_contract(node):
        return ()
    return tuple(Column(name, column.get("data_type") or "") for name, column in node.get("columns", {}).items())


def _get_comment(node: Mapping[str, Any]) -> str | None:
    return (node.get("description") or None) if _persists_docs(node, "relation") else None


def _list_column_comments(node: Mapping[str, Any]) -> dict[str, str]:
    if not _persists_docs(node, "columns"):
        return {}
    described = {name: column.get("description") for name, column in node.get("columns", {}).items()}
    return {name: text for name, text in described.items() if text}


def _persists_docs(node: Mapping[str, Any], part: str) -> bool:
    return bool((node["config"].get("persist_docs") or {}).get(part))
