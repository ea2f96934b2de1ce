"""Keys of arctic models in `meta.arctic`, where a project of any adapter can have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from arctic_runtime.manifest.node_model import read_model_keys
from dbt.adapters.arctic.materialize.maintain import is_arctic


def take_meta_keys(nodes: Iterable[Any]) -> None:
    """Sets the configuration of arctic models to their keys in `meta.arctic`, so that macros find them there.

    A `meta.arctic` that is no mapping is left to the check of the manifest.
    """
    for node in filter(is_arctic, nodes):
        meta = node.config.meta or {}
        if isinstance(meta.get("arctic"), Mapping):
            for key, value in read_model_keys({"unique_id": node.unique_id, "config": {"meta": meta}}).items():
                node.config[key] = value
                node.unrendered_config[key] = value
