"""`meta.arctic` of models: what a service is asked to do with them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dbt_common.exceptions import CompilationError

from arctic_runtime.errors import ConfigError
from dbt.adapters.arctic.materialize.served_keys import ServedKeys, check_served, read_served_keys

DOCS = Path(__file__).parents[3] / "docs" / "service.md"


class Config(SimpleNamespace):
    def get(self, key: str) -> Any:
        return getattr(self, key, None)


def node(materialized: str, meta: Any, **config: Any) -> Any:
    return SimpleNamespace(
        unique_id="model.shop.m",
        resource_type="model",
        original_file_path="models/m.sql",
        config=Config(materialized=materialized, meta=meta, **config),
    )


def test_models_say_when_they_are_run_and_whether_they_are_tested() -> None:
    assert read_served_keys(node("arctic", {})) == ServedKeys()
    assert read_served_keys(node("arctic", {"arctic": {"test_after_refresh": True}})) == ServedKeys(None, True)
    assert read_served_keys(node("table", {"owner": "me", "arctic": {"schedule": " 0 6 * * * "}})) == ServedKeys(
        "0 6 * * *"
    )


def test_the_example_of_the_documentation_is_accepted() -> None:
    (block,) = re.findall(r"```yaml\n(models:.*?)```", DOCS.read_text(), re.DOTALL)
    (model,) = yaml.safe_load(block)["models"]
    keys = read_served_keys(node(**model["config"]))
    assert keys == ServedKeys("30 6 * * mon-fri", True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (node("table", {"arctic": {"schedul": "0 6 * * *"}}), "did you mean 'schedule'"),
        (node("table", {"arctic": "0 6 * * *"}), "must be a mapping"),
        (node("table", {"arctic": {"schedule": "daily"}}), "must be a cron expression"),
        (node("arctic", {"arctic": {"schedule": "0 6 * * *"}}), "target_lag"),
        (node("ephemeral", {"arctic": {"schedule": "0 6 * * *"}}), "ephemeral"),
        (
            node("incremental", {"arctic": {"schedule": "0 6 * * *"}}, incremental_strategy="microbatch"),
            "microbatch model",
        ),
        (node("table", {"arctic": {"test_after_refresh": True}}), "needs a model that the service refreshes"),
        (node("arctic", {"arctic": {"test_after_refresh": "yes"}}), "must be true or false"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_the_file(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_served_keys(value)
    with pytest.raises(CompilationError, match=r"models/m\.sql"):
        check_served([value])


def test_keys_of_arctic_models_may_be_in_meta_but_not_those_of_other_models() -> None:
    keys = {"arctic": {"primary_key": "id", "test_after_refresh": True}}
    assert read_served_keys(node("arctic", keys)) == ServedKeys(None, True)
    with pytest.raises(ConfigError, match=r"`primary_key` is a key of arctic models.*\n.*table\n.*--manifest"):
        read_served_keys(node("table", keys))
