"""The compilers of the Java with which an embedded Spark is started."""

from __future__ import annotations

import pytest

from arctic_runtime.spark.engine.java.jvm import choose_compiler_options
from arctic_runtime.thresholds import EngineThresholds

LIMITS = EngineThresholds()
FEW = LIMITS.first_compiler_rows


def test_a_command_that_reads_few_rows_has_the_first_compiler_only() -> None:
    assert choose_compiler_options({}, 0, LIMITS) == ["-XX:TieredStopAtLevel=1"]
    assert choose_compiler_options({}, FEW, LIMITS) == ["-XX:TieredStopAtLevel=1"]


@pytest.mark.parametrize("rows", [FEW + 1, None])
def test_all_others_have_both_and_the_second_one_later(rows: int | None) -> None:
    options = choose_compiler_options({}, rows, LIMITS)
    assert f"-XX:Tier4InvocationThreshold={5_000 * LIMITS.optimizer_delay}" in options
    assert len(options) == 4


@pytest.mark.parametrize(
    "option",
    ["-XX:TieredStopAtLevel=4", "-XX:-TieredCompilation", "-XX:Tier4InvocationThreshold=9", "-Xint", "-Xss4m -Xcomp"],
)
@pytest.mark.parametrize("setting", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_options_of_the_profile_are_the_only_ones(setting: str, option: str) -> None:
    assert choose_compiler_options({setting: option}, 0, LIMITS) == []
    assert choose_compiler_options({setting: option}, None, LIMITS) == []
    assert choose_compiler_options({setting: "-Xss4m -XX:+UseSerialGC"}, 0, LIMITS) != []
