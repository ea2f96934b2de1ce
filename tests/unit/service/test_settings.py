"""Settings of a service, as a project writes them."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.maintenance.upkeep import Hours, UpkeepBudget
from arctic_runtime.service.settings import read_settings


def test_without_settings_one_job_at_a_time_writes_as_much_as_it_wants() -> None:
    assert read_settings({}).budget == UpkeepBudget(1, None, ())


def test_a_budget_is_read_with_units_hours_and_groups() -> None:
    written = {
        "jobs": 2,
        "bytes_per_minute": "2 GiB",
        "quiet_hours": ["mon-fri 08:00-18:00", "22:00-24:00", "sun 9:30-10:00", "sat-mon 00:00-01:00"],
        "groups": {"dws": "500 MiB"},
    }
    budget = read_settings({"upkeep": written}).budget
    assert budget.jobs == 2
    assert budget.bytes_per_minute == 2 * 1024**3
    assert budget.group_bytes_per_minute == {"dws": 500 * 1024**2}
    assert budget.quiet_hours == (
        Hours(time(8), time(18), frozenset(range(5))),
        Hours(time(22), time(0)),
        Hours(time(9, 30), time(10), frozenset({6})),
        Hours(time(0), time(1), frozenset({5, 6, 0})),
    )


def test_the_schema_of_the_services_table_is_that_of_the_target_unless_it_is_named() -> None:
    assert (read_settings({}).schema, read_settings({"schema": "ops"}).schema) == ("", "ops")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"upkep": {}}, "did you mean 'upkeep'"),
        ({"upkeep": {"job": 1}}, "did you mean 'jobs'"),
        ({"upkeep": {"jobs": 0}}, "must be 1 or more"),
        ({"upkeep": {"jobs": "many"}}, "whole number"),
        ({"upkeep": {"quiet_hours": "at night"}}, "expected: hours"),
        ({"upkeep": {"quiet_hours": 8}}, "a text or a list of texts"),
        ({"upkeep": {"quiet_hours": ""}}, "leave `quiet_hours` out"),
        ({"upkeep": {"quiet_hours": False}}, "a text or a list of texts"),
        ({"upkeep": {"groups": ""}}, "must be a mapping of schemas"),
        ({"upkeep": False}, "must be a mapping"),
        ({"http": False}, "must be a mapping"),
        ({"upkeep": {"quiet_hours": "25:00-26:00"}}, "expected: hours"),
        ({"upkeep": {"quiet_hours": "foo 08:00-09:00"}}, "expected: hours"),
        ({"upkeep": {"groups": ["dws"]}}, "must be a mapping of schemas"),
        ({"upkeep": 3}, "must be a mapping"),
        ({"http": 8470}, "must be a mapping"),
        ({"schema": ""}, "must be the name of a schema"),
        ({"schema": ["dwd"]}, "must be the name of a schema"),
    ],
)
def test_what_can_not_be_meant_is_refused(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(written)


def test_the_token_is_not_shown() -> None:
    assert "hush" not in repr(read_settings({"http": {"token": "hush"}}))
