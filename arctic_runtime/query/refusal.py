"""The error for a query that DuckDB may answer otherwise than Spark."""

from __future__ import annotations

from arctic_runtime.errors import ConfigError


class NotAnswered(ConfigError):
    """Raised for a query whose answer by DuckDB is not known to be that of Spark; the message names the part."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"DuckDB may answer this otherwise than Spark: {part}.",
            fix="write it in another way, or run the query by Spark: add --engine spark",
        )
