"""The keys of a model's configuration that are dbt's own."""

from __future__ import annotations

import dataclasses
import functools

_OF_ADAPTERS = frozenset({"catalog_name", "sql_header", "submission_method"})
"""Keys that dbt documents for all adapters, and that its class of a model's configuration does not have."""


@functools.cache
def list_dbt_keys() -> frozenset[str]:
    """All keys that this release of dbt has for models, under the names that users write."""
    from dbt.artifacts.resources import ModelConfig

    names = (field.metadata.get("alias", field.name) for field in dataclasses.fields(ModelConfig))
    return frozenset(key for key in names if not key.startswith("_")) | _OF_ADAPTERS
