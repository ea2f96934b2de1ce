"""Keys of arctic models in `meta.arctic`, in the configuration that macros read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.artifacts.resources import ModelConfig

from dbt.adapters.arctic.project.keys.meta_keys import take_meta_keys


def build_node(materialized: str, **meta: Any) -> Any:
    config = ModelConfig(materialized=materialized, meta=meta)
    return SimpleNamespace(unique_id="model.shop.m", resource_type="model", config=config, unrendered_config={})


def test_keys_in_meta_become_the_configuration_of_an_arctic_model() -> None:
    keys = {"primary_key": "id", "merge": "on_read", "on_schema_change": "fail", "test_after_refresh": True}
    node = build_node("arctic", arctic=keys)
    take_meta_keys([node])
    assert (node.config.get("merge"), node.config.get("primary_key")) == ("on_read", "id")
    assert node.config.on_schema_change == "fail"
    assert node.unrendered_config == {key: value for key, value in keys.items() if key != "test_after_refresh"}


@pytest.mark.parametrize(
    "node",
    [build_node("table", arctic={"primary_key": "id"}), build_node("arctic", arctic="id"), build_node("arctic")],
)
def test_other_models_and_other_meta_are_left_as_they_are(node: Any) -> None:
    take_meta_keys([node])
    assert (node.config.get("primary_key"), node.unrendered_config) == (None, {})
