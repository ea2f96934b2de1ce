"""Reports settings of other adapters in the models of a project: by one message for all of them, or as an error."""

from __future__ import annotations

import dataclasses
import functools
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbt.adapters.events.types import AdapterEventWarning
from dbt_common.events.functions import warn_or_error
from dbt_common.exceptions import CompilationError
from dbt_common.invocation import get_invocation_id

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.config.foreign_config import (
    ON_FOREIGN_CONFIG,
    RefusedSetting,
    Remark,
    TakenConfig,
    has_foreign_settings,
    read_on_foreign_config,
    take_foreign_settings,
)
from arctic_runtime.plan.config.foreign_settings import SETTINGS_BY_NAME
from arctic_runtime.plan.config.foreign_treatments import ARCTIC

_OF_ADAPTERS = frozenset({"catalog_name", "sql_header", "submission_method"})
"""Keys that dbt documents for all adapters, but that are not fields of dbt's class ModelConfig."""


@functools.cache
def list_dbt_keys() -> frozenset[str]:
    """Returns all configuration keys that this release of dbt has for models, as users write them."""
    from dbt.artifacts.resources import ModelConfig

    names = (field.metadata.get("alias", field.name) for field in dataclasses.fields(ModelConfig))
    return frozenset(key for key in names if not key.startswith("_")) | _OF_ADAPTERS


_MATERIALIZATIONS: Final = frozenset({ARCTIC, "table", "view", "incremental", "seed", "snapshot"})
"""The materializations of this adapter; other ones are user-defined, and their keys may mean anything."""

_NAMED_NODES: Final = 3
"""Largest number of models that a message names; for more of them it has their number and folder."""


@dataclass(frozen=True)
class _NodeConfig:
    """A node of the manifest with its configuration."""

    node: Any
    taken: TakenConfig
    """The configuration, divided into settings of other adapters and the other keys."""

    is_strict: bool
    """Whether the node sets `on_foreign_config: error`."""


def list_known_keys() -> frozenset[str]:
    """Returns the names of keys that dbt or other adapters define, in addition to the keys of arctic models."""
    return list_dbt_keys() | {ON_FOREIGN_CONFIG, *SETTINGS_BY_NAME}


def check_foreign_config(nodes: Iterable[Any]) -> None:
    """Checks the settings of other adapters in all models, seeds and snapshots, and warns once of their effect here.

    Raises CompilationError that lists all settings that can't be honoured, or that `on_foreign_config: error` forbids,
    with the models and a fix.
    """
    configs = [config for node in nodes if (config := _read_node(node)) is not None]
    refused = [_format_refusal(config.node, refusal) for config in configs for refusal in config.taken.refusals]
    if refused:
        raise CompilationError(
            "Settings of other adapters would change which rows a table has, or who sees them:\n" + "\n".join(refused)
        )
    strict = _format_remarks([config for config in configs if config.is_strict])
    if strict:
        raise CompilationError(
            f"Settings of other adapters are an error by `{ON_FOREIGN_CONFIG}: error`:\n{strict}\n"
            f"  what to do: remove them, or set `{ON_FOREIGN_CONFIG}: warn`"
        )
    remarks = _format_remarks(configs)
    if remarks:
        warn_once(
            get_invocation_id(),
            f"Settings of other adapters, and what they mean here (`{ON_FOREIGN_CONFIG}: error` makes them an error):\n"
            + remarks,
        )


def warn_of_ignored_grants(name: str, materialized: str) -> None:
    """Warns that grants are ignored, in a materialization of a user or a package.

    Of the adapter's own materializations the message of the project says it.
    """
    if materialized not in _MATERIALIZATIONS:
        because = take_foreign_settings({"materialized": "table", "grants": name}).remarks[0].text
        warn_once(get_invocation_id(), f"`grants` of {name} are ignored: {because}")


def _read_node(node: Any) -> _NodeConfig | None:
    """Returns the node with its configuration, or None if it need not be checked.

    It need not be checked if it has no settings of other adapters, or a user-defined materialization.
    """
    names = frozenset(node.config)
    if node.config.materialized not in _MATERIALIZATIONS or not has_foreign_settings(names):
        return None
    config = {name: node.config.get(name) for name in names}
    try:
        return _NodeConfig(node, take_foreign_settings(config), read_on_foreign_config(config) == "error")
    except ConfigError as error:
        raise CompilationError(f"{node.original_file_path}: {node.unique_id}: {error}") from error


def _format_refusal(node: Any, refusal: RefusedSetting) -> str:
    return (
        f"  - {node.original_file_path}: {node.unique_id}: `{refusal.setting}` ({', '.join(refusal.adapters)}) "
        f"{refusal.because}.\n      found: {refusal.setting}: {refusal.value!r}\n      what to do: {refusal.fix}"
    )


def _format_remarks(configs: Iterable[_NodeConfig]) -> str:
    """Returns a line for each remark, with the models to which the remark applies."""
    nodes: defaultdict[Remark, list[Any]] = defaultdict(list)
    for config in configs:
        for remark in config.taken.remarks:
            nodes[remark].append(config.node)
    ordered = sorted(nodes.items(), key=lambda item: list(SETTINGS_BY_NAME).index(item[0].setting))
    return "\n".join(_format_remark(remark, remarked) for remark, remarked in ordered)


def _format_remark(remark: Remark, nodes: Sequence[Any]) -> str:
    return f"  - `{remark.setting}` ({', '.join(remark.adapters)}): {remark.text} [{_name_nodes(nodes)}]"


def _name_nodes(nodes: Sequence[Any]) -> str:
    """Returns the names of a few nodes; for many nodes their number and the folder that contains them all."""
    if len(nodes) <= _NAMED_NODES:
        return ", ".join(str(node.unique_id).split(".", 2)[-1] for node in nodes)
    folder = posixpath.commonpath([posixpath.dirname(str(node.original_file_path)) for node in nodes])
    return f"{len(nodes)} in {folder or 'the project'}"


@functools.lru_cache(maxsize=8)
def warn_once(_invocation: str, message: str) -> None:
    """Fires a dbt warning, only once per dbt invocation, since dbt may check a project several times in one."""
    warn_or_error(AdapterEventWarning(name="Arctic", base_msg=message))
