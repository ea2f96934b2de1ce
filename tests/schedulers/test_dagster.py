"""The definitions of `deploy/dagster`, run by a Dagster whose processes are killed while they run."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedulers.dagster import Dagster
from tests.schedulers.fake import REFUSED, FakeService, build_table
from tests.schedulers.processes import kill, list_children, read_command
from tests.schedulers.project import BROKEN, Project

pytestmark = pytest.mark.skipif(not os.environ.get("ARCTIC_SCHEDULER_TESTS"), reason="run by make test-schedulers")


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as fake:
        yield fake


@pytest.fixture(scope="module")
def dagster(tmp_path_factory: pytest.TempPathFactory, project: Project, service: FakeService) -> Dagster:
    packages = Path(os.environ.get("ARCTIC_SCHEDULER_VENVS", "build"), "dagster").absolute()
    return Dagster(packages, tmp_path_factory.mktemp("dagster"), project, service.port)


def test_a_run_has_the_rows_the_reason_and_the_freshness_of_each_model(dagster: Dagster, project: Project) -> None:
    project.land_some()
    done = dagster.finish(dagster.start())
    assert done.code == 0, done.text
    assert project.read() == project.fold()
    shown = dagster.read_materializations()
    for model in ("ods_orders", "dws_spend"):
        metadata = shown[model]
        assert metadata["arctic/mode"] in ("create", "incremental", "full")
        assert metadata["arctic/reason"]
        assert metadata["arctic/inserted"] + metadata["arctic/updated"] + metadata["arctic/deleted"] > 0
        assert int(metadata["arctic/version"])
        assert metadata["arctic/freshness_state"] == "fresh"
        assert metadata["arctic/freshness_as_of"]


def test_a_data_test_that_fails_fails_the_run_until_the_data_is_right(dagster: Dagster, project: Project) -> None:
    project.land((1000, 77, -5, "u"))
    done = dagster.finish(dagster.start())
    assert done.code != 0
    assert "nobody_is_in_debt: Got 1 result, configured to fail if != 0" in dagster.read_failure()
    project.land((1000, 77, 5, "u"))
    done = dagster.finish(dagster.start())
    assert done.code == 0, done.text
    assert project.read() == project.fold()


@pytest.mark.parametrize("setting", BROKEN)
def test_a_model_that_fails_shows_its_error_with_what_to_do(dagster: Dagster, project: Project, setting: str) -> None:
    with project.broken(setting):
        assert dagster.finish(dagster.start()).code != 0
    failure = dagster.read_failure()
    assert [part for part in BROKEN[setting] if part not in failure] == [], failure
    assert "Traceback" not in failure


def test_a_run_that_is_killed_is_started_again_and_the_tables_are_exact(
    dagster: Dagster, project: Project, seed: int
) -> None:
    """One of its processes, that of Dagster, dbt or Java, is killed at some moment of the time that a run takes."""
    chance = random.Random(seed)
    killed = ""
    while not killed:
        project.land_some()
        run = dagster.start()
        time.sleep(chance.random() * dagster.seconds)
        victim = chance.choice([run.process.pid, *list_children(run.process.pid)])
        words = read_command(victim)[:60]
        killed = words if run.process.poll() is None and kill(victim) else ""
        dagster.finish(run)
        done = dagster.finish(dagster.start())
        assert done.code == 0, done.text
        assert project.read() == project.fold()
    print(f"seed {seed}: killed {killed}")


def test_the_sensor_reports_a_new_version_once_and_starts_what_reads_it(dagster: Dagster, service: FakeService) -> None:
    service.answer(build_table("fresh", schema="dev", version="7"))
    first = dagster.tick("")
    assert first["events"] == ["dws_spend"]
    assert first["metadata"]["arctic/freshness_state"] == "fresh"
    assert first["runs"] == 1
    assert dagster.tick(first["cursor"])["skipped"] == "No table has a new version."


def test_a_sensor_that_can_not_report_says_why(dagster: Dagster, service: FakeService) -> None:
    service.answer(build_table("behind", "the database does not answer", "start it", schema="dev"))
    assert "the database does not answer\n  what to do: start it" in dagster.tick("")["skipped"]
    service.answer(REFUSED)
    assert "This needs the token of the service.\n  what to do" in dagster.tick("")["skipped"]
