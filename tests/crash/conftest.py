"""The Spark and the namespaces of the other suites that need one."""

from __future__ import annotations

from tests.spark.conftest import environment, lake, namespace, reader, spark

__all__ = ["environment", "lake", "namespace", "reader", "spark"]
