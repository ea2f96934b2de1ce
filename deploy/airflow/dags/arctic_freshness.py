"""Waits until the tables of `arctic serve` have everything up to the run's time, then does what needs them.

The connection `arctic` has the address of the service, and its token as the password:
`airflow connections add arctic --conn-type http --conn-host arctic.internal --conn-port 8470 --conn-password TOKEN`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, task
from arctic_airflow import FreshTables

TABLES = ["dws_spend"]

with DAG("arctic_freshness", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    fresh = FreshTables(
        task_id="fresh",
        tables=TABLES,
        as_of="{{ dag_run.run_after.isoformat() }}",
        timeout=timedelta(hours=2).total_seconds(),
    )

    @task
    def export() -> None:
        """Replace this by what reads the tables."""
        print("The tables are fresh:", ", ".join(TABLES))

    fresh >> export()
