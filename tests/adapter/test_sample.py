"""The sample project on days drawn by chance: exact after every fifth and the last, and a day again adds nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.adapters.factory import reset_adapters
from dbt.cli.main import dbtRunner

from dbt.adapters.arctic import cli
from sample_project.loader import FIRST_DAY, load_days

PROJECT = Path(__file__).parents[2] / "sample_project"
DAYS = 365
VERIFIED = 5
"""Tables are verified after so many days, since verifying all takes longer than a day's run."""


@pytest.fixture
def profiles(tmp_path: Path, warehouse: Path, spark_settings: dict[str, str], method: dict[str, Any]) -> Iterator[Path]:
    """A profile for the sample on this test's own warehouse, with the Spark that the other tests use.

    dbt keeps its adapter for the process, so the sample's has to go before the next project comes.
    """
    target = {
        "type": "arctic",
        **method,
        "schema": "dwd",
        "warehouse": str(tmp_path / "warehouse"),
        "threads": 2,
        "server_side_parameters": spark_settings,
    }
    profile = {"nyc_flights": {"target": "dev", "outputs": {"dev": target}}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    yield tmp_path
    reset_adapters()


def dbt(command: str, profiles: Path) -> dict[str, dict[str, Any]]:
    """Runs a dbt command on the sample; returns what the adapter said of every node."""
    where = ["--project-dir", str(PROJECT), "--profiles-dir", str(profiles), "--target-path", str(profiles / "target")]
    outcome = dbtRunner().invoke(["--quiet", "--log-path", str(profiles), command, *where])
    assert outcome.success, outcome.exception or [r.message for r in outcome.result if r.status == "error"]
    results = json.loads((profiles / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"]: result["adapter_response"] for result in results}


@pytest.mark.parametrize("count", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 20)])
def test_every_table_is_exact_after_random_days(profiles: Path, count: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the days: {seed}")
    days = [FIRST_DAY + timedelta(days=n) for n in random.Random(seed).sample(range(DAYS), count)]
    load_days(profiles / "warehouse", days[:1])
    dbt("seed", profiles)
    for place, day in enumerate(days, start=1):
        load_days(profiles / "warehouse", [day])
        dbt("run", profiles)
        if place % VERIFIED == 0 or place == count:
            assert cli.main(["verify", "--project-dir", str(PROJECT), "--profiles-dir", str(profiles)]) == 0
    if count > VERIFIED:
        dbt("test", profiles)
    load_days(profiles / "warehouse", days[-1:])
    assert {said["mode"] for said in dbt("run", profiles).values()} == {"unchanged"}
