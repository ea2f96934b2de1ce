"""What Spark's own pages call the work that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe_jobs(session: SparkSession, text: str) -> None:
    """Names the jobs that this thread starts from now on; a server of Spark Connect names its jobs by itself."""
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session.sparkContext.setJobDescription(text)
