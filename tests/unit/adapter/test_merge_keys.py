"""Keys of other adapters that would change which rows an incremental model writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.arctic.materialize.maintain import check_manifest
from dbt.adapters.arctic.materialize.merge_keys import NOT_FOLLOWED

OF_DATABRICKS = {
    "target_alias": "t",
    "source_alias": "s",
    "skip_matched_step": True,
    "matched_condition": "1 = 0",
    "skip_not_matched_step": True,
    "not_matched_condition": "1 = 0",
    "not_matched_by_source_action": "delete",
    "not_matched_by_source_condition": "t.id > 1",
    "merge_with_schema_evolution": True,
}


class Config(dict[str, Any]):
    @property
    def materialized(self) -> str:
        return str(self["materialized"])


def a_node(materialized: str = "incremental", **config: Any) -> Any:
    return SimpleNamespace(
        unique_id="model.shop.m",
        resource_type="model",
        original_file_path="models/m.sql",
        config=Config(materialized=materialized, **config),
        database="lake",
        schema="s",
        alias="m",
    )


@pytest.mark.parametrize("key", sorted(NOT_FOLLOWED))
def test_a_key_that_is_not_followed_is_an_error_with_what_to_do(key: str) -> None:
    value = OF_DATABRICKS.get(key, "1 = 0")
    with pytest.raises(CompilationError, match=rf"models/m.sql: model.shop.m: `{key}` is not followed") as error:
        check_manifest([a_node(unique_key="id", **{key: value})])
    assert "what to do: " in str(error.value)


def test_all_keys_of_databricks_are_known() -> None:
    assert set(OF_DATABRICKS) <= set(NOT_FOLLOWED)


def test_what_asks_for_nothing_and_what_is_followed_is_accepted() -> None:
    asks_nothing = dict.fromkeys(OF_DATABRICKS) | {"skip_matched_step": False, "merge_with_schema_evolution": False}
    check_manifest([a_node(**asks_nothing), a_node("table", matched_condition="1 = 0")])
    for strategy in ("merge", "delete+insert", None):
        check_manifest([a_node(unique_key="id", incremental_strategy=strategy, incremental_predicates=["id > 1"])])
    check_manifest([a_node(unique_key="id", merge_exclude_columns=["at"])])


@pytest.mark.parametrize(
    "key", ["incremental_predicates", "predicates", "merge_update_columns", "merge_exclude_columns"]
)
@pytest.mark.parametrize(
    "config", [{}, {"incremental_strategy": "insert_overwrite"}, {"incremental_strategy": "microbatch"}]
)
def test_a_key_without_effect_on_the_strategy_is_an_error(key: str, config: dict[str, Any]) -> None:
    strategy = config.get("incremental_strategy", "append")
    with pytest.raises(CompilationError, match=rf"`{key}` has no effect with `incremental_strategy: {strategy}`"):
        check_manifest([a_node(**config, **{key: ["id"]})])
