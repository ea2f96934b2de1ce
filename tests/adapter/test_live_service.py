"""The live sample under `arctic serve`: after minutes of changes, and a kill among them, `arctic verify` is content."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import pytest

from sample_project.live.changes import Tables, changes_from, tables_at
from sample_project.live.phases import PROJECT
from sample_project.live.play import Player
from sample_project.live.sources import FilesSource
from sample_project.loader import FIRST_DAY
from tests.adapter.served import ROOT, Served

DAYS, PER_SECOND, SECONDS, QUIET_SECONDS = 2, 200.0, 120.0, 5.0
MODELS = ("dwd_flights", "dws_airport_hour_weather", "dws_delay_by_carrier_day", "dws_plane_use_by_route_month")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="served-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_no_event_is_lost_or_counts_twice_in_minutes_of_changes_and_a_kill(folder: Path) -> None:
    first_day = FIRST_DAY + timedelta(days=DAYS)
    source, tables = FilesSource(), tables_at(first_day)
    settings = {**source.settings, "NYC_FLIGHTS_WAREHOUSE": str(folder / "warehouse")}
    with ExitStack() as stack:
        stack.callback(source.close)
        source.make(list(tables.created()))
        of_dbt = [sys.executable, "-m", "dbt.cli.main", "seed", "--project-dir", str(PROJECT), "--profiles-dir"]
        subprocess.run(
            [*of_dbt, str(PROJECT)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
            check=True,
            stdout=subprocess.DEVNULL,
        )

        def serve() -> Served:
            served = Served(PROJECT, PROJECT, folder / "serve.log", **settings)
            stack.callback(served.kill)
            return served

        one = serve()
        settle(one, tables)
        player = Player(source, tables, changes_from(first_day), PER_SECOND, SECONDS)
        playing = Thread(target=player.run, args=(Event(),))
        playing.start()
        playing.join(SECONDS / 2)
        one.kill()
        one = serve()
        playing.join()
        assert player.made == PER_SECOND * SECONDS
        settle(one, tables)
        one.stop()
        code, output = one.verify()
        assert code == 0, output


def settle(one: Served, tables: Tables) -> None:
    """Waits until all events are in the tables of ODS, the models have read them, and nothing more comes."""
    seen: list[str] = []

    def is_still() -> bool:
        time.sleep(QUIET_SECONDS)
        tables_by_name = {table["table"].split(".")[-1]: table for table in one.get("tables")["tables"]}
        before, seen[:] = list(seen), [table["version"] for table in tables_by_name.values()]
        is_ingested = all(tables_by_name.get(name, {}).get("rows") == len(rows) for name, rows in tables.rows.items())
        return is_ingested and all(tables_by_name[name]["state"] == "fresh" for name in MODELS) and before == seen

    one.until(is_still)
