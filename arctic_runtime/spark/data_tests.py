"""Counts the failures of a data test as dbt does: by `fail_calc` over the rows of the test's query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANY_FAILURE: Final = "!= 0"
"""dbt's default of `error_if` and `warn_if`."""

_ALL_ROWS: Final = "count(*)"


@dataclass(frozen=True)
class Failures:
    """The number that a test has counted, and whether it is enough to warn, and for an error."""

    count: int
    should_warn: bool
    should_error: bool


def count_failures(spark: SparkSession, sql: str, config: Mapping[str, Any]) -> Failures:
    """Runs the compiled query of a test with this configuration in the manifest."""
    from pyspark.sql import functions as F

    rows = spark.sql(sql.strip().rstrip(";"))
    if config.get("limit") is not None:
        rows = rows.limit(int(config["limit"]))
    counted = rows.agg(F.expr(str(config.get("fail_calc") or _ALL_ROWS)).alias("failures"))
    limits = [F.expr(f"failures {config.get(key) or ANY_FAILURE}") for key in ("warn_if", "error_if")]
    row = counted.select("failures", *limits).collect()[0]
    return Failures(int(row[0] or 0), bool(row[1]), bool(row[2]))
