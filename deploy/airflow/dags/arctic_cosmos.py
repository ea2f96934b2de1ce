"""`dbt build` by Cosmos: a task for each model, with its tests.

Cosmos reads the graph from `target/manifest.json`, which `dbt parse` writes when the project is deployed. The pool
`arctic` has one slot, so that one Spark runs at a time. With `keep_alive: 15m` in the profile, the tasks share a Spark.
With `publish: build` use the DAG `arctic_operators`: only a single command publishes all models together.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from arctic_airflow import show_cosmos_errors
from cosmos import DbtDag, ExecutionConfig, ProfileConfig, ProjectConfig, RenderConfig
from cosmos.constants import ExecutionMode, InvocationMode, LoadMode, TestBehavior

PROJECT = Path("/srv/shop")
DBT = "/opt/arctic/dbt"
"""The program beside this folder, which starts the dbt of the project's environment."""

arctic_cosmos = DbtDag(
    dag_id="arctic_cosmos",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    project_config=ProjectConfig(PROJECT, manifest_path=PROJECT / "target" / "manifest.json", install_dbt_deps=False),
    profile_config=ProfileConfig(
        profile_name="shop", target_name="prod", profiles_yml_filepath=PROJECT / "profiles.yml"
    ),
    execution_config=ExecutionConfig(
        execution_mode=ExecutionMode.LOCAL,
        invocation_mode=InvocationMode.SUBPROCESS,
        dbt_executable_path=DBT,
    ),
    render_config=RenderConfig(load_method=LoadMode.DBT_MANIFEST, test_behavior=TestBehavior.BUILD),
    operator_args={"callback": show_cosmos_errors, "env": {"DBT_USE_COLORS": "false"}},
    default_args={"pool": "arctic", "retries": 2, "retry_delay": timedelta(minutes=1)},
)
