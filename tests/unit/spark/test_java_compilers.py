"""The compilers of the Java with which an embedded Spark is started."""

from __future__ import annotations

import pytest

from arctic_runtime.spark.engine.java.jvm import choose_compiler_options
from arctic_runtime.thresholds import EngineThresholds

LIMITS = EngineThresholds()


def test_a_command_that_reads_few_rows_has_the_first_compiler_only() -> None:
    assert choose_compiler_options({}, True, LIMITS) == ["-XX:TieredStopAtLevel=1"]


def test_all_others_have_both_and_the_second_one_later() -> None:
    options = choose_compiler_options({}, False, LIMITS)
    assert f"-XX:Tier4InvocationThreshold={5_000 * LIMITS.optimizer_delay}" in options
    assert len(options) == 4


@pytest.mark.parametrize(
    "option",
    ["-XX:TieredStopAtLevel=4", "-XX:-TieredCompilation", "-XX:Tier4InvocationThreshold=9", "-Xint", "-Xss4m -Xcomp"],
)
@pytest.mark.parametrize("setting", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_options_of_the_profile_are_the_only_ones(setting: str, option: str) -> None:
    assert choose_compiler_options({setting: option}, True, LIMITS) == []
    assert choose_compiler_options({setting: option}, False, LIMITS) == []
    assert choose_compiler_options({setting: "-Xss4m -XX:+UseSerialGC"}, True, LIMITS) != []
