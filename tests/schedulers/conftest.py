"""A real Airflow and a real Dagster in environments of their own, beside a project in that of the tests."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedulers.airflow import Airflow
from tests.schedulers.project import ROOT, Project

KILLS = int(os.environ.get("ARCTIC_SCHEDULER_KILLS", "3"))
SEED = int(os.environ.get("ARCTIC_SCHEDULER_SEED", "0"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeats a test that kills, with a seed of its own each time."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(SEED, SEED + KILLS))


def find_environment(name: str) -> Path:
    """The folder of the programs of an environment that `make test-schedulers` makes."""
    return Path(os.environ.get("ARCTIC_SCHEDULER_VENVS", ROOT / "build"), name, "bin")


@pytest.fixture(scope="session")
def spark_settings() -> dict[str, str]:
    """One small Spark at a time, beside the processes of a scheduler."""
    return {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.memory": "1g",
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "1",
    }


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, spark_settings: dict[str, str]) -> Project:
    """A project that was deployed, with its first events."""
    folder = tmp_path_factory.mktemp("project") / "shop"
    project = Project(folder, spark_settings, random.Random(SEED))
    project.land_some()
    project.run("dbt", "parse")
    return project


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, project: Project) -> Iterator[Airflow]:
    scheduler = Airflow(find_environment("airflow"), tmp_path_factory.mktemp("airflow"), project)
    try:
        scheduler.start()
        yield scheduler
    finally:
        scheduler.end()
