"""Reads a model's keys for the service in `meta.arctic`: its schedule, and whether tests follow each refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dbt_common.exceptions import CompilationError

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.manifest.served_settings import SERVED_SETTINGS
from arctic_runtime.plan.config.configuration import KEYS as MODEL_KEYS
from arctic_runtime.service.cron_schedules import read_cron
from dbt.adapters.arctic.materialize.maintain import is_arctic

KEYS = tuple(setting.name for setting in SERVED_SETTINGS)


@dataclass(frozen=True)
class ServedKeys:
    """Keys of a model for the service.

    `schedule` is the cron expression by which dbt runs a model that is not arctic, None without one.
    `test_after_refresh` is whether the model's data tests are run after each refresh.
    """

    schedule: str | None = None
    test_after_refresh: bool = False


def read_served_keys(node: Any) -> ServedKeys:
    """Reads and checks the service's keys of a model in the manifest; raises ConfigError for invalid ones."""
    written = (node.config.meta or {}).get("arctic") or {}
    where = f"{node.unique_id}: `meta.arctic`"
    if not isinstance(written, Mapping):
        raise ConfigError(f"{where} must be a mapping; found {written!r}")
    for key in written:
        if key in MODEL_KEYS and not is_arctic(node):
            raise ConfigError(
                f"{where}: `{key}` is a key of arctic models.",
                actual=f"materialized: {node.config.materialized}",
                fix="set `materialized: arctic`, or refresh the model by `arctic run --manifest`",
            )
        if key not in (*KEYS, *MODEL_KEYS):
            raise ConfigError(
                f"{where} has no key `{key}`{suggest_nearest(str(key), (*KEYS, *MODEL_KEYS))}; models take "
                f"{', '.join(KEYS)}, and arctic models their own keys"
            )
    keys = ServedKeys(
        None if written.get("schedule") is None else read_cron(f"{node.unique_id}: schedule", written["schedule"]),
        _read_flag(f"{node.unique_id}: `test_after_refresh`", written.get("test_after_refresh", False)),
    )
    _check_keys(node, keys)
    return keys


def check_served(nodes: Iterable[Any]) -> None:
    """Checks the service's keys of all models in a manifest; raises CompilationError that names the model's file."""
    for node in nodes:
        if str(node.resource_type) == "model":
            try:
                read_served_keys(node)
            except ConfigError as error:
                raise CompilationError(f"{node.original_file_path}: {error}") from error


def _read_flag(label: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{label} must be true or false; found {value!r}")
    return value


def _check_keys(node: Any, keys: ServedKeys) -> None:
    where, kind = str(node.unique_id), str(node.config.materialized)
    if keys.schedule is not None and is_arctic(node):
        raise ConfigError(
            f"{where}: `schedule` is for models that are not arctic; this one is refreshed as soon as something that "
            "it reads has changed.",
            fix="say by `target_lag` how old its rows may be",
        )
    if keys.schedule is not None and kind == "ephemeral":
        raise ConfigError(f"{where}: an ephemeral model has no table, so there is nothing to run by a `schedule`")
    if keys.schedule is not None and node.config.get("incremental_strategy") == "microbatch":
        raise ConfigError(
            f"{where}: `schedule` can't run a microbatch model.",
            actual="incremental_strategy: microbatch",
            fix="run it by `dbt run`, or make it an arctic model",
        )
    if keys.test_after_refresh and keys.schedule is None and not is_arctic(node):
        raise ConfigError(
            f"{where}: `test_after_refresh` needs a model that the service refreshes.",
            actual=f"materialized: {kind}",
            fix="give it a `schedule`, or make it an arctic model",
        )
