"""What all suites share: property tests that can be repeated from what a failure prints."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# Parsed queries are many small objects that live long: to look for garbage among them takes a sixth of the time.
gc.set_threshold(100_000, 50, 50)

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Settings that favour small data and quick starts; suites that use the same ones share one Spark."""
    return {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.memory": "2g",
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
    }
