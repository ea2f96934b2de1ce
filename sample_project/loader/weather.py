"""Hourly weather at New York's airports: observed, and now and then corrected some hours later."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from sample_project.loader.chance import coins
from sample_project.loader.images import entries, replaced
from sample_project.loader.times import UTC, shifted

SCHEMA = pa.schema(
    [
        pa.field("origin", pa.string(), nullable=False),
        pa.field("observed_hour", UTC, nullable=False),
        pa.field("temp_f", pa.decimal128(5, 2)),
        pa.field("dewp_f", pa.decimal128(5, 2)),
        pa.field("humid_percent", pa.decimal128(5, 2)),
        pa.field("wind_dir_degrees", pa.int32()),
        pa.field("wind_speed_mph", pa.decimal128(9, 5)),
        pa.field("wind_gust_mph", pa.decimal128(9, 5)),
        pa.field("precip_inches", pa.decimal128(5, 2)),
        pa.field("pressure_mbar", pa.decimal128(6, 1)),
        pa.field("visib_miles", pa.decimal128(5, 2)),
    ]
)
_ORIGINAL_NAMES = (
    "origin",
    "time_hour",
    "temp",
    "dewp",
    "humid",
    "wind_dir",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)
_CORRECTION_RATE = 0.03
_PUBLISHED_AFTER_MINUTES = 5
_CORRECTED_AFTER_MINUTES = 200
_FIRST_READ_ROUNDED = ("temp_f", "dewp_f", "wind_speed_mph")


def weather_of(rows: pa.Table) -> pa.Table:
    """Original rows of one day, measured values as decimals (SCHEMA)."""
    arrays = [
        _measured(rows[name].combine_chunks(), field.type) for name, field in zip(_ORIGINAL_NAMES, SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA)


def weather_log(weather: pa.Table, day: date) -> pa.Table:
    """Observations and corrections of one day: op and event_ts, then the row's image after it."""
    count = len(weather)
    corrected = coins("correction", day, count, _CORRECTION_RATE)
    first = entries("c", _after(weather, _PUBLISHED_AFTER_MINUTES), _first_read(weather, corrected))
    second = entries("u", _after(weather, _CORRECTED_AFTER_MINUTES), weather).filter(corrected)
    return pa.concat_tables([first, second])


def _first_read(weather: pa.Table, corrected: pa.Array) -> pa.Table:
    """Rows to be corrected come at first with whole degrees and miles, and without precipitation."""
    for name in _FIRST_READ_ROUNDED:
        weather = replaced(weather, name, pc.if_else(corrected, pc.round(weather[name]), weather[name]))
    missing = pa.nulls(len(weather), SCHEMA.field("precip_inches").type)
    return replaced(weather, "precip_inches", pc.if_else(corrected, missing, weather["precip_inches"]))


def _after(weather: pa.Table, minutes: int) -> pa.Array:
    return shifted(weather["observed_hour"], pa.scalar(minutes))


def _measured(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_decimal(kind):
        return values.cast(kind)
    return pc.round(values, kind.scale).cast(kind)
