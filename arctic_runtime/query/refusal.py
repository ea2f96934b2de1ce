"""The error for a query that DuckDB may answer otherwise than Spark."""

from __future__ import annotations

from arctic_runtime.errors import ConfigError

BY_SPARK = "run it by Spark: `arctic sql --engine spark`"
"""What else to do with a query; the same for the command, for agents, and for clients of a service."""


class NotAnswered(ConfigError):
    """Raised for a query whose answer by DuckDB is not known to be that of Spark; the message names the part."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"DuckDB may answer this otherwise than Spark: {part}.",
            fix=f"write it in another way, or {BY_SPARK}",
        )
