"""The DAGs of `deploy/airflow`, run by an Airflow with its own processes, which are killed while they run."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.schedulers.airflow import COSMOS, FRESHNESS, OPERATORS, TRACE, Airflow
from tests.schedulers.processes import kill, read_command, wait_for
from tests.schedulers.project import BROKEN, Project

pytestmark = pytest.mark.skipif(not os.environ.get("ARCTIC_SCHEDULER_TESTS"), reason="run by make test-schedulers")


@dataclass(frozen=True)
class Building:
    """A DAG, and the task of it that builds a model on which others depend."""

    dag: str
    task: str


BUILDS = pytest.mark.parametrize(
    "building",
    [Building(OPERATORS, "build"), Building(COSMOS, "ods_orders_model_build")],
    ids=["operators", "cosmos"],
)
"""By one command, and by a command for each model."""


@pytest.fixture(autouse=True)
def _exact(project: Project) -> Iterator[None]:
    """After each test the tables are as the events say."""
    yield
    assert project.read() == project.fold()


@BUILDS
def test_a_run_brings_the_tables_up_to_date(airflow: Airflow, project: Project, building: Building) -> None:
    project.land_some()
    run = airflow.trigger(building.dag)
    assert airflow.finish(building.dag, run) == "success", airflow.describe(building.dag, run)
    assert project.read() == project.fold()


@BUILDS
def test_a_task_that_is_killed_is_tried_again_and_the_tables_are_exact(
    airflow: Airflow, project: Project, building: Building, seed: int
) -> None:
    """One of its processes, that of Airflow, dbt or Java, is killed at some moment of the time that it takes."""
    chance = random.Random(seed)
    killed = ""
    while not killed:
        project.land_some()
        killed = run_and_kill(airflow, building, chance)
        assert project.read() == project.fold()
    print(f"seed {seed}: killed {killed}")


def run_and_kill(airflow: Airflow, building: Building, chance: random.Random) -> str:
    """Kills a process of a task, and waits for the end of the run; "" if the task had ended before."""
    moment = chance.random() * airflow.measure_seconds(building.dag, building.task)
    run = airflow.trigger(building.dag)

    def find_processes() -> list[int]:
        return airflow.find_processes(building.dag, run, building.task)

    wait_for(find_processes, 120, airflow.read_logs)
    time.sleep(moment)
    victim = chance.choice(find_processes() or [0])
    words = read_command(victim)[:60] if victim else ""
    killed = bool(words) and kill(victim)
    assert airflow.finish(building.dag, run) == "success", airflow.describe(building.dag, run)
    attempts = airflow.find_task(building.dag, run, building.task)["try_number"]
    return f"{words} after {moment:.1f} s" if killed and attempts > 1 else ""


def test_a_data_test_that_fails_fails_the_task_and_a_retry_continues_with_corrected_events(
    airflow: Airflow, project: Project
) -> None:
    """Nothing has to be cleared or repaired."""
    project.land((1000, 77, -5, "u"))
    run = airflow.trigger(OPERATORS)
    airflow.wait_for_states(OPERATORS, run, "build", "up_for_retry", "failed")
    project.land((1000, 77, 5, "u"))
    assert airflow.finish(OPERATORS, run) == "success", airflow.describe(OPERATORS, run)
    log = airflow.read_log(OPERATORS, run, "build")
    assert "nobody_is_in_debt: Got 1 result, configured to fail if != 0" in log
    assert not TRACE.search(log), log


def test_a_data_test_that_fails_fails_its_task_of_cosmos_and_the_run_continues_when_cleared(
    airflow: Airflow, project: Project
) -> None:
    project.land((1000, 77, -5, "u"))
    run = airflow.trigger(COSMOS)
    assert airflow.finish(COSMOS, run) == "failed", airflow.describe(COSMOS, run)
    log = airflow.read_log(COSMOS, run, "dws_spend_model_build")
    assert "nobody_is_in_debt: Got 1 result, configured to fail if != 0" in log
    assert not TRACE.search(log), log
    project.land((1000, 77, 5, "u"))
    airflow.clear(COSMOS, run)
    assert airflow.finish(COSMOS, run) == "success", airflow.describe(COSMOS, run)


@BUILDS
@pytest.mark.parametrize("setting", BROKEN)
def test_a_model_that_fails_shows_its_error_with_what_to_do(
    airflow: Airflow, project: Project, building: Building, setting: str
) -> None:
    with project.broken(setting):
        run = airflow.trigger(building.dag)
        assert airflow.finish(building.dag, run) == "failed", airflow.describe(building.dag, run)
    (failed,) = (task["task_id"] for task in airflow.list_tasks(building.dag, run) if task["state"] == "failed")
    log = airflow.read_log(building.dag, run, failed)
    errors = "\n".join(line for line in log.splitlines() if '"level": "error"' in line)
    assert [part for part in BROKEN[setting] if part not in errors] == [], log
    assert not TRACE.search(log), log


def test_the_sensor_follows_a_service_that_refreshes_the_tables(airflow: Airflow, project: Project) -> None:
    project.land_some()
    with project.serve() as port:
        airflow.connect("127.0.0.1", port, "")
        run = airflow.trigger(FRESHNESS)
        assert airflow.finish(FRESHNESS, run) == "success", airflow.describe(FRESHNESS, run)
    assert project.read() == project.fold()
