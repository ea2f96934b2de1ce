"""How a base is laid out: how many nodes a new one gets, and whether it still is as its model says."""

from __future__ import annotations

import json

from arctic_runtime.model.nodes import MAX_DEPTH
from arctic_runtime.model.table import ModelConfig

LAYOUT = "arctic.layout"

SMALL_NODE_BYTES = 16 * 1024 * 1024
MAX_NODES = 1 << MAX_DEPTH

TARGET_PROPERTY = "write.target-file-size-bytes"
"""How Iceberg calls the size at which files are cut."""


def node_count(first_load_bytes: int, parallelism: int, node_bytes: int) -> int:
    """A power of two: few for a small table, enough for every core from a few files on, then by size.

    `first_load_bytes` is what the first change commit wrote; `parallelism` is the number of tasks that run well
    beside each other. No node is born with more than half of `node_bytes`, from which on it would be split.
    """
    by_cores = min(max(1, parallelism), first_load_bytes // SMALL_NODE_BYTES)
    by_size = -(-first_load_bytes // max(1, node_bytes // 2))
    return min(MAX_NODES, _next_power_of_two(max(1, by_cores, by_size)))


def layout_text(config: ModelConfig) -> str:
    """Everything of a model that shapes the files of its base, as the base's properties keep it."""
    parts = {
        "partition_by": [str(transform) for transform in config.partition_by],
        "hash_key": config.hash_key,
        "sort_key": config.sort_key,
        "nodes": config.nodes or "auto",
        "tblproperties": dict(sorted(config.tblproperties.items())),
    }
    return json.dumps(parts, separators=(",", ":"))


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
