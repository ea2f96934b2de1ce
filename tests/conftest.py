"""What all suites share: property tests that can be repeated from what a failure prints."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from arctic_runtime.profile import JARS_SETTING, KEPT, Profile
from arctic_runtime.spark.engine.java import jars
from tests import java
from tests.thresholds import STEADY

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

# Otherwise a Spark of each warehouse would outlive tests that are run at a terminal.
os.environ.setdefault("CI", "true")

# The Java of Debezium, which reads a few events and ends with its process, is started as that of Spark is.
os.environ.setdefault("ARCTIC_DEBEZIUM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

OLDER_ICEBERG = jars.Jar(
    group="org.apache.iceberg",
    artifact="iceberg-spark-runtime-4.1_2.13",
    version="1.11.0",
    sha256="d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    size=47_959_591,
)
"""The Iceberg of services that are a release behind; `nox -s spark-4.1.1` runs the suites of Spark with it."""

if os.environ.get("ARCTIC_TEST_ICEBERG") == OLDER_ICEBERG.version:
    jars.JARS = (OLDER_ICEBERG, *(jar for jar in jars.JARS if jar.artifact != OLDER_ICEBERG.artifact))

COUNTED = "counted"
"""A property of a test: a line of what it compared and what was refused, shown at the end of the run."""

LONGEST = (
    "tests/spark/models/test_maintained_models.py",
    "tests/spark/models/test_tpch.py",
    "tests/adapter/test_sample.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest goes first, so that no process works at it alone when all others have ended."""
    items.sort(key=lambda item: item.path.relative_to(config.rootpath).as_posix() not in LONGEST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What suites compared, however their tests ended and in whichever process they ran."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    lines = [text for report in reports for name, text in report.user_properties if name == COUNTED]
    if lines:
        terminalreporter.section("compared to Spark")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """Settings that favour small data and quick starts; suites that use the same ones share one Spark."""
    return {
        JARS_SETTING: "kafka,avro",
        "spark.driver.extraJavaOptions": java.QUICK,
        "spark.driver.memory": "2g",
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
    }


@pytest.fixture(scope="session")
def method() -> dict[str, Any]:
    """Which Spark the suites use, as a profile says it: one in their process, unless ARCTIC_TEST_METHOD is connect."""
    over_connect = os.environ.get("ARCTIC_TEST_METHOD", "session") == "connect"
    return {"method": "connect", "url": KEPT} if over_connect else {"method": "session"}


@pytest.fixture(scope="session")
def embedded(spark_settings: dict[str, str], method: dict[str, Any]) -> Callable[..., Profile]:
    """Makes the profile of an embedded warehouse, for the Spark that the suites use."""

    def profile(warehouse: Path, **given: Any) -> Profile:
        return Profile.for_embedded(warehouse, **{"settings": spark_settings, "thresholds": STEADY, **method, **given})

    return profile
