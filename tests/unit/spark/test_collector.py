"""The garbage collector that an embedded Spark is started with."""

from __future__ import annotations

import pytest

from arctic_runtime.spark.engine.java.jvm import LASTING_SETTINGS, choose_collector_options
from arctic_runtime.thresholds import EngineThresholds

LASTING = EngineThresholds()


@pytest.mark.parametrize("option", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_collector_that_the_profile_chooses_is_the_only_one(option: str) -> None:
    for lasting in (None, LASTING):
        assert choose_collector_options({option: "-Xss4m -XX:+UseG1GC"}, lasting) == []
    assert choose_collector_options({option: "-Xss4m -XX:+UseG1GC"}, few_rows=True) == []
    assert choose_collector_options({option: "-Xss4m"}) == ["-XX:+UseParallelGC"]
    assert choose_collector_options({option: "-Xss4m"}, few_rows=True) == ["-XX:+UseSerialGC"]


@pytest.mark.parametrize(("memory", "new"), [("4g", 512 << 20), ("2048m", 256 << 20), ("1G", 128 << 20)])
def test_a_spark_that_runs_for_days_gives_memory_back(memory: str, new: int) -> None:
    options = choose_collector_options({"spark.driver.memory": memory}, LASTING)
    assert {"-XX:+UseParallelGC", "-XX:MaxHeapFreeRatio=60"} < set(options)
    assert [option for option in options if option.startswith(("-Xmn", "-Xms"))] == [f"-Xmn{new}", f"-Xms{2 * new}"]
    assert LASTING_SETTINGS["spark.cleaner.periodicGC.interval"] == "1min"
    assert len([name for name in LASTING_SETTINGS if name.endswith(".maxThreadThreshold")]) == 3
