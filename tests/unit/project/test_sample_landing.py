"""Landing: each day once, in any order, in a catalog that Spark can share."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest

from sample_project.loader import FIRST_DAY, append, events_of, lake, load_days, loaded_days, opening_of
from sample_project.loader.__main__ import main
from sample_project.loader.landing import land, landing_table

DAY, NEXT = FIRST_DAY, date(2013, 1, 2)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days, loaded in the wrong order, in a directory with a blank in its name."""
    directory = tmp_path_factory.mktemp("ware house")
    load_days(directory, [NEXT, DAY])
    return directory


def test_what_was_delivered_can_be_read_back(warehouse: Path) -> None:
    landed = lake(warehouse).load_table("landing.flight_events").scan().to_arrow().sort_by("lsn")
    expected = [events_of(day)["flight_events"] for day in (DAY, NEXT)]
    assert landed["lsn"].to_pylist() == sorted(lsn for table in expected for lsn in table["lsn"].to_pylist())


def test_the_first_delivery_brings_the_registers(warehouse: Path) -> None:
    planes = lake(warehouse).load_table("landing.plane_events").scan().to_arrow()
    assert pc.sum(pc.equal(planes["op"], "r")).as_py() == len(opening_of(NEXT)["plane_events"]) == 3322


def test_a_day_adds_nothing_the_second_time(warehouse: Path) -> None:
    catalog = lake(warehouse)
    before = [catalog.load_table(name).metadata_location for name in catalog.list_tables("landing")]
    assert load_days(warehouse, [DAY, NEXT]) == {
        day: {"flight_events": 0, "plane_events": 0, "airport_events": 0, "weather_events": 0} for day in (DAY, NEXT)
    }
    assert [catalog.load_table(name).metadata_location for name in catalog.list_tables("landing")] == before


def test_a_day_that_was_loaded_in_part_is_completed(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    catalog.create_namespace("landing")
    land(landing_table(catalog, "flight_events"), events_of(DAY)["flight_events"], DAY)
    landed = append(catalog, DAY)
    assert landed["flight_events"] == 0
    assert landed["weather_events"] == len(events_of(DAY)["weather_events"])
    assert landed["plane_events"] == 3322


def test_tables_are_v2_and_know_their_days(warehouse: Path) -> None:
    for name in lake(warehouse).list_tables("landing"):
        table = lake(warehouse).load_table(name)
        assert table.format_version == 2
        assert loaded_days(table) == {DAY, NEXT}
        operations = {snapshot.summary.operation.value for snapshot in table.snapshots() if snapshot.summary}
        assert operations == {"append"}


def test_the_catalog_is_of_schema_v1_and_in_wal_mode(warehouse: Path) -> None:
    with closing(sqlite3.connect(warehouse / "catalog.db")) as connection:
        kinds = connection.execute("select distinct catalog_name, iceberg_type from iceberg_tables").fetchall()
        mode = connection.execute("pragma journal_mode").fetchone()
    assert kinds == [("lake", "TABLE")]
    assert mode == ("wal",)


def test_the_command_says_what_it_did(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warehouse", str(warehouse), "--days", "1", "--from", "2013-01-02"]) == 0
    assert capsys.readouterr().out == "2013-01-02  nothing new: this day is loaded already\n"


def test_the_command_refuses_days_without_flights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warehouse", str(tmp_path), "--days", "400"]) == 2
    assert "There are flights from 2013-01-01" in capsys.readouterr().err
