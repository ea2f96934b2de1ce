"""Only what Spark Connect has is asked of Spark: no RDD, no context, nothing of the JVM behind a session."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import arctic_runtime

ROOT = Path(arctic_runtime.__file__).parents[1]
FOLDERS = ("arctic_runtime", "dbt/adapters/arctic")
FORBIDDEN = {"rdd", "_jvm", "_jsc", "_jdf", "_jsparkSession", "sparkContext", "_sc", "SparkContext", "RDD"}
STARTS_SPARK = {
    "arctic_runtime/spark/engine/jobs.py: sparkContext",
    "arctic_runtime/spark/engine/session.py: SparkContext",
}
"""What only a Spark of this process is asked: it is started there, and its pages show what runs."""


def test_nothing_is_asked_of_spark_that_connect_does_not_have() -> None:
    used = {f"{path}: {name}" for path, source in sources() for name in forbidden(source)}
    assert used == STARTS_SPARK


@pytest.mark.parametrize(
    "line", ["rows.rdd.getNumPartitions()", "spark._jvm.System.gc()", "spark.sparkContext", "from pyspark import RDD"]
)
def test_what_connect_does_not_have_is_seen(line: str) -> None:
    assert list(forbidden(f"def f(spark):\n    {line}"))


def sources() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def forbidden(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) if name in FORBIDDEN:
                yield name
