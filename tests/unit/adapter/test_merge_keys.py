"""Keys of incremental models that have no effect with the strategy of the model."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.arctic.materialize.maintain import check_manifest
from tests.unit.adapter.test_foreign_config import build_node


def test_a_key_that_the_strategy_follows_is_accepted() -> None:
    for strategy in ("merge", "delete+insert", None):
        check_manifest([build_node(unique_key="id", incremental_strategy=strategy, incremental_predicates=["id > 1"])])
    check_manifest([build_node(unique_key="id", merge_exclude_columns=["at"])])


@pytest.mark.parametrize(
    "key", ["incremental_predicates", "predicates", "merge_update_columns", "merge_exclude_columns"]
)
@pytest.mark.parametrize(
    "config", [{}, {"incremental_strategy": "insert_overwrite"}, {"incremental_strategy": "microbatch"}]
)
def test_a_key_without_effect_on_the_strategy_is_an_error(key: str, config: dict[str, Any]) -> None:
    strategy = config.get("incremental_strategy", "append")
    with pytest.raises(CompilationError, match=rf"`{key}` has no effect with `incremental_strategy: {strategy}`"):
        check_manifest([build_node(**config, **{key: ["id"]})])
