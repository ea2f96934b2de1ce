"""Lists the configuration keys of models that dbt itself defines."""

from __future__ import annotations

import dataclasses
import functools

_OF_ADAPTERS = frozenset({"catalog_name", "sql_header", "submission_method"})
"""Keys that dbt documents for all adapters, but that are not fields of dbt's class ModelConfig."""


@functools.cache
def list_dbt_keys() -> frozenset[str]:
    """Returns all configuration keys that this release of dbt has for models, as users write them."""
    from dbt.artifacts.resources import ModelConfig

    names = (field.metadata.get("alias", field.name) for field in dataclasses.fields(ModelConfig))
    return frozenset(key for key in names if not key.startswith("_")) | _OF_ADAPTERS
