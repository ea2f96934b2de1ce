"""Keys of a model's `meta.arctic`, which the service reads; loads nothing of dbt."""

from __future__ import annotations

from typing import Final

from arctic_runtime.plan.config.config_readers import read_flag
from arctic_runtime.plan.config.value_reader import Setting, keep_value

SERVED_SETTINGS: Final = (
    Setting(
        "schedule",
        keep_value(
            {"type": ["string", "null"], "pattern": r"^\s*\S+(?:\s+\S+){4}\s*$", "examples": ["30 6 * * mon-fri"]}
        ),
        "cron expression by which the service runs a model that is not arctic",
    ),
    Setting("test_after_refresh", read_flag, "whether data tests are run after each refresh", "`false`"),
)
