"""Checks configuration keys of dbt's incremental models that have an effect only with some strategies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dbt_common.exceptions import CompilationError

_STRATEGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "incremental_predicates": ("merge", "delete+insert"),
    "predicates": ("merge", "delete+insert"),
    "merge_update_columns": ("merge",),
    "merge_exclude_columns": ("merge",),
}
"""Configuration keys, with the incremental strategies with which they have an effect."""


def check_merge_keys(nodes: Iterable[Any]) -> None:
    """Raises CompilationError if an incremental model has a key without effect for its incremental strategy.

    The error names the model and the key.
    """
    for node in nodes:
        if str(node.resource_type) == "model" and node.config.materialized == "incremental":
            _check_node(node)


def _check_node(node: Any) -> None:
    config = node.config
    strategy = config.get("incremental_strategy") or ("merge" if config.get("unique_key") else "append")
    for key, strategies in _STRATEGIES.items():
        if config.get(key) and strategy not in strategies:
            raise CompilationError(
                f"{node.original_file_path}: {node.unique_id}: `{key}` has no effect with `incremental_strategy: "
                f"{strategy}`.\n  expected: {' or '.join(strategies)}\n"
                f"  what to do: use one of these strategies with a `unique_key`, or leave `{key}` out"
            )
