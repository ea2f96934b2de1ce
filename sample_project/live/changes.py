"""The airline's tables: the rows that they have when a day begins, and what changes from then on, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any, Literal

from sample_project.loader import FIRST_DAY, LAST_DAY, log_of, opening_of
from sample_project.loader.deliveries import SCHEMAS

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Operation = Literal["c", "u", "d"]

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"flights": ("flight_id",), "planes": ("tailnum",), "airports": ("faa",), "weather": ("origin", "observed_hour")}
)
"""Table → primary key."""

_OF_EVENTS = ("op", "lsn")
_LOGS = {
    "flights": "flight_events",
    "planes": "plane_events",
    "airports": "airport_events",
    "weather": "weather_events",
}
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {table: tuple(name for name in SCHEMAS[log].names if name not in _OF_EVENTS) for table, log in _LOGS.items()}
)
"""Table → columns."""


@dataclass(frozen=True)
class Change:
    """A row is created (`c`), updated (`u`) or deleted (`d`); `row` is the whole row after it, or the deleted one."""

    table: str
    operation: Operation
    row: Row

    @property
    def key(self) -> Key:
        return tuple(self.row[column] for column in KEYS[self.table])


class Tables:
    """The rows of all tables after the changes that were applied."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Row]] = {table: {} for table in KEYS}

    def apply(self, change: Change) -> None:
        if change.operation == "d":
            del self.rows[change.table][change.key]
        else:
            self.rows[change.table][change.key] = change.row

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def created(self) -> Iterator[Change]:
        """The changes that make these rows in empty tables."""
        for table, rows in self.rows.items():
            yield from (Change(table, "c", row) for row in rows.values())


def tables_at(day: date) -> Tables:
    """The rows when a day begins."""
    tables = Tables()
    for change in _in_order(opening_of(FIRST_DAY)):
        tables.apply(change)
    for n in range((day - FIRST_DAY).days):
        for change in _in_order(log_of(FIRST_DAY + timedelta(days=n))):
            tables.apply(change)
    return tables


def changes_from(day: date) -> Iterator[Change]:
    """Everything that happens from a day on; ends with the year."""
    for n in range((LAST_DAY - day).days + 1):
        yield from _in_order(log_of(day + timedelta(days=n)))


def _in_order(logs: Mapping[str, Any]) -> list[Change]:
    """The entries of all logs as they happened; rows of an opening are created."""
    entries = [(table, entry) for table, log in _LOGS.items() if log in logs for entry in logs[log].to_pylist()]
    entries.sort(key=lambda one: one[1]["lsn"])
    return [_change(table, entry) for table, entry in entries]


def _change(table: str, entry: dict[str, Any]) -> Change:
    operation: Operation = "c" if entry["op"] == "r" else entry["op"]
    return Change(table, operation, {name: entry[name] for name in COLUMNS[table]})
