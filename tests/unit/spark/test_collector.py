"""The garbage collector that an embedded Spark is started with."""

from __future__ import annotations

import pytest

from arctic_runtime.spark.engine.jvm import collector_options


@pytest.mark.parametrize("option", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_collector_that_the_profile_chooses_is_the_only_one(option: str) -> None:
    assert collector_options({option: "-Xss4m -XX:+UseG1GC"}) == []
    assert collector_options({option: "-Xss4m"}) == ["-XX:+UseParallelGC"]
