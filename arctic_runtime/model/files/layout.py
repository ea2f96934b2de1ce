"""Layout of a base: how many nodes a new one gets, and whether it still is as its model says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from arctic_runtime.model.files.hash_tree import MAX_DEPTH
from arctic_runtime.model.properties import LAYOUT
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.thresholds import BucketThresholds, LayoutThresholds

MAX_NODES = 1 << MAX_DEPTH
NEWEST_FORMAT = 3

TARGET_PROPERTY = "write.target-file-size-bytes"
"""How Iceberg calls the size at which files are cut."""

ROW_GROUP_PROPERTY = "write.parquet.row-group-size-bytes"
"""How Iceberg calls the size of row groups."""

KEPT_METADATA = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Properties by which a commit, which adds a metadata file to a table, takes away all but the newest of these."""


def list_missing_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of `KEPT_METADATA` that a table lacks; what somebody has set of it stays."""
    return {key: value for key, value in KEPT_METADATA.items() if key not in properties}


def compute_node_count(first_load_bytes: int, parallelism: int, node_bytes: int, thresholds: BucketThresholds) -> int:
    """A power of two: few for a small table, enough for every core from a few files on, then by size.

    `first_load_bytes` is what the first change commit wrote; `parallelism` is the number of tasks that run well
    beside each other. No node is born with more than half of `node_bytes`, from which on it would be split.
    """
    by_cores = min(max(1, parallelism), first_load_bytes // thresholds.small_bucket_bytes)
    by_size = -(-first_load_bytes // max(1, node_bytes // 2))
    return min(MAX_NODES, _next_power_of_two(max(1, by_cores, by_size)))


def compute_row_group_bytes(first_load_bytes: int, thresholds: LayoutThresholds) -> int:
    """The size of row groups of a new base; what is written of them is less, since they are measured uncompressed."""
    share = first_load_bytes // thresholds.row_group_share
    return min(thresholds.most_row_group_bytes, max(thresholds.least_row_group_bytes, share))


def format_layout(config: ModelConfig) -> str:
    """Everything of a model that shapes the files of its base, as the base's properties keep it.

    Keys of later versions are in it only with other values than their defaults, so that old tables stay as they are.
    """
    parts: dict[str, Any] = {
        "partition_by": [str(transform) for transform in config.partition_by],
        "hash_key": config.hash_key,
        "sort_key": config.sort_key,
        "nodes": config.nodes or "auto",
        "tblproperties": dict(sorted(config.tblproperties.items())),
    }
    if config.format_version != NEWEST_FORMAT:
        parts["format_version"] = config.format_version
    return json.dumps(parts, separators=(",", ":"))


def is_laid_out(config: ModelConfig, properties: Mapping[str, str]) -> bool:
    """Whether a base with these properties is laid out as the model says; one that does not tell is."""
    return properties.get(LAYOUT, format_layout(config)) == format_layout(config)


def apply_configured_layout(model: Model) -> Model:
    """The same model, whose base follows its configuration whatever `on_configuration_change` says."""
    return replace(model, config=replace(model.config, on_configuration_change="apply"))


def format_of(properties: Mapping[str, str]) -> int:
    """The format version of a base with these properties; of one that does not tell, the newest."""
    return int(json.loads(properties.get(LAYOUT, "{}")).get("format_version", NEWEST_FORMAT))


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


@dataclass(frozen=True)
class Placement:
    """Placement of a table's files: the column that its nodes are of, and the numbers of nodes that files are among.

    There is one number, unless files of several depths lie side by side. `partitions` are the columns that the table
    is partitioned by besides. `otherwise` says why there are no nodes to join by, if that is so.
    """

    column: str = ""
    nodes: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    otherwise: str = ""


NOT_BUCKETED = Placement(otherwise="is not bucketed")
