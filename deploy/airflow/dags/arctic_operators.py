"""The project's sources and models, one command after the other, by plain operators.

The pool `arctic` has one slot, so that one Spark runs at a time: `airflow pools set arctic 1 "Spark of dbt-arctic"`.
A task that died is tried again as it was: tables are exact after each commit, and what is done takes no time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG
from arctic_airflow import ArcticCommand

PLACE = {"project_folder": "/srv/shop", "bin_folder": "/opt/arctic/bin"}
"""The folders of the project, and of the programs in its own environment."""

with DAG(
    "arctic_operators",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"pool": "arctic", "retries": 2, "retry_delay": timedelta(minutes=1)},
):
    ingest = ArcticCommand(task_id="ingest", command=["arctic", "ingest", "--once"], **PLACE)
    build = ArcticCommand(task_id="build", command=["dbt", "build"], **PLACE)
    ingest >> build
