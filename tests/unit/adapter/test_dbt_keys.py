"""The keys of dbt are those of the dbt that is installed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from dbt.artifacts.resources import ModelConfig

from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.config.configure import read_configuration
from dbt.adapters.arctic.materialize.foreign_config import list_dbt_keys


def test_every_key_that_dbt_gives_a_model_is_taken() -> None:
    """dbt merges defaults of all its keys into a model's configuration, those of a newer dbt too."""
    filled: dict[str, Any] = {key: value for key, value in ModelConfig().to_dict().items() if key not in KEYS}
    read_configuration({"primary_key": "id", **filled}, "m", list_dbt_keys())
    assert {"materialized", "pre-hook", "post-hook", "catalog_name", "tags"} <= list_dbt_keys()
    assert not [key for key in list_dbt_keys() if key.startswith("_")]


def test_a_key_of_a_later_dbt_is_known_without_a_change_here(monkeypatch: pytest.MonkeyPatch) -> None:
    later = dataclasses.make_dataclass("Later", [("of_tomorrow", bool, dataclasses.field(default=False))])
    monkeypatch.setattr("dbt.artifacts.resources.ModelConfig", later)
    list_dbt_keys.cache_clear()
    try:
        assert "of_tomorrow" in list_dbt_keys()
    finally:
        list_dbt_keys.cache_clear()
