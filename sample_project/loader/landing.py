"""Appends deliveries to the landing tables: one Iceberg commit per table and day, each day once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sample_project.loader.deliveries import SCHEMAS, events_of, opening_of

CATALOG, NAMESPACE = "lake", "landing"
LOADED_DAYS = "nyc-flights.loaded-days"  # table property: ISO dates, joined by commas
DAY = "nyc-flights.day"  # in a snapshot's summary: the day that it brought
_BUSY_TIMEOUT_SECONDS = 60


def lake(warehouse: Path) -> Catalog:
    """The catalog in the directory, made if missing; Spark's JDBC catalog (schema V1) reads the same file."""
    directory = warehouse.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "catalog.db"
    with closing(sqlite3.connect(file, timeout=_BUSY_TIMEOUT_SECONDS)) as connection:
        connection.execute("pragma journal_mode = wal")
    uri = f"sqlite:///{file}?timeout={_BUSY_TIMEOUT_SECONDS}"
    return SqlCatalog(CATALOG, uri=uri, warehouse=f"file://{directory}")


def append(catalog: Catalog, day: date) -> dict[str, int]:
    """Lands one day and says how many rows came to each table; 0 where that day is there already.

    The first day of a table brings the registers' opening rows too. A day's rows and the note that it is
    loaded are one commit, so a loader that died half way is simply started again.
    """
    catalog.create_namespace_if_not_exists(NAMESPACE)
    tables = {name: landing_table(catalog, name) for name in SCHEMAS}
    wanting = {name: table for name, table in tables.items() if day not in loaded_days(table)}
    if not wanting:
        return dict.fromkeys(SCHEMAS, 0)
    events = events_of(day)
    opening = opening_of(day) if any(not loaded_days(table) for table in wanting.values()) else {}
    landed = dict.fromkeys(SCHEMAS, 0)
    for name, table in wanting.items():
        before = [opening[name]] if name in opening and not loaded_days(table) else []
        landed[name] = land(table, pa.concat_tables([*before, events[name]]), day)
    return landed


def load_days(warehouse: Path, days: Iterable[date]) -> dict[date, dict[str, int]]:
    """Lands the days in turn: by day and table, how many rows came."""
    catalog = lake(warehouse)
    return {day: append(catalog, day) for day in days}


def loaded_days(table: Table) -> frozenset[date]:
    """The days that a landing table holds."""
    listed = table.properties.get(LOADED_DAYS, "")
    return frozenset(date.fromisoformat(day) for day in listed.split(",") if day)


def landing_table(catalog: Catalog, name: str) -> Table:
    try:
        return catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return catalog.create_table_if_not_exists((NAMESPACE, name), SCHEMAS[name], properties={"format-version": "2"})


def land(table: Table, events: pa.Table, day: date) -> int:
    days = sorted({*loaded_days(table), day})
    with table.transaction() as transaction:
        if len(events):
            transaction.append(events, snapshot_properties={DAY: day.isoformat()})
        transaction.set_properties({LOADED_DAYS: ",".join(map(str, days))})
    return len(events)
