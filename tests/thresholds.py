"""Thresholds for tests: those that ship, less what measured seconds decide, and changed copies of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from arctic_runtime.thresholds import Thresholds


def changed(thresholds: Thresholds, **groups: Mapping[str, Any]) -> Thresholds:
    """Thresholds with other values: `changed(STEADY, compaction={"small_file_bytes": 1})`."""
    parts = {group: replace(getattr(thresholds, group), **values) for group, values in groups.items()}
    return replace(thresholds, **parts)


STEADY = changed(
    Thresholds(),
    cost={"small_table_saving_seconds": math.inf},
    merge={"unmerged_read_seconds": 0.001},
    why={"seconds": math.inf},
)
"""Small tables behave like large ones.

They stay incremental however long earlier runs took, so no test depends on the speed of a machine, and those that are
merged on read keep unmerged rows as long as large ones.
"""
