"""The registers of planes and airports: what they hold on a day, and who changes what on it.

The original data knows no owners: planes get a carrier or a lessor, airports an operator, by their key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from sample_project.loader.chance import numbers
from sample_project.loader.times import UTC, midnight

Row = dict[str, object]

PLANE_OWNERS = (
    "AirTran Airways",
    "American Airlines",
    "Delta Air Lines",
    "ExpressJet",
    "JetBlue Airways",
    "Southwest Airlines",
    "United Air Lines",
    "US Airways",
    "Lessor East",
    "Lessor North",
    "Lessor South",
    "Lessor West",
)
AIRPORT_OPERATORS = ("city", "county", "state", "port authority", "private")

PLANES = pa.schema(
    [
        pa.field("tailnum", pa.string(), nullable=False),
        pa.field("owner", pa.string()),
        pa.field("year_built", pa.int32()),
        pa.field("type", pa.string()),
        pa.field("manufacturer", pa.string()),
        pa.field("model", pa.string()),
        pa.field("engines", pa.int32()),
        pa.field("engine", pa.string()),
        pa.field("seats", pa.int32()),
    ]
)
AIRPORTS = pa.schema(
    [
        pa.field("faa", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("operator", pa.string()),
        pa.field("lat", pa.decimal128(10, 7)),
        pa.field("lon", pa.decimal128(10, 7)),
        pa.field("alt_feet", pa.int32()),
        pa.field("tz_hours", pa.int32()),
        pa.field("dst", pa.string()),
        pa.field("tzone", pa.string()),
    ]
)


@dataclass(frozen=True)
class Register:
    """A table of things with an owner, as it was when the year began; ``busy`` positions may change."""

    name: str
    owner: str
    owners: tuple[str, ...]
    changes_a_day: int
    opening: tuple[Row, ...]
    busy: tuple[int, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Change:
    """At one moment, the thing at ``position`` gets another owner, and perhaps some seats more or fewer."""

    position: int
    event_ts: datetime
    owners_on: int
    seats_more: int


def planes_of(planes: pa.Table) -> Register:
    """The register of planes."""
    owner = _chosen(PLANE_OWNERS, planes["tailnum"])
    rows = _rows(planes.append_column("owner", owner), {"year": "year_built"}, PLANES)
    return Register("planes", "owner", PLANE_OWNERS, 3, rows, tuple(range(len(rows))), PLANES)


def airports_of(airports: pa.Table, flights: pa.Table) -> Register:
    """The register of airports; only those that New York's flights serve change."""
    operator = _chosen(AIRPORT_OPERATORS, airports["faa"])
    rows = _rows(airports.append_column("operator", operator), {"alt": "alt_feet", "tz": "tz_hours"}, AIRPORTS)
    served = {*pc.unique(flights["dest"]).to_pylist(), *pc.unique(flights["origin"]).to_pylist()}
    busy = tuple(position for position, row in enumerate(rows) if row["faa"] in served)
    return Register("airports", "operator", AIRPORT_OPERATORS, 1, rows, busy, AIRPORTS)


def changes_on(register: Register, day: date) -> list[Change]:
    """What changes on a day: up to ``changes_a_day`` things, in office hours."""
    drawn = _changes(register.name, len(register.busy), register.changes_a_day, len(register.owners), day)
    return [replace(change, position=register.busy[change.position]) for change in drawn]


def rows_on(register: Register, first_day: date, day: date) -> list[Row]:
    """The register when the day begins."""
    rows = list(register.opening)
    for before in _days(first_day, day):
        for change in changes_on(register, before):
            rows[change.position] = _changed(register, rows[change.position], change)
    return rows


def register_log(register: Register, first_day: date, day: date) -> pa.Table:
    """The changes of one day: op and event_ts, then the row's image after it."""
    rows = rows_on(register, first_day, day)
    images: list[Row] = []
    for change in changes_on(register, day):
        rows[change.position] = _changed(register, rows[change.position], change)
        images.append({"op": "u", "event_ts": change.event_ts, **rows[change.position]})
    return _table(register, images)


def register_opening(register: Register, first_day: date, day: date) -> pa.Table:
    """All rows when the day begins, as entries with op 'r' (read, not changed)."""
    at = midnight(day)
    return _table(register, ({"op": "r", "event_ts": at, **row} for row in rows_on(register, first_day, day)))


@lru_cache(maxsize=1024)
def _changes(name: str, things: int, most: int, owners: int, day: date) -> list[Change]:
    count = numbers(f"{name} count", day, 1, most + 1)[0]
    chosen, minutes, steps, refits = (
        numbers(f"{name} {what}", day, count, below)
        for what, below in (("thing", things), ("minute", 480), ("owner", owners - 1), ("seats", 18))
    )
    opens = midnight(day) + timedelta(hours=9)
    changes = {  # a thing that is chosen twice changes once
        thing: Change(thing, opens + timedelta(minutes=minute), 1 + step, 6 - refit if refit < 6 else 0)
        for thing, minute, step, refit in zip(chosen, minutes, steps, refits, strict=True)
    }
    return sorted(changes.values(), key=lambda change: (change.event_ts, change.position))


def _changed(register: Register, row: Row, change: Change) -> Row:
    now = register.owners.index(str(row[register.owner]))
    image = {**row, register.owner: register.owners[(now + change.owners_on) % len(register.owners)]}
    if isinstance(seats := row.get("seats"), int):
        image["seats"] = seats + change.seats_more
    return image


def _days(first: date, end: date) -> Iterable[date]:
    return (first + timedelta(days=n) for n in range((end - first).days))


def _chosen(owners: tuple[str, ...], keys: pa.ChunkedArray) -> pa.Array:
    return pa.array([owners[zlib.crc32(key.encode()) % len(owners)] for key in keys.to_pylist()])


def _rows(table: pa.Table, new_names: dict[str, str], schema: pa.Schema) -> tuple[Row, ...]:
    renamed = table.rename_columns([new_names.get(name, name) for name in table.column_names])
    columns = [_cast(renamed[field.name], field.type) for field in schema]
    return tuple(pa.table(columns, schema=schema).to_pylist())


def _cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pc.round(values, kind.scale).cast(kind) if pa.types.is_decimal(kind) else values.cast(kind)


def _table(register: Register, rows: Iterable[Row]) -> pa.Table:
    head = [pa.field("op", pa.string()), pa.field("event_ts", UTC)]
    return pa.Table.from_pylist(list(rows), schema=pa.schema([*head, *register.schema]))
