"""Encodes the state of a refresh's sources as Iceberg's draft of materialized views has it (apache/iceberg#11041).

The draft calls the table with the rows of a materialized view its storage table. The summary of each of its snapshots
says by the property `refresh-state` which snapshots of the sources the rows were computed from, so that an engine can
judge whether they are fresh. No other module knows the draft, and none here reads what this one writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.version import Version


def encode_refresh_state(sources: Mapping[TableName, Version], catalog: str, started_ms: int) -> str:
    """Encodes a refresh that began at `started_ms`, in milliseconds since 1970, and that read `sources`, as JSON.

    `catalog` is that of the refreshed table; sources in it are written without their catalog.
    """
    state = {
        # The draft requires the key. The rows are those of no materialized view, whose versions begin with 1.
        "view-version-id": 0,
        "refresh-start-timestamp-ms": started_ms,
        "source-states": [_describe_table(*source, catalog) for source in sorted(sources.items())],
    }
    return json.dumps(state, separators=(",", ":"))


def _describe_table(table: TableName, version: Version, catalog: str) -> dict[str, Any]:
    return {
        "type": "table",
        **({} if table.catalog == catalog else {"catalog": table.catalog}),
        "namespace": [table.schema],
        "name": table.name,
        "uuid": version.table,
        "snapshot-id": version.snapshot,
    }
