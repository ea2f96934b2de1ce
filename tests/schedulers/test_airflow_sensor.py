"""The sensor of `deploy/airflow` in an Airflow, against a service whose answers the tests choose."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.schedulers.airflow import FRESHNESS, TRACE, Airflow, find_port
from tests.schedulers.fake import REFUSED, TOKEN, FakeService, build_table

pytestmark = pytest.mark.skipif(not os.environ.get("ARCTIC_SCHEDULER_TESTS"), reason="run by make test-schedulers")


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as fake:
        yield fake


def wait_in_sensor(airflow: Airflow) -> str:
    """Starts the DAG, and waits until its sensor waits in the triggerer."""
    run = airflow.trigger(FRESHNESS)
    airflow.wait_for_states(FRESHNESS, run, "fresh", "deferred")
    return run


def test_the_sensor_waits_in_the_triggerer_until_the_tables_are_fresh(airflow: Airflow, service: FakeService) -> None:
    airflow.connect("127.0.0.1", service.port, TOKEN)
    service.answer(build_table("behind", "the database does not answer", "start it"))
    run = wait_in_sensor(airflow)
    service.wait_for_requests(2)
    service.answer(build_table("fresh"))
    assert airflow.finish(FRESHNESS, run) == "success", airflow.describe(FRESHNESS, run)
    assert "lake.dws.dws_spend" in airflow.read_log(FRESHNESS, run, "fresh")
    assert set(service.tokens) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (build_table("behind", "the database does not answer", "start it"), ("behind", "does not answer", "start it")),
        (REFUSED, ("This needs the token of the service.", "what to do", "the password of the connection `arctic`")),
        (build_table("fresh", name="dws_other"), ("has no table dws_spend", "lake.dws.dws_other", "what to do")),
        (
            (500, {"detail": "The catalog does not answer.\n  what to do: start it"}),
            ("catalog", "what to do: start it"),
        ),
    ],
    ids=["late", "refused", "unknown", "broken"],
)
def test_a_sensor_that_fails_shows_what_the_service_says(
    airflow: Airflow, service: FakeService, answer: tuple[int, dict[str, Any]], expected: tuple[str, ...]
) -> None:
    airflow.connect("127.0.0.1", service.port, TOKEN)
    service.answer(answer)
    run = airflow.trigger(FRESHNESS)
    assert airflow.finish(FRESHNESS, run) == "failed", airflow.describe(FRESHNESS, run)
    log = airflow.read_log(FRESHNESS, run, "fresh")
    assert [part for part in expected if part not in log] == []
    assert not TRACE.search(log), log
    assert TOKEN not in log


def test_a_sensor_without_a_service_says_what_to_do(airflow: Airflow) -> None:
    airflow.connect("127.0.0.1", find_port(), TOKEN)
    run = airflow.trigger(FRESHNESS)
    assert airflow.finish(FRESHNESS, run) == "failed", airflow.describe(FRESHNESS, run)
    log = airflow.read_log(FRESHNESS, run, "fresh")
    assert "start `arctic serve`" in log
    assert not TRACE.search(log), log
