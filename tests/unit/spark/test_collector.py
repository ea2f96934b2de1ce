"""The garbage collector that an embedded Spark is started with."""

from __future__ import annotations

import pytest

from arctic_runtime.spark.engine.session import _collector


@pytest.mark.parametrize("option", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_collector_that_the_profile_chooses_is_the_only_one(option: str) -> None:
    assert _collector({option: "-Xss4m -XX:+UseG1GC"}) == []
    assert _collector({option: "-Xss4m"}) == ["-XX:+UseParallelGC"]
