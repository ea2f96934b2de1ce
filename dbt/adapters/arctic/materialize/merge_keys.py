"""Refuses configuration keys of other adapters' incremental models that would change which rows are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dbt_common.exceptions import CompilationError

_ALIASES: Final = "write DBT_INTERNAL_SOURCE and DBT_INTERNAL_DEST where a predicate names the two tables"
_ROWS_TO_UPDATE: Final = "leave rows that must not be updated out of the model's query, by a join with {{ this }}"
_ROWS_TO_INSERT: Final = "leave rows that must not be inserted out of the model's query, by a join with {{ this }}"
_ROWS_TO_DELETE: Final = "make it an arctic model, which deletes rows that its query no longer returns"
_VALUES: Final = "compute the values in the model's query, and choose columns by `merge_update_columns`"

NOT_FOLLOWED: Final[Mapping[str, str]] = {
    # of dbt-databricks
    "target_alias": _ALIASES,
    "source_alias": _ALIASES,
    "skip_matched_step": "use `incremental_strategy: append`; " + _ROWS_TO_UPDATE,
    "matched_condition": _ROWS_TO_UPDATE,
    "skip_not_matched_step": _ROWS_TO_INSERT,
    "not_matched_condition": _ROWS_TO_INSERT,
    "not_matched_by_source_action": _ROWS_TO_DELETE,
    "not_matched_by_source_condition": _ROWS_TO_DELETE,
    "merge_with_schema_evolution": "use `on_schema_change: append_new_columns`",
    # of dbt-athena
    "update_condition": _ROWS_TO_UPDATE,
    "insert_condition": _ROWS_TO_INSERT,
    "delete_condition": _ROWS_TO_DELETE,
    # of dbt-duckdb
    "merge_update_condition": _ROWS_TO_UPDATE,
    "merge_insert_condition": _ROWS_TO_INSERT,
    "merge_update_set_expressions": _VALUES,
    "merge_on_using_columns": "name these columns in `unique_key`",
    "merge_returning_columns": "leave it out",
    "merge_clauses": "leave it out; " + _ROWS_TO_UPDATE,
    # of dbt-bigquery
    "partitions": "leave it out: `insert_overwrite` replaces the partitions that the query has rows of",
}

_STRATEGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "incremental_predicates": ("merge", "delete+insert"),
    "predicates": ("merge", "delete+insert"),
    "merge_update_columns": ("merge",),
    "merge_exclude_columns": ("merge",),
}
"""Keys that have an effect only with these strategies."""


def check_merge_keys(nodes: Iterable[Any]) -> None:
    """Refuses configuration keys of other adapters, and keys without effect for the strategy, in incremental models.

    Raises CompilationError that names the model and the key.
    """
    for node in nodes:
        if str(node.resource_type) == "model" and node.config.materialized == "incremental":
            _check_node(node)


def _check_node(node: Any) -> None:
    config = node.config
    for key, instead in NOT_FOLLOWED.items():
        if config.get(key):
            raise CompilationError(
                f"{node.original_file_path}: {node.unique_id}: `{key}` is not followed by incremental models here.\n"
                f"  found: {key}: {config.get(key)!r}\n  what to do: {instead}"
            )
    strategy = config.get("incremental_strategy") or ("merge" if config.get("unique_key") else "append")
    for key, strategies in _STRATEGIES.items():
        if config.get(key) and strategy not in strategies:
            raise CompilationError(
                f"{node.original_file_path}: {node.unique_id}: `{key}` has no effect with `incremental_strategy: "
                f"{strategy}`.\n  expected: {' or '.join(strategies)}\n"
                f"  what to do: use one of these strategies with a `unique_key`, or leave `{key}` out"
            )
