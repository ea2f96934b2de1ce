"""Sixteen threads of one cold process run models of all kinds, which have no upstreams, so that all begin at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from arctic_runtime.profile import KEPT
from dbt.adapters.arctic import cli

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("ARCTIC_ROUNDS", "20"))
OWN = ("arctic_runtime.", "dbt.adapters.arctic.", "pyiceberg.")
WAYS: dict[str, dict[str, Any]] = {
    "embedded": {"keep_alive": 0},
    "kept": {"keep_alive": "15m"},
    "connect": {"method": "connect", "url": KEPT},
}
CONFIGS = {
    "state": "materialized='arctic', primary_key='id'",
    "on_read": "materialized='arctic', primary_key='id', merge='on_read'",
    "history": "materialized='arctic', primary_key='id', history='scd2'",
    "merged": "materialized='incremental', unique_key='id', incremental_strategy='merge'",
    "appended": "materialized='incremental'",
    "plain": "materialized='table'",
    "virtual": "materialized='view'",
}
PYTHON = """
def model(dbt, session):
    dbt.config(materialized="table")
    return session.range(3)
"""
RECORDER = """
import json, sys, threading
first = []
class Recorder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            first.append(name)
sys.meta_path.insert(0, Recorder())
from dbt.cli.main import dbtRunner
result = dbtRunner().invoke(["run"])
failures = [f"{run.node.name}: {run.message}" for run in result.result or () if run.status != "success"]
print(json.dumps({"first": first, "failures": failures or ([] if result.success else [str(result.exception)])}))
"""


@pytest.fixture(params=WAYS)
def project(tmp_path: Path, spark_settings: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Path]:
    """A project whose models have no rows yet, for a Spark that is started as the parameter says."""
    target = {
        "type": "arctic",
        "schema": "dwd",
        "warehouse": str(tmp_path / "warehouse"),
        "threads": 16,
        "server_side_parameters": spark_settings,
        **WAYS[request.param],
    }
    profiles = {"shop": {"target": "dev", "outputs": {"dev": target}}}
    (tmp_path / "models").mkdir()
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profiles))
    (tmp_path / "dbt_project.yml").write_text(yaml.safe_dump({"name": "shop", "version": "1.0.0", "profile": "shop"}))
    for number in range(2):
        (tmp_path / f"models/python_{number}.py").write_text(PYTHON)
        for name, config in CONFIGS.items():
            query = f"{{{{ config({config}) }}}}\nselect id, id * 2 as amount from range(10)"
            (tmp_path / f"models/{name}_{number}.sql").write_text(query)
    yield tmp_path
    assert cli.main(["spark", "stop", "--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]) == 0


def test_threads_of_a_cold_process_import_nothing_that_another_thread_may_see_in_half(project: Path) -> None:
    environment = {**os.environ, "DBT_PROFILES_DIR": str(project), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    for _ in range(ROUNDS):
        shutil.rmtree(project / "warehouse", ignore_errors=True)
        command = [sys.executable, "-c", RECORDER]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        answer = json.loads(done.stdout.splitlines()[-1])
        assert answer["failures"] == []
        assert [name for name in answer["first"] if name.startswith(OWN)] == []
