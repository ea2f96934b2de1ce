"""Decides from the answer of `GET /api/tables` of `arctic serve` which tables are late, and says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Table = Mapping[str, Any]


class ServiceError(Exception):
    """An error whose text is for people, as the service words its own."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(f"{what}\n  what to do: {fix}" if fix else what)


def select_tables(answer: Mapping[str, Any], names: Sequence[str]) -> list[Table]:
    """Returns the named tables, or all but those of others if no name is given.

    A name is unique, with or without catalog and schema. Raises ServiceError if the service has no such table.
    """
    tables: list[Table] = answer["tables"]
    if not names:
        return [table for table in tables if table["kind"] != "source"]
    return [_find_table(tables, name) for name in names]


def _find_table(tables: Sequence[Table], name: str) -> Table:
    matches = [table for table in tables if f".{table['table']}".endswith(f".{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(table["table"] for table in matches)
        raise ServiceError(f"{name} may be one of {listed}.", "name it with its schema")
    known = ", ".join(sorted(table["table"] for table in tables)) or "none"
    raise ServiceError(f"The service has no table {name}.\n  found: {known}", "name one of those, or add its model")


def parse_time(text: str) -> datetime:
    """Returns the time of a text in ISO 8601, also where Python does not know the `Z` of UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def is_fresh(table: Table, as_of: datetime | None = None) -> bool:
    """Whether a table has all changes of its sources up to `as_of`; without a time, all that it must have by now."""
    freshness = table["freshness"]
    if freshness is None:
        return table["state"] not in ("missing", "loading", "failed")
    if as_of is None:
        return freshness["state"] in ("fresh", "delayed")
    return freshness["as_of"] is not None and parse_time(freshness["as_of"]) >= as_of


def describe_late_tables(tables: Sequence[Table], as_of: datetime | None = None) -> list[str]:
    """Returns a line for each late table, with the reason and what to do as far as the service knows them."""
    return [_describe_table(table) for table in tables if not is_fresh(table, as_of)]


def _describe_table(table: Table) -> str:
    freshness = table["freshness"] or {}
    line = f"{table['table']} is {table['state']}"
    line += f", as of {freshness['as_of']}" if freshness.get("as_of") else ""
    reason, action = table["error"] or freshness.get("reason", ""), freshness.get("action", "")
    line += f": {reason}" if reason else ""
    return line + (f"\n  what to do: {action}" if action and "what to do:" not in reason else "")


def describe_problem(status: int, problem: Mapping[str, Any]) -> str:
    """Returns the text of an error that the service answered with; it has a line with what to do."""
    return str(problem.get("detail") or f"The service answers with status {status}.")
